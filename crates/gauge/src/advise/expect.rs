//! Estimates each product's commit rate under each setting, as a range with its basis.
//!
//! ```text
//!   one client       most   1 / (fewest syncs x p50)
//!                    least  1 / (most syncs x p90 x metadata + own work)
//!   together         most   all in one group: clients x the most of one
//!                    least  each waits for the group in flight, then for its own:
//!                           clients / (2 x (most syncs x p90 x metadata) + clients x own work)
//! ```
//!
//! * syncs: how often the product waits for the disk in one commit, as its calls were seen or its source says.
//! * p50, p90: of the row that makes the same calls.
//! * metadata: 2 where the product writes into a file that grows or is unwritten and the run did not, because each sync
//!   then commits metadata of the file system as well; otherwise 1.
//! * own work: the product's own time for a small transaction, where this project has measured it
//!   (`cargo xtask observe`); zero where it has not, and that is said.
//!
//! Invariants: pure; only rows that outlive a power cut and are not contradicted give a range; every range names its
//! row, its figures and what differs between the run and the product.

use crate::figures::{bytes, duration_ns, plural, rate, significant};
use crate::rank::{Ranked, Ranking, Standing};
use seawall_sys::durability::FileState;
use serde::Serialize;

/// How many clients commit together in the second range.
pub const CLIENTS: u32 = 16;

/// Commits a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    /// At least.
    pub least_per_s: f64,
    /// At most.
    pub most_per_s: f64,
}

impl Range {
    /// In words: `4,200 to 9,800`.
    #[must_use]
    pub fn words(&self) -> String {
        format!("{} to {}", rate(self.least_per_s), rate(self.most_per_s))
    }
}

/// What to expect of one setting of one product.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Expectation {
    /// The product.
    pub product: &'static str,
    /// The setting, in words.
    pub setting: &'static str,
    /// The row that its syncs go through.
    pub method: String,
    /// Syncs that one commit waits for: the fewest and the most.
    pub syncs: [u32; 2],
    /// One client; `None` where commits do not wait for the disk.
    pub one_client: Option<Range>,
    /// [`CLIENTS`] clients; `None` where the product does not commit in groups.
    pub together: Option<Range>,
    /// What the ranges stand on, in sentences.
    pub basis: String,
}

/// How a product commits under a setting.
struct Demand {
    product: &'static str,
    setting: &'static str,
    /// Rows that make the same calls, on whichever system; the first that was measured counts.
    rows: &'static [&'static str],
    syncs: [u32; 2],
    /// What it writes into.
    state: FileState,
    /// What a small commit writes, bytes; `None` where that varies.
    commit_bytes: Option<u64>,
    groups: bool,
    /// The product's own work for a small transaction, nanoseconds, where it was measured.
    own_ns: Option<u64>,
    /// What else to know.
    note: &'static str,
}

const FDATASYNC: &[&str] = &["buffered+fdatasync", "buffered+flush", "buffered+fullfsync"];
const FSYNC: &[&str] = &["buffered+fsync", "buffered+flush", "buffered+fullfsync"];
/// Of PostgreSQL 15 and SQLite 3.40 on this project's virtual machine, rounded up: results/2026-11-22-firecracker-ext4.
const POSTGRESQL_NS: Option<u64> = Some(50_000);
const SQLITE_WAL_NS: Option<u64> = Some(20_000);
const SQLITE_ROLLBACK_NS: Option<u64> = Some(60_000);

const fn postgresql(setting: &'static str, rows: &'static [&'static str], note: &'static str) -> Demand {
    Demand {
        product: "PostgreSQL",
        setting,
        rows,
        syncs: [1, 1],
        state: FileState::Recycled,
        commit_bytes: Some(8 << 10),
        groups: true,
        own_ns: POSTGRESQL_NS,
        note,
    }
}

const fn sqlite(setting: &'static str, syncs: u32, own_ns: Option<u64>, note: &'static str) -> Demand {
    Demand {
        product: "SQLite",
        setting,
        rows: FDATASYNC,
        syncs: [syncs, syncs],
        state: FileState::Appending,
        commit_bytes: Some(4 << 10),
        groups: false,
        own_ns,
        note,
    }
}

const EACH_WRITE: &str = "A transaction of several pages may need several writes, each synced by itself.";
const JOURNAL: &str = "Seen with strace: the journal is made, synced, its folder synced, the database synced, the journal removed.";

/// The table. Syncs: PostgreSQL 15 and SQLite 3.40 by strace; the others by their manuals and sources.
#[rustfmt::skip]
const DEMANDS: [Demand; 19] = [
    postgresql("wal_sync_method = fdatasync", &["buffered+fdatasync", "nt-flush-data-sync"], ""),
    postgresql("wal_sync_method = open_datasync", &["dsync", "write-through"], EACH_WRITE),
    postgresql("wal_sync_method = fsync", &["buffered+fsync", "buffered+flush"], ""),
    postgresql("wal_sync_method = open_sync", &["sync"], EACH_WRITE),
    postgresql("wal_sync_method = fsync_writethrough", &["buffered+fullfsync"], ""),
    Demand { product: "MySQL 8", setting: "innodb_flush_log_at_trx_commit = 1, sync_binlog = 1", rows: FSYNC, syncs: [2, 2], state: FileState::Appending, commit_bytes: None, groups: true, own_ns: None,
        note: "One sync is the redo log's, one the binary log's, which grows." },
    Demand { product: "MySQL 8", setting: "innodb_flush_log_at_trx_commit = 1, binary log off", rows: FSYNC, syncs: [1, 1], state: FileState::Recycled, commit_bytes: None, groups: true, own_ns: None, note: "" },
    Demand { product: "MariaDB 11", setting: "innodb_flush_log_at_trx_commit = 1, sync_binlog = 1", rows: FDATASYNC, syncs: [2, 2], state: FileState::Appending, commit_bytes: None, groups: true, own_ns: None,
        note: "One sync is the redo log's, one the binary log's, which grows." },
    Demand { product: "MariaDB 11", setting: "innodb_flush_log_at_trx_commit = 1, binary log off", rows: FDATASYNC, syncs: [1, 1], state: FileState::Recycled, commit_bytes: None, groups: true, own_ns: None, note: "" },
    Demand { state: FileState::Recycled, ..sqlite("WAL, synchronous = FULL", 1, SQLITE_WAL_NS, "A frame of 24 bytes and a page; the log is overwritten from its front after each checkpoint. Writers take turns.") },
    Demand { state: FileState::Recycled, ..sqlite("WAL, synchronous = NORMAL", 0, SQLITE_WAL_NS, "Three syncs at each checkpoint (1,000 pages), none at a commit: a power cut takes back the last commits.") },
    sqlite("rollback journal (DELETE), synchronous = FULL", 4, SQLITE_ROLLBACK_NS, JOURNAL),
    sqlite("rollback journal (DELETE), synchronous = NORMAL", 3, SQLITE_ROLLBACK_NS, JOURNAL),
    sqlite("rollback journal (DELETE), synchronous = EXTRA", 5, SQLITE_ROLLBACK_NS, JOURNAL),
    Demand { product: "etcd", setting: "its WAL, nothing to set", rows: FDATASYNC, syncs: [1, 1], state: FileState::Unwritten, commit_bytes: Some(2300), groups: true, own_ns: None,
        note: "One fdatasync a batch of proposals, into segments reserved by fallocate; its database syncs apart, about ten times a second. The other members of the cluster answer over the network." },
    Demand { product: "Kafka", setting: "default (flush.messages unset)", rows: FSYNC, syncs: [0, 0], state: FileState::Appending, commit_bytes: None, groups: false, own_ns: None,
        note: "No sync at a commit: replicas hold the record in memory." },
    Demand { product: "Kafka", setting: "flush.messages = 1", rows: FSYNC, syncs: [1, 3], state: FileState::Appending, commit_bytes: None, groups: false, own_ns: None,
        note: "Of one partition. The segment is synced and two index maps with it, which may be flushes of their own; a batch of records counts as one." },
    Demand { product: "RocksDB", setting: "WriteOptions.sync = true", rows: FDATASYNC, syncs: [1, 1], state: FileState::Appending, commit_bytes: None, groups: true, own_ns: None,
        note: "Each new log file grows: every sync commits its length." },
    Demand { product: "RocksDB", setting: "WriteOptions.sync = true, recycle_log_file_num > 0", rows: FDATASYNC, syncs: [1, 1], state: FileState::Recycled, commit_bytes: None, groups: true, own_ns: None,
        note: "Taken only with wal_recovery_mode = kSkipAnyCorruptedRecords; otherwise RocksDB sets it to 0." },
];

/// What to expect, product by product; products whose calls were not measured, or do not outlive a power cut here, are
/// left out.
#[must_use]
pub fn expectations(ranking: &Ranking<'_>) -> Vec<Expectation> {
    if ranking.result.environment.wine.is_some() {
        return Vec::new();
    }
    DEMANDS.iter().filter_map(|demand| expectation(ranking, demand)).collect()
}

fn expectation(ranking: &Ranking<'_>, demand: &Demand) -> Option<Expectation> {
    let durable = |id: &&str| ranking.find(id).filter(|row| row.standing == Standing::PowerLoss);
    let row = demand.rows.iter().find_map(durable)?;
    let p50_ns = row.p50_ns() as f64;
    let p90_ns = row.measured.latency.raw_percentile_ns(90.0) as f64;
    let [fewest, most] = demand.syncs.map(f64::from);
    let own_ns = demand.own_ns.unwrap_or(0) as f64;
    let slowest_ns = most * p90_ns * metadata(ranking, demand);
    let clients = f64::from(CLIENTS);
    let waits = most > 0.0;
    let one_client = waits.then(|| Range {
        least_per_s: 1e9 / (slowest_ns + own_ns),
        most_per_s: 1e9 / (fewest * p50_ns).max(1.0),
    });
    let together = (waits && demand.groups).then(|| Range {
        least_per_s: clients * 1e9 / (2.0 * slowest_ns + clients * own_ns),
        most_per_s: clients * 1e9 / (fewest * p50_ns).max(1.0),
    });
    Some(Expectation {
        product: demand.product,
        setting: demand.setting,
        method: row.id().to_owned(),
        syncs: demand.syncs,
        one_client,
        together,
        basis: basis(ranking, demand, row),
    })
}

/// By how much a sync may cost more in the product's file than in the run's.
fn metadata(ranking: &Ranking<'_>, demand: &Demand) -> f64 {
    let run = ranking.result.plan.file_state;
    if demand.state.needs_metadata() && !run.needs_metadata() { 2.0 } else { 1.0 }
}

fn basis(ranking: &Ranking<'_>, demand: &Demand, row: &Ranked<'_>) -> String {
    let plan = &ranking.result.plan;
    let [fewest, most] = demand.syncs;
    if most == 0 {
        return format!("No commit waits for the disk. {}", demand.note);
    }
    let syncs = if fewest == most {
        plural(u64::from(most), "sync", "syncs")
    } else {
        format!("{fewest} to {most} syncs")
    };
    let flushes = row.evidence.per_commit.as_ref().map_or_else(
        || "the device counts no flushes".to_owned(),
        |counted| format!("{} device flushes a sync", significant(counted.flushes)),
    );
    let latency = &row.measured.latency;
    let mut sentences = vec![format!(
        "{syncs} a commit, as {}: p50 {}, p90 {}, {flushes}, {} of {} into a journal that is {}.",
        row.id(),
        duration_ns(latency.p50_ns()),
        duration_ns(latency.raw_percentile_ns(90.0)),
        plural(latency.count(), "commit", "commits"),
        bytes(plan.transaction_bytes),
        plan.file_state.name()
    )];
    sentences.extend(differences(ranking, demand));
    match demand.own_ns {
        Some(own_ns) => sentences.push(format!(
            "Its own work is in the lower end as {}, seen on the project's machine.",
            crate::figures::round_duration(own_ns)
        )),
        None => sentences.push("Its own work is not in it.".to_owned()),
    }
    if !demand.note.is_empty() {
        sentences.push(demand.note.to_owned());
    }
    sentences.join(" ")
}

/// What the run did otherwise than the product does.
fn differences(ranking: &Ranking<'_>, demand: &Demand) -> Vec<String> {
    let plan = &ranking.result.plan;
    let mut told = Vec::new();
    if metadata(ranking, demand) > 1.0 {
        told.push(format!(
            "Its file is {}: the lower end counts each sync twice, for the metadata.",
            demand.state.name()
        ));
    } else if plan.file_state.needs_metadata() && !demand.state.needs_metadata() {
        told.push(format!("Its file is {}, which is cheaper than the run's.", demand.state.name()));
    }
    if let Some(commit_bytes) = demand.commit_bytes
        && commit_bytes != plan.transaction_bytes
    {
        told.push(format!("It writes {} for a small transaction.", bytes(commit_bytes)));
    }
    if plan.threads > 1 {
        told.push(format!("The run had {} writers at once, which slows each.", plan.threads));
    }
    told
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::rig::sim::Plant;
    use crate::sample::{measured, run, volatile};

    fn find<'a>(all: &'a [Expectation], product: &str, setting: &str) -> &'a Expectation {
        let found = all.iter().find(|one| one.product == product && one.setting.contains(setting));
        found.unwrap_or_else(|| panic!("{product}, {setting}"))
    }

    #[test]
    fn ranges_are_those_of_the_formula() {
        let mut result = volatile(Vec::new());
        let latency = &mut measured(&mut result, "buffered+fdatasync").latency;
        *latency = crate::latency::Latency::new();
        (0..80).for_each(|_| latency.record(100_000));
        (0..20).for_each(|_| latency.record(200_000));
        let all = expectations(&Ranking::new(&result));
        let about = |range: Option<Range>, least: f64, most: f64| {
            let range = range.expect("a range");
            assert!((range.least_per_s / least - 1.0).abs() < 0.01, "{range:?}, not {least}");
            assert!((range.most_per_s / most - 1.0).abs() < 0.01, "{range:?}, not {most}");
        };
        let postgresql = find(&all, "PostgreSQL", "= fdatasync");
        about(postgresql.one_client, 1e9 / 250_000.0, 10_000.0);
        about(postgresql.together, 16e9 / (400_000.0 + 800_000.0), 160_000.0);
        let rollback = find(&all, "SQLite", "(DELETE), synchronous = FULL");
        about(rollback.one_client, 1e9 / (4.0 * 400_000.0 + 60_000.0), 2500.0);
        assert_eq!(rollback.together, None, "writers take turns");
        assert!(rollback.basis.contains("counts each sync twice"), "{}", rollback.basis);
        let normal = find(&all, "SQLite", "WAL, synchronous = NORMAL");
        assert_eq!((normal.one_client, normal.together), (None, None));
        about(find(&all, "etcd", "").one_client, 2500.0, 10_000.0);
    }

    #[test]
    fn a_range_is_a_range_and_names_its_row() {
        let all = expectations(&Ranking::new(&volatile(Vec::new())));
        for product in ["PostgreSQL", "MySQL 8", "MariaDB 11", "SQLite", "etcd", "Kafka", "RocksDB"] {
            assert!(all.iter().any(|one| one.product == product), "{product}");
        }
        for one in &all {
            for range in [one.one_client, one.together].into_iter().flatten() {
                assert!(range.least_per_s > 0.0 && range.least_per_s <= range.most_per_s, "{one:?}");
                assert!(one.basis.contains(&one.method), "{one:?}");
            }
        }
    }

    #[test]
    fn nothing_is_expected_of_rows_that_lose_data() {
        let lying = volatile(vec![Plant::NoFlushes]);
        assert!(expectations(&Ranking::new(&lying)).is_empty());
        let unsafe_only = run("buffered,direct", Vec::new(), |_| {});
        assert!(expectations(&Ranking::new(&unsafe_only)).is_empty());
        let wine = run("buffered+fsync", Vec::new(), |environment| environment.wine = Some("8.0".into()));
        assert!(expectations(&Ranking::new(&wine)).is_empty());
    }

    #[test]
    fn every_row_of_the_table_is_a_method_that_can_be_durable() {
        for demand in &DEMANDS {
            assert!(demand.syncs[0] <= demand.syncs[1], "{}", demand.setting);
            for id in demand.rows {
                let known = seawall_sys::methods::ALL.into_iter().flatten().filter(|method| method.id == *id);
                assert!(known.clone().any(|method| matches!(method.reach().letter(), 'D' | 'O')), "{id}");
                assert!(known.count() > 0, "{id} is no method");
            }
        }
    }
}
