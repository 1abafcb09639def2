//! JSON numbers as CEL sees them.

/// A number that CEL has a type for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Numeric {
    Int(i64),
    Uint(u64),
    Double(f64),
}

/// The CEL number that is written `digits`: `int` or `uint` where an integer fits, `double` for what is written with a
/// point or an exponent. `None` for an integer over 64 bits and for a decimal out of range: they fit no CEL type, and
/// are never rounded silently.
pub(crate) fn numeric(digits: &str) -> Option<Numeric> {
    if digits.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        return digits.parse().ok().filter(|double: &f64| double.is_finite()).map(Numeric::Double);
    }
    let int = digits.parse().map(Numeric::Int);
    int.or_else(|_| digits.parse().map(Numeric::Uint)).ok()
}

/// Why the number `digits` has no CEL value.
pub(crate) fn unfit(digits: &str) -> String {
    format!("the number {digits} fits no CEL type (int and uint have 64 bits)")
}
