//! Writes records on the machine under test, one stream per commit method and one for the log.
//!
//! The streams lie in a folder of the run's own. They take turns, because a flush by one method makes durable what
//! another one only claimed to: at any time exactly one stream has acknowledgements that nothing else has flushed.
//!
//! Invariants: folder, journals and names are durable before the witness learns of the run; when the connection to
//! the witness fails, writing ends.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seawall_host::journal::{Recipe, make};
use seawall_sys::clock::{monotonic_ns, nanoseconds};
use seawall_sys::durability::{Durability, FileState, Surroundings, classify};
use seawall_sys::{Method, OpenError, Target, inspect, methods, prove, store};

use crate::error::{Error, Result};
use crate::ledger::WINDOW_MAX;
use crate::line::Line;
use crate::message::{Begin, RunId};
use crate::record::is_length;
use crate::stream::{Stream, StreamKind};
use crate::wire::WitnessCommand;
use crate::writer::{JournalWriter, LogWriter, Turn, Writer};

/// The file in a run's folder with the boot of the host that wrote it.
pub(crate) const BOOT_FILE: &str = "boot";
/// The longest journal in bytes: the judge reads it whole.
pub const JOURNAL_BYTES_MAX: u64 = 256 << 20;
/// The window that a log needs at least, in records: its longest transaction and one more.
const LOG_WINDOW_MIN: u32 = 4;

/// What is written and where.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The folder on the disk under test; the run makes a folder of its own in it.
    pub folder: PathBuf,
    /// The program that reaches the witness.
    pub witness: WitnessCommand,
    /// Method ids, `log`, `log:ID`, and the groups `durable` and `all`, separated by commas.
    pub methods: String,
    /// Bytes of a record: 32 to 16 MiB; its last sector of 512 bytes holds at least 32.
    pub record_bytes: u32,
    /// Bytes of each journal, and what a log keeps before it trims.
    pub journal_bytes: u64,
    /// Records that may be issued ahead of what the witness holds: 1 to 4096.
    pub window: u32,
    /// How long one stream writes before the next one's turn.
    pub turn: Duration,
    /// When to end without a power cut; never if absent.
    pub duration: Option<Duration>,
    /// Threads that commit to the log at the same time.
    pub committers: usize,
}

/// How a run came to its end.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Which run it was.
    pub run: RunId,
    /// Records acknowledged, by method.
    pub acknowledged: Vec<(String, u64)>,
}

/// A run that is about to write.
#[derive(Clone, Debug)]
pub struct Begun {
    /// Which run it is.
    pub run: RunId,
    /// Its folder.
    pub folder: PathBuf,
    /// The methods that write, each with what it promises to outlive.
    pub methods: Vec<(String, Durability)>,
    /// The methods that cannot write here, each with the reason.
    pub not_available: Vec<(String, String)>,
}

/// One stream to be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    Journal(&'static Method),
    Log(String),
}

/// The methods that `text` names, and whether one that is not available here is left out instead of an error.
fn choose(text: &str) -> Result<(Vec<Choice>, bool)> {
    let (mut chosen, mut lenient) = (Vec::new(), false);
    for word in text.split(',').map(str::trim) {
        let group = matches!(word, "all" | "durable");
        lenient |= group;
        if group {
            let wanted = methods::here().iter().filter(|method| {
                word == "all" || method.reach().data >= seawall_sys::method::Depth::DeviceForced
            });
            chosen.extend(wanted.map(Choice::Journal));
            chosen.push(Choice::Log("log".to_owned()));
        } else if word == "log" || word.strip_prefix("log:").is_some_and(|id| methods::find(id).is_some()) {
            chosen.push(Choice::Log(word.to_owned()));
        } else if let Some(method) = methods::find(word) {
            chosen.push(Choice::Journal(method));
        } else {
            return Err(Error::Request(format!(
                "there is no commit method {word:?}; `seawall methods` lists them, and there are log, log:ID, durable \
                 and all"
            )));
        }
    }
    Ok((chosen, lenient))
}

fn check(plan: &Plan, chosen: &[Choice]) -> Result<()> {
    let bad = |text: String| Err(Error::Request(text));
    if !plan.folder.is_dir() {
        return bad(format!("{} is no folder; name one on the disk under test", plan.folder.display()));
    }
    if !is_length(plan.record_bytes as usize) {
        return bad(format!(
            "--size {} cannot be: 32 bytes to 16 MiB, and what is left of it after whole sectors of 512 bytes is \
             nothing or at least 32",
            plan.record_bytes
        ));
    }
    if plan.window == 0 || plan.window > WINDOW_MAX {
        return bad(format!("--window {} cannot be: 1 to {WINDOW_MAX} records", plan.window));
    }
    if plan.window < LOG_WINDOW_MIN && chosen.iter().any(|choice| matches!(choice, Choice::Log(_))) {
        return bad(format!(
            "--window {} is too small for a log, whose transactions have up to three records: {LOG_WINDOW_MIN} or more",
            plan.window
        ));
    }
    let least = u64::from(plan.record_bytes) * u64::from(plan.window) * 2;
    if plan.journal_bytes < least || plan.journal_bytes > JOURNAL_BYTES_MAX {
        return bad(format!(
            "--journal {} cannot be: two windows of records ({least} bytes) to {JOURNAL_BYTES_MAX} bytes",
            plan.journal_bytes
        ));
    }
    Ok(())
}

/// Everything that a run writes with.
struct Prepared {
    begun: Begun,
    streams: Vec<Stream>,
    writers: Vec<Box<dyn Writer>>,
}

impl Prepared {
    fn add(&mut self, plan: &Plan, around: &Surroundings, choice: &Choice) -> Result<()> {
        let number = u16::try_from(self.streams.len()).unwrap_or(u16::MAX);
        let run = self.begun.run.short();
        let whole = plan.journal_bytes - plan.journal_bytes % u64::from(plan.record_bytes);
        let mut stream = Stream {
            number,
            kind: StreamKind::Log,
            class: Durability::PowerLoss,
            record_bytes: plan.record_bytes,
            journal_bytes: whole,
            method: String::new(),
        };
        let writer: Box<dyn Writer> = match choice {
            Choice::Log(word) => {
                stream.method.clone_from(word);
                let dir = self.begun.folder.join(stream.file_name());
                Box::new(LogWriter::open(&dir, run, stream.clone(), plan.committers)?)
            }
            Choice::Journal(method) => {
                stream.kind = StreamKind::Journal;
                stream.class = classify(method, around).class;
                method.id.clone_into(&mut stream.method);
                let path = self.begun.folder.join(stream.file_name());
                make_journal(&path, &stream)?;
                let write_bytes = plan.record_bytes as usize;
                let target = Target { path: path.clone(), journal_bytes: whole, write_bytes };
                if let Err(error) = prove(method, &target, None) {
                    // It was made for nothing; the reason counts.
                    let _ = std::fs::remove_file(&path);
                    return Err(Error::Request(format!("{}: {error}", method.id)));
                }
                Box::new(JournalWriter::open(method, &path, run, stream.clone())?)
            }
        };
        self.begun.methods.push((stream.method.clone(), stream.class));
        self.streams.push(stream);
        self.writers.push(writer);
        Ok(())
    }
}

/// A file of zeros whose blocks are written, so that a commit changes no metadata.
fn make_journal(path: &Path, stream: &Stream) -> Result<()> {
    let recipe = Recipe {
        state: FileState::ZeroFilled,
        bytes: stream.journal_bytes,
        fill_bytes: 1 << 20,
        keep_cached: false,
    };
    make(path, &recipe, &mut |_| true).map(drop).map_err(|error| match error {
        OpenError::Failed(error) => Error::Commit(error),
        other @ OpenError::Unavailable(_) => Error::Request(other.to_string()),
    })
}

fn prepare(plan: &Plan) -> Result<Prepared> {
    let (chosen, lenient) = choose(&plan.methods)?;
    check(plan, &chosen)?;
    let around = inspect::tried_environment(&plan.folder)?.surroundings(FileState::ZeroFilled);
    let mut run = RunId([0; 16]);
    getrandom::fill(&mut run.0)
        .map_err(|error| Error::io("draw", "random numbers", std::io::Error::other(error.to_string())))?;
    let folder = plan.folder.join(format!("powercut-{run}"));
    std::fs::create_dir(&folder).map_err(|error| Error::io("create", &folder, error))?;
    let begun = Begun { run, folder: folder.clone(), methods: Vec::new(), not_available: Vec::new() };
    let prepared = Prepared { begun, streams: Vec::new(), writers: Vec::new() };
    fill(prepared, plan, &around, &chosen, lenient).inspect_err(|_| remove(&folder))
}

/// Removes what nothing was acknowledged in; the error that led here is the one that counts.
fn remove(folder: &Path) {
    let _ = std::fs::remove_dir_all(folder);
}

/// Notes which boot of this host writes, durably, so that `check` knows whether there was a restart since.
fn note_boot(folder: &Path) -> Result<()> {
    let Some(boot) = seawall_sys::inspect::boot() else { return Ok(()) };
    let path = folder.join(BOOT_FILE);
    let written = std::fs::File::create_new(&path)
        .and_then(|mut file| file.write_all(boot.as_bytes()).and_then(|()| file.sync_all()));
    written.map_err(|error| Error::io("write", &path, error))
}

/// Makes everything that will be written, durably.
fn fill(
    mut prepared: Prepared,
    plan: &Plan,
    around: &Surroundings,
    chosen: &[Choice],
    lenient: bool,
) -> Result<Prepared> {
    for choice in chosen {
        match prepared.add(plan, around, choice) {
            Err(error) if !lenient => return Err(error),
            Err(error) => {
                let name = match choice {
                    Choice::Journal(method) => method.id,
                    Choice::Log(word) => word,
                };
                prepared.begun.not_available.push((name.to_owned(), error.to_string()));
            }
            Ok(()) => {}
        }
    }
    if prepared.streams.is_empty() {
        let reasons: Vec<&str> =
            prepared.begun.not_available.iter().map(|(_, why)| why.as_str()).take(3).collect();
        return Err(Error::Request(format!("no method can write here: {}", reasons.join("; "))));
    }
    note_boot(&prepared.begun.folder)?;
    store::sync_directory(&prepared.begun.folder)?;
    store::sync_directory(&plan.folder)?;
    Ok(prepared)
}

/// Writes until the power goes, `stop` is set, or the plan's duration is over. `report` is called with the run before it
/// writes.
///
/// # Errors
/// Whatever keeps it from writing or from reaching the witness.
pub fn run(plan: &Plan, stop: &AtomicBool, report: impl FnOnce(&Begun)) -> Result<Ended> {
    let witness = plan.witness.start()?;
    let Prepared { begun, streams, mut writers } = prepare(plan)?;
    let whole = plan.folder.canonicalize().unwrap_or_else(|_| plan.folder.clone());
    let place = whole.display().to_string();
    let begin = Begin { run: begun.run, window: plan.window, place, streams };
    let line = Line::begin(witness, &begin).inspect_err(|_| remove(&begun.folder))?;
    report(&begun);
    let now = monotonic_ns();
    let after = |from: u64, time: Duration| from.saturating_add(nanoseconds(time));
    let end_ns = plan.duration.map_or(u64::MAX, |duration| after(now, duration));
    while !stop.load(Ordering::Relaxed) && monotonic_ns() < end_ns {
        for writer in &mut writers {
            let until_ns = after(monotonic_ns(), plan.turn).min(end_ns);
            writer.take_turn(&line, Turn { until_ns, stop })?;
        }
    }
    let count = |stream: &Stream| (stream.method.clone(), line.acknowledged(stream.number));
    let acknowledged = begin.streams.iter().map(count).collect();
    for writer in writers {
        writer.close()?;
    }
    line.end()?;
    Ok(Ended { run: begun.run, acknowledged })
}

#[cfg(test)]
mod tests {
    use super::{Choice, choose};

    #[test]
    fn methods_are_chosen_by_id_and_group_and_unknown_ones_are_named() {
        let (all, lenient) = choose("all").expect("a group");
        assert!(lenient && all.len() == seawall_sys::methods::here().len() + 1);
        let (durable, _) = choose("durable").expect("a group");
        assert!(durable.len() < all.len(), "some methods of every system are not durable");
        let (one, lenient) = choose("log, buffered").expect("two words");
        assert!(!lenient && one[0] == Choice::Log("log".to_owned()) && one.len() == 2);
        for bad in ["", "bufered", "log:", "log:bufered"] {
            let refused = choose(bad).expect_err("is refused").to_string();
            assert!(refused.contains("seawall methods"), "{refused}");
        }
    }
}
