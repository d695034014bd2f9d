//! Lists each product's versions, source, settings and the commit method that each setting uses.
//!
//! Invariants (tested over the table): a setting has the id of the row that makes the same calls; a system
//! without such a row gets no line; every row names the versions that it is for and a source that can be opened.

use super::{Choice, Reason, Setting, choose};
use crate::Error;
use crate::figures::{bytes, duration_ns, plural, rate};
use crate::lookup::{self, nearest};
use crate::rank::Ranking;
use seawall_sys::method::System;

/// A setting's name in its product's row, and the method that makes the same calls.
pub type SettingOfMethod = (&'static str, &'static str);

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
    /// Its settings on a system, the default first; empty where it does not run.
    pub settings: fn(System) -> &'static [SettingOfMethod],
    /// Whether this machine's device takes a setting.
    takes: fn(&Ranking<'_>, &str) -> bool,
    wording: Wording,
}

/// How the chosen setting is described.
#[derive(Debug, Clone, Copy)]
enum Wording {
    /// The same whatever was measured: lines, why, notes.
    Fixed(&'static [&'static str], &'static str, &'static [&'static str]),
    /// It depends on the choice.
    By(fn(&Ranking<'_>, Choice<'_, '_>) -> Advised),
}

/// Lines, why and notes of one setting.
struct Advised {
    lines: Vec<String>,
    why: String,
    notes: Vec<&'static str>,
    /// Whether a commit waits for the disk at all.
    waits: bool,
}

impl Product {
    /// Its setting for the machine at hand, or why there is none; `None` where it does not run.
    #[must_use]
    pub fn answer(&self, ranking: &Ranking<'_>) -> Option<Result<Setting, Reason>> {
        let settings = (self.settings)(lookup::system(ranking.result));
        if settings.is_empty() {
            return None;
        }
        let taken: Vec<SettingOfMethod> =
            settings.iter().filter(|(setting, _)| (self.takes)(ranking, setting)).copied().collect();
        Some(choose(ranking, &taken).map(|choice| self.setting(ranking, choice, taken.len() > 1)))
    }

    fn setting(&self, ranking: &Ranking<'_>, choice: Choice<'_, '_>, chosen: bool) -> Setting {
        let advised = match self.wording {
            Wording::By(describe) => describe(ranking, choice),
            Wording::Fixed(lines, why, notes) => Advised {
                lines: lines.iter().map(|line| (*line).to_owned()).collect(),
                why: why.to_owned(),
                notes: notes.to_vec(),
                waits: true,
            },
        };
        Setting {
            product: self.name,
            version: self.version,
            source: self.source,
            lines: advised.lines,
            why: advised.why,
            notes: advised.notes,
            chosen,
            method: Some(choice.row.id().to_owned()),
            commits_per_s: advised.waits.then(|| choice.row.measured.commits_per_s()),
        }
    }
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
#[must_use]
pub fn methods_of(products: &[&Product], system: System) -> Vec<&'static str> {
    let mut ids: Vec<&'static str> = Vec::new();
    for (_, id) in products.iter().flat_map(|product| (product.settings)(system)) {
        if !ids.contains(id) {
            ids.push(id);
        }
    }
    ids
}

fn any(_: &Ranking<'_>, _: &str) -> bool {
    true
}

/// Calls `fdatasync` where there is one.
fn data_sync(system: System) -> &'static [SettingOfMethod] {
    match system {
        System::Linux | System::Illumos => &[("", "buffered+fdatasync")],
        System::MacOs => &[("", "buffered+fullfsync")],
        System::Windows => &[("", "buffered+flush")],
    }
}

/// The same, of a product that does not run on Windows.
fn data_sync_unix(system: System) -> &'static [SettingOfMethod] {
    if system == System::Windows { &[] } else { data_sync(system) }
}

/// Calls `fsync`, or what flushes the drive.
fn full_sync(system: System) -> &'static [SettingOfMethod] {
    match system {
        System::Linux | System::Illumos => &[("", "buffered+fsync")],
        System::MacOs => &[("", "buffered+fullfsync")],
        System::Windows => &[("", "buffered+flush")],
    }
}

fn full_sync_unix(system: System) -> &'static [SettingOfMethod] {
    if system == System::Windows { &[] } else { full_sync(system) }
}

/// The table, in the order of reports.
#[rustfmt::skip]
pub const PRODUCTS: [Product; 18] = [
    Product { name: "PostgreSQL", words: &["postgresql", "postgres"], version: "16 to 18",
        source: "https://www.postgresql.org/docs/18/runtime-config-wal.html (wal_sync_method)",
        settings: postgresql_settings, takes: any, wording: Wording::By(postgresql) },
    Product { name: "MySQL", words: &["mysql"], version: "8.4 and 9",
        source: "https://dev.mysql.com/doc/refman/8.4/en/innodb-parameters.html (innodb_use_fdatasync, innodb_flush_method)",
        settings: mysql_settings, takes: any, wording: Wording::By(mysql) },
    Product { name: "MariaDB", words: &["mariadb"], version: "11.0 to 12.2",
        source: "https://mariadb.com/docs/server/server-usage/storage-engines/innodb/innodb-flush-method and MDEV-28766",
        settings: mariadb_settings, takes: mariadb_takes, wording: Wording::By(mariadb) },
    Product { name: "SQLite", words: &["sqlite"], version: "3.40 and later",
        source: "https://www.sqlite.org/pragma.html#pragma_synchronous and os_unix.c (HAVE_FDATASYNC)",
        settings: full_sync, takes: any, wording: Wording::By(sqlite) },
    Product { name: "etcd", words: &["etcd"], version: "3.5 and 3.6",
        source: "https://etcd.io/docs/v3.6/op-guide/hardware/ and server/storage/wal",
        settings: data_sync_unix, takes: any, wording: Wording::By(etcd) },
    Product { name: "Kafka", words: &["kafka"], version: "3.7 to 4.1",
        source: "https://kafka.apache.org/documentation/#topicconfigs_flush.messages",
        settings: full_sync, takes: any, wording: Wording::By(kafka) },
    Product { name: "RocksDB", words: &["rocksdb"], version: "9.1 to 11.9",
        source: "https://github.com/facebook/rocksdb/blob/main/HISTORY.md (9.1.0) and db_impl_open.cc",
        settings: data_sync, takes: any, wording: Wording::Fixed(&["WriteOptions::sync = true"],
            "each write of a group is one fdatasync; the log grows, so each commits its length too",
            &["The default, sync = false, leaves commits in the cache: they outlive the process, not the system.",
              "recycle_log_file_num spares the length. From 9.1 on it works in the default mode, kPointInTimeRecovery, and in kSkipAnyCorruptedRecords; RocksDB sets it to 0 under kTolerateCorruptedTailRecords and kAbsoluteConsistency. Before 9.1 only kSkipAnyCorruptedRecords kept it."]) },
    Product { name: "Redis/Valkey", words: &["redis", "valkey"], version: "Redis 7 and 8, Valkey 7.2 to 9",
        source: "https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/ and https://valkey.io/topics/persistence/",
        settings: data_sync_unix, takes: any, wording: Wording::Fixed(&["appendonly yes", "appendfsync always"],
            "one write and one fdatasync before the replies of a turn of the event loop, for all clients of that turn",
            &["The default, appendfsync everysec, may lose the last second and more when the disk is slow.",
              "no-appendfsync-on-rewrite must stay no, otherwise nothing is synced while the file is rewritten."]) },
    Product { name: "MongoDB", words: &["mongodb", "mongo"], version: "7.0 and 8.0",
        source: "https://www.mongodb.com/docs/manual/core/journaling/ and /reference/write-concern/",
        settings: data_sync, takes: any, wording: Wording::Fixed(&["writeConcern: { w: \"majority\", j: true }"],
            "j: true waits for the journal's next fdatasync, which all that wait share",
            &["Without j, and with writeConcernMajorityJournalDefault off, the journal is synced every 100 ms (storage.journal.commitIntervalMs)."]) },
    Product { name: "Elasticsearch/OpenSearch", words: &["elasticsearch", "opensearch"], version: "Elasticsearch 8 and 9, OpenSearch 2 and 3",
        source: "https://www.elastic.co/docs/reference/elasticsearch/index-settings/translog",
        settings: data_sync, takes: any, wording: Wording::Fixed(&["index.translog.durability: request"],
            "the default: two syncs a request and shard, of the translog and of its checkpoint, on every copy",
            &["async syncs every index.translog.sync_interval, 5 s: what was acknowledged since may be lost. Send bulk requests instead."]) },
    Product { name: "NATS JetStream", words: &["nats", "jetstream"], version: "2.10 to 2.14",
        source: "https://docs.nats.io/reference/2.14/config/jetstream/sync_interval",
        settings: full_sync, takes: any, wording: Wording::Fixed(&["jetstream { sync_interval: always }"],
            "one fsync a message before its acknowledgement; a replicated stream's log is synced too",
            &["By default messages are synced every two minutes, and an acknowledgement does not wait for it."]) },
    Product { name: "Redpanda", words: &["redpanda"], version: "24.1 to 25.3",
        source: "https://docs.redpanda.com/current/develop/config-topics/#configure-write-caching",
        settings: |system| if system == System::Linux { &[("", "direct+fdatasync")] } else { &[] }, takes: any,
        wording: Wording::Fixed(&["write_caching_default: false", "# and acks=all in the producers"],
            "the default: direct writes and an fdatasync on a majority before the acknowledgement",
            &["write.caching=true on a topic acknowledges from memory: a power cut common to a majority loses records.",
              "`rpk cluster config set write_caching_default false` sets it for the cluster."]) },
    Product { name: "CockroachDB", words: &["cockroachdb", "cockroach"], version: "24.3 to 25.4",
        source: "https://www.cockroachlabs.com/docs/stable/architecture/storage-layer and github.com/cockroachdb/pebble",
        settings: data_sync_unix, takes: any, wording: Wording::Fixed(&[],
            "nothing to set: each replica syncs its recycled WAL, and a majority must have done so",
            &["--wal-failover=among-stores lets commits go on beside a store whose disk stalls.",
              "kv.raft_log.disable_synchronization_unsafe must stay off: it loses acknowledged data."]) },
    Product { name: "Cassandra", words: &["cassandra"], version: "4.1 and 5.0",
        source: "https://cassandra.apache.org/doc/latest/cassandra/managing/configuration/cass_yaml_file.html (commitlog_sync)",
        settings: |system| if system == System::Linux { &[("", "mmap+msync")] } else { &[] }, takes: any,
        wording: Wording::Fixed(&["commitlog_sync: batch"],
            "every write waits for the commit log's next msync; writes that wait together share it",
            &["The default, periodic, syncs every 10 s (commitlog_sync_period): only replicas on separate power keep what was written since.",
              "group, with commitlog_sync_group_window, gathers for longer.",
              "A compressed or encrypted commit log is written through the cache and synced by fsync instead; 5.0 can also write it directly (commitlog_disk_access_mode)."]) },
    Product { name: "ScyllaDB", words: &["scylladb", "scylla"], version: "as of 2025.2",
        source: "https://docs.scylladb.com/manual/stable/reference/configuration-parameters.html (commitlog_sync)",
        settings: |system| if system == System::Linux { &[("", "direct+dsync")] } else { &[] }, takes: any,
        wording: Wording::Fixed(&["commitlog_sync: batch"],
            "every write waits for the commit log, written directly with O_DSYNC into recycled segments",
            &["The default, periodic, acknowledges before the log is written (commitlog_sync_period_in_ms).",
              "commitlog_use_o_dsync: true, the default, makes each write durable by itself."]) },
    Product { name: "ClickHouse", words: &["clickhouse"], version: "24.8 to 25.8",
        source: "https://clickhouse.com/docs/reference/settings/merge-tree-settings/fsync",
        settings: full_sync_unix, takes: any,
        wording: Wording::Fixed(&["SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"],
            "off by default; every file of the inserted part is synced, and its folder",
            &["Insert in large batches: a small compact part already has about ten files. Replicas on separate power are the usual way.",
              "ClickHouse Keeper syncs its own log by force_sync, which is on."]) },
    Product { name: "ZooKeeper", words: &["zookeeper"], version: "3.8 and 3.9",
        source: "https://zookeeper.apache.org/doc/r3.9.3/zookeeperAdmin.html (forceSync, dataLogDir)",
        settings: data_sync, takes: any, wording: Wording::Fixed(&["forceSync=yes", "dataLogDir=/a/disk/of/its/own"],
            "the default: one fdatasync of the transaction log for all requests that wait, on a majority",
            &["forceSync=no acknowledges from memory.",
              "A sync slower than fsync.warningthresholdms, 1,000, is logged."]) },
    Product { name: "Consul", words: &["consul"], version: "as of 1.22",
        source: "https://developer.hashicorp.com/consul/docs/reference/agent/configuration-file/raft (raft_logstore)",
        settings: full_sync, takes: any, wording: Wording::Fixed(&["raft_logstore { backend = \"wal\" }"],
            "one sync a batch of Raft entries; boltdb, the default, syncs twice, its pages and then its root",
            &["Change the backend one server after the other, each with an empty raft folder, as the manual of the WAL backend says.",
              "boltdb calls fdatasync, the wal backend fsync, which costs more where timestamps are journaled."]) },
];

fn postgresql_settings(system: System) -> &'static [SettingOfMethod] {
    match system {
        System::Linux => &[
            ("fdatasync", "buffered+fdatasync"),
            ("open_datasync", "dsync"),
            ("fsync", "buffered+fsync"),
            ("open_sync", "sync"),
        ],
        System::Illumos => &[
            ("open_datasync", "dsync"),
            ("fdatasync", "buffered+fdatasync"),
            ("fsync", "buffered+fsync"),
            ("open_sync", "sync"),
        ],
        System::MacOs => &[("fsync_writethrough", "buffered+fullfsync")],
        System::Windows => &[
            ("open_datasync", "write-through"),
            ("fsync", "buffered+flush"),
            ("fdatasync", "nt-flush-data-sync"),
        ],
    }
}

/// `wal_sync_method`. The open_ settings sync each write by itself, so two writes cost twice.
fn postgresql(ranking: &Ranking<'_>, choice: Choice<'_, '_>) -> Advised {
    let system = lookup::system(ranking.result);
    let (value, row) = (choice.setting, choice.row);
    let why = match (system, choice.beaten) {
        (System::MacOs, _) => "the only setting that flushes the drive".to_owned(),
        (_, Some(default)) => format!(
            "{} takes {}, the default, {}, {}, a difference beyond noise",
            row.id(),
            duration_ns(row.p50_ns()),
            default.id(),
            duration_ns(default.p50_ns())
        ),
        (_, None) if Some(value) == postgresql_settings(system).first().map(|(setting, _)| *setting) => {
            "the default, and nothing else beats it here".to_owned()
        }
        (_, None) => {
            format!("the same calls as {}; the default does not outlive a power cut here", row.id())
        }
    };
    let each_write = each_write(ranking, choice);
    let note = match system {
        System::Linux | System::Illumos => "",
        System::MacOs => "The default on macOS, open_datasync, leaves commits in the drive's cache.",
        System::Windows => {
            "The default on Windows, open_datasync, is WRITE_THROUGH, which some drivers ignore; fdatasync is there from PostgreSQL 16 on, and fsync_writethrough, up to 16, is another name of fsync."
        }
    };
    Advised {
        lines: vec![format!("wal_sync_method = {value}")],
        why: why + &each_write,
        notes: if note.is_empty() { Vec::new() } else { vec![note] },
        waits: true,
    }
}

/// What the open_ settings cost a commit of several writes: as measured, or as it follows from one write.
fn each_write(ranking: &Ranking<'_>, choice: Choice<'_, '_>) -> String {
    let (writes, row) = (ranking.result.plan.writes, choice.row);
    let opened = choice.setting.starts_with("open_");
    if writes == 1 {
        let twice = duration_ns(row.p50_ns().saturating_mul(2));
        let words = format!("; it syncs each write of the WAL, so a commit of two writes takes {twice}");
        return if opened { words } else { String::new() };
    }
    let each = match ranking.find("dsync").filter(|_| !opened) {
        Some(dsync) => format!("; open_datasync (dsync) takes {}, as it", duration_ns(dsync.p50_ns())),
        None if opened => "; it".to_owned(),
        None => return String::new(),
    };
    format!("{each} syncs each of the {writes} writes of a commit here")
}

fn mysql_settings(system: System) -> &'static [SettingOfMethod] {
    match system {
        System::Linux | System::Illumos => &[("ON", "buffered+fdatasync"), ("OFF", "buffered+fsync")],
        System::Windows => &[("", "buffered+flush")],
        System::MacOs => &[],
    }
}

/// The redo log is written through the cache whatever `innodb_flush_method` says of the data files.
fn mysql(_: &Ranking<'_>, choice: Choice<'_, '_>) -> Advised {
    let durable = ["innodb_flush_log_at_trx_commit = 1", "sync_binlog = 1"];
    let twice = "With the binary log on, a commit syncs twice: count on half the rate.";
    if choice.setting.is_empty() {
        return Advised {
            lines: durable.map(str::to_owned).to_vec(),
            why: "leave innodb_flush_method at its default; FlushFileBuffers syncs each commit".to_owned(),
            notes: vec![twice],
            waits: true,
        };
    }
    let lines = [
        "innodb_flush_method = O_DIRECT".to_owned(),
        format!("innodb_use_fdatasync = {}", choice.setting),
        durable[0].to_owned(),
        durable[1].to_owned(),
    ];
    Advised {
        lines: lines.to_vec(),
        why: format!(
            "the redo log goes through the cache, synced as {} does; half with the binary log",
            choice.row.id()
        ),
        notes: vec![
            "innodb_flush_method rules how data files are opened; O_DIRECT is the default from 8.4 on.",
            "O_DIRECT_NO_FSYNC spares syncs of data files only, with redo log and data files on one device. O_DSYNC opens the redo log with O_SYNC.",
            "innodb_use_fdatasync is ON by default from 8.4 on; 8.0.26 and later have it, OFF.",
            twice,
        ],
        waits: true,
    }
}

fn mariadb_settings(system: System) -> &'static [SettingOfMethod] {
    if system != System::Linux {
        return &[];
    }
    &[
        ("OFF OFF", "direct+fdatasync"),
        ("OFF ON", "direct+dsync"),
        ("ON OFF", "buffered+fdatasync"),
        ("ON ON", "dsync"),
    ]
}

/// Buffering is turned off only where the kernel reports a physical block of 64 to 4,096 bytes; elsewhere the server keeps
/// the cache whatever is set.
fn mariadb_takes(ranking: &Ranking<'_>, setting: &str) -> bool {
    let fits = |bytes: u64| bytes.is_power_of_two() && (64..=4096).contains(&bytes);
    let mut leaves = ranking.result.environment.leaves().peekable();
    let direct = leaves.peek().is_some() && leaves.all(|leaf| leaf.physical_block_bytes.is_some_and(fits));
    direct || setting.starts_with("ON ")
}

/// Since 11.0 two switches say how the log is written: through the cache or not, with `O_DSYNC` or not.
fn mariadb(ranking: &Ranking<'_>, choice: Choice<'_, '_>) -> Advised {
    let (buffering, write_through) = choice.setting.split_once(' ').unwrap_or((choice.setting, "OFF"));
    let cached = if mariadb_takes(ranking, "OFF") {
        ""
    } else {
        "; no device reports a block of 64 to 4,096 bytes here, so the log stays in the cache"
    };
    Advised {
        lines: vec![
            format!("innodb_log_file_buffering = {buffering}"),
            format!("innodb_log_file_write_through = {write_through}"),
            "innodb_flush_log_at_trx_commit = 1".to_owned(),
            "sync_binlog = 1".to_owned(),
        ],
        why: format!("the same calls as {}{cached}", choice.row.id()),
        notes: vec![
            "From 11.0 these replace innodb_flush_method, which is deprecated there; before, leave it at O_DIRECT, the default since 10.6.",
            "The binary log is synced apart until 12.3, which can keep it in InnoDB, and sync_binlog is 0 by default: with it on, a commit syncs twice.",
        ],
        waits: true,
    }
}

fn sqlite(ranking: &Ranking<'_>, choice: Choice<'_, '_>) -> Advised {
    let mac = lookup::system(ranking.result) == System::MacOs;
    let mut lines = vec!["PRAGMA journal_mode = WAL;".to_owned(), "PRAGMA synchronous = FULL;".to_owned()];
    let mut notes = vec![
        "NORMAL instead of FULL syncs at checkpoints only: a power cut may take back the last commits, though it does not damage the database.",
        "A default build calls fsync; one configured with HAVE_FDATASYNC, as distributions do, calls fdatasync.",
    ];
    if mac {
        lines.extend(["PRAGMA fullfsync = ON;", "PRAGMA checkpoint_fullfsync = ON;"].map(str::to_owned));
        notes.push("Without fullfsync a commit stays in the drive's cache on macOS.");
    }
    Advised {
        lines,
        why: format!("each commit is one sync of the WAL, as {}", choice.row.id()),
        notes,
        waits: true,
    }
}

/// etcd has nothing to set; its manual has a demand.
fn etcd(ranking: &Ranking<'_>, choice: Choice<'_, '_>) -> Advised {
    const P99_MAX_NS: u64 = 10_000_000;
    const COMMIT_BYTES: u64 = 2300;
    let row = choice.row;
    let sync = row.measured.latency("sync").unwrap_or(row.measured.main());
    let waited = super::disturbed::tail_wait(row);
    let answer = match (sync.percentile(99.0).ns(), waited) {
        (None, _) => format!("{} are too few for its p99", plural(sync.count(), "sync", "syncs")),
        (Some(ns), _) if ns < P99_MAX_NS => {
            format!("fit, p99 of its fdatasync is {} of at most 10 ms", duration_ns(ns))
        }
        (Some(_), true) => "cannot tell: its slow syncs waited for a CPU".to_owned(),
        (Some(ns), false) => {
            format!("TOO SLOW, p99 of its fdatasync is {} of at most 10 ms", duration_ns(ns))
        }
    };
    let plan = &ranking.result.plan;
    let caveat =
        if plan.transaction_bytes == COMMIT_BYTES && plan.writes == 1 && plan.file_state.needs_metadata() {
            String::new()
        } else {
            format!(
                " ({}, {} here; `--require etcd` takes its {} into a file as etcd reserves it)",
                plan.transaction(),
                plan.file_state.name(),
                bytes(COMMIT_BYTES)
            )
        };
    Advised {
        lines: Vec::new(),
        why: answer + &caveat,
        notes: vec![
            "etcd has no setting for it. If it is too slow, give its WAL a disk of its own (--wal-dir).",
        ],
        waits: true,
    }
}

fn kafka(_: &Ranking<'_>, choice: Choice<'_, '_>) -> Advised {
    Advised {
        lines: ["acks=all", "min.insync.replicas=2", "# replication factor 3, on separate power"]
            .map(str::to_owned)
            .to_vec(),
        why: format!(
            "it counts on replicas, not on syncs; flush.messages=1 would sync each append: at most {}/s a partition",
            rate(choice.row.measured.commits_per_s())
        ),
        notes: vec![
            "By default a record is committed when its replicas have it in memory: a power cut common to all of them loses it.",
            "flush.messages=1 on a topic (log.flush.interval.messages=1 on the broker) calls fsync for each append; the manual advises against it, for its cost.",
        ],
        waits: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_sys::methods;
    use std::collections::HashSet;

    const SYSTEMS: [System; 4] = [System::Linux, System::Windows, System::MacOs, System::Illumos];

    #[test]
    fn every_row_names_versions_a_source_and_methods_of_its_systems() {
        let words: Vec<&str> = PRODUCTS.iter().flat_map(|product| product.words).copied().collect();
        assert_eq!(words.iter().collect::<HashSet<_>>().len(), words.len(), "{words:?}");
        for product in &PRODUCTS {
            assert!(product.version.contains(|c: char| c.is_ascii_digit()), "{}", product.name);
            assert!(product.source.starts_with("https://"), "{}", product.name);
            assert!(!(product.settings)(System::Linux).is_empty(), "{}", product.name);
            for system in SYSTEMS {
                for (_, id) in (product.settings)(system) {
                    let method = methods::of(system).iter().find(|method| method.id == *id);
                    let method = method.unwrap_or_else(|| panic!("{}: {id}", product.name));
                    assert!(matches!(method.reach().letter(), 'D' | 'O'), "{}: {id}", product.name);
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
        let needed = methods_of(&select("mysql,postgres").expect("two"), System::Linux);
        assert_eq!(needed, ["buffered+fdatasync", "dsync", "buffered+fsync", "sync"]);
    }
}
