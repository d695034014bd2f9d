//! Lists each product's versions, source, settings and the commit method that each setting uses: a table, and no code per product.
//!
//! Invariants (tested over the table): a way names the row that makes the same calls; a system without a way gets no line;
//! every product names the versions that it is for, a source that can be opened, and the day on which both were looked at.

use super::{Choice, Reason, Setting, choose, expect};
use crate::Error;
use crate::figures::duration_ns;
use crate::lookup::{self, nearest, unique};
use crate::rank::Ranking;
use crate::require::{self, ConditionOutcome};
use seawall_sys::inspect::Environment;
use seawall_sys::method::Method;
use seawall_sys::method::System::{self, Illumos, Linux, MacOs, Windows};

/// One of a product's settings on some systems, and the row that makes the same calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub on: &'static [System],
    /// The row of the method table.
    pub method: &'static str,
    /// What is put into the configuration; empty if there is nothing to set.
    pub lines: &'static [&'static str],
    pub needs: Needs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    Fua,
    /// A physical block of 64 to 4,096 bytes: elsewhere the product keeps the cache whatever is set.
    SmallBlocks,
}

impl Needs {
    fn are_met(self, place: &Environment) -> bool {
        let all = |is: &dyn Fn(&seawall_sys::inspect::Device) -> bool| {
            let mut leaves = place.leaves().peekable();
            leaves.peek().is_some() && leaves.all(is)
        };
        match self {
            Self::Nothing => true,
            Self::Fua => all(&|leaf| leaf.fua == Some(true)),
            Self::SmallBlocks => all(&|leaf| {
                leaf.physical_block_bytes
                    .is_some_and(|bytes| bytes.is_power_of_two() && (64..=4096).contains(&bytes))
            }),
        }
    }
}

/// A product.
#[derive(Debug, Clone, Copy)]
pub struct Product {
    /// Its name.
    pub name: &'static str,
    /// Its names on a command line.
    pub words: &'static [&'static str],
    /// The versions that the row is for.
    pub version: &'static str,
    /// Where its setting and its calls are described.
    pub source: &'static str,
    /// The day on which version, setting and source were last looked at.
    pub checked: &'static str,
    /// Why, in a clause.
    pub why: &'static str,
    /// What else to know before setting it: whole sentences.
    pub notes: &'static [&'static str],
    /// Whether an acknowledged commit waits for the disk; otherwise it counts on replicas.
    pub synced: bool,
    /// The preset of `--require` that says whether a disk is fit for it, where it has nothing to set.
    pub preset: Option<&'static str>,
    /// Its settings; on each system the default first.
    pub(crate) ways: &'static [Way],
}

impl Product {
    /// Its settings on a system, the default first; none where it does not run.
    pub(crate) fn on(&self, system: System) -> impl Iterator<Item = &'static Way> + use<> {
        self.ways.iter().filter(move |way| way.on.contains(&system))
    }

    /// Its setting for the machine at hand, or why there is none; `None` where it does not run.
    pub(crate) fn answer(&self, ranking: &Ranking<'_>) -> Option<Result<Setting, Reason>> {
        let ways: Vec<&Way> = self.on(lookup::system(ranking.result)).collect();
        if ways.is_empty() {
            return None;
        }
        let taken: Vec<&Way> =
            ways.into_iter().filter(|way| way.needs.are_met(&ranking.result.environment)).collect();
        Some(choose(ranking, &taken).map(|choice| self.setting(ranking, choice, taken.len() > 1)))
    }

    fn setting(&self, ranking: &Ranking<'_>, choice: Choice<'_, '_>, chosen: bool) -> Setting {
        let fit = self.preset.map(|preset| fit(ranking, preset));
        let why = match (fit, chosen) {
            (Some(fit), _) => fit,
            (None, true) => format!("{}; {}", self.why, why_chosen(ranking, choice)),
            (None, false) => self.why.to_owned(),
        };
        Setting {
            product: self.name,
            version: self.version,
            source: self.source,
            checked: self.checked,
            lines: choice.way.lines.iter().map(|line| (*line).to_owned()).collect(),
            why,
            notes: self.notes.to_vec(),
            chosen,
            method: Some(choice.row.id().to_owned()),
            commits_per_s: self.synced.then(|| {
                choice.row.measured.commits_per_s() / f64::from(expect::syncs_of(self.name, choice.row.id()))
            }),
        }
    }
}

fn why_chosen(ranking: &Ranking<'_>, choice: Choice<'_, '_>) -> String {
    let (row, p50) = (choice.row, duration_ns(choice.row.p50_ns()));
    let why = match choice.beaten {
        Some(default) => format!(
            "{} takes {p50}, the default, {}, {}, a difference beyond noise",
            row.id(),
            default.id(),
            duration_ns(default.p50_ns())
        ),
        None if choice.is_default => "the default, and nothing else beats it here".to_owned(),
        None => format!("the same calls as {}; the default does not outlive a power cut here", row.id()),
    };
    why + &each_write(ranking, choice)
}

/// What a way that syncs each write costs a commit of several: as measured, or as it follows from one write.
fn each_write(ranking: &Ranking<'_>, choice: Choice<'_, '_>) -> String {
    let (writes, row) = (ranking.result.plan.writes, choice.row);
    let each = lookup::method(ranking.result, row.row).is_some_and(Method::flushes_each_write);
    match (each, writes) {
        (true, 1) => format!(
            "; it syncs each write, so a commit of two writes takes {}",
            duration_ns(row.p50_ns().saturating_mul(2))
        ),
        (true, _) => format!("; it syncs each of the {writes} writes of a commit here"),
        (false, 1) => String::new(),
        (false, _) => ranking.find("dsync").map_or(String::new(), |dsync| {
            format!(
                "; dsync takes {}, as it syncs each of the {writes} writes of a commit here",
                duration_ns(dsync.p50_ns())
            )
        }),
    }
}

/// Whether the disk is fit for a product that has nothing to set: what its preset says.
fn fit(ranking: &Ranking<'_>, preset: &str) -> String {
    let Ok(requirement) = require::parse(preset) else { return String::new() };
    let checked = require::check(ranking, &requirement);
    let Some(first) = checked.first() else { return String::new() };
    let word = match first.outcome {
        ConditionOutcome::Met => "fit",
        ConditionOutcome::Missed => "TOO SLOW",
        ConditionOutcome::CannotTell | ConditionOutcome::NotJudged => "cannot tell",
    };
    format!("{word}: {}", first.sentence.split(" [").next().unwrap_or_default())
}

/// The products named by `text`, separated by commas, in the order of the table.
///
/// # Errors
/// A name that is none, with the nearest and all others.
pub fn select(text: &str) -> Result<Vec<&'static Product>, Error> {
    let words: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    let known = || PRODUCTS.iter().flat_map(|product| product.words.iter().copied());
    let refused = |what: String| {
        let reason = format!("{what} It knows {}", known().collect::<Vec<_>>().join(", "));
        Err(Error::Option { option: "--only", reason })
    };
    if words.is_empty() {
        return refused("no product is named.".to_owned());
    }
    let unknown = |word: &&&str| !known().any(|name| name.eq_ignore_ascii_case(word));
    if let Some(word) = words.iter().find(unknown) {
        let meant = nearest(word, known()).map_or(".".to_owned(), |name| format!(", did you mean {name}?"));
        return refused(format!("there is no product `{word}`{meant}"));
    }
    let named = |product: &&Product| {
        words.iter().any(|word| product.words.iter().any(|name| name.eq_ignore_ascii_case(word)))
    };
    Ok(PRODUCTS.iter().filter(named).collect())
}

/// The methods that these products' settings need on `system`, each once.
pub fn methods_of(products: &[&Product], system: System) -> Vec<&'static str> {
    unique(products.iter().flat_map(|product| product.on(system)).map(|way| way.method))
}

const UNIX: &[System] = &[Linux, Illumos];
/// The day on which the rows were held against their documents or sources.
const CHECKED: &str = "2026-11-26";

const fn way(on: &'static [System], method: &'static str, lines: &'static [&'static str]) -> Way {
    Way { on, method, lines, needs: Needs::Nothing }
}

/// Calls `fdatasync` where there is one, everywhere but on Windows.
const fn data_sync(lines: &'static [&'static str]) -> [Way; 2] {
    [way(UNIX, "buffered+fdatasync", lines), way(&[MacOs], "buffered+fullfsync", lines)]
}

/// The same on Windows too.
const fn data_sync_all(lines: &'static [&'static str]) -> [Way; 3] {
    let [unix, mac] = data_sync(lines);
    [unix, mac, way(&[Windows], "buffered+flush", lines)]
}

/// Calls `fsync`, or what flushes the drive, everywhere but on Windows.
const fn full_sync(lines: &'static [&'static str]) -> [Way; 2] {
    [way(UNIX, "buffered+fsync", lines), way(&[MacOs], "buffered+fullfsync", lines)]
}

/// The same on Windows too.
const fn full_sync_all(lines: &'static [&'static str]) -> [Way; 3] {
    let [unix, mac] = full_sync(lines);
    [unix, mac, way(&[Windows], "buffered+flush", lines)]
}

/// What a row has unless it says otherwise.
const PLAIN: Product = Product {
    name: "",
    words: &[],
    version: "",
    source: "",
    checked: CHECKED,
    why: "",
    notes: &[],
    synced: true,
    preset: None,
    ways: &[],
};

/// The table, in the order of reports.
#[rustfmt::skip]
pub const PRODUCTS: [Product; 24] = [
    Product { name: "PostgreSQL", words: &["postgresql", "postgres"], version: "16 to 19",
        source: "https://www.postgresql.org/docs/current/runtime-config-wal.html (wal_sync_method, wal_init_zero, wal_recycle)",
        why: "each commit writes and syncs the WAL",
        notes: &["On macOS the default, open_datasync, leaves commits in the drive's cache; on Windows it is WRITE_THROUGH, which some drivers ignore.",
            "On copy-on-write file systems (btrfs, ZFS) wal_init_zero and wal_recycle gain nothing: the manual suggests off."],
        ways: &[
            way(&[Linux], "buffered+fdatasync", &["wal_sync_method = fdatasync"]),
            way(UNIX, "dsync", &["wal_sync_method = open_datasync"]),
            way(&[Illumos], "buffered+fdatasync", &["wal_sync_method = fdatasync"]),
            way(UNIX, "buffered+fsync", &["wal_sync_method = fsync"]),
            way(UNIX, "sync", &["wal_sync_method = open_sync"]),
            way(&[MacOs], "buffered+fullfsync", &["wal_sync_method = fsync_writethrough"]),
            way(&[Windows], "write-through", &["wal_sync_method = open_datasync"]),
            way(&[Windows], "buffered+flush", &["wal_sync_method = fsync"]),
            way(&[Windows], "nt-flush-data-sync", &["wal_sync_method = fdatasync"]),
        ], ..PLAIN },
    Product { name: "MySQL", words: &["mysql"], version: "8.4 and 9",
        source: "https://dev.mysql.com/doc/refman/8.4/en/innodb-parameters.html (innodb_use_fdatasync, innodb_flush_method)",
        why: "the redo log goes through the cache whatever innodb_flush_method says of the data files; with the binary log on, a commit syncs twice",
        notes: &["innodb_flush_method rules how data files are opened; O_DIRECT is the default from 8.4 on.",
            "O_DIRECT_NO_FSYNC spares syncs of data files only, with redo log and data files on one device. O_DSYNC opens the redo log with O_SYNC.",
            "innodb_use_fdatasync is ON by default from 8.4 on; 8.0.26 and later have it, OFF."],
        ways: &[
            way(UNIX, "buffered+fdatasync", &["innodb_use_fdatasync = ON", "innodb_flush_log_at_trx_commit = 1", "sync_binlog = 1", "innodb_flush_method = O_DIRECT"]),
            way(UNIX, "buffered+fsync", &["innodb_use_fdatasync = OFF", "innodb_flush_log_at_trx_commit = 1", "sync_binlog = 1", "innodb_flush_method = O_DIRECT"]),
            way(&[Windows], "buffered+flush", &["innodb_flush_log_at_trx_commit = 1", "sync_binlog = 1"]),
        ], ..PLAIN },
    Product { name: "MariaDB", words: &["mariadb"], version: "11.0 to 12.2",
        source: "https://mariadb.com/docs/server/server-usage/storage-engines/innodb/innodb-flush-method and MDEV-28766",
        why: "since 11.0 two switches say how the log is written: through the cache or not, with O_DSYNC or not",
        notes: &["From 11.0 these replace innodb_flush_method, which is deprecated there; before, leave it at O_DIRECT, the default since 10.6.",
            "Where the device reports no physical block of 64 to 4,096 bytes the log stays in the cache whatever is set.",
            "The binary log is synced apart until 12.3, which can keep it in InnoDB, and sync_binlog is 0 by default: with it on, a commit syncs twice."],
        ways: &[
            Way { needs: Needs::SmallBlocks, ..way(&[Linux], "direct+fdatasync", &["innodb_log_file_buffering = OFF", "innodb_log_file_write_through = OFF", "innodb_flush_log_at_trx_commit = 1", "sync_binlog = 1"]) },
            Way { needs: Needs::SmallBlocks, ..way(&[Linux], "direct+dsync", &["innodb_log_file_buffering = OFF", "innodb_log_file_write_through = ON", "innodb_flush_log_at_trx_commit = 1", "sync_binlog = 1"]) },
            way(&[Linux], "buffered+fdatasync", &["innodb_log_file_buffering = ON", "innodb_log_file_write_through = OFF", "innodb_flush_log_at_trx_commit = 1", "sync_binlog = 1"]),
            way(&[Linux], "dsync", &["innodb_log_file_buffering = ON", "innodb_log_file_write_through = ON", "innodb_flush_log_at_trx_commit = 1", "sync_binlog = 1"]),
        ], ..PLAIN },
    Product { name: "SQL Server on Linux", words: &["sqlserver", "mssql"], version: "2017 CU6 to 2025",
        source: "https://learn.microsoft.com/sql/linux/sql-server-linux-performance-best-practices and KB4131496",
        why: "the log is written around the cache; by default each write is followed by an fdatasync, with FUA each write is durable by itself",
        notes: &["Without FUA leave trace flag 3979 off and control.alternatewritethrough at 1: those are the defaults.",
            "FUA needs XFS on Linux 4.18 or ext4 on 5.6, and a device that takes it; this machine's is asked."],
        ways: &[
            way(&[Linux], "direct+fdatasync", &["control.writethrough = 1", "control.alternatewritethrough = 1"]),
            Way { needs: Needs::Fua, ..way(&[Linux], "direct+dsync", &["control.writethrough = 1", "control.alternatewritethrough = 0", "traceflag 3979 on"]) },
        ], ..PLAIN },
    Product { name: "SQLite", words: &["sqlite"], version: "3.40 and later",
        source: "https://www.sqlite.org/pragma.html#pragma_synchronous and os_unix.c, auto.def (HAVE_FDATASYNC)",
        why: "each commit is one sync of the WAL",
        notes: &["NORMAL instead of FULL syncs at checkpoints only: a power cut may take back the last commits, though it does not damage the database.",
            "The amalgamation compiled by itself calls fsync; its configure script, which distributions use, defines HAVE_FDATASYNC: such a build calls fdatasync.",
            "Without fullfsync a commit stays in the drive's cache on macOS."],
        ways: &[
            way(&[Linux, Illumos], "buffered+fsync", &["PRAGMA journal_mode = WAL;", "PRAGMA synchronous = FULL;"]),
            way(&[Windows], "buffered+flush", &["PRAGMA journal_mode = WAL;", "PRAGMA synchronous = FULL;"]),
            way(&[MacOs], "buffered+fullfsync", &["PRAGMA journal_mode = WAL;", "PRAGMA synchronous = FULL;", "PRAGMA fullfsync = ON;", "PRAGMA checkpoint_fullfsync = ON;"]),
        ], ..PLAIN },
    Product { name: "etcd", words: &["etcd"], version: "3.5 to 3.7", preset: Some("etcd"),
        source: "https://etcd.io/docs/v3.6/op-guide/hardware/ and https://github.com/etcd-io/etcd/blob/v3.7.3/server/storage/wal/wal.go",
        notes: &["etcd has no setting for it. If it is too slow, give its WAL a disk of its own (--wal-dir)."],
        ways: &data_sync(&[]), ..PLAIN },
    Product { name: "Kafka", words: &["kafka"], version: "3.7 to 4.3", synced: false,
        source: "https://kafka.apache.org/documentation/#topicconfigs_flush.messages",
        why: "it counts on replicas, not on syncs: a power cut common to all of them loses records",
        notes: &["flush.messages=1 on a topic (log.flush.interval.messages=1 on the broker) calls fsync for each append; the manual advises against it, for its cost."],
        ways: &full_sync_all(&["acks=all", "min.insync.replicas=2", "# replication factor 3, on separate power"]), ..PLAIN },
    Product { name: "RocksDB", words: &["rocksdb"], version: "9.1 to 11.9",
        source: "https://github.com/facebook/rocksdb/blob/main/HISTORY.md (9.1.0) and db_impl_open.cc",
        why: "each write of a group is one fdatasync; the log grows, so each commits its length too",
        notes: &["The default, sync = false, leaves commits in the cache: they outlive the process, not the system.",
            "recycle_log_file_num spares the length. From 9.1 on it works in the default mode, kPointInTimeRecovery, and in kSkipAnyCorruptedRecords; RocksDB sets it to 0 under kTolerateCorruptedTailRecords and kAbsoluteConsistency, and where old logs are kept (WAL_ttl_seconds, WAL_size_limit_MB). Before 9.1 only kSkipAnyCorruptedRecords kept it."],
        ways: &data_sync_all(&["WriteOptions::sync = true"]), ..PLAIN },
    Product { name: "LMDB/bbolt", words: &["lmdb", "bbolt"], version: "LMDB 0.9, bbolt 1.3 and 1.4",
        source: "https://pkg.go.dev/go.etcd.io/bbolt#DB (NoSync) and www.lmdb.tech/doc/group__mdb__env.html",
        why: "nothing to set: a commit syncs its pages and then the meta page, two waits for the disk",
        notes: &["MDB_NOSYNC, MDB_NOMETASYNC, MDB_MAPASYNC and bbolt's NoSync acknowledge before the disk has it.",
            "LMDB writes the meta page by a descriptor with O_DSYNC, bbolt by a second fdatasync.",
            "On macOS LMDB calls fsync, which leaves commits in the drive's cache; bbolt flushes the drive."],
        ways: &data_sync_all(&[]), ..PLAIN },
    Product { name: "Redis/Valkey", words: &["redis", "valkey"], version: "Redis 7 and 8, Valkey 7.2 to 9",
        source: "https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/ and https://valkey.io/topics/persistence/",
        why: "one write and one fdatasync before the replies of a turn of the event loop, for all clients of that turn",
        notes: &["The default, appendfsync everysec, may lose the last second and more when the disk is slow.",
            "no-appendfsync-on-rewrite must stay no, otherwise nothing is synced while the file is rewritten."],
        ways: &data_sync(&["appendonly yes", "appendfsync always"]), ..PLAIN },
    Product { name: "MongoDB", words: &["mongodb", "mongo"], version: "7.0 and 8.0",
        source: "https://www.mongodb.com/docs/manual/core/journaling/ and /reference/write-concern/",
        why: "j: true waits for the journal's next fdatasync, which all that wait share",
        notes: &["w: 1 without j never waits for the journal, which is synced every 100 ms (storage.journal.commitIntervalMs). writeConcernMajorityJournalDefault, on by default, is about w: \"majority\" only."],
        ways: &data_sync_all(&["writeConcern: { w: \"majority\", j: true }"]), ..PLAIN },
    Product { name: "Elasticsearch/OpenSearch", words: &["elasticsearch", "opensearch"], version: "Elasticsearch 8 and 9, OpenSearch 2 and 3",
        source: "https://www.elastic.co/docs/reference/elasticsearch/index-settings/translog",
        why: "the default: two syncs a request and shard, of the translog and of its checkpoint, on every copy",
        notes: &["async syncs every index.translog.sync_interval, 5 s: what was acknowledged since may be lost. Send bulk requests instead."],
        ways: &data_sync_all(&["index.translog.durability: request"]), ..PLAIN },
    Product { name: "NATS JetStream", words: &["nats", "jetstream"], version: "2.10 to 2.15",
        source: "https://docs.nats.io/reference/2.14/config/jetstream/sync_interval",
        why: "one fsync a message before its acknowledgement; a replicated stream's log is synced too",
        notes: &["By default messages are synced every two minutes, and an acknowledgement does not wait for it."],
        ways: &full_sync_all(&["jetstream { sync_interval: always }"]), ..PLAIN },
    Product { name: "RabbitMQ quorum queues", words: &["rabbitmq"], version: "3.13 to 4.2",
        source: "https://www.rabbitmq.com/docs/quorum-queues and https://github.com/rabbitmq/ra (ra_log_wal.erl)",
        why: "nothing to set on the node: all quorum queues share one WAL, of which each batch is one fdatasync, on a majority",
        notes: &["A publisher must wait for confirms. Classic queues confirm persistent messages after a sync of their own, of which they make few.",
            "The WAL grows up to raft.wal_max_size_bytes: each sync commits its length."],
        ways: &data_sync_all(&["x-queue-type: quorum", "# and publisher confirms"]), ..PLAIN },
    Product { name: "ActiveMQ Artemis", words: &["artemis", "activemq"], version: "2.28 to 2.44",
        source: "https://activemq.apache.org/components/artemis/documentation/latest/persistence.html (journal-type, journal-datasync)",
        why: "the journal type is the sync method: ASYNCIO is libaio around the cache with an fdatasync, NIO a file channel with force(false)",
        notes: &["journal-datasync=false leaves commits in the device's cache, or with NIO in the kernel's.",
            "Without libaio ASYNCIO falls back to NIO, and says so in the log.",
            "journal-buffer-timeout, which `artemis create` measures, gathers commits of many clients."],
        ways: &[
            way(&[Linux], "direct+fdatasync", &["<journal-type>ASYNCIO</journal-type>", "<journal-datasync>true</journal-datasync>"]),
            way(UNIX, "buffered+fdatasync", &["<journal-type>NIO</journal-type>", "<journal-datasync>true</journal-datasync>"]),
            way(&[MacOs], "buffered+fullfsync", &["<journal-type>NIO</journal-type>", "<journal-datasync>true</journal-datasync>"]),
            way(&[Windows], "buffered+flush", &["<journal-type>NIO</journal-type>", "<journal-datasync>true</journal-datasync>"]),
        ], ..PLAIN },
    Product { name: "BookKeeper/Pulsar", words: &["bookkeeper", "pulsar"], version: "BookKeeper 4.14 to 4.17",
        source: "https://bookkeeper.apache.org/docs/reference/config (journalSyncData, journalMaxGroupWaitMSec)",
        why: "the default: the journal's group is written and forced (fdatasync) before it is acknowledged, on the ack quorum",
        notes: &["journalSyncData=false acknowledges from memory.",
            "Groups gather for journalMaxGroupWaitMSec, 2; give the journal a disk of its own (journalDirectories)."],
        ways: &data_sync(&["journalSyncData=true"]), ..PLAIN },
    Product { name: "Redpanda", words: &["redpanda"], version: "24.1 to 25.3",
        source: "https://docs.redpanda.com/current/develop/config-topics/#configure-write-caching",
        why: "the default: direct writes and an fdatasync on a majority before the acknowledgement",
        notes: &["write.caching=true on a topic acknowledges from memory: a power cut common to a majority loses records.",
            "`rpk cluster config set write_caching_default false` sets it for the cluster; in development mode the default is true."],
        ways: &[way(&[Linux], "direct+fdatasync", &["write_caching_default: false", "# and acks=all in the producers"])], ..PLAIN },
    Product { name: "CockroachDB", words: &["cockroachdb", "cockroach"], version: "24.3 to 25.4",
        source: "https://www.cockroachlabs.com/docs/stable/architecture/storage-layer and github.com/cockroachdb/pebble",
        why: "nothing to set: each replica syncs its recycled WAL, and a majority must have done so",
        notes: &["--wal-failover=among-stores lets commits go on beside a store whose disk stalls.",
            "kv.raft_log.synchronization.unsafe.disabled must stay off: it loses acknowledged data."],
        ways: &data_sync(&[]), ..PLAIN },
    Product { name: "TiKV", words: &["tikv", "tidb"], version: "6.1 to 8.5",
        source: "https://docs.pingcap.com/tidb/stable/tikv-configuration-file (raft-engine) and github.com/tikv/raft-engine",
        why: "nothing to set: the Raft engine calls one fdatasync for the writes that wait, on a majority",
        notes: &["raft-engine.enable-log-recycle, on by default from 7.0, keeps the log's length; before, set it (from 6.3).",
            "raft-engine.dir on a disk of its own keeps RocksDB's compactions away from the commits."],
        ways: &data_sync(&[]), ..PLAIN },
    Product { name: "Cassandra", words: &["cassandra"], version: "4.1 and 5.0",
        source: "https://cassandra.apache.org/doc/latest/cassandra/managing/configuration/cass_yaml_file.html (commitlog_sync)",
        why: "every write waits for the commit log's next msync; writes that wait together share it",
        notes: &["The default, periodic, syncs every 10 s (commitlog_sync_period): only replicas on separate power keep what was written since.",
            "group, with commitlog_sync_group_window, gathers for longer.",
            "A compressed or encrypted commit log is written through the cache and synced by fsync instead; 5.0 can also write it directly (commitlog_disk_access_mode)."],
        ways: &[way(&[Linux], "mmap+msync", &["commitlog_sync: batch"])], ..PLAIN },
    Product { name: "ScyllaDB", words: &["scylladb", "scylla"], version: "2025.2 to 2026.3",
        source: "https://docs.scylladb.com/manual/stable/reference/configuration-parameters.html (commitlog_sync)",
        why: "every write waits for the commit log, written directly with O_DSYNC into recycled segments",
        notes: &["The default, periodic, acknowledges before the log is written (commitlog_sync_period_in_ms).",
            "commitlog_use_o_dsync: true, the default, makes each write durable by itself."],
        ways: &[way(&[Linux], "direct+dsync", &["commitlog_sync: batch"])], ..PLAIN },
    Product { name: "ClickHouse", words: &["clickhouse"], version: "24.8 to 25.8",
        source: "https://clickhouse.com/docs/reference/settings/merge-tree-settings/fsync",
        why: "off by default; every file of the inserted part is synced, and its folder",
        notes: &["Insert in large batches: a small compact part already has about ten files. Replicas on separate power are the usual way.",
            "ClickHouse Keeper syncs its own log by force_sync, which is on."],
        ways: &full_sync(&["SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"]), ..PLAIN },
    Product { name: "ZooKeeper", words: &["zookeeper"], version: "3.8 and 3.9",
        source: "https://zookeeper.apache.org/doc/r3.9.3/zookeeperAdmin.html (forceSync, dataLogDir)",
        why: "the default: one fdatasync of the transaction log for all requests that wait, on a majority",
        notes: &["forceSync=no acknowledges from memory.", "A sync slower than fsync.warningthresholdms, 1,000, is logged."],
        ways: &data_sync_all(&["forceSync=yes", "dataLogDir=/a/disk/of/its/own"]), ..PLAIN },
    Product { name: "Consul", words: &["consul"], version: "1.20 to 1.22",
        source: "https://github.com/hashicorp/consul/blob/v1.22.0/agent/consul/server.go (setupRaft) and github.com/hashicorp/raft-wal",
        why: "nothing to set: the WAL, the default since 1.20, calls one fsync for a batch of Raft entries",
        notes: &["A server that has a raft.db, from 1.19 or earlier, stays with boltdb whatever raft_logstore says: two syncs a batch, of its pages and of its root.",
            "The reference page of raft_logstore still calls boltdb the default and the WAL experimental: the source and docs/agent/wal-logstore say otherwise."],
        ways: &full_sync_all(&[]), ..PLAIN },
];

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_sys::methods;
    use std::collections::HashSet;

    const SYSTEMS: [System; 4] = [Linux, Windows, MacOs, Illumos];

    #[test]
    fn every_row_names_versions_a_source_a_day_and_methods_of_its_systems() {
        let words: Vec<&str> = PRODUCTS.iter().flat_map(|product| product.words).copied().collect();
        assert_eq!(words.iter().collect::<HashSet<_>>().len(), words.len(), "{words:?}");
        for product in &PRODUCTS {
            let name = product.name;
            assert!(product.version.contains(|c: char| c.is_ascii_digit()), "{name}");
            assert!(product.source.starts_with("http"), "{name}");
            assert!(product.checked.len() == 10 && product.checked.starts_with("20"), "{name}");
            assert!(product.on(Linux).next().is_some(), "{name}");
            assert_eq!(product.why.is_empty(), product.preset.is_some(), "{name}: a reason, or a demand");
            for system in SYSTEMS {
                for Way { method: id, .. } in product.on(system) {
                    let method = methods::of(system).iter().find(|method| method.id == *id);
                    let method = method.unwrap_or_else(|| panic!("{name}: {id}"));
                    assert!(matches!(method.reach().letter(), 'D' | 'O'), "{name}: {id}");
                }
            }
        }
    }

    #[test]
    fn products_are_selected_by_any_of_their_names_in_table_order() {
        let names =
            |text| select(text).map(|some| some.iter().map(|product| product.name).collect::<Vec<_>>());
        assert_eq!(names("valkey, PostgreSQL").expect("two"), ["PostgreSQL", "Redis/Valkey"]);
        let refusal = names("postgersql").expect_err("misspelt").to_string();
        assert!(refusal.contains("`postgersql`") && refusal.contains("did you mean postgresql"), "{refusal}");
        assert!(names(" , ").is_err());
        let needed = methods_of(&select("mysql,postgres").expect("two"), Linux);
        assert_eq!(needed, ["buffered+fdatasync", "dsync", "buffered+fsync", "sync"]);
    }
}
