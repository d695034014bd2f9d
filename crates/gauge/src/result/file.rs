//! Reads a result file as untrusted input: bounded, checked and made safe to print.
//!
//! ```text
//!   regular file of at most BYTES_MAX
//!     → at most VALUES_MAX values, control characters made visible        one pass over the text
//!     → histograms within a budget that grows with the file               latency::within
//!     → no more rows, rounds and devices than a run can have, each once   check
//! ```
//!
//! Invariants: memory and time grow with the file's real size and with no size that it claims; a string of a result
//! never moves a terminal's cursor; a refusal names the field and the bound.

use super::refusal::{Impossible, Refusal, VALUES_MAX};
use super::{FORMAT, RunResult, VERSION, VERSION_OLDEST};
use crate::Error;
use crate::latency;
use crate::row::{Measured, Round, Row};
use crate::scenario::settings::WRITES_MAX;
use crate::study::Study;
use seawall_host::text::printable;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File;
use std::hash::Hash;
use std::io::{self, Read as _};
use std::path::Path;

/// The largest file that is read: twenty times the largest that a run of a day with every method has been seen to write.
const BYTES_MAX: u64 = 128 << 20;
/// What a small file may take in histograms: 1,000 of them at their usual range.
const HISTOGRAM_BYTES_MIN: u64 = 256 << 20;
/// And what a byte of a larger file may.
const HISTOGRAM_BYTES_PER_BYTE: u64 = 4;

const METHODS_MAX: usize = 256;
const ROWS_MAX: usize = 4096;
const COLUMNS_MAX: usize = 256;
const LISTED_MAX: usize = 1024;
const ROUNDS_MAX: usize = 10_000;
/// Twelve years in nanoseconds: sums of a few of them stay within 64 bits.
const NS_MAX: u64 = 400_000_000_000_000_000;
/// More of anything than a device can do or hold in that time.
const COUNT_MAX: u64 = 1_000_000_000_000_000_000;

/// Reads the file at `path`; its text as well.
pub(super) fn read(path: &Path) -> Result<RunResult, Error> {
    let text = text(path).map_err(|source| Error::Io { operation: "read", path: path.to_owned(), source })?;
    parse(&text).map_err(|source| Error::ResultFile { path: path.to_owned(), source })
}

fn text(path: &Path) -> io::Result<String> {
    let found = std::fs::metadata(path)?;
    // A pipe would be waited for without end, and a device has none.
    if !found.is_file() {
        let what = "it is no regular file; keep the result in a file and name that";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let too_large = || {
        let what = format!("it has more than the {} MiB that a result file may have", BYTES_MAX >> 20);
        io::Error::new(io::ErrorKind::FileTooLarge, what)
    };
    if found.len() > BYTES_MAX {
        return Err(too_large());
    }
    let mut text = String::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX { Err(too_large()) } else { Ok(text) }
}

/// Reads the text of a result file.
pub(super) fn parse(text: &str) -> Result<RunResult, Refusal> {
    #[derive(Deserialize)]
    struct Head {
        format: String,
        version: u32,
    }
    let (text, values) = harmless(text);
    if values > VALUES_MAX {
        return Err(Refusal::Values);
    }
    let head: Head = serde_json::from_str(&text).map_err(Refusal::NotAResult)?;
    if head.format != FORMAT {
        return Err(Refusal::Format(head.format));
    }
    if !(VERSION_OLDEST..=VERSION).contains(&head.version) {
        return Err(Refusal::Version(head.version));
    }
    let budget = HISTOGRAM_BYTES_MIN + HISTOGRAM_BYTES_PER_BYTE * text.len() as u64;
    let result = latency::within(budget, || serde_json::from_str::<RunResult>(&text));
    let mut result = result.map_err(Refusal::Damaged)?;
    result.version = VERSION;
    result.study.rows.iter_mut().filter_map(Row::measured_mut).for_each(Measured::claim_again);
    check(&result).map_err(Refusal::Impossible)?;
    Ok(result)
}

/// Whether a terminal would do something other than show `c`, or show what follows in another order.
fn acts(c: char) -> bool {
    !matches!(c, ' '..='~') && matches!(printable(c.encode_utf8(&mut [0; 4])), Cow::Owned(_))
}

/// The JSON `text` with every character that acts replaced by its escape in letters, and how many values it has at least.
fn harmless(text: &str) -> (Cow<'_, str>, u64) {
    let mut out: Option<String> = None;
    let (mut values, mut in_string, mut copied) = (1, false, 0);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => in_string = !in_string,
            ',' if !in_string => values += 1,
            '\\' if in_string => {
                let escaped = chars.next().map_or(' ', |(_, c)| c);
                let hex = || text.get(at + 2..at + 6).and_then(|hex| u32::from_str_radix(hex, 16).ok());
                let meant = match escaped {
                    'u' => hex().and_then(char::from_u32),
                    'n' | 't' | 'r' | 'b' | 'f' => Some('\n'),
                    _ => None,
                };
                if meant.is_some_and(acts) {
                    // The backslash itself is escaped: what was an escape is now shown as one.
                    let out = out.get_or_insert_with(|| String::with_capacity(text.len() + 64));
                    *out += &text[copied..at];
                    out.push('\\');
                    copied = at;
                }
            }
            c if in_string && c >= '\u{7f}' && acts(c) => {
                let out = out.get_or_insert_with(|| String::with_capacity(text.len() + 64));
                *out += &text[copied..at];
                // The backslash that shows it is escaped, because JSON has no `\u{9b}`.
                out.push('\\');
                *out += &printable(c.encode_utf8(&mut [0; 4]));
                copied = at + c.len_utf8();
            }
            _ => {}
        }
    }
    match out {
        Some(out) => (Cow::Owned(out + &text[copied..]), values),
        None => (Cow::Borrowed(text), values),
    }
}

fn at_most(what: &'static str, n: usize, max: usize) -> Result<(), Impossible> {
    if n > max { Err(Impossible::Listed { what, n, max }) } else { Ok(()) }
}

fn once<T: Hash + Eq>(what: &'static str, names: impl Iterator<Item = T>) -> Result<(), Impossible> {
    let mut seen = HashSet::new();
    let mut names = names;
    if names.all(|name| seen.insert(name)) { Ok(()) } else { Err(Impossible::Twice(what)) }
}

fn bounded(what: &'static str, max: u64, figures: impl IntoIterator<Item = u64>) -> Result<(), Impossible> {
    let beyond = figures.into_iter().find(|figure| *figure > max);
    beyond.map_or(Ok(()), |figure| Err(Impossible::Figure(what, figure)))
}

/// Refuses a result that no run can have made, where using it would cost more than reading it or overflow.
fn check(result: &RunResult) -> Result<(), Impossible> {
    let (plan, environment) = (&result.plan, &result.environment);
    bounded("a size", COUNT_MAX, [plan.transaction_bytes, plan.journal_bytes, plan.fill_bytes])?;
    bounded("a number of writes", WRITES_MAX.into(), [u64::from(plan.writes)])?;
    bounded("a time", NS_MAX, plan.time_ns)?;
    bounded("a count", COUNT_MAX, plan.transactions)?;
    bounded("a time", NS_MAX, result.idle.map(|idle| idle.elapsed_ns))?;
    bounded("a time", NS_MAX, [result.journal.made_in_ns])?;
    at_most("rounds", result.order.len(), ROUNDS_MAX)?;
    at_most("devices", environment.devices.len(), LISTED_MAX)?;
    at_most("mount options", environment.file_system.options.len(), LISTED_MAX)?;
    at_most("findings of lies", environment.lies.len(), LISTED_MAX)?;
    at_most("writeback settings", environment.writeback.len(), LISTED_MAX)?;
    check_study(&result.study)
}

fn check_measured(measured: &Measured) -> Result<(), Impossible> {
    let lists = [
        ("latencies", measured.latencies.len()),
        ("figures", measured.figures.len()),
        ("calls", measured.calls.len()),
        ("series", measured.series.len()),
        ("notes", measured.notes.len()),
        ("levels", measured.watched.as_ref().map_or(0, |watched| watched.levels.len())),
    ];
    lists.into_iter().try_for_each(|(what, n)| at_most(what, n, COLUMNS_MAX))?;
    bounded("a count", COUNT_MAX, [measured.commits, measured.bytes, measured.tail.commits])?;
    bounded("a time", NS_MAX, [measured.elapsed_ns, measured.tail.latency_ns, measured.tail.wait_ns])?;
    bounded("a time", NS_MAX, [measured.cpu.user_ns, measured.cpu.system_ns])?;
    let because = measured.durability.as_ref().map_or(0, |durability| durability.because.len());
    at_most("reasons", because, LISTED_MAX)?;
    rounds(&measured.rounds)
}

fn rounds(rounds: &[Round]) -> Result<(), Impossible> {
    at_most("rounds", rounds.len(), ROUNDS_MAX)?;
    rounds.iter().try_for_each(|round| {
        bounded(
            "a time",
            NS_MAX,
            [round.start_ns, round.elapsed_ns, round.p50_ns, round.p99_ns, round.max_ns],
        )?;
        bounded("a count", COUNT_MAX, [round.commits])
    })
}

fn check_study(study: &Study) -> Result<(), Impossible> {
    for (what, n) in [
        ("settings", study.settings.len()),
        ("facts", study.facts.len()),
        ("notes", study.notes.len()),
        ("places", study.places.len()),
    ] {
        at_most(what, n, LISTED_MAX)?;
    }
    at_most("columns", study.columns.len(), COLUMNS_MAX)?;
    once("column", study.columns.iter().map(|column| column.key.as_str()))?;
    if study.ranked {
        at_most("methods", study.rows.len(), METHODS_MAX)?;
    }
    at_most("rows", study.rows.len(), ROWS_MAX)?;
    once("row", study.rows.iter().map(|row| (row.id.as_str(), row.place)))?;
    study.measured().try_for_each(|(row, measured)| {
        check_measured(measured).map_err(|what| Impossible::Row(row.id.clone(), Box::new(what)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_shown_in_letters_and_the_rest_stays() {
        let cases = [
            (r#"{"a": "plain µs \\ \" \/ \u00b5"}"#, "plain µs \\ \" / µ"),
            ("{\"a\": \"\\u001b[2J\"}", "\\u001b[2J"),
            ("{\"a\": \"\\\\u001b\"}", "\\u001b"),
            ("{\"a\": \"\\\\\\u001b]0;x\\u0007\"}", "\\\\u001b]0;x\\u0007"),
            ("{\"a\": \"one\\ntwo\"}", "one\\ntwo"),
            ("{\"a\": \"\u{9b}31m\u{202e}\u{7f}\"}", "\\u{9b}31m\\u{202e}\\u{7f}"),
        ];
        for (text, shown) in cases {
            let (harmless, _) = harmless(text);
            let value: serde_json::Value = serde_json::from_str(&harmless).expect(text);
            assert_eq!(value["a"], shown, "{text}");
        }
        assert_eq!(harmless("[1, \"a,b\", [], {\"x\": 2, \"y\": 3}]").1, 5);
    }
}
