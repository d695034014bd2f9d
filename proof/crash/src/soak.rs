//! Soak: writers, trims, followers, views and readers on one log, whose process is killed again and again, with memory,
//! descriptors and disk bounded.
//!
//! ```text
//!   parent                                     child, one a life
//!   views and readers during the writing       4 writers, 1 trimmer, 2 followers on one Log
//!   samples RSS, descriptors, directory ─────► acknowledgements go to a file, after each commit
//!   SIGKILL, verify, every record read ◄────── (killed)
//! ```
//!
//! Invariants, each checked in every life: `verify` finds no damage; every acknowledged record that was not trimmed is
//! there byte for byte; LSNs leave no gap, for followers and views too; the bounds of memory, descriptors and disk hold. A
//! killed process cannot show power loss; the other layers do.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use seawall::format::RECORD_HEADER_BYTES;
use seawall::sim::rng::{Rng, mix};
use seawall::{Error, Log, Lsn, Options, Record, View};
use seawall_sys::clock::monotonic_ns;

use crate::error::{Error as Found, Result};

/// Threads that commit, and threads that follow.
const WRITERS: u64 = 4;
const FOLLOWERS: u32 = 2;
/// Bytes of a segment, and what the trimmer keeps.
const SEGMENT_BYTES: u64 = 64 << 10;
const KEPT_BYTES: u64 = 128 << 10;
/// Acknowledgements that a life gets done before it may be killed.
const ACKS_MIN: usize = 200;
/// The longest time until a life is killed: a machine may be busy with other work.
const LIFE_MAX: Duration = Duration::from_mins(2);
/// How much longer a life may go on, in milliseconds.
const LONGER_MAX_MS: u64 = 300;
/// Entries of the file of acknowledgements.
const ENTRY_BYTES: usize = 32;
/// Stands for a follower's progress in place of a writer.
const FOLLOWED: u64 = u64::MAX;

/// Resident memory of the process with the log at most; its options and threads give a few tens of MiB.
const CHILD_RSS_BYTES_MAX: u64 = 96 << 20;
/// How much more resident memory the parent may have at the end than after its second life.
const PARENT_GROWTH_BYTES_MAX: u64 = 32 << 20;
/// Open descriptors of the process with the log at most.
const DESCRIPTORS_MAX: u64 = 128;
/// The log's directory at most.
const DIRECTORY_BYTES_MAX: u64 = 16 << 20;

/// How long to soak, and where.
#[derive(Clone, Debug, Args)]
pub(crate) struct SoakOptions {
    /// Ends after this many seconds, with the life that runs then
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Ends after this many lives if that comes first
    #[arg(long, default_value_t = u64::MAX)]
    lives: u64,
    /// Where the log goes; a folder of its own is made there and removed
    #[arg(long, value_name = "DIR", default_value = "target")]
    dir: PathBuf,
}

/// The options of a child.
#[derive(Clone, Debug, Args)]
pub(crate) struct Life {
    #[arg(long)]
    log: PathBuf,
    #[arg(long)]
    acks: PathBuf,
    #[arg(long = "life")]
    number: u64,
}

/// What a life broke.
fn found<T>(what: impl Into<String>) -> Result<T> {
    Err(Found::Soak(what.into()))
}

/// Binds the error of the log to the `operation` that it ended.
fn during(operation: &'static str) -> impl Fn(Error) -> Found + Copy {
    move |error| Found::Soak(format!("{operation}: {error}"))
}

/// A record's life, writer and number.
type Name = [u64; 3];

/// What the lives have come to.
#[derive(Debug, Default)]
struct Tally {
    lives: u64,
    acknowledged: u64,
    followed: u64,
    viewed: u64,
    first: u64,
    child_rss_bytes: u64,
    descriptors: u64,
    directory_bytes: u64,
    parent_rss_bytes: [u64; 2],
}

/// A record's bytes follow from its name, so that the judge need not keep them.
fn payload(name: Name) -> Vec<u8> {
    let [_, writer, number] = name;
    let mut bytes = name.map(u64::to_le_bytes).concat();
    let filler = usize::try_from((number * 7919 + writer * 31) % 900).unwrap_or_default();
    bytes.resize(bytes.len() + filler, number.to_le_bytes()[0]);
    bytes
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// Whether these are the bytes of some record.
fn is_payload(bytes: &[u8]) -> bool {
    matches!(words(bytes)[..], [life, writer, number, ..] if bytes == payload([life, writer, number]))
}

/// An entry of the file of acknowledgements: a record, and where it ends.
fn entry([life, writer, number]: Name, end: u64) -> Vec<u8> {
    [life, writer, number, end].map(u64::to_le_bytes).concat()
}

/// One process with the log, until it is killed: the parent takes an end for a finding.
pub(crate) fn live(life: &Life) -> Result<()> {
    crate::apart::end_with_parent()?;
    let log = Log::open(&life.log, Options::default().segment_bytes(SEGMENT_BYTES))?;
    let acks = File::options().append(true).create(true).open(&life.acks)?;
    std::thread::scope(|scope| {
        // The first that ends has found something, and ends the process: the others never do.
        let (end, ended) = std::sync::mpsc::channel();
        for writer in 0..WRITERS {
            let (log, acks, end) = (&log, &acks, end.clone());
            scope.spawn(move || {
                let Err(found) = write(log, acks, life.number, writer);
                end.send(found)
            });
        }
        for _ in 0..FOLLOWERS {
            let (log, acks, end) = (&log, &acks, end.clone());
            scope.spawn(move || {
                let Err(found) = follow(log, acks, life.number);
                end.send(found)
            });
        }
        let log = &log;
        scope.spawn(move || {
            let Err(found) = trim(log);
            end.send(found)
        });
        let found = ended.recv().expect("a thread that ends sends its finding");
        eprintln!("soak: a thread of life {} ended: {found}", life.number);
        std::process::exit(3)
    })
}

fn write(log: &Log, mut acks: &File, life: u64, writer: u64) -> Result<Infallible> {
    let mut number = 0;
    loop {
        let name = [life, writer, number];
        let end = log.append_commit(&payload(name)).map_err(during("a commit"))?.end;
        // One write of the system, after the commit: a kill leaves it whole or leaves it out.
        acks.write_all(&entry(name, end.get()))?;
        number += 1;
    }
}

/// Holds a record against the one before it.
fn next(before: &mut Option<Lsn>, record: &Record) -> Result<()> {
    if let Some(after) = before.filter(|end| *end != record.lsn) {
        return found(format!("a gap: {} after {after}", record.lsn));
    }
    if !is_payload(&record.payload) {
        return found(format!("the record at {} is none that was written", record.lsn));
    }
    *before = Some(record.end);
    Ok(())
}

fn follow(log: &Log, mut acks: &File, life: u64) -> Result<Infallible> {
    let (mut from, mut seen) = (log.first_lsn(), 0_u64);
    loop {
        let mut before = None;
        let trimmed = match log.follow(from) {
            Ok(mut follower) => loop {
                match follower.next_record() {
                    Ok(Some(record)) => {
                        next(&mut before, &record)?;
                        seen += 1;
                        if seen.is_multiple_of(64) {
                            acks.write_all(&entry([life, FOLLOWED, 64], 0))?;
                        }
                    }
                    Ok(None) => return found("the log was closed"),
                    Err(error) => break error,
                }
            },
            Err(error) => error,
        };
        // The trimmer may overtake it; anything else is a finding.
        match trimmed {
            Error::Trimmed { first, .. } => from = first,
            other => return Err(during("a follower")(other)),
        }
    }
}

fn trim(log: &Log) -> Result<Infallible> {
    loop {
        let keep = log.durable_lsn().get().saturating_sub(KEPT_BYTES);
        // Any position may be named: records before it are forgotten.
        log.trim(Lsn::new(keep)).map_err(during("a trim"))?;
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Soaks; what did not hold is an error.
pub(crate) fn run(options: &SoakOptions, seed: u64) -> Result<bool> {
    crate::interrupt::listen()?;
    std::fs::create_dir_all(&options.dir)?;
    let dir = tempfile::Builder::new().prefix("seawall-soak-").tempdir_in(&options.dir)?;
    let mut rng = Rng::new(mix(seed));
    let (mut tally, mut acks) = (Tally::default(), Acks::default());
    let until_ns = monotonic_ns().saturating_add(options.seconds.saturating_mul(1_000_000_000));
    while tally.lives < options.lives && (tally.lives < 3 || monotonic_ns() < until_ns) {
        if crate::interrupt::requested() {
            return Err(Found::Interrupted);
        }
        let life = tally.lives;
        one_life(dir.path(), life, &mut rng, &mut tally)
            .and_then(|()| judge(dir.path(), &mut acks, &mut tally))
            .map_err(|finding| Found::Soak(format!("life {life}: {finding}")))?;
        tally.lives += 1;
        let rss = rss_bytes(std::process::id());
        if tally.lives == 2 {
            tally.parent_rss_bytes[0] = rss;
        }
        tally.parent_rss_bytes[1] = rss;
    }
    println!("{}", line(&tally));
    held(&tally)?;
    Ok(true)
}

fn line(tally: &Tally) -> String {
    let mib = |bytes: u64| bytes >> 20;
    format!(
        "soak: {} lives killed, {} commits acknowledged, {} records followed, {} read by views, trimmed to {}; at most {} MiB resident, {} \
         descriptors, {} MiB on disk; parent {} -> {} MiB",
        tally.lives,
        tally.acknowledged,
        tally.followed,
        tally.viewed,
        tally.first,
        mib(tally.child_rss_bytes),
        tally.descriptors,
        mib(tally.directory_bytes),
        mib(tally.parent_rss_bytes[0]),
        mib(tally.parent_rss_bytes[1])
    )
}

fn held(tally: &Tally) -> Result<()> {
    let growth = tally.parent_rss_bytes[1].saturating_sub(tally.parent_rss_bytes[0]);
    for (what, used, bound) in [
        ("resident bytes of the log's process", tally.child_rss_bytes, CHILD_RSS_BYTES_MAX),
        ("more resident bytes of the reading process", growth, PARENT_GROWTH_BYTES_MAX),
        ("descriptors of the log's process", tally.descriptors, DESCRIPTORS_MAX),
        ("bytes of the directory", tally.directory_bytes, DIRECTORY_BYTES_MAX),
    ] {
        if used > bound {
            return found(format!("{used} {what}, more than {bound}"));
        }
    }
    for (what, count) in [
        ("commits were acknowledged", tally.acknowledged),
        ("records were followed", tally.followed),
        ("records were read by views", tally.viewed),
        ("bytes were trimmed", tally.first),
        ("samples of memory were taken", tally.child_rss_bytes),
    ] {
        if count == 0 {
            return found(format!("no {what}: nothing was tested"));
        }
    }
    Ok(())
}

/// A child that is killed when it is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn one_life(dir: &Path, life: u64, rng: &mut Rng, tally: &mut Tally) -> Result<()> {
    let (log, acks) = (dir.join("log"), dir.join("acks"));
    std::fs::write(&acks, "")?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("soak-life")
        .arg("--log")
        .arg(&log)
        .arg("--acks")
        .arg(&acks)
        .args(["--life", &life.to_string()]);
    let mut child = Killed(command.stdin(Stdio::null()).spawn()?);
    let started_ns = monotonic_ns();
    let longer_ns = rng.below(LONGER_MAX_MS) * 1_000_000;
    let mut kill_at_ns = None;
    loop {
        sample(child.0.id(), &log, tally);
        tally.viewed += look(&log)?;
        if let Some(status) = child.0.try_wait()? {
            return found(format!("the process ended by itself with {status}"));
        }
        let now_ns = monotonic_ns();
        let done = std::fs::metadata(&acks)?.len() / ENTRY_BYTES as u64;
        if kill_at_ns.is_none() && done >= ACKS_MIN as u64 {
            kill_at_ns = Some(now_ns + longer_ns);
        }
        if kill_at_ns.is_some_and(|at| now_ns >= at) {
            break;
        }
        if Duration::from_nanos(now_ns - started_ns) > LIFE_MAX {
            return found(format!("{done} acknowledgements in {} s", LIFE_MAX.as_secs()));
        }
    }
    child.0.kill()?;
    child.0.wait()?;
    Ok(())
}

/// Reads a view while there is a writer; returns the number of records.
fn look(log: &Path) -> Result<u64> {
    static TURN: AtomicU64 = AtomicU64::new(0);
    let failed = during("a view during the writing");
    let view = match View::open(log) {
        Ok(view) => view,
        // The first life has not made the log yet.
        Err(Error::NotALog { .. }) => return Ok(0),
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(failed(error)),
    };
    // From the beginning and from the end in turn.
    let from = if TURN.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
        view.first_lsn()
    } else {
        view.end_lsn()
    };
    let (mut before, mut records) = (None, 0);
    let read = match view.read(from) {
        Ok(read) => read,
        Err(Error::Trimmed { .. }) => return Ok(0),
        Err(error) => return Err(failed(error)),
    };
    for record in read {
        match record {
            Ok(record) => next(&mut before, &record)?,
            Err(Error::Trimmed { .. }) => break,
            Err(error) => return Err(failed(error)),
        }
        records += 1;
    }
    Ok(records)
}

/// What was acknowledged and not trimmed: the end of each record, and its name.
type Acks = HashMap<u64, Name>;

/// Judges what a killed life has left.
fn judge(dir: &Path, owed: &mut Acks, tally: &mut Tally) -> Result<()> {
    let log = dir.join("log");
    let report = seawall::verify(&log).map_err(during("verify"))?;
    if let Some(damage) = report.damage.first() {
        return found(format!("verify: {damage}"));
    }
    let entries = std::fs::read(dir.join("acks"))?;
    for entry in words(&entries).as_chunks::<4>().0 {
        let [life, writer, number, end] = *entry;
        if writer == FOLLOWED {
            tally.followed += number;
        } else {
            tally.acknowledged += 1;
            owed.insert(end, [life, writer, number]);
        }
    }
    let failed = during("a view after the kill");
    let view = View::open(&log).map_err(failed)?;
    let first = view.first_lsn();
    tally.first = first.get();
    // A trim may name a position inside of a record, which is forgotten then.
    owed.retain(|end, name| {
        let bytes = RECORD_HEADER_BYTES + payload(*name).len();
        end.saturating_sub(bytes as u64) >= first.get()
    });
    let (mut before, mut missing) = (None, owed.len());
    for record in view.read(first).map_err(failed)? {
        let record = record.map_err(failed)?;
        next(&mut before, &record)?;
        if let Some(name) = owed.get(&record.end.get()) {
            if record.payload[..] != payload(*name)[..] {
                let [life, writer, number] = name;
                return found(format!("writer {writer}'s record {number} of life {life} is another one"));
            }
            missing -= 1;
        }
    }
    if missing > 0 {
        return found(format!("{missing} acknowledged records are missing"));
    }
    Ok(())
}

/// Keeps the most that was used.
fn sample(pid: u32, log: &Path, tally: &mut Tally) {
    tally.child_rss_bytes = tally.child_rss_bytes.max(rss_bytes(pid));
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    tally.descriptors = tally.descriptors.max(descriptors as u64);
    let files = std::fs::read_dir(log).into_iter().flatten().flatten();
    let bytes = files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum();
    tally.directory_bytes = tally.directory_bytes.max(bytes);
}

/// Resident memory of a process; 0 if it has none any more.
fn rss_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok())
        .map_or(0, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Tally {
        Tally {
            lives: 3,
            acknowledged: 1,
            followed: 1,
            viewed: 1,
            first: 1,
            child_rss_bytes: 1,
            descriptors: 1,
            directory_bytes: 1,
            parent_rss_bytes: [1, 1],
        }
    }

    #[test]
    fn each_bound_is_asserted_and_what_was_not_tested_is_no_success() {
        assert!(held(&good()).is_ok());
        for bad in [
            Tally { child_rss_bytes: CHILD_RSS_BYTES_MAX + 1, ..good() },
            Tally { parent_rss_bytes: [1, PARENT_GROWTH_BYTES_MAX + 2], ..good() },
            Tally { descriptors: DESCRIPTORS_MAX + 1, ..good() },
            Tally { directory_bytes: DIRECTORY_BYTES_MAX + 1, ..good() },
            Tally { acknowledged: 0, ..good() },
            Tally { followed: 0, ..good() },
            Tally { viewed: 0, ..good() },
            Tally { first: 0, ..good() },
            Tally { child_rss_bytes: 0, ..good() },
        ] {
            assert!(held(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_record_that_is_lost_changed_or_behind_a_gap_is_found() {
        // Next to the test program, because the system's temporary folder may lie in memory.
        let here = std::env::current_exe().expect("is known");
        let dir = tempfile::tempdir_in(here.parent().expect("is in one")).expect("a folder");
        let log = Log::open(dir.path().join("log"), Options::default().segment_bytes(SEGMENT_BYTES))
            .expect("opens");
        let mut acks = Vec::new();
        for number in 0..20 {
            let end = log.append_commit(&payload([0, 1, number])).expect("commits").end;
            acks.extend(entry([0, 1, number], end.get()));
        }
        log.close().expect("closes");
        let judged = |acks: &[u8]| {
            std::fs::write(dir.path().join("acks"), acks).expect("written");
            judge(dir.path(), &mut Acks::default(), &mut Tally::default())
        };
        assert!(judged(&acks).is_ok());
        let found = |acks: &[u8]| judged(acks).expect_err("is found").to_string();
        let lost = [&acks[..], &entry([0, 1, 20], 1 << 30)].concat();
        assert_eq!(found(&lost), "1 acknowledged records are missing");
        let mut other = acks.clone();
        other[16] ^= 1;
        assert_eq!(found(&other), "writer 1's record 1 of life 0 is another one");
        assert!(is_payload(&payload([3, 2, 1 << 40])) && !is_payload(&payload([3, 2, 5])[..10]));
        let mut changed = payload([0, 0, 7]);
        changed[8] ^= 1;
        assert!(!is_payload(&changed));
    }
}
