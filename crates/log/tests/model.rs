//! Tests random operation sequences against a model: the log behaves like a vector.
//!
//! Each run follows from one seed: appends, transactions, commits (of any class), reads, trims, closes, and drops without
//! a close, each followed by a reopening. A run that fails prints its seed; `SEAWALL_MODEL_SEED=N` repeats it alone, and
//! `SEAWALL_MODEL_RUNS=N` makes as many runs.

use seawall::{Durability, Log, Lsn, Options};

/// A vector of records with the LSNs at which they start, and where the durable part ends.
#[derive(Default)]
struct Model {
    records: Vec<(Lsn, Vec<u8>)>,
    appended: Lsn,
    durable: usize,
    first: Lsn,
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn options(seed: u64) -> Options {
    let block = [512, 1024, 2048, 4096][usize::try_from(seed % 4).expect("small")];
    Options::default().segment_bytes(64 << 10).batch_bytes(8 << 10).memory_bytes(64 << 10).block_bytes(block)
}

fn compare(log: &Log, model: &Model, exactly: bool) {
    let found: Vec<(Lsn, Vec<u8>)> = log
        .read(log.first_lsn())
        .expect("reads")
        .map(|record| record.expect("sound"))
        .map(|record| (record.lsn, record.payload.to_vec()))
        .collect();
    let expected: Vec<_> = model.records.iter().filter(|(lsn, _)| *lsn >= log.first_lsn()).cloned().collect();
    let durable = model.records[..model.durable].iter().filter(|(lsn, _)| *lsn >= log.first_lsn()).count();
    assert!(found.len() >= durable && expected.starts_with(&found));
    assert!(!exactly || found.len() == durable);
    assert_eq!(log.first_lsn(), model.first);
}

fn run(seed: u64) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let mut chance = Chance(seed);
    let mut model = Model::default();
    let mut log = Log::open(dir.path(), options(seed)).expect("opens");
    for step in 0..120 {
        match chance.below(12) {
            0..=4 => {
                let length = usize::try_from(chance.below(6000)).expect("small");
                let record = vec![u8::try_from(step & 0xFF).expect("a byte"); length];
                let end = log.append(&record).expect("appends");
                model.records.push((model.appended, record));
                model.appended = end;
            }
            5 => {
                log.commit(model.appended).expect("commits");
                model.durable = model.records.len();
            }
            6 => {
                // Durable or not by the class of the machine's rows; a later commit in full makes it so in any case.
                log.commit_as(model.appended, Durability::ProcessCrash).expect("commits");
                assert!(log.safe_lsn(Durability::ProcessCrash) >= model.appended);
            }
            7 => {
                let count = 1 + chance.below(30);
                let end = log.transaction::<seawall::Error>(|tx| {
                    (0..count).try_for_each(|i| {
                        let record = vec![9; usize::try_from(i * 11).expect("small")];
                        tx.append(&record)?;
                        let bytes = record.len() as u64 + 4;
                        model.records.push((model.appended, record));
                        model.appended = Lsn::new(model.appended.get() + bytes);
                        Ok(())
                    })
                });
                assert_eq!(end.expect("appends"), model.appended);
            }
            8 => compare(&log, &model, false),
            9 => {
                let at = usize::try_from(chance.below(model.durable as u64 + 1)).expect("small");
                let lsn = model.records[..model.durable].get(at).map_or(Lsn::ZERO, |(lsn, _)| *lsn);
                model.first = log.trim(lsn).expect("trims");
            }
            10 => {
                log.close().expect("closes");
                model.durable = model.records.len();
                log = Log::open(dir.path(), options(seed)).expect("opens");
                compare(&log, &model, true);
            }
            _ => {
                // The first LSN is durable with the next commit or mark, and so is everything before it.
                log.commit(model.appended).expect("commits");
                log.append_commit(b"").expect("commits");
                model.records.push((model.appended, Vec::new()));
                model.appended = log.appended_lsn();
                model.durable = model.records.len();
                drop(log);
                log = Log::open(dir.path(), options(seed)).expect("opens");
                compare(&log, &model, true);
            }
        }
    }
}

/// Names the seed of the run that did not end.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("repeat with SEAWALL_MODEL_SEED={} cargo test -p seawall --test model", self.0);
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text}")))
}

#[test]
fn the_log_is_a_vector() {
    let runs = number("SEAWALL_MODEL_RUNS").unwrap_or(24);
    let seeds = number("SEAWALL_MODEL_SEED").map_or(0..runs, |seed| seed..seed + 1);
    for seed in seeds {
        let named = Seed(seed);
        run(seed);
        drop(named);
    }
}
