//! `$'…'`.

use super::Walked;

/// Adds what `$'quoted'` stands for to `text`.
///
/// # Errors
/// It has an escape that gives no character.
pub(super) fn ansi_c(quoted: &str, text: &mut String) -> Walked {
    let mut bytes = Vec::with_capacity(quoted.len());
    let mut rest = quoted.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\\' {
            push(&mut bytes, c);
            continue;
        }
        let Some(escape) = rest.next() else {
            bytes.push(b'\\');
            break;
        };
        match escape {
            'a' => bytes.push(0x07),
            'b' => bytes.push(0x08),
            'e' | 'E' => bytes.push(0x1b),
            'f' => bytes.push(0x0c),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'v' => bytes.push(0x0b),
            '\\' | '\'' | '"' | '?' => push(&mut bytes, escape),
            '0'..='7' => {
                let first = escape.to_digit(8).unwrap_or(0);
                // A byte: what is over eight bits is dropped, as the shell does.
                let value = digits(&mut rest, 8, 2, first) & 0xff;
                bytes.push(u8::try_from(value).unwrap_or_default());
            }
            'x' => bytes.push(u8::try_from(digits(&mut rest, 16, 2, 0) & 0xff).unwrap_or_default()),
            'u' => unicode(&mut bytes, digits(&mut rest, 16, 4, 0))?,
            'U' => unicode(&mut bytes, digits(&mut rest, 16, 8, 0))?,
            'c' => {
                let control = rest.next().filter(char::is_ascii).ok_or("`\\c` needs a letter")?;
                push(&mut bytes, char::from(u8::try_from(control).unwrap_or_default().to_ascii_uppercase() & 0x1f));
            }
            other => {
                bytes.push(b'\\');
                push(&mut bytes, other);
            }
        }
    }
    if bytes.contains(&0) {
        // The shell would end the word here.
        return Err("a quoted word has a zero byte".to_owned());
    }
    text.push_str(std::str::from_utf8(&bytes).map_err(|_| "a quoted word is no UTF-8".to_owned())?);
    Ok(())
}

fn push(bytes: &mut Vec<u8>, c: char) {
    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

fn unicode(bytes: &mut Vec<u8>, value: u32) -> Walked {
    let c = char::from_u32(value).ok_or_else(|| format!("`\\u{value:x}` is no character"))?;
    push(bytes, c);
    Ok(())
}

/// Up to `most` digits after `value`.
fn digits(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, radix: u32, most: usize, value: u32) -> u32 {
    let mut value = value;
    for _ in 0..most {
        let Some(digit) = rest.peek().and_then(|c| c.to_digit(radix)) else { break };
        rest.next();
        value = value.wrapping_mul(radix).wrapping_add(digit);
    }
    value
}
