//! Estimates each product's commit rate under each setting, as a range with its basis, or as not known.
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
//!   (`docs/experiments/observe.md`). Where it has not, only the disk's upper bound is said.
//!
//! Invariants: pure; only rows that were measured soundly, outlive a power cut and are not contradicted give a figure;
//! a range of more than [`SPREAD_MAX`] is not given, because it says nothing: the reason is given instead; every
//! expectation names the transaction that it is of.

use super::COMMITS_MIN;
use crate::figures::{duration_ns, plural, rate, round_duration, significant};
use crate::judgement::disturbed;
use crate::lookup::unique;
use crate::rank::{EffectiveClass, Ranked, Ranking};
use seawall_sys::durability::FileState;
use serde::Serialize;

/// How many clients commit together in the second range.
pub(crate) const CLIENTS: u32 = 16;

/// A range that ends beyond this multiple of its start is not given.
pub(crate) const SPREAD_MAX: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Range {
    pub least_per_s: f64,
    pub most_per_s: f64,
}

impl Range {
    pub(crate) fn words(&self) -> String {
        format!("{} to {}", rate(self.least_per_s), rate(self.most_per_s))
    }

    fn says_something(&self) -> bool {
        self.most_per_s <= self.least_per_s * SPREAD_MAX
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Expectation {
    pub product: &'static str,
    pub setting: &'static str,
    /// The transaction that the figures are of: what it does, writes and syncs.
    pub transaction: String,
    /// The row that its syncs go through.
    pub method: String,
    /// Syncs that one commit waits for: the fewest and the most.
    pub syncs: [u32; 2],
    /// One client; `None` where commits do not wait for the disk, or where it is not known.
    pub one_client: Option<Range>,
    /// What the disk allows one client at most, where the product's own work is not known.
    pub at_most_per_s: Option<f64>,
    /// Why there is no range for one client, though commits wait for the disk.
    pub not_known: Option<String>,
    /// [`CLIENTS`] clients; `None` where the product does not commit in groups, or where it is not known.
    pub together: Option<Range>,
    /// What differs between the run and the product, and what else to know; may be empty.
    pub basis: String,
}

impl Expectation {
    /// One client's rate in words.
    pub(crate) fn words(&self) -> String {
        if self.syncs[1] == 0 {
            return "not bound by the disk".to_owned();
        }
        match (self.one_client, self.at_most_per_s, &self.not_known) {
            (Some(range), ..) => format!("{} commits/s", range.words()),
            (None, Some(most), _) => {
                format!("at most {} commits/s by the disk", rate(most))
            }
            (None, None, Some(why)) => format!("not known: {why}"),
            (None, None, None) => "not known".to_owned(),
        }
    }

    pub(crate) fn brief(&self) -> String {
        match (self.syncs[1], self.one_client, self.at_most_per_s) {
            (0, ..) => "no sync".to_owned(),
            (_, Some(range), _) => range.words(),
            (_, None, Some(most)) => format!("at most {}", rate(most)),
            (_, None, None) => "not known".to_owned(),
        }
    }
}

struct Demand {
    product: &'static str,
    setting: &'static str,
    /// Rows that make the same calls, on any system; the first that was measured counts.
    rows: &'static [&'static str],
    syncs: [u32; 2],
    /// What it writes into.
    state: FileState,
    /// The usual small transaction: what it does, and what it writes.
    transaction: &'static str,
    groups: bool,
    /// The product's own work for that transaction, nanoseconds, where it was measured.
    own_ns: Option<u64>,
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
        transaction: "one INSERT of a short row, 8 KiB of WAL",
        groups: true,
        own_ns: POSTGRESQL_NS,
        note,
    }
}

const fn sqlite(setting: &'static str, syncs: u32, own_ns: Option<u64>, note: &'static str) -> Demand {
    Demand {
        product: "SQLite",
        setting,
        rows: FSYNC,
        syncs: [syncs, syncs],
        state: FileState::Appending,
        transaction: "one INSERT of a short row, a page of 4 KiB",
        groups: false,
        own_ns,
        note,
    }
}

#[expect(clippy::too_many_arguments, reason = "the columns of the table")]
const fn disk_only(
    product: &'static str,
    setting: &'static str,
    rows: &'static [&'static str],
    syncs: [u32; 2],
    state: FileState,
    groups: bool,
    transaction: &'static str,
    note: &'static str,
) -> Demand {
    Demand { product, setting, rows, syncs, state, transaction, groups, own_ns: None, note }
}

const LARGER: &str = "pgbench's own script, three statements and a full page of 8 KiB for each page's first change after a checkpoint, was seen at 0.28 of it.";
const EACH_WRITE: &str =
    "Each write is synced by itself: a transaction whose WAL takes two writes costs twice.";
const JOURNAL: &str = "The syncs: the journal's content, then its header (FULL and EXTRA), the journal's folder, the database, and the folder again when the journal is gone (EXTRA).";
const BINLOG: &str = "One sync is the redo log's, one the binary log's, which grows.";
const ROW: &str = "one INSERT of a short row, about 0.5 KiB of redo log";
const REPLICAS: &str = "The other members answer over the network.";

/// The table. Syncs: PostgreSQL 15 and SQLite 3.40 by strace; the others by their manuals and sources.
#[rustfmt::skip]
const DEMANDS: &[Demand] = &[
    postgresql("wal_sync_method = fdatasync", &["buffered+fdatasync", "nt-flush-data-sync"], LARGER),
    postgresql("wal_sync_method = open_datasync", &["dsync", "write-through"], EACH_WRITE),
    postgresql("wal_sync_method = fsync", &["buffered+fsync", "buffered+flush"], LARGER),
    postgresql("wal_sync_method = open_sync", &["sync"], EACH_WRITE),
    postgresql("wal_sync_method = fsync_writethrough", &["buffered+fullfsync"], LARGER),
    disk_only("MySQL", "innodb_use_fdatasync = ON, sync_binlog = 1", &["buffered+fdatasync"], [2, 2], FileState::Appending, true, ROW, BINLOG),
    disk_only("MySQL", "innodb_use_fdatasync = ON, binary log off", &["buffered+fdatasync"], [1, 1], FileState::Recycled, true, ROW, ""),
    disk_only("MySQL", "innodb_use_fdatasync = OFF, sync_binlog = 1", &["buffered+fsync"], [2, 2], FileState::Appending, true, ROW, BINLOG),
    disk_only("MySQL", "innodb_use_fdatasync = OFF, binary log off", &["buffered+fsync"], [1, 1], FileState::Recycled, true, ROW, ""),
    disk_only("MySQL", "Windows, sync_binlog = 1", &["buffered+flush"], [2, 2], FileState::Appending, true, ROW, BINLOG),
    disk_only("MySQL", "Windows, binary log off", &["buffered+flush"], [1, 1], FileState::Recycled, true, ROW, ""),
    disk_only("MariaDB", "log_file_buffering = OFF, sync_binlog = 1", &["direct+fdatasync"], [2, 2], FileState::Appending, true, ROW, "One sync is the redo log's, one the binary log's, which grows; 12.3 can keep both in one."),
    disk_only("MariaDB", "log_file_buffering = OFF, binary log off", &["direct+fdatasync"], [1, 1], FileState::Recycled, true, ROW, ""),
    disk_only("MariaDB", "log_file_buffering = OFF, log_file_write_through = ON, binary log off", &["direct+dsync"], [1, 1], FileState::Recycled, true, ROW, ""),
    disk_only("MariaDB", "log_file_buffering = ON, binary log off", &["buffered+fdatasync"], [1, 1], FileState::Recycled, true, ROW, ""),
    disk_only("MariaDB", "log_file_buffering = ON, log_file_write_through = ON, binary log off", &["dsync"], [1, 1], FileState::Recycled, true, ROW, ""),
    disk_only("SQL Server on Linux", "control.alternatewritethrough = 1", &["direct+fdatasync"], [1, 1], FileState::Recycled, true, "one INSERT of a short row, a log block of 0.5 KiB and more", ""),
    disk_only("SQL Server on Linux", "trace flag 3979, control.alternatewritethrough = 0", &["direct+dsync"], [1, 1], FileState::Recycled, true, "one INSERT of a short row, a log block of 0.5 KiB and more", ""),
    Demand { state: FileState::Recycled, ..sqlite("WAL, synchronous = FULL", 1, SQLITE_WAL_NS, "A frame of 24 bytes and a page; the log is overwritten from its front after each checkpoint. Writers take turns.") },
    Demand { state: FileState::Recycled, ..sqlite("WAL, synchronous = NORMAL", 0, SQLITE_WAL_NS, "Syncs at each checkpoint (1,000 pages), none at a commit: a power cut takes back the last commits.") },
    sqlite("rollback journal (DELETE), synchronous = FULL", 4, SQLITE_ROLLBACK_NS, JOURNAL),
    sqlite("rollback journal (DELETE), synchronous = NORMAL", 3, SQLITE_ROLLBACK_NS, JOURNAL),
    sqlite("rollback journal (DELETE), synchronous = EXTRA", 5, SQLITE_ROLLBACK_NS, JOURNAL),
    disk_only("etcd", "its WAL, nothing to set", FDATASYNC, [1, 1], FileState::Unwritten, true, "one put of a small value, about 2,300 B of WAL",
        "One fdatasync a batch of proposals, into segments reserved by fallocate; its database syncs apart, about ten times a second. The other members answer over the network."),
    disk_only("Kafka", "default (flush.messages unset)", FSYNC, [0, 0], FileState::Appending, false, "one batch of records", "No sync at a commit: replicas hold the record in memory."),
    disk_only("Kafka", "flush.messages = 1", FSYNC, [1, 3], FileState::Appending, false, "one batch of records to one partition",
        "The segment is synced and two index maps with it, which may be flushes of their own."),
    disk_only("RocksDB", "WriteOptions.sync = true", FDATASYNC, [1, 1], FileState::Appending, true, "one put of a small value, about 0.1 KiB of WAL", "Each new log file grows: every sync commits its length."),
    disk_only("RocksDB", "WriteOptions.sync = true, recycle_log_file_num > 0", FDATASYNC, [1, 1], FileState::Recycled, true, "one put of a small value, about 0.1 KiB of WAL", "In the modes kPointInTimeRecovery (from 9.1 on) and kSkipAnyCorruptedRecords."),
    disk_only("LMDB/bbolt", "the default", FDATASYNC, [2, 2], FileState::Recycled, false, "one put of a small value, a few pages of 4 KiB", "Writers take turns."),
    disk_only("Redis/Valkey", "appendfsync always", &["buffered+fdatasync", "buffered+fullfsync"], [1, 1], FileState::Appending, true, "one SET of a short value, about 0.1 KiB", ""),
    disk_only("MongoDB", "j: true", FDATASYNC, [1, 1], FileState::Unwritten, true, "one insert of a small document, about 0.5 KiB of journal", REPLICAS),
    disk_only("Elasticsearch/OpenSearch", "translog.durability: request", FDATASYNC, [2, 2], FileState::Appending, true, "one document of about 1 KiB into one shard", "The translog grows; its checkpoint is overwritten. Every copy of the shard does the same."),
    disk_only("NATS JetStream", "sync_interval: always", FSYNC, [1, 2], FileState::Appending, false, "one message of about 0.2 KiB to one stream", "A replicated stream syncs its Raft log as well."),
    disk_only("RabbitMQ quorum queues", "quorum queue with confirms", FDATASYNC, [1, 1], FileState::Appending, true, "one message of about 0.2 KiB to one queue", REPLICAS),
    disk_only("ActiveMQ Artemis", "ASYNCIO, journal-datasync", &["direct+fdatasync"], [1, 1], FileState::Recycled, true, "one durable message, a block of 4 KiB", "Groups gather for journal-buffer-timeout."),
    disk_only("ActiveMQ Artemis", "NIO, journal-datasync", FDATASYNC, [1, 1], FileState::Recycled, true, "one durable message, a block of 4 KiB", "Groups gather for journal-buffer-timeout."),
    disk_only("BookKeeper/Pulsar", "journalSyncData=true", FDATASYNC, [1, 1], FileState::Unwritten, true, "one entry of about 1 KiB", "Groups gather for journalMaxGroupWaitMSec. The other bookies answer over the network."),
    disk_only("Redpanda", "write caching off", &["direct+fdatasync"], [1, 1], FileState::Unwritten, true, "one batch of records, a block of 4 KiB and more", REPLICAS),
    disk_only("CockroachDB", "nothing to set", FDATASYNC, [1, 2], FileState::Recycled, true, "one INSERT of a short row within one range, about 0.5 KiB", "A transaction over several ranges syncs each, and its record. The other replicas answer over the network."),
    disk_only("TiKV", "nothing to set", FDATASYNC, [1, 2], FileState::Recycled, true, "one INSERT of a short row, committed asynchronously or in two phases", REPLICAS),
    disk_only("Cassandra", "commitlog_sync: batch", &["mmap+msync"], [1, 1], FileState::Unwritten, true, "one mutation of about 0.3 KiB", REPLICAS),
    disk_only("ScyllaDB", "commitlog_sync: batch", &["direct+dsync"], [1, 1], FileState::Recycled, true, "one mutation, a block of 4 KiB", REPLICAS),
    disk_only("ClickHouse", "fsync_after_insert = 1", FSYNC, [5, 12], FileState::Appending, false, "one INSERT, a compact part of about ten files", ""),
    disk_only("ZooKeeper", "forceSync=yes", FDATASYNC, [1, 1], FileState::Unwritten, true, "one setData of about 1 KiB", "Up to 1,000 requests share a sync. The other members answer over the network."),
    disk_only("Consul", "the WAL, the default", FSYNC, [1, 1], FileState::Unwritten, true, "one KV put of about 0.5 KiB", REPLICAS),
    disk_only("Consul", "boltdb, where there is a raft.db", FDATASYNC, [2, 2], FileState::Recycled, true, "one KV put of about 0.5 KiB", REPLICAS),
];

/// What to expect, product by product; products whose calls were not measured, or do not outlive a power cut here, are
/// left out, and all of them after a disturbed run.
pub(crate) fn expectations(ranking: &Ranking<'_>) -> Vec<Expectation> {
    if ranking.result.environment.wine.is_some() || disturbed::disturbance(ranking).is_some() {
        return Vec::new();
    }
    DEMANDS.iter().filter_map(|demand| expectation(ranking, demand)).collect()
}

fn expectation(ranking: &Ranking<'_>, demand: &Demand) -> Option<Expectation> {
    let sound = |row: &&Ranked<'_>| {
        row.class == EffectiveClass::PowerLoss
            && row.measured.commits >= COMMITS_MIN
            && disturbed::wait(row).is_none()
    };
    let row = demand.rows.iter().find_map(|id| ranking.find(id).filter(sound))?;
    let p50_ns = row.p50_ns() as f64;
    let p90_ns = row.measured.main().raw_percentile_ns(90.0) as f64;
    let [fewest, most] = demand.syncs.map(f64::from);
    let own_ns = demand.own_ns.unwrap_or(0) as f64;
    let slowest_ns = most * p90_ns * metadata(ranking, demand);
    let clients = f64::from(CLIENTS);
    let waits = most > 0.0;
    let one =
        Range { least_per_s: 1e9 / (slowest_ns + own_ns), most_per_s: 1e9 / (fewest * p50_ns).max(1.0) };
    let together = Range {
        least_per_s: clients * 1e9 / (2.0 * slowest_ns + clients * own_ns),
        most_per_s: clients * one.most_per_s,
    };
    let known = waits && one.says_something();
    // Where the product's file costs more than the run's, the run is still a bound.
    let bound = waits && !known && metadata(ranking, demand) > 1.0;
    let measured = demand.own_ns.is_some();
    Some(Expectation {
        product: demand.product,
        setting: demand.setting,
        transaction: transaction(demand),
        method: row.id().to_owned(),
        syncs: demand.syncs,
        one_client: (known && measured).then_some(one),
        at_most_per_s: (known && !measured || bound).then_some(one.most_per_s),
        not_known: (waits && !known && !bound).then(|| not_known(demand, row)),
        together: (waits && measured && demand.groups && together.says_something()).then_some(together),
        basis: basis(ranking, demand),
    })
}

/// Syncs that a commit of `product` waits for at least, as it is set to go through the row `method`.
pub(crate) fn syncs_of(product: &str, method: &str) -> u32 {
    let of_it = |demand: &&Demand| demand.product == product && demand.rows.contains(&method);
    DEMANDS.iter().find(of_it).map_or(1, |demand| demand.syncs[0].max(1))
}

/// The transaction with its syncs: `one INSERT of a short row, 8 KiB of WAL, 1 sync`.
fn transaction(demand: &Demand) -> String {
    let [fewest, most] = demand.syncs;
    let syncs = match (fewest, most) {
        (_, 0) => "no sync".to_owned(),
        (fewest, most) if fewest == most => plural(u64::from(most), "sync", "syncs"),
        (fewest, most) => format!("{fewest} to {most} syncs"),
    };
    format!("{}, {syncs}", demand.transaction)
}

/// By how much a sync may cost more in the product's file than in the run's.
fn metadata(ranking: &Ranking<'_>, demand: &Demand) -> f64 {
    let run = ranking.result.plan.file_state;
    if demand.state.needs_metadata() && !run.needs_metadata() { 2.0 } else { 1.0 }
}

/// Why a range would span too much.
fn not_known(demand: &Demand, row: &Ranked<'_>) -> String {
    const UNEVEN: f64 = 1.5;
    let [fewest, most] = demand.syncs;
    if fewest != most {
        return format!("{fewest} to {most} syncs a commit, as its calls fall");
    }
    let latency = row.measured.main();
    let (p50_ns, p90_ns) = (latency.p50_ns(), latency.raw_percentile_ns(90.0));
    match demand.own_ns {
        Some(own_ns) if (p90_ns as f64) < p50_ns as f64 * UNEVEN => format!(
            "a sync of {} costs no more than its own work, seen as {} on another machine",
            duration_ns(p50_ns),
            round_duration(own_ns)
        ),
        _ => format!("{} is too uneven, p50 {}, p90 {}", row.id(), duration_ns(p50_ns), duration_ns(p90_ns)),
    }
}

/// What differs from the run, and what else to know.
fn basis(ranking: &Ranking<'_>, demand: &Demand) -> String {
    let plan = &ranking.result.plan;
    let mut sentences: Vec<String> = Vec::new();
    if metadata(ranking, demand) > 1.0 {
        sentences.push(format!(
            "Its file is {}, the run's was {}: each sync costs more, and --file-state {} shows how much.",
            demand.state.name(),
            plan.file_state.name(),
            demand.state.name()
        ));
    }
    if plan.file_state.needs_metadata() && !demand.state.needs_metadata() {
        sentences.push(format!("Its file is {}, which is cheaper than the run's.", demand.state.name()));
    }
    if let Some(own_ns) = demand.own_ns.filter(|_| demand.syncs[1] > 0) {
        sentences.push(format!(
            "Its own work is in the lower end as {}, seen on the project's machine.",
            round_duration(own_ns)
        ));
    }
    if !demand.note.is_empty() {
        sentences.push(demand.note.to_owned());
    }
    sentences.join(" ")
}

/// The rows that `expected` stands on, once: their figures, and the device's flushes where they are the row's own.
pub(crate) fn rows_words(ranking: &Ranking<'_>, expected: &[&Expectation]) -> Vec<String> {
    let ids = unique(expected.iter().filter(|one| one.syncs[1] > 0).map(|one| one.method.as_str()));
    ids.into_iter().filter_map(|id| ranking.find(id)).map(row_words).collect()
}

fn row_words(row: &Ranked<'_>) -> String {
    let latency = row.measured.main();
    let own = row.evidence.per_commit.filter(|counted| !counted.flushes_blurred);
    let own = own.and_then(|counted| counted.flushes);
    let flushes = own.map_or(String::new(), |flushes| format!(", {} device flushes", significant(flushes)));
    format!(
        "{}: p50 {}, p90 {}{flushes}, {}",
        row.id(),
        duration_ns(latency.p50_ns()),
        duration_ns(latency.raw_percentile_ns(90.0)),
        plural(latency.count(), "commit", "commits")
    )
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::advise::products::PRODUCTS;
    use crate::sample::{latency, measured, run, samples, volatile};
    use crate::testbed::sim::Plant;

    fn find<'a>(all: &'a [Expectation], product: &str, setting: &str) -> &'a Expectation {
        let found = all.iter().find(|one| one.product == product && one.setting.contains(setting));
        found.unwrap_or_else(|| panic!("{product}, {setting}"))
    }

    /// Eighty commits of the fast and twenty of the slow, a hundred times over.
    fn spread(result: &mut crate::result::RunResult, id: &str, fast_ns: u64, slow_ns: u64) {
        let latency = latency(measured(result, id));
        *latency = samples(8000, fast_ns);
        latency.add(&samples(2000, slow_ns));
    }

    #[test]
    fn ranges_are_those_of_the_formula() {
        let mut result = volatile(Vec::new());
        for id in ["buffered+fdatasync", "buffered+fsync"] {
            spread(&mut result, id, 100_000, 130_000);
        }
        let all = expectations(&Ranking::new(&result));
        let about = |range: Option<Range>, least: f64, most: f64| {
            let range = range.expect("a range");
            assert!((range.least_per_s / least - 1.0).abs() < 0.01, "{range:?}, not {least}");
            assert!((range.most_per_s / most - 1.0).abs() < 0.01, "{range:?}, not {most}");
        };
        about(find(&all, "PostgreSQL", "= fdatasync").one_client, 1e9 / 180_000.0, 10_000.0);
        about(find(&all, "SQLite", "WAL, synchronous = FULL").one_client, 1e9 / 150_000.0, 10_000.0);
        let normal = find(&all, "SQLite", "WAL, synchronous = NORMAL");
        assert_eq!((normal.one_client, normal.words().as_str()), (None, "not bound by the disk"));
    }

    #[test]
    fn a_range_of_more_than_a_factor_of_two_is_not_given_and_says_why() {
        let mut result = volatile(Vec::new());
        spread(&mut result, "buffered+fdatasync", 100_000, 300_000);
        let all = expectations(&Ranking::new(&result));
        let uneven = find(&all, "PostgreSQL", "= fdatasync");
        assert_eq!((uneven.one_client, uneven.at_most_per_s, uneven.together), (None, None, None));
        assert!(uneven.words().contains("too uneven"), "{}", uneven.words());
        let grows = find(&all, "SQLite", "(DELETE), synchronous = FULL");
        assert!(
            grows.words().contains("at most") && grows.basis.contains("--file-state appending"),
            "{grows:?}"
        );
        for one in &all {
            for range in [one.one_client, one.together].into_iter().flatten() {
                assert!(range.least_per_s > 0.0 && range.least_per_s <= range.most_per_s, "{one:?}");
                assert!(range.most_per_s <= SPREAD_MAX * range.least_per_s, "{one:?}");
            }
            let waits = one.syncs[1] > 0;
            assert_eq!(
                one.not_known.is_some(),
                waits && one.one_client.is_none() && one.at_most_per_s.is_none()
            );
            assert!(one.transaction.contains("sync"), "{one:?}");
        }
    }

    #[test]
    fn work_that_was_not_measured_leaves_an_upper_bound_only() {
        let mut result = volatile(Vec::new());
        spread(&mut result, "buffered+fdatasync", 100_000, 110_000);
        let all = expectations(&Ranking::new(&result));
        let mysql = find(&all, "MySQL", "ON, binary log off");
        assert_eq!(mysql.one_client, None);
        assert!(mysql.at_most_per_s.is_some_and(|per_s| (per_s / 10_000.0 - 1.0).abs() < 0.01));
        assert!(mysql.words().contains("at most"), "{}", mysql.words());
        // With the binary log, which is set, a commit syncs twice, and so says the setting.
        let ranking = Ranking::new(&result);
        let settings = crate::advise::advise(&ranking).settings;
        let set = settings.iter().find(|setting| setting.product == "MySQL").expect("set");
        let row = ranking.find(set.method.as_deref().expect("a row")).expect("ran");
        assert_eq!(set.commits_per_s, Some(row.measured.commits_per_s() / 2.0));
    }

    #[test]
    fn nothing_is_expected_of_rows_that_lose_data_and_nothing_after_a_disturbed_run() {
        let lying = volatile(vec![Plant::NoFlushes]);
        assert!(expectations(&Ranking::new(&lying)).is_empty());
        let unsafe_only = run("buffered,direct", Vec::new(), |_| {});
        assert!(expectations(&Ranking::new(&unsafe_only)).is_empty());
        let wine = run("buffered+fsync", Vec::new(), |environment| environment.wine = Some("8.0".into()));
        assert!(expectations(&Ranking::new(&wine)).is_empty());
        let busy = run("buffered+fsync", Vec::new(), |environment| {
            environment.pressure.waiting_percent_10s = Some(80.0);
        });
        assert!(!expectations(&Ranking::new(&busy)).is_empty(), "its own commits did not wait");
    }

    #[test]
    fn another_row_s_flushes_are_not_given_as_the_row_s() {
        let mut result = volatile(Vec::new());
        let words = |result: &crate::result::RunResult| {
            let ranking = Ranking::new(result);
            let all = expectations(&ranking);
            rows_words(&ranking, &all.iter().collect::<Vec<_>>()).join("\n")
        };
        assert!(words(&result).contains("1.00 device flushes"), "{}", words(&result));
        result.idle.as_mut().expect("counters").counts.flushes = 1_000_000;
        assert!(!words(&result).contains("device flushes"), "{}", words(&result));
    }

    #[test]
    fn every_demand_is_of_a_product_and_by_methods_that_can_be_durable() {
        for demand in DEMANDS {
            assert!(demand.syncs[0] <= demand.syncs[1], "{}", demand.setting);
            assert!(PRODUCTS.iter().any(|product| product.name == demand.product), "{}", demand.product);
            for id in demand.rows {
                let known = seawall_sys::methods::ALL.into_iter().flatten().filter(|method| method.id == *id);
                assert!(known.clone().any(|method| matches!(method.reach().letter(), 'D' | 'O')), "{id}");
                assert!(known.count() > 0, "{id} is no method");
            }
        }
        for product in &PRODUCTS {
            assert!(DEMANDS.iter().any(|demand| demand.product == product.name), "{}", product.name);
        }
    }
}
