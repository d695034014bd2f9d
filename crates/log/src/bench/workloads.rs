//! Defines the benchmark's workloads, one table row and one function each.
//!
//! [`WORKLOADS`] is the table. Goals are ratios to the floor of the same machine, or absolute figures where there is
//! no floor.

use std::sync::atomic::{AtomicBool, Ordering};

use seawall_sys::clock::{monotonic_ns, sleep_until};
use seawall_sys::starting_line::spawn_scoped;

use super::floor::{copy_plainly, forget, read_plainly};
use super::instruments::{Scratch, UNTIMED, histogram, seconds, summary};
use super::runs::{Bench, polled};
use super::{Goal, Round};
use crate::error::{Error, Result, from_system};
use crate::log::{Commit, Log};
use crate::lsn::Lsn;
use crate::options::{MethodChoice, Options};

/// One workload.
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
    pub(super) goals: &'static [Goal],
    pub(super) run: fn(&Bench<'_>) -> Result<Round>,
}

/// All of them, in the order of their numbers.
pub(super) const WORKLOADS: [Workload; 14] = [
    Workload {
        name: "W1",
        what: "1 writer, 16 KiB, each committed",
        unit: "commits/s",
        goals: &[Goal::Ratio(0.95), Goal::P999OfFloor],
        run: w1,
    },
    Workload {
        name: "W1g",
        what: "the same, nothing ever trimmed",
        unit: "commits/s",
        goals: &[],
        run: |bench| w1(&bench.growing()),
    },
    Workload {
        name: "W2",
        what: "1 writer, 256 B, each committed",
        unit: "commits/s",
        goals: &[Goal::Ratio(0.95)],
        run: w2,
    },
    Workload {
        name: "W3",
        what: "16 threads, 256 B, each waits",
        unit: "commits/s",
        goals: &[Goal::Ratio(6.5)],
        run: w3,
    },
    Workload {
        name: "W4",
        what: "64 threads, 1 KiB, each waits",
        unit: "commits/s",
        goals: &[Goal::Ratio(11.0), Goal::CpuSPerMillion(9.0)],
        run: w4,
    },
    Workload {
        name: "W4a",
        what: "1 thread, 64 outstanding, 1 KiB",
        unit: "commits/s",
        goals: &[Goal::Ratio(30.0)],
        run: w4a,
    },
    Workload {
        name: "W4p",
        what: "the same, by polled futures",
        unit: "commits/s",
        goals: &[Goal::Ratio(30.0)],
        run: w4p,
    },
    Workload {
        name: "W4b",
        what: "1 thread, 512 outstanding, 1 KiB",
        unit: "bytes/s",
        goals: &[Goal::Ratio(0.85)],
        run: w4b,
    },
    Workload {
        name: "W5",
        what: "transactions of 100 x 1 KiB",
        unit: "commits/s",
        goals: &[Goal::Ratio(0.95)],
        run: w5,
    },
    Workload {
        name: "W5g",
        what: "the same, nothing ever trimmed",
        unit: "commits/s",
        goals: &[],
        run: |bench| w5(&bench.growing()),
    },
    Workload {
        name: "W6",
        what: "append only, 256 B, into memory",
        unit: "appends/s",
        goals: &[Goal::Rate(5e6), Goal::P99Ns(200)],
        run: w6,
    },
    Workload {
        name: "W7",
        what: "open, read back, page cache",
        unit: "bytes/s",
        goals: &[Goal::Rate(4e9)],
        run: |bench| read_back(bench, false),
    },
    Workload {
        name: "W7c",
        what: "open, read back, cold cache",
        unit: "bytes/s",
        goals: &[Goal::Ratio(0.9)],
        run: |bench| read_back(bench, true),
    },
    Workload {
        name: "W8",
        what: "paced appends while commits run",
        unit: "appends/s",
        goals: &[Goal::P999Ns(20_000)],
        run: w8,
    },
];

fn w1(bench: &Bench<'_>) -> Result<Round> {
    bench.waiting(1, 16 << 10, 150, 100)
}

fn w2(bench: &Bench<'_>) -> Result<Round> {
    bench.waiting(1, 256, 60, 100)
}

fn w3(bench: &Bench<'_>) -> Result<Round> {
    bench.waiting(16, 256, 30, 250)
}

fn w4(bench: &Bench<'_>) -> Result<Round> {
    bench.waiting(64, 1024, 30, 100)
}

fn w4a(bench: &Bench<'_>) -> Result<Round> {
    bench.outstanding((4096, 64), (60, 4000), Commit::wait)
}

fn w4p(bench: &Bench<'_>) -> Result<Round> {
    bench.outstanding((4096, 64), (60, 4000), polled)
}

fn w4b(bench: &Bench<'_>) -> Result<Round> {
    let round = bench.outstanding((1 << 20, 512), (40, 32768), Commit::wait)?;
    let (floor, bare) = (round.floor * f64::from(1 << 20), round.bare * f64::from(1 << 20));
    Ok(Round { floor, bare, log: round.log * 1024.0, ..round })
}

fn w5(bench: &Bench<'_>) -> Result<Round> {
    let mut floor = bench.floor(100 << 10)?;
    let scratch = Scratch::new(bench.dir, "log")?;
    let log = bench.log(&scratch, Options::default())?;
    Bench::warm(&log)?;
    let before = log.stats();
    let record = [0x5A; 1024];
    let transact = || {
        let end = log.transaction::<Error>(|tx| (0..100).try_for_each(|_| tx.append(&record)))?;
        log.commit(end)
    };
    let round = bench.interleave(&mut floor, (60, 25, 25, UNTIMED), |times| {
        bench.trim(&log)?;
        for _ in 0..UNTIMED {
            transact()?;
        }
        let began = monotonic_ns();
        let mut last = began;
        for _ in 0..25 {
            transact()?;
            let now = monotonic_ns();
            times.saturating_record(now - last);
            last = now;
        }
        Ok(last - began)
    })?;
    Ok(Bench::counted(round, &before, &log.stats()))
}

fn w6(bench: &Bench<'_>) -> Result<Round> {
    let record = [0x5A; 256];
    let count = bench.count(500_000);
    let mut round = Round::default();
    // Once for the rate, once with a clock around every append.
    for timed in [false, true] {
        let scratch = Scratch::new(bench.dir, "log")?;
        let memory = Options::default().memory_bytes(160 << 20).segment_bytes(160 << 20);
        let log = bench.log(&scratch, memory)?;
        let (mut times, mut floor_times) = (histogram(), histogram());
        let plain = copy_plainly(&record, count, timed.then_some(&mut floor_times));
        let began = monotonic_ns();
        if timed {
            round.floor_ns = summary(&floor_times);
            let mut last = began;
            for _ in 0..count {
                log.append(&record)?;
                let now = monotonic_ns();
                times.saturating_record(now - last);
                last = now;
            }
            round.log_ns = summary(&times);
        } else {
            round.floor = count as f64 / seconds(plain);
            for _ in 0..count {
                log.append(&record)?;
            }
            round.log = count as f64 / seconds(monotonic_ns() - began);
        }
    }
    Ok(round)
}

/// Writes a log of 1 GiB, reads its files plainly, then opens it and reads its records.
fn read_back(bench: &Bench<'_>, cold: bool) -> Result<Round> {
    let scratch = Scratch::new(bench.dir, "log")?;
    let records = bench.count(1 << 20);
    {
        let log = bench.log(&scratch, Options::default())?;
        let mut lsn = Lsn::ZERO;
        for i in 0..records {
            lsn = log.append(&[u8::try_from(i & 0xFF).unwrap_or(0); 1024])?;
        }
        log.commit(lsn)?;
        log.close()?;
    }
    // The page cache has the files after the first plain read, or drops them before each.
    let mut floor = 0.0;
    for _ in 0..2 {
        if cold {
            forget(scratch.path())?;
        }
        let began = monotonic_ns();
        let bytes = read_plainly(scratch.path())?;
        floor = bytes as f64 / seconds(monotonic_ns() - began);
    }
    if cold {
        forget(scratch.path())?;
    }
    let began = monotonic_ns();
    // By the method that it was made with: what is measured is opening, not the choice of a method.
    let named = MethodChoice::Named(bench.method.to_owned());
    let log = Log::open(scratch.path(), Options::default().method(named).network_file_system(true))?;
    let (mut count, mut bytes) = (0_u64, 0_u64);
    let mut reader = log.read(Lsn::ZERO)?;
    while let Some(record) = reader.next_record()? {
        count += 1;
        bytes += record.payload.len() as u64;
    }
    let took = monotonic_ns() - began;
    if count != records {
        return Err(Error::InvalidOption {
            option: "W7",
            reason: format!("{count} of {records} records came back"),
        });
    }
    Ok(Round { floor, log: bytes as f64 / seconds(took), ..Round::default() })
}

fn w8(bench: &Bench<'_>) -> Result<Round> {
    const PER_SECOND: u64 = 200_000;
    let scratch = Scratch::new(bench.dir, "log")?;
    let log = bench.log(&scratch, Options::default().segment_bytes(160 << 20))?;
    let stop = AtomicBool::new(false);
    let count = bench.count(200_000);
    let record = [0x5A; 256];
    let mut times = histogram();
    let took = std::thread::scope(|scope| -> Result<u64> {
        let committer = spawn_scoped(scope, "the committer", || -> Result<u64> {
            let mut commits = 0;
            while !stop.load(Ordering::Relaxed) {
                log.append_commit(&record)?;
                commits += 1;
            }
            Ok(commits)
        })
        .map_err(|error| from_system(&error))?;
        let began = monotonic_ns();
        let paced = (0..count).try_for_each(|i| -> Result<()> {
            // Bursts of ten, so that the pace does not hang on the resolution of the timer.
            if i % 10 == 0 {
                sleep_until(began + i * 1_000_000_000 / PER_SECOND);
            }
            let before = monotonic_ns();
            log.append(&record)?;
            times.saturating_record(monotonic_ns() - before);
            Ok(())
        });
        let took = monotonic_ns() - began;
        stop.store(true, Ordering::Relaxed);
        committer.join().unwrap_or(Err(Error::Closed))?;
        paced.map(|()| took)
    })?;
    Ok(Round { log: count as f64 / seconds(took), log_ns: summary(&times), ..Round::default() })
}
