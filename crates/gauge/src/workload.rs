//! Reads a mixed load from a file: commits of different sizes, at their times or one after the other.
//!
//! ```text
//!   a trace: a line a commit             a fio job file of the simple kind: one job
//!     4096                                 [global]
//!     # seconds and size                   bssplit=4k/60:16k/40      rate_iops=500
//!     0.000 4096                           [journal]
//!     0.004 16k                            rw=write                  fdatasync=1
//! ```
//!
//! Invariants: a load is repeated from its start when it ends; a line or an option that is not understood is refused by
//! name, never left out, unless it changes nothing of what is measured.

use crate::figures::{bytes, count};

const BYTES_MAX: u64 = 64 << 20;
const STEPS_MAX: usize = 1_000_000;
const AT_MAX_NS: f64 = 86_400e9;
/// How many steps sizes with percentages become.
const SPLIT_STEPS: i64 = 100;

/// One commit of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Its size, bytes.
    pub bytes: u32,
    /// When it arrives, nanoseconds from the start; 0 where commits follow each other.
    pub at_ns: u64,
}

/// A load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    steps: Vec<Step>,
    /// From the first arrival to that of the first step again, nanoseconds; `None`: one commit after the other.
    cycle_ns: Option<u64>,
}

/// A load with what else its file asks for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Load {
    /// The commits.
    pub workload: Workload,
    /// The method by its id, if the file names one.
    pub method: Option<&'static str>,
    /// Writes of a commit, if the file names a number.
    pub writes: Option<u32>,
    /// Writers, if the file names a number.
    pub threads: Option<usize>,
    /// Size of the journal, bytes, if the file names one.
    pub journal_bytes: Option<u64>,
    /// Commits a second, if the file names a rate.
    pub rate_per_s: Option<f64>,
    /// The time of the run, nanoseconds, if the file names one.
    pub time_ns: Option<u64>,
}

/// Why a file is no load. `Display` names the line or the option, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// Nothing is in it.
    #[error("it holds no commit: a trace has a line for each, with its size")]
    Empty,
    /// A trace is longer than a million lines.
    #[error("it has more than {} commits", count(STEPS_MAX as u64))]
    TooLong,
    /// A line of a trace.
    #[error("line {number}, `{text}`: {why}; a line is a size, or seconds and a size")]
    Line {
        /// Its number, from 1.
        number: usize,
        /// What it holds.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An option of a job file.
    #[error("`{text}`: {why}")]
    Option {
        /// The option with its value.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A job file has not one job.
    #[error("it has {0} jobs besides [global]: a load is one job")]
    Jobs(usize),
}

impl Workload {
    /// The `nth` commit, counted over all repetitions.
    pub fn step(&self, nth: u64) -> Step {
        let steps = self.steps.len() as u64;
        let index = usize::try_from(nth % steps).unwrap_or(0);
        let Step { bytes, at_ns } = self.steps[index];
        Step { bytes, at_ns: at_ns + self.cycle_ns.unwrap_or(0).saturating_mul(nth / steps) }
    }

    pub(crate) fn is_scheduled(&self) -> bool {
        self.cycle_ns.is_some()
    }

    /// The largest commit, bytes.
    pub fn bytes_max(&self) -> u32 {
        self.steps.iter().map(|step| step.bytes).max().unwrap_or(1)
    }

    /// What all sizes are multiples of, bytes.
    pub(crate) fn bytes_of_all(&self) -> u32 {
        self.steps.iter().fold(0, |sum, step| common(sum, step.bytes)).max(1)
    }

    pub(crate) fn bytes_mean(&self) -> u64 {
        let sum: u64 = self.steps.iter().map(|step| u64::from(step.bytes)).sum();
        sum / self.steps.len().max(1) as u64
    }

    /// Its sizes in words.
    pub fn words(&self) -> String {
        let least = self.steps.iter().map(|step| step.bytes).min().unwrap_or(0);
        if least == self.bytes_max() {
            return bytes(least.into());
        }
        format!(
            "{} to {}, {} in the mean",
            bytes(least.into()),
            bytes(self.bytes_max().into()),
            bytes(self.bytes_mean())
        )
    }
}

fn common(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { common(other, one % other) }
}

/// Reads a trace, or a job file if a line is a name between `[` and `]`.
///
/// # Errors
/// The line or option that is not understood.
pub fn parse(text: &str) -> Result<Load, Unreadable> {
    // Editors of Windows put a mark of the byte order in front.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_job = text.lines().any(|line| section(line).is_some());
    if is_job { job(text) } else { trace(text) }
}

/// The name of the job that begins with `line`.
fn section(line: &str) -> Option<&str> {
    let name = line.trim().strip_prefix('[')?.strip_suffix(']')?;
    let is_name = |c: char| c.is_alphanumeric() || " _-./".contains(c);
    Some(name).filter(|name| !name.is_empty() && name.chars().all(is_name))
}

fn trace(text: &str) -> Result<Load, Unreadable> {
    let mut steps: Vec<Step> = Vec::new();
    let mut scheduled = None;
    for (index, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or("").trim();
        if content.is_empty() {
            continue;
        }
        let wrong = |why| Unreadable::Line { number: index + 1, text: brief(content), why };
        let words: Vec<&str> = content.split([' ', '\t', ',', ';']).filter(|word| !word.is_empty()).collect();
        let (at, amount) = match words[..] {
            [amount] => (None, amount),
            [at, amount] => {
                let looks_like_a_size = |word: &str| {
                    word.parse::<u64>().is_ok_and(|number| number >= 512 && number.is_power_of_two())
                };
                if index == 0 && looks_like_a_size(at) && looks_like_a_size(amount) {
                    return Err(wrong(
                        "two sizes? A line is a size, or seconds and a size; write seconds with a point",
                    ));
                }
                (Some(at), amount)
            }
            _ => return Err(wrong("it has more than two words")),
        };
        if *scheduled.get_or_insert(at.is_some()) != at.is_some() {
            return Err(wrong("some lines have a time and others have none"));
        }
        let bytes = size(amount).ok_or_else(|| wrong("its size is not from 1 B to 64 MiB"))?;
        let at_ns = match at {
            None => 0,
            Some(at) => {
                arrival_ns(at).ok_or_else(|| wrong("its time is not a number of seconds, at most a day"))?
            }
        };
        if steps.last().is_some_and(|before| at_ns < before.at_ns) {
            return Err(wrong("its time is before that of the line above"));
        }
        if steps.len() == STEPS_MAX {
            return Err(Unreadable::TooLong);
        }
        steps.push(Step { bytes, at_ns });
    }
    let (Some(first), Some(last)) = (steps.first().copied(), steps.last().copied()) else {
        return Err(Unreadable::Empty);
    };
    let span_ns = last.at_ns - first.at_ns;
    for step in &mut steps {
        step.at_ns -= first.at_ns;
    }
    // The next repetition comes after as long as two commits are apart in the mean.
    let gap_ns = (span_ns / (steps.len() as u64 - 1).max(1)).max(1);
    let cycle_ns = scheduled.unwrap_or(false).then_some(span_ns + gap_ns);
    Ok(Load { workload: Workload { steps, cycle_ns }, ..Load::default() })
}

impl Default for Workload {
    fn default() -> Self {
        Self { steps: vec![Step { bytes: 4096, at_ns: 0 }], cycle_ns: None }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to a day")]
fn arrival_ns(text: &str) -> Option<u64> {
    let ns = text.parse::<f64>().ok()? * 1e9;
    (0.0..=AT_MAX_NS).contains(&ns).then_some(ns as u64)
}

/// A size as fio and dd have it: `4096`, `4k`, `1MiB`, powers of 1,024.
fn size(text: &str) -> Option<u32> {
    let bytes = amount(text)?;
    (1..=BYTES_MAX).contains(&bytes).then(|| u32::try_from(bytes).ok()).flatten()
}

fn amount(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &lower[digits.len()..] {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The most characters of the input that an error quotes.
fn brief(text: &str) -> String {
    crate::report::text::elided(text, 60)
}

/// Options of a job that change nothing of what is measured: the folder, names, and how fio prints.
const WITHOUT_EFFECT: [&str; 16] = [
    "name",
    "description",
    "filename",
    "directory",
    "group_reporting",
    "time_based",
    "stonewall",
    "thread",
    "invalidate",
    "overwrite",
    "randrepeat",
    "refill_buffers",
    "norandommap",
    "log_avg_msec",
    "write_lat_log",
    "iodepth",
];

#[derive(Default)]
struct Durable {
    direct: bool,
    /// `fsync=`, `fdatasync=`: a sync after every N writes.
    fsync: Option<u32>,
    fdatasync: Option<u32>,
    /// `sync=sync` or `1`; `sync=dsync`.
    sync: bool,
    dsync: bool,
}

fn job(text: &str) -> Result<Load, Unreadable> {
    let jobs = text.lines().filter_map(section).filter(|name| *name != "global").count();
    if jobs != 1 {
        return Err(Unreadable::Jobs(jobs));
    }
    let (mut load, mut durable, mut writes_in_order) = (Load::default(), Durable::default(), false);
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';', '[']) {
            continue;
        }
        let (name, value) =
            line.split_once('=').map_or((line, "1"), |(name, value)| (name.trim(), value.trim()));
        let wrong = |why| Unreadable::Option { text: brief(line), why };
        let number = || value.parse::<u32>().ok();
        match name {
            "bs" | "blocksize" => {
                let bytes =
                    size(value).ok_or_else(|| wrong("one size from 1 B to 64 MiB; several are `bssplit`"))?;
                load.workload.steps = vec![Step { bytes, at_ns: 0 }];
            }
            "bssplit" => {
                load.workload.steps = split(value)
                    .ok_or_else(|| wrong("sizes and percentages that add up to 100, such as 4k/60:16k/40"))?;
            }
            "rw" | "readwrite" if value == "write" => writes_in_order = true,
            "rw" | "readwrite" => return Err(wrong("a journal is written in order: only rw=write")),
            "ioengine" if ["sync", "psync"].contains(&value) => {}
            "ioengine" => return Err(wrong("only sync and psync: --methods names the ways of io_uring")),
            "direct" | "buffered" => match (name, value) {
                ("direct", "0" | "1") => durable.direct = value == "1",
                ("buffered", "0" | "1") => durable.direct = value == "0",
                _ => return Err(wrong("0 or 1")),
            },
            "fsync" => {
                durable.fsync = Some(number().ok_or_else(|| wrong("a number of writes"))?).filter(|n| *n > 0);
            }
            "fdatasync" => {
                durable.fdatasync =
                    Some(number().ok_or_else(|| wrong("a number of writes"))?).filter(|n| *n > 0);
            }
            "sync" => match value {
                "0" | "none" => {}
                "1" | "sync" => durable.sync = true,
                "dsync" => durable.dsync = true,
                _ => return Err(wrong("none, sync or dsync")),
            },
            "numjobs" => {
                load.threads =
                    Some(number().filter(|n| *n > 0).ok_or_else(|| wrong("a number of writers"))? as usize);
            }
            "size" | "filesize" => {
                load.journal_bytes = Some(amount(value).ok_or_else(|| wrong("a size, such as 1g"))?);
            }
            "rate_iops" => {
                let rate = value.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0);
                load.rate_per_s = Some(rate.ok_or_else(|| wrong("one number of commits a second"))?);
            }
            "runtime" => {
                let seconds = value.trim_end_matches('s').parse::<u64>().ok();
                load.time_ns = Some(
                    seconds
                        .and_then(|s| s.checked_mul(1_000_000_000))
                        .ok_or_else(|| wrong("a number of seconds"))?,
                );
            }
            _ if WITHOUT_EFFECT.contains(&name) => {}
            _ => return Err(wrong("this option is not understood, and may change what is measured")),
        }
    }
    if !writes_in_order {
        return Err(Unreadable::Option {
            text: "rw".to_owned(),
            why: "rw=write is missing: fio reads without it",
        });
    }
    (load.method, load.writes) = method(&durable).ok_or(Unreadable::Option {
        text: "fsync, fdatasync, sync".to_owned(),
        why: "no method syncs by two of them",
    })?;
    Ok(load)
}

/// The method that makes a job's calls, and how many writes a commit has.
fn method(durable: &Durable) -> Option<(Option<&'static str>, Option<u32>)> {
    let after = durable.fsync.or(durable.fdatasync);
    let id = match (
        durable.direct,
        durable.fsync.is_some(),
        durable.fdatasync.is_some(),
        durable.sync,
        durable.dsync,
    ) {
        (false, false, false, false, false) => "buffered",
        (true, false, false, false, false) => "direct",
        (false, true, false, false, false) => "buffered+fsync",
        (true, true, false, false, false) => "direct+fsync",
        (false, false, true, false, false) => "buffered+fdatasync",
        (true, false, true, false, false) => "direct+fdatasync",
        (false, false, false, true, false) => "sync",
        (true, false, false, true, false) => "direct+sync",
        (false, false, false, false, true) => "dsync",
        (true, false, false, false, true) => "direct+dsync",
        _ => return None,
    };
    Some((Some(id), after.filter(|writes| *writes > 1)))
}

/// `4k/60:16k/40` in a hundred steps, each size as evenly among them as can be.
fn split(text: &str) -> Option<Vec<Step>> {
    let parts = text.split(':').map(|part| {
        let (bytes, percent) = part.split_once('/')?;
        let percent = percent.parse::<i64>().ok().filter(|percent| (0..=SPLIT_STEPS).contains(percent))?;
        Some((size(bytes)?, percent))
    });
    let parts: Vec<(u32, i64)> = parts.collect::<Option<_>>()?;
    if parts.iter().map(|(_, percent)| percent).sum::<i64>() != SPLIT_STEPS {
        return None;
    }
    // At each step the size that is furthest behind its share.
    let mut had = vec![0; parts.len()];
    let steps = (1..=SPLIT_STEPS).map(|step| {
        let next = (0..parts.len()).max_by_key(|index| parts[*index].1 * step - had[*index] * SPLIT_STEPS);
        let next = next.unwrap_or(0);
        had[next] += 1;
        Step { bytes: parts[next].0, at_ns: 0 }
    });
    Some(steps.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_with_its_times_and_repeated_from_its_start() {
        let load = parse("# a comment\n1.5 4k\n1.510, 16384 # another\n\n1.530\t512\n").expect("a trace");
        let workload = load.workload;
        assert!(workload.is_scheduled());
        let at = |nth| (workload.step(nth).bytes, workload.step(nth).at_ns / 1_000_000);
        assert_eq!([at(0), at(1), at(2)], [(4096, 0), (16384, 10), (512, 30)]);
        assert_eq!(at(3), (4096, 45), "after as long as two are apart in the mean");
        assert_eq!(
            (workload.bytes_max(), workload.bytes_of_all(), workload.bytes_mean()),
            (16384, 512, 6997)
        );
        assert_eq!(workload.words(), "512 B to 16 KiB, 6,997 B in the mean");
        let plain = parse("4096\n8192\n").expect("sizes").workload;
        assert!(!plain.is_scheduled() && plain.step(5).bytes == 8192);
    }

    #[test]
    fn a_simple_job_of_fio_becomes_a_load_with_its_method() {
        let text = "; a journal\n[global]\nioengine=psync\ndirect=1\nsize=256m\n[journal]\nrw=write\nbssplit=4k/75:16k/25\nfdatasync=2\nrate_iops=500\nnumjobs=2\nruntime=30s\ntime_based\n";
        let load = parse(text).expect("a job");
        assert_eq!((load.method, load.writes, load.threads), (Some("direct+fdatasync"), Some(2), Some(2)));
        assert_eq!((load.journal_bytes, load.rate_per_s), (Some(256 << 20), Some(500.0)));
        assert_eq!(load.time_ns, Some(30_000_000_000));
        let sizes: Vec<u32> = (0..100).map(|nth| load.workload.step(nth).bytes).collect();
        assert_eq!(sizes.iter().filter(|bytes| **bytes == 16384).count(), 25);
        assert!(sizes[..8].contains(&16384) && sizes[..8].contains(&4096), "mixed from the start: {sizes:?}");
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let cases = [
            ("", "no commit"),
            ("# nothing\n", "no commit"),
            ("4096\nmany\n", "line 2, `many`"),
            ("0\n", "1 B to 64 MiB"),
            ("65MiB\n", "1 B to 64 MiB"),
            ("0.1 4k\n8k\n", "line 2"),
            ("0.2 4k\n0.1 4k\n", "before that of the line above"),
            ("-1 4k\n", "seconds"),
            ("NaN 4k\n", "seconds"),
            ("1 2 3\n", "more than two words"),
            ("[a]\nrw=write\n[b]\nrw=write\n", "2 jobs"),
            ("[global]\nrw=write\n", "0 jobs"),
            ("[a]\nbs=4k\n", "rw=write is missing"),
            ("[a]\nrw=randwrite\n", "`rw=randwrite`"),
            ("[a]\nrw=write\nioengine=libaio\n", "`ioengine=libaio`"),
            ("[a]\nrw=write\nbssplit=4k/50:8k/40\n", "add up to 100"),
            ("[a]\nrw=write\nthinktime=5\n", "`thinktime=5`"),
            ("[a]\nrw=write\nfsync=1\nsync=dsync\n", "two of them"),
        ];
        for (text, words) in cases {
            let refused = parse(text).expect_err(text).to_string();
            assert!(refused.contains(words), "{text:?}: {refused}");
        }
    }
}
