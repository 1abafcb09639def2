//! `hookctl audit verify`: whether an audit trail is whole, without a server.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use hookd_audit::{Ends, Hash, MAX_LINE_BYTES, Report as Found, Run, Verifier, first_record, order, tail};
use serde_json::json;

use crate::{
    args::{AuditCommand, Global, Output, VerifyArgs},
    json,
    render::{Ink, Paint, Table, counted},
    report::{FAILED, Failure, OK, Report, reason},
};

pub(crate) fn run(global: &Global, command: &AuditCommand, paint: Paint) -> Result<Report, Failure> {
    let AuditCommand::Verify(args) = command;
    let (files, found) = verified(args)?;
    let text = match global.output {
        Output::Human => picture(&files, &found, args.expect_last, paint),
        Output::Json => machine(&files, &found)?,
    };
    Ok(Report { text, exit: if found.problems.is_empty() { OK } else { FAILED } })
}

/// The files in their order, and what was found.
fn verified(args: &VerifyArgs) -> Result<(Vec<&Path>, Found), Failure> {
    let cannot = |path: &PathBuf, error: &io::Error| Failure::failed(format!("{}: {}", path.display(), reason(error)));
    let mut ends = Vec::new();
    for path in &args.files {
        ends.push(ends_of(path).map_err(|error| cannot(path, &error))?);
    }
    let files = order(&ends).into_iter().filter_map(|at| args.files.get(at)).collect::<Vec<_>>();
    let mut verifier = Verifier::new();
    for path in &files {
        verifier.file(&path.display().to_string());
        lines(path, &mut verifier).map_err(|error| cannot(path, &error))?;
    }
    Ok((files.into_iter().map(PathBuf::as_path).collect(), verifier.finish(args.expect_last)))
}

fn ends_of(path: &Path) -> io::Result<Ends> {
    let mut file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    // What holds no record at its end is told about line by line.
    let last = tail(&mut file).ok().and_then(|tail| tail.last);
    Ok(Ends { first: first_record(&File::open(path)?)?, last })
}

fn lines(path: &Path, verifier: &mut Verifier) -> io::Result<()> {
    let mut reader = BufReader::new(File::open(path)?);
    let longest = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
    let mut line = Vec::new();
    while reader.by_ref().take(longest).read_until(b'\n', &mut line)? > 0 {
        verifier.line(line.strip_suffix(b"\n").unwrap_or(&line));
        line.clear();
    }
    Ok(())
}

fn picture(files: &[&Path], found: &Found, expect_last: Option<Hash>, paint: Paint) -> String {
    let mut text = String::new();
    for problem in &found.problems {
        let error = paint.with(Ink::Bad, "error:");
        let place = if problem.line == 0 { String::new() } else { format!("{}:{}: ", problem.file, problem.line) };
        text.push_str(&format!("{error} {place}{}\n", problem.message));
    }
    for note in notes(found, expect_last) {
        text.push_str(&format!("{} {note}\n", paint.with(Ink::Dim, "note:")));
    }
    if !text.is_empty() && !found.runs.is_empty() {
        text.push('\n');
    }
    let mut table = Table::new(&["RUN", "RECORDS", "FROM", "TO", "END"]);
    for run in &found.runs {
        let Run { run, first_seq, last_seq, from, to, ended } = run;
        let (end, ink) = if *ended { ("in order", Ink::Good) } else { ("not seen", Ink::Warn) };
        table.row([
            (run.clone(), Ink::Plain),
            (format!("{first_seq} to {last_seq}"), Ink::Plain),
            (from.clone(), Ink::Plain),
            (to.clone(), Ink::Plain),
            (end.to_owned(), ink),
        ]);
    }
    text.push_str(&table.text(paint));
    if let Some(last) = found.last {
        text.push_str(&format!("last record: {last}\n"));
    }
    let is_whole = found.problems.is_empty();
    let (verdict, ink) = if is_whole { ("WHOLE", Ink::Good) } else { ("NOT WHOLE", Ink::Bad) };
    let counts = [
        counted(files.len(), "file"),
        numbered(found.records, "record"),
        counted(found.runs.len(), "run"),
        format!("{} dropped", found.dropped),
        format!("{} sampled out", found.sampled_out),
        numbered(found.torn, "torn line"),
        counted(found.problems.len(), "error"),
    ];
    text.push_str(&format!("{}  {}\n", paint.with(ink, verdict), counts.join(", ")));
    text
}

/// What verification cannot see here.
fn notes(found: &Found, expect_last: Option<Hash>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(before) = found.begins_after {
        notes.push(format!("the records before these, up to {before}, are in none of the files"));
    }
    let unended = found.runs.iter().rev().skip(1).filter(|run| !run.ended).count();
    if unended > 0 {
        let runs = counted(unended, "run");
        notes.push(format!(
            "{runs} before the last did not end in order: whether records at such an end are missing cannot be seen"
        ));
    }
    if expect_last.is_none() && found.last.is_some() {
        notes.push("whether records at the very end are missing can be seen only with `--expect-last HASH`".to_owned());
    }
    notes
}

fn machine(files: &[&Path], found: &Found) -> Result<String, Failure> {
    let mut value = serde_json::to_value(found).map_err(|error| Failure::failed(error.to_string()))?;
    if let Some(table) = value.as_object_mut() {
        table.insert("ok".to_owned(), found.problems.is_empty().into());
        table
            .insert("files".to_owned(), json!(files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>()));
    }
    Ok(json::line(&value))
}

fn numbered(count: u64, what: &str) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), what)
}
