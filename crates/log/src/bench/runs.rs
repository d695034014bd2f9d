//! Runs a workload in alternating slices with its floor, with waiting or pipelined committers.
//!
//! [`Bench::interleave`] alternates slices of both; [`Bench::waiting`] runs threads that wait for each commit,
//! [`Bench::outstanding`] one thread that keeps several commits outstanding and waits for the oldest only when it has
//! enough of them.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use hdrhistogram::Histogram;
use seawall_sys::clock::monotonic_ns;
use seawall_sys::starting_line::{CallOffOnPanic, StartingLine, spawn_scoped};
use seawall_sys::thread::Accounts;

use super::Round;
use super::floor::Floor;
use super::instruments::{Scratch, UNTIMED, cpu_seconds, histogram, seconds, summary};
use crate::commit::stats::Stats;
use crate::error::{Error, Result, from_system};
use crate::log::{Commit, Log};
use crate::lsn::Lsn;
use crate::options::{MethodChoice, Options};

/// Where, how much, and by which commit method.
pub(super) struct Bench<'a> {
    pub(super) dir: &'a Path,
    pub(super) percent: u64,
    pub(super) method: &'static str,
    /// Nothing is trimmed, so that every segment must be filled anew.
    pub(super) grows: bool,
}

impl Bench<'_> {
    /// The same with a log that grows.
    pub(super) fn growing(&self) -> Self {
        Self { grows: true, ..*self }
    }

    /// Trims what is durable, as a user with checkpoints does, unless the log is to grow.
    pub(super) fn trim(&self, log: &Log) -> Result<()> {
        if !self.grows {
            log.trim(log.durable_lsn())?;
        }
        Ok(())
    }

    /// What the log's own statistics add to a round that began with `before`.
    pub(super) fn counted(round: Round, before: &Stats, after: &Stats) -> Round {
        let batches = (after.batches - before.batches).max(1) as f64;
        Round {
            records_per_batch: (after.records - before.records) as f64 / batches,
            segments_filled: after.segments_filled - before.segments_filled,
            ..round
        }
    }

    pub(super) fn count(&self, usual: u64) -> u64 {
        (usual * self.percent / 100).max(64)
    }

    /// A plain loop of `bytes`-sized durable writes.
    pub(super) fn floor(&self, bytes: usize) -> Result<Floor> {
        Floor::new(self.dir, self.method, bytes)
    }

    /// Takes slices of the bare loop, of the floor and of `work` in turns, which does `per_slice` commits and says how many
    /// nanoseconds they took, behind `untimed` others, and takes the median slice of each, so that a busy moment hits all.
    pub(super) fn interleave(
        &self,
        floor: &mut Floor,
        (slices, floor_writes, per_slice, untimed): (u64, u64, u64, u64),
        mut work: impl FnMut(&mut Histogram<u64>) -> Result<u64>,
    ) -> Result<Round> {
        let slices = (slices * self.percent / 100).max(3);
        let (mut bare, mut floors, mut logs, mut times) = (Vec::new(), Vec::new(), Vec::new(), histogram());
        let accounts = Accounts::open();
        let now = || [cpu_seconds(), accounts.wait_ns().map(seconds), Some(seconds(monotonic_ns()))];
        // Of the bare loop, the floor and the log: CPU time of the process, waiting of this thread and time, in seconds;
        // not a number where one is unknown.
        let mut sums = [[0.0; 3]; 3];
        for slice in 0..slices {
            // Each of them comes first, second and last equally often.
            for who in (0..3).map(|turn| usize::try_from((slice + turn) % 3).unwrap_or(0)) {
                let before = now();
                match who {
                    0 => bare.push(floor_writes as f64 / seconds(floor.run(floor_writes, true)?)),
                    1 => floors.push(floor_writes as f64 / seconds(floor.run(floor_writes, false)?)),
                    _ => logs.push(per_slice as f64 / seconds(work(&mut times)?)),
                }
                for (sum, (from, to)) in sums[who].iter_mut().zip(before.into_iter().zip(now())) {
                    *sum += to.zip(from).map_or(f64::NAN, |(to, from)| to - from);
                }
            }
        }
        let middle = |mut of: Vec<f64>| {
            of.sort_by(f64::total_cmp);
            of.get(of.len() / 2).copied().unwrap_or(0.0)
        };
        let per_million = |cpu: f64, each: u64| {
            Some(cpu / (each * slices) as f64 * 1e6).filter(|seconds| seconds.is_finite())
        };
        let [_, [floor_cpu, ..], [log_cpu, ..]] = sums;
        let [_, floor_cpu_wait, cpu_wait] =
            sums.map(|[_, waited, took]| Some(waited / took).filter(|part| part.is_finite()));
        Ok(Round {
            floor: middle(floors),
            bare: middle(bare),
            log: middle(logs),
            floor_ns: summary(&floor.times),
            log_ns: summary(&times),
            floor_cpu_s_per_million: per_million(floor_cpu, UNTIMED + floor_writes),
            cpu_s_per_million: per_million(log_cpu, untimed + per_slice),
            floor_cpu_wait,
            cpu_wait,
            ..Round::default()
        })
    }

    /// Writes through some segments and trims a few times in each, as the workloads do, so that what follows finds as many
    /// spares as it goes through and runs on recycled segments only.
    pub(super) fn warm(log: &Log) -> Result<()> {
        const RECORD_BYTES: usize = 512 << 10;
        /// Not when a segment has just been filled: the next one must be started before anything can be recycled.
        const TRIM_EVERY: u64 = 25;
        let record = vec![0x5A; RECORD_BYTES];
        for i in 1..=3 * Options::default().segment_bytes / RECORD_BYTES as u64 {
            log.append_commit(&record)?;
            if i % TRIM_EVERY == 0 {
                log.trim(log.durable_lsn())?;
            }
        }
        rest(log);
        Ok(())
    }

    pub(super) fn log(&self, scratch: &Scratch, options: Options) -> Result<Log> {
        let named = MethodChoice::Named(self.method.to_owned());
        // Where the directory lies was checked for the first log of the benchmark.
        let log = Log::open(scratch.path(), options.method(named).network_file_system(true))?;
        rest(&log);
        Ok(log)
    }

    /// `threads` writers that each wait for every commit.
    pub(super) fn waiting(&self, threads: u64, bytes: usize, slices: u64, per_thread: u64) -> Result<Round> {
        let mut floor = self.floor(bytes.next_multiple_of(4096))?;
        let scratch = Scratch::new(self.dir, "log")?;
        let log = self.log(&scratch, Options::default())?;
        Self::warm(&log)?;
        let record = vec![0x5A; bytes];
        let before = log.stats();
        // A thread that starts late would be counted as a slow log.
        let line = || StartingLine::new(usize::try_from(threads).unwrap_or(1));
        // One for each thread and for all slices: to record into fresh memory would be timed with the commits.
        let mut own: Vec<Histogram<u64>> = (0..threads).map(|_| histogram()).collect();
        let work = |start: &StartingLine, times: &mut Histogram<u64>| -> Result<(u64, u64)> {
            let _guard = CallOffOnPanic([start]);
            times.reset();
            let mut untimed = (0..UNTIMED).map(|_| log.append_commit(&record));
            if let Some(error) = untimed.find_map(std::result::Result::err) {
                start.call_off();
                return Err(error);
            }
            if !start.wait() {
                return Ok((u64::MAX, 0));
            }
            let began = monotonic_ns();
            let mut last = began;
            for _ in 0..per_thread {
                log.append_commit(&record)?;
                let now = monotonic_ns();
                times.saturating_record(now - last);
                last = now;
            }
            Ok((began, last))
        };
        let work = &work;
        let round =
            self.interleave(&mut floor, (slices, 100, per_thread * threads, UNTIMED * threads), |times| {
                self.trim(&log)?;
                let (mut first, mut last) = (u64::MAX, 0);
                let start = &line();
                std::thread::scope(|scope| {
                    let mut own = own.iter_mut();
                    let mine = own.next();
                    let mut others = Vec::new();
                    for times in own {
                        let other = spawn_scoped(scope, "a committer", move || work(start, times));
                        others.push(other.map_err(|error| {
                            start.call_off();
                            from_system(&error)
                        })?);
                    }
                    let mine = mine.map(|times| work(start, times));
                    let joined = others.into_iter().map(|other| other.join().unwrap_or(Err(Error::Closed)));
                    mine.into_iter().chain(joined).try_for_each(|one| {
                        let (began, ended) = one?;
                        (first, last) = (first.min(began), last.max(ended));
                        Ok(())
                    })
                })?;
                for one in &own {
                    // All have the same bounds.
                    let _ = times.add(one);
                }
                Ok(last - first)
            })?;
        Ok(Self::counted(round, &before, &log.stats()))
    }

    /// One thread with `outstanding` asynchronous commits of 1 KiB, one of 16 of them timed, which holds on to the oldest
    /// as `until` does.
    pub(super) fn outstanding(
        &self,
        (floor_bytes, outstanding): (usize, usize),
        (slices, per_slice): (u64, u64),
        until: fn(Commit) -> Result<Lsn>,
    ) -> Result<Round> {
        let mut floor = self.floor(floor_bytes)?;
        let scratch = Scratch::new(self.dir, "log")?;
        let log = self.log(&scratch, Options::default())?;
        Self::warm(&log)?;
        let record = [0x5A; 1024];
        let before = log.stats();
        // As many bytes in a slice as the log has, of large writes.
        let floor_writes = if floor_bytes > 64 << 10 { per_slice * 1024 / floor_bytes as u64 } else { 100 };
        let round = self.interleave(&mut floor, (slices, floor_writes, per_slice, UNTIMED), |times| {
            self.trim(&log)?;
            for _ in 0..UNTIMED {
                log.append_commit(&record)?;
            }
            let began = monotonic_ns();
            let mut pending: VecDeque<(Option<u64>, Commit)> = VecDeque::with_capacity(outstanding);
            for i in 0..per_slice {
                if i % 4096 == 0 {
                    self.trim(&log)?;
                }
                if pending.len() == outstanding
                    && let Some((since, oldest)) = pending.pop_front()
                {
                    until(oldest)?;
                    let now = monotonic_ns();
                    let mut done = |since: Option<u64>| {
                        if let Some(since) = since {
                            times.saturating_record(now - since);
                        }
                    };
                    done(since);
                    while let Some((since, _)) = pending.pop_front_if(|(_, commit)| commit.is_durable()) {
                        done(since);
                    }
                }
                let lsn = log.append(&record)?;
                // Reading the clock takes as long as appending does.
                let since = (i % 16 == 0).then(monotonic_ns);
                pending.push_back((since, log.commit_async(lsn)));
            }
            pending.into_iter().try_for_each(|(_, commit)| commit.wait().map(drop))?;
            Ok(monotonic_ns() - began)
        })?;
        Ok(Self::counted(round, &before, &log.stats()))
    }
}

/// Waits until a spare is prepared: that happens in the background and must not share the disk with the measurement.
fn rest(log: &Log) {
    while !log.is_prepared() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Polls a commit until it is ready, as an executor of one task does: the thread sleeps in between.
pub(super) fn polled(commit: Commit) -> Result<Lsn> {
    struct Unpark(std::thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut commit = std::pin::pin!(commit);
    loop {
        match commit.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}
