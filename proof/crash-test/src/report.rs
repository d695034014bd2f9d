//! The verdict in words: for a terminal of 80 columns, as JSON, and as the cases of a test report.

use crate::call::{Call, Record};
use crate::check::one_line;
use crate::recorder::Ended;
use crate::roles::Roles;
use crate::rule::Rule;
use crate::run::Verdict;
use crate::search::{Finding, Missing, Outcome, Search};
use crate::tree::Kind;
use seawall_host::text::printable;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// One event as a user reads it.
fn told(record: &Record, roles: &Roles, place: usize) -> String {
    let path = &roles.paths[place];
    match &record.events[place].call {
        Call::Create { kind: Kind::Folder, .. } => format!("mkdir      {path}"),
        Call::Create { kind: Kind::Symlink(_), .. } => format!("symlink    {path}"),
        Call::Create { .. } => format!("create     {path}"),
        Call::Temporary { .. } => "create     a file without a name".to_owned(),
        Call::Link { .. } => format!("link       -> {path}"),
        Call::Remove { .. } => format!("unlink     {path}"),
        Call::Rename { from, exchange, .. } => {
            let (verb, arrow) = if *exchange { ("exchange", "<->") } else { ("rename", "->") };
            format!("{verb:<11}{} {arrow} {path}", printable(&String::from_utf8_lossy(&from.1)))
        }
        Call::Write { offset, data, mapped, .. } => {
            let verb = if *mapped { "page       " } else { "write      " };
            format!("{verb}{path}, {} bytes at {offset}", data.len())
        }
        Call::Zero { offset, bytes, .. } => format!("zero       {path}, {bytes} bytes at {offset}"),
        Call::Mode { mode, .. } => format!("chmod      {path} to {mode:03o}"),
        Call::Resize { bytes, .. } => format!("truncate   {path} to {bytes} bytes"),
        Call::Sync { data_only: true, .. } => format!("fdatasync  {path}"),
        Call::Sync { .. } => format!("fsync      {path}"),
        Call::SyncFailed { .. } => format!("fsync      {path}, which failed"),
        Call::SyncAll => "sync".to_owned(),
        Call::Acknowledge { line } => {
            format!("ack        {}", printable(&String::from_utf8_lossy(&line[..line.len().min(50)])))
        }
    }
}

/// The calls of a finding, a line each, up to the cut.
#[must_use]
pub fn calls(record: &Record, finding: &Finding) -> String {
    let roles = Roles::of(record);
    let mut text = String::new();
    let mut before = None;
    for place in &finding.story {
        if before.is_some_and(|before| before + 1 < *place) {
            text.push_str("       ...\n");
        }
        before = Some(*place);
        let lost = if !finding.lost.contains(place) {
            ""
        } else if finding.torn {
            "      <- only a part arrived"
        } else {
            "      <- lost"
        };
        // A string takes everything.
        let _ = writeln!(text, "{:>6}  {}{lost}", place + 1, told(record, &roles, *place));
    }
    if before.is_some_and(|before| before + 1 < finding.cut) {
        text.push_str("       ...\n");
    }
    let lines = count(record.acknowledged(finding.cut).len() as u64, "line");
    let _ = writeln!(text, "        --- power cut, {lines} acknowledged ---");
    text
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// What is missing, in words.
#[must_use]
pub fn missing(finding: &Finding) -> String {
    match &finding.missing {
        Some(missing) if missing.states == 0 => format!("{} {}", missing.call, missing.place),
        Some(Missing { call, place, states, whole: true }) => {
            format!("{call} {place}: with it {}, none breaks", count(*states, "state"))
        }
        Some(missing) => format!("{} {}: with it this loss is gone", missing.call, missing.place),
        None if finding.untried => {
            "not known: the time ran out; a longer --budget tries more calls".to_owned()
        }
        None if finding.torn => {
            "no sync helps: the write itself is cut in two; write elsewhere and rename, or keep a checksum"
                .to_owned()
        }
        None => "no single sync helps: what must not be apart has to reach the disk in one step or in order"
            .to_owned(),
    }
}

/// Breaks `text` into lines of `width` columns, the later ones indented.
fn wrapped(text: &str, indent: usize, width: usize) -> String {
    let mut lines = String::new();
    let mut column = indent;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > indent && column + 1 + length > width {
            let _ = write!(lines, "\n{:indent$}", "");
            column = indent;
        } else if column > indent {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
    }
    lines
}

fn row(text: &mut String, label: &str, value: &str) {
    let _ = writeln!(text, "{label:<14}{}", wrapped(value, 14, 79));
}

/// The verdict for a terminal; `kept` has the folder of each finding.
#[must_use]
pub fn text(verdict: &Verdict, search: &Search, posix_counts: bool, kept: &[impl AsRef<Path>]) -> String {
    let (outcome, record) = (&verdict.outcome, &verdict.record);
    let acknowledged = record.acknowledged(record.events.len()).len();
    let calls_made = record.events.len() - acknowledged;
    let (calls_made, lines) = (count(calls_made as u64, "call"), count(acknowledged as u64, "line"));
    let seconds = verdict.recorded.as_secs_f64();
    let mut text = String::new();
    row(&mut text, "recorded", &format!("{calls_made}, {lines} acknowledged, {seconds:.1} s"));
    row(&mut text, "check", "passes at the end, fails on nothing: good");
    for notice in &record.notices {
        row(&mut text, "note", notice);
    }
    if !matches!(verdict.ended, Ended::Exit(0) | Ended::Asked) {
        let note = format!("the program ended with {}: it was judged as far as it came", verdict.ended);
        row(&mut text, "note", &note);
    }
    if verdict.from_first_acknowledgement {
        let note = "the check fails on the directory before the run: no power cut before the first acknowledgement was judged";
        row(&mut text, "note", note);
    }
    findings(&mut text, verdict, search, posix_counts, kept);
    let judged = if outcome.whole {
        "all judged".to_owned()
    } else if outcome.judged < outcome.different {
        format!("{} of them judged: a longer --budget judges more", outcome.judged)
    } else {
        "not every power cut drawn at: a longer --budget draws more".to_owned()
    };
    let _ = writeln!(text);
    let Outcome { drawn, different, judged: states, .. } = outcome;
    let rules = search.rules.iter().map(|rule| rule.name()).collect::<Vec<_>>().join(", ");
    if outcome.findings.is_empty() {
        let kept = format!("no state broke: {different} different of {drawn} drawn, {judged}");
        row(&mut text, "kept", &format!("{kept}, by the rules of {rules}"));
    } else {
        let judged = format!("{states} states, with and without that call, by the rules of {rules}");
        row(&mut text, "judged", &judged);
    }
    for (role, noticed, states) in &verdict.without {
        let states = count(*states, "state");
        let said = if *noticed {
            format!("the check notices, after {states}")
        } else {
            format!("{states} judged, none breaks: the check does not notice, or the sync is superfluous")
        };
        row(&mut text, "without", &format!("{role}: {said}"));
    }
    for (what, broken) in &verdict.errors {
        let said =
            broken.as_ref().map_or("kept".to_owned(), |message| format!("BROKEN: {}", one_line(message)));
        row(&mut text, "error", &format!("{what}: {said}"));
    }
    let not_tried = "drives that lie, files outside the directory, threads in orders that did not happen";
    row(&mut text, "not tried", not_tried);
    text
}

fn findings(
    text: &mut String,
    verdict: &Verdict,
    search: &Search,
    posix_counts: bool,
    kept: &[impl AsRef<Path>],
) {
    for (number, finding) in verdict.outcome.findings.iter().enumerate() {
        let label = if finding.counts(posix_counts) { "BROKEN" } else { "not portable" };
        let _ = writeln!(text);
        row(text, label, &format!("  {}", one_line(&finding.message)));
        let shown =
            Rule::ALL.map(|rule| match (search.rules.contains(&rule), finding.rules.contains(&rule)) {
                (false, _) => format!("{} not tried", rule.name()),
                (true, shown) => format!("{} {}", rule.name(), if shown { "yes" } else { "no" }),
            });
        row(text, "allowed by", &shown.join("   "));
        text.push_str(&calls(&verdict.record, finding));
        row(text, "missing", &missing(finding));
        if let Some(folder) = kept.get(number) {
            let folder = quoted(&printable(&folder.as_ref().display().to_string()));
            row(text, "look", &format!("{folder}/state   {folder}/acks   {folder}/calls"));
            // To be copied: never broken where the path has a space.
            let _ = writeln!(text, "{:<14}seawall crash-test --again {folder}", "again");
        }
    }
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "/._-+,:@%".contains(letter);
    if path.chars().all(plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

/// The verdict as JSON.
#[must_use]
pub fn json(verdict: &Verdict, search: &Search, posix_counts: bool, kept: &[impl AsRef<Path>]) -> Value {
    let (outcome, record) = (&verdict.outcome, &verdict.record);
    let findings: Vec<Value> = outcome
        .findings
        .iter()
        .enumerate()
        .map(|(number, finding)| {
            json!({
                "message": finding.message,
                "rules": finding.rules,
                "events_before_the_cut": finding.cut,
                "acknowledged": record.acknowledged(finding.cut).len(),
                "calls": calls(record, finding).lines().collect::<Vec<_>>(),
                "missing": missing(finding),
                "torn": finding.torn,
                "kept": kept.get(number).map(|folder| folder.as_ref().display().to_string()),
            })
        })
        .collect();
    json!({
        "broken": verdict.is_broken(posix_counts),
        "events": record.events.len(),
        "acknowledged": record.acknowledged(record.events.len()).len(),
        "rules": search.rules,
        "drawn": outcome.drawn,
        "different": outcome.different,
        "judged": outcome.judged,
        "whole": outcome.whole,
        "findings": findings,
        "without": verdict.without.iter().map(|(role, noticed, states)| json!({"sync": role, "noticed": noticed, "states": states})).collect::<Vec<_>>(),
        "errors": verdict.errors.iter().map(|(what, broken)| json!({"call": what, "broken": broken})).collect::<Vec<_>>(),
        "notices": record.notices,
    })
}

/// The verdict as tests, each with what it lost: a sentence, and the lines of its story. One that passed if nothing was lost.
#[must_use]
pub fn cases(verdict: &Verdict, posix_counts: bool) -> Vec<(String, Option<(String, String)>)> {
    let cuts = verdict.broken(posix_counts).enumerate().map(|(number, finding)| {
        let story = format!("{}missing: {}", calls(&verdict.record, finding), missing(finding));
        (format!("power cut {}", number + 1), Some((finding.message.clone(), story)))
    });
    let errors = verdict.errors.iter().map(|(what, broken)| {
        (what.clone(), broken.as_ref().map(|message| (message.clone(), String::new())))
    });
    let others = verdict.outcome.findings.iter().filter(|finding| !finding.counts(posix_counts));
    let others = others.map(|finding| (format!("not portable, only by posix: {}", finding.message), None));
    let mut cases: Vec<_> = cuts.chain(others).chain(errors).collect();
    if cases.is_empty() {
        cases.push((format!("{} states after power cuts", verdict.outcome.judged), None));
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        let rows = [
            ("kept/1", "kept/1"),
            ("kept here", "'kept here'"),
            ("it's", "'it'\\''s'"),
            ("$HOME", "'$HOME'"),
        ];
        for (path, word) in rows {
            assert_eq!(quoted(path), word);
        }
    }
}
