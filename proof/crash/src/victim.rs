//! The victim: a child process that writes the workload and is recorded, cut off or killed.
//!
//! It runs the log's core in a directory, writes the workload by one commit method and reports on its standard output, which is
//! the control file of a recorded disk.
//!
//! Invariant: "acked" is written after the commit returned (except by the sabotage that writes it before), by one
//! write(2) that has returned before anything else is done.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use seawall::sim::outside::{Layout, Writer};
use seawall::sim::rng::{Rng, mix};
use seawall::{CommitFuture, Durability, Log, Lsn, MethodChoice, Options};

use crate::directory_disk::{DirectoryDisk, Sabotage};
use crate::error::{Error, Result};
use crate::scene::Scene;
use crate::workload::{SINGLES, end_of, transaction};

/// The shape of the victim's log: small segments, so that a short run rotates and recycles often.
pub(crate) const LAYOUT: Layout = Layout { block_bytes: 4096, segment_bytes: 64 * 1024 };

/// Which program the victim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum VictimKind {
    /// The log's core without threads, which alone can be sabotaged.
    Core,
    /// The library as users call it, with several commits in flight.
    Library,
    /// The library with one commit at a time, most of them to outlive the process only.
    Relaxed,
    /// `seawall log append`, the release binary.
    Binary,
}

impl VictimKind {
    /// The number of its first life.
    pub(crate) fn life(self) -> u64 {
        if self == Self::Binary { SINGLES | 1 } else { 1 }
    }
}

/// What the victim is to do.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct VictimOptions {
    #[command(flatten)]
    pub(crate) scene: Scene,
    /// The log's directory.
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// The file that becomes its standard output when it is spawned.
    #[arg(skip)]
    pub(crate) marks: Option<PathBuf>,
    /// Which life this is.
    #[arg(long, default_value_t = 1)]
    pub(crate) life: u64,
    /// Where this life begins: needed for the binary, which does not say so.
    #[arg(long, default_value_t = 0)]
    pub(crate) start: u64,
    /// Whether errors are expected and not printed.
    #[arg(long)]
    pub(crate) quiet: bool,
    /// The bug that the log has, by its name; needs the feature `mutants`.
    #[arg(long, value_name = "NAME")]
    pub(crate) plant: Option<String>,
    /// Whether the library recovers as on a system that cannot read past its page cache.
    #[arg(long)]
    pub(crate) cached_reads: bool,
}

impl VictimOptions {
    /// The child process that has these options; for the release binary, `binary` is where it lies.
    pub(crate) fn spawn(&self, binary: &Path) -> io::Result<Child> {
        let marks = self.marks.as_ref().ok_or(io::ErrorKind::InvalidInput)?;
        let mut marks = File::options().write(true).open(marks)?;
        if self.scene.engine != VictimKind::Binary {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(self.arguments()).stdin(Stdio::null()).stdout(marks);
            if self.quiet {
                command.stderr(Stdio::null());
            }
            return command.spawn();
        }
        // What the binary prints from here on are LSNs.
        marks.write_all(format!("opened {} {}\n", self.life, self.start).as_bytes())?;
        let mut command = Command::new(binary);
        command.args(["log", "append", "--format", "raw", "--segment-bytes"]);
        command.arg(LAYOUT.segment_bytes.to_string()).args(["--method", &self.scene.method]).arg(&self.dir);
        let mut child = command.stdin(Stdio::piped()).stdout(marks).spawn()?;
        let input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let options = self.clone();
        std::thread::spawn(move || options.feed(input));
        Ok(child)
    }

    /// The same as words for a shell, with its marks on that one's standard output.
    pub(crate) fn command_line(&self, binary: &Path) -> io::Result<String> {
        let this = std::env::current_exe()?;
        let arguments = self.arguments();
        if self.scene.engine != VictimKind::Binary {
            return Ok(format!("exec '{}' {}", this.display(), quoted(&arguments)));
        }
        let feed: Vec<String> =
            [String::from("feed")].into_iter().chain(arguments[1..].iter().cloned()).collect();
        Ok(format!(
            "echo opened {} {}; '{}' {} | '{}' log append --format raw --segment-bytes {} --method {} '{}'",
            self.life,
            self.start,
            this.display(),
            quoted(&feed),
            binary.canonicalize()?.display(),
            LAYOUT.segment_bytes,
            self.scene.method,
            self.dir.display()
        ))
    }

    /// Runs the child process to its end.
    pub(crate) fn run(&self, binary: &Path) -> io::Result<()> {
        let status = self.spawn(binary)?.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("the victim ended with {status}")))
        }
    }

    /// Feeds the records to the binary, a few at a time so that batches differ.
    pub(crate) fn feed(&self, mut input: impl Write) -> io::Result<()> {
        let mut rng = Rng::new(mix(self.scene.seed));
        let mut start = Lsn::new(self.start);
        for _ in 0..self.scene.transactions {
            let records = transaction(self.scene.seed, self.life, start);
            start = end_of(start, &records);
            for record in records {
                let length = u32::try_from(record.len()).map_err(io::Error::other)?;
                input.write_all(&[&length.to_le_bytes()[..], &record].concat())?;
            }
            if rng.coin() {
                std::thread::sleep(Duration::from_micros(200 + rng.below(600)));
            }
        }
        Ok(())
    }

    /// The arguments that give these options to a child process.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["victim".to_owned()];
        let mut pair = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        pair("dir", self.dir.to_string_lossy().into_owned());
        pair("seed", self.scene.seed.to_string());
        pair("life", self.life.to_string());
        pair("transactions", self.scene.transactions.to_string());
        pair("method", self.scene.method.clone());
        pair("engine", word_of(&self.scene.engine));
        pair("sabotage", word_of(&self.scene.sabotage));
        if let Some(bug) = &self.plant {
            pair("plant", bug.clone());
        }
        if self.cached_reads {
            arguments.push("--cached-reads".to_owned());
        }
        arguments
    }
}

/// What an option is called on the command line.
pub(crate) fn word_of<T: clap::ValueEnum>(value: &T) -> String {
    value.to_possible_value().map_or(String::new(), |value| value.get_name().into())
}

/// Words for a shell; none of ours has a quote in it.
fn quoted(words: &[String]) -> String {
    words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
}

/// From here on the log makes the mistake of this name.
#[cfg(feature = "mutants")]
fn plant(name: &str) -> Result<()> {
    let known = seawall::mutant::Mutant::ALL.iter().find(|bug| format!("{bug:?}") == name);
    seawall::mutant::set_everywhere(*known.ok_or_else(|| Error::NoBug(name.to_owned()))?);
    Ok(())
}

#[cfg(not(feature = "mutants"))]
fn plant(name: &str) -> Result<()> {
    Err(Error::NoBug(name.to_owned()))
}

/// Runs as the victim. The first failure ends it: nothing is acknowledged after it.
pub(crate) fn run(options: &VictimOptions) -> Result<()> {
    options.plant.as_deref().map_or(Ok(()), plant)?;
    let method = crate::directory_disk::method(&options.scene.method)?;
    // It writes a line by one call.
    let mut marks = io::stdout();
    if matches!(options.scene.engine, VictimKind::Library | VictimKind::Relaxed) {
        return library(options, marks);
    }
    let disk = DirectoryDisk::new(&options.dir, method, options.scene.sabotage);
    let mut log = Writer::open(disk, &LAYOUT)?;
    let mut start = log.durable();
    writeln!(marks, "opened {} {start}", options.life)?;
    let mut rng = Rng::new(mix(options.scene.seed ^ options.life));
    let mut ends: Vec<Lsn> = vec![start];
    for _ in 0..options.scene.transactions {
        let end = log.append(&transaction(options.scene.seed, options.life, start))?;
        if options.scene.sabotage == Sabotage::EarlyAck {
            writeln!(marks, "acked {end}")?;
        }
        // Some batches hold several transactions.
        if !rng.one_in(4) {
            let durable = log.commit()?;
            ends.push(durable);
            writeln!(marks, "acked {durable}")?;
        }
        if rng.one_in(12) {
            let trim = ends[rng.index(ends.len())];
            writeln!(marks, "trim {trim}")?;
            log.trim(trim);
        }
        if rng.one_in(3) {
            log.keep()?;
        }
        start = end;
    }
    if rng.coin() {
        log.close()?;
    }
    Ok(())
}

/// Commits that are in flight at the same time in the library.
const IN_FLIGHT_MAX: usize = 4;

fn library(options: &VictimOptions, mut marks: impl Write) -> Result<()> {
    let relaxed = options.scene.engine == VictimKind::Relaxed;
    // A relaxed commit that lies in one batch with a strict one is strict itself.
    let in_flight_max = if relaxed { 1 } else { IN_FLIGHT_MAX };
    let class = if relaxed { Durability::PowerLoss } else { Durability::ProcessCrash };
    let log_options = Options::default()
        .segment_bytes(LAYOUT.segment_bytes)
        .batch_bytes(16 << 10)
        .memory_bytes(256 << 10)
        .idle_mark(Duration::from_millis(1))
        // What relaxed commits write is what is recorded.
        .crash_memory_bytes(0)
        .method(MethodChoice::Named(options.scene.method.clone()))
        .durability(class);
    let log_options = if options.cached_reads { log_options.cached_reads() } else { log_options };
    let log = Log::open(&options.dir, log_options)?;
    let mut start = log.durable_lsn();
    writeln!(marks, "opened {} {start}", options.life)?;
    let mut rng = Rng::new(mix(options.scene.seed ^ options.life));
    let mut ends: Vec<Lsn> = vec![start];
    let mut in_flight: std::collections::VecDeque<(CommitFuture, bool)> = std::collections::VecDeque::new();
    for i in 0..options.scene.transactions {
        let records = transaction(options.scene.seed, options.life, start);
        let end = log.transaction(|tx| records.iter().try_for_each(|record| tx.append(record)))?;
        if end != end_of(start, &records) {
            return Err(Error::End { start, end });
        }
        let is_last = i + 1 == options.scene.transactions;
        let strict = !relaxed || is_last || rng.one_in(3);
        let level = if strict { class } else { Durability::ProcessCrash };
        in_flight.push_back((log.commit_async_as(end, level)?, strict));
        while in_flight.len() >= in_flight_max || (is_last && !in_flight.is_empty()) {
            let Some((commit, strict)) = in_flight.pop_front() else { break };
            let durable = commit.wait()?;
            if strict {
                ends.push(durable);
                writeln!(marks, "acked {durable}")?;
            }
        }
        if rng.one_in(12) {
            let trim = ends[rng.index(ends.len())];
            writeln!(marks, "trim {trim}")?;
            log.trim(trim)?;
        }
        if rng.one_in(10) {
            // Long enough for a mark.
            std::thread::sleep(Duration::from_millis(2));
        }
        start = end;
    }
    if rng.coin() {
        log.close()?;
    }
    Ok(())
}
