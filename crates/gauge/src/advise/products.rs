//! Lists each product's settings and the commit method that each one uses: PostgreSQL, MySQL, SQLite and others.
//!
//! Products: PostgreSQL, MySQL, MariaDB, SQLite, etcd, Kafka, RocksDB. Sources: PostgreSQL manual, `wal_sync_method`
//! (16 to 18); MySQL 8.4 manual, `innodb_flush_method` and `innodb_use_fdatasync`; MariaDB knowledge base, "InnoDB
//! flush method" (11.0); SQLite, `PRAGMA synchronous`; etcd, "Hardware recommendations"; Kafka, topic and broker
//! settings; RocksDB, `SanitizeOptions` in its source.
//!
//! Invariant: a setting refers to the row of the method table that makes the same calls; a system without such a row
//! gets no line.

use super::{Choice, Setting, choose};
use crate::figures::{bytes, duration_ns};
use crate::lookup;
use crate::rank::{Ranked, Ranking, Standing};
use seawall_sys::method::System;

/// A product: its setting for the machine at hand, `None` where the product does not run or nothing was measured.
pub type Product = fn(&Ranking<'_>) -> Option<Setting>;

/// All of them, in the order in which they are told.
pub const PRODUCTS: [Product; 7] = [postgresql, mysql, mariadb, sqlite, etcd, kafka, rocksdb];

fn setting(
    product: &'static str,
    row: &Ranked<'_>,
    lines: &[&str],
    why: String,
    notes: &[&'static str],
) -> Setting {
    Setting {
        product,
        lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        why,
        notes: notes.to_vec(),
        method: Some(row.id().to_owned()),
        commits_per_s: Some(row.measured.commits_per_s()),
    }
}

/// `wal_sync_method`, the default of the system first.
fn postgresql(ranking: &Ranking<'_>) -> Option<Setting> {
    let table: &[(&'static str, &str)] = match lookup::system(ranking.result) {
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
    };
    let Choice { setting: value, row } = choose(ranking, table)?;
    let (why, note) = match (lookup::system(ranking.result), value) {
        (System::Linux, "fdatasync") => ("the default, and nothing else beats it here".to_owned(), ""),
        (System::Linux, _) => (
            format!("{} beats the default, fdatasync, beyond noise", row.id()),
            "The open_* settings sync each write of the WAL by itself, so a large transaction pays several times: try it with yours.",
        ),
        (System::MacOs, _) => (
            "the only setting that flushes the drive".to_owned(),
            "The default on macOS, open_datasync, leaves commits in the drive's cache.",
        ),
        (System::Windows, "open_datasync") => ("the default: WRITE_THROUGH".to_owned(), ""),
        (System::Windows, _) => (
            format!("the same calls as {}", row.id()),
            "The default on Windows, open_datasync, is WRITE_THROUGH, which some drivers ignore; fdatasync is there from PostgreSQL 16 on, and fsync_writethrough, up to 16, is another name of fsync.",
        ),
        (System::Illumos, _) => (format!("the same calls as {}", row.id()), ""),
    };
    let notes: &[&'static str] = if note.is_empty() { &[] } else { &[note] };
    Some(setting("PostgreSQL", row, &[&format!("wal_sync_method = {value}")], why, notes))
}

/// The redo log is written through the cache whatever `innodb_flush_method` says of the data files.
fn mysql(ranking: &Ranking<'_>) -> Option<Setting> {
    let system = lookup::system(ranking.result);
    let durable = ["innodb_flush_log_at_trx_commit = 1", "sync_binlog = 1"];
    let twice = "With the binary log on, a commit syncs twice: count on half the rate.";
    if system == System::Windows {
        let row = choose(ranking, &[("", "buffered+flush")])?.row;
        let why = "leave innodb_flush_method at its default; FlushFileBuffers syncs each commit";
        return Some(setting("MySQL 8", row, &durable, why.to_owned(), &[twice]));
    }
    if system == System::MacOs {
        return None;
    }
    let table = [("ON", "buffered+fdatasync"), ("OFF", "buffered+fsync")];
    let Choice { setting: fdatasync, row } = choose(ranking, &table)?;
    let use_fdatasync = format!("innodb_use_fdatasync = {fdatasync}");
    let lines = ["innodb_flush_method = O_DIRECT", &use_fdatasync, durable[0], durable[1]];
    let why =
        format!("the redo log goes through the cache, synced as {} does; half with the binary log", row.id());
    let notes = [
        "innodb_flush_method rules how data files are opened; O_DIRECT is the default from 8.4 on.",
        "O_DIRECT_NO_FSYNC spares syncs of data files only; it needs 8.0.14, and redo log and data files on one device. O_DSYNC opens the redo log with O_SYNC.",
        "innodb_use_fdatasync is there from 8.0.26 on.",
        twice,
    ];
    Some(setting("MySQL 8", row, &lines, why, &notes))
}

/// Since 11.0 two switches say how the log is written: through the cache or not, with `O_DSYNC` or not.
fn mariadb(ranking: &Ranking<'_>) -> Option<Setting> {
    if lookup::system(ranking.result) != System::Linux {
        return None;
    }
    let Choice { setting: switches, row } = choose(
        ranking,
        &[
            ("OFF OFF", "direct+fdatasync"),
            ("OFF ON", "direct+dsync"),
            ("ON OFF", "buffered+fdatasync"),
            ("ON ON", "dsync"),
        ],
    )?;
    let (buffering, write_through) = switches.split_once(' ')?;
    let lines = [
        &format!("innodb_log_file_buffering = {buffering}"),
        &format!("innodb_log_file_write_through = {write_through}"),
        "innodb_flush_log_at_trx_commit = 1",
        "sync_binlog = 1",
    ];
    let why = format!("the same calls as {}", row.id());
    let notes = [
        "From 11.0 these replace innodb_flush_method, which is deprecated there; before, leave it at O_DIRECT, the default since 10.6.",
        "The binary log is synced apart, and sync_binlog is 0 by default: with it on, a commit syncs twice.",
    ];
    Some(setting("MariaDB 11", row, &lines, why, &notes))
}

fn sqlite(ranking: &Ranking<'_>) -> Option<Setting> {
    let system = lookup::system(ranking.result);
    let (table, more): (&[(&'static str, &str)], &[&str]) = match system {
        System::MacOs => {
            (&[("", "buffered+fullfsync")], &["PRAGMA fullfsync = ON;", "PRAGMA checkpoint_fullfsync = ON;"])
        }
        System::Windows => (&[("", "buffered+flush")], &[]),
        System::Linux | System::Illumos => (&[("", "buffered+fdatasync"), ("", "buffered+fsync")], &[]),
    };
    let row = choose(ranking, table)?.row;
    let mut lines = vec!["PRAGMA journal_mode = WAL;", "PRAGMA synchronous = FULL;"];
    lines.extend(more);
    let why = format!("each commit is one sync of the WAL, as {}", row.id());
    let mut notes = vec![
        "NORMAL instead of FULL syncs at checkpoints only: a power cut may take back the last commits, though it does not damage the database.",
    ];
    if system == System::MacOs {
        notes.push("Without fullfsync a commit stays in the drive's cache on macOS.");
    }
    Some(setting("SQLite", row, &lines, why, &notes))
}

/// etcd has nothing to set; its manual has a demand.
fn etcd(ranking: &Ranking<'_>) -> Option<Setting> {
    const P99_MAX_NS: u64 = 10_000_000;
    const COMMIT_BYTES: u64 = 2300;
    let id = match lookup::system(ranking.result) {
        System::MacOs => "buffered+fullfsync",
        System::Windows => return None,
        System::Linux | System::Illumos => "buffered+fdatasync",
    };
    let row = ranking.find(id).filter(|row| row.standing == Standing::PowerLoss)?;
    let sync = row.measured.sync.as_ref().unwrap_or(&row.measured.latency);
    let verdict = match sync.percentile(99.0).ns() {
        None => {
            format!("{} are too few to tell its p99", crate::figures::plural(sync.count(), "sync", "syncs"))
        }
        Some(ns) if ns < P99_MAX_NS => {
            format!("fit, p99 of its fdatasync is {} of at most 10 ms", duration_ns(ns))
        }
        Some(ns) => format!("TOO SLOW, p99 of its fdatasync is {} of at most 10 ms", duration_ns(ns)),
    };
    let size = ranking.result.plan.transaction_bytes;
    let caveat = if size == COMMIT_BYTES {
        String::new()
    } else {
        format!(" ({} here; `--require etcd` takes its {})", bytes(size), bytes(COMMIT_BYTES))
    };
    let notes =
        ["etcd has no setting for it. If it is too slow, give its WAL a disk of its own (--wal-dir)."];
    Some(setting("etcd", row, &[], format!("{verdict}{caveat}"), &notes))
}

fn kafka(ranking: &Ranking<'_>) -> Option<Setting> {
    let id = match lookup::system(ranking.result) {
        System::Windows => "buffered+flush",
        // The JVM's FileChannel.force calls F_FULLFSYNC there.
        System::MacOs => "buffered+fullfsync",
        System::Linux | System::Illumos => "buffered+fsync",
    };
    let row = ranking.find(id).filter(|row| row.standing == Standing::PowerLoss)?;
    let lines = ["acks=all", "min.insync.replicas=2", "# replication factor 3, on separate power"];
    let why = format!(
        "it counts on replicas, not on syncs; flush.messages=1 would sync each append: at most {}/s a partition",
        crate::figures::rate(row.measured.commits_per_s())
    );
    let notes = [
        "By default a record is committed when its replicas have it in memory: a power cut common to all of them loses it.",
        "flush.messages=1 on a topic (log.flush.interval.messages=1 on the broker) calls fsync for each append; the manual advises against it, for its cost.",
    ];
    Some(Setting { commits_per_s: None, ..setting("Kafka", row, &lines, why, &notes) })
}

/// Its log is a new file each time.
fn rocksdb(ranking: &Ranking<'_>) -> Option<Setting> {
    let id = match lookup::system(ranking.result) {
        System::Windows => "buffered+flush",
        System::MacOs => "buffered+fullfsync",
        System::Linux | System::Illumos => "buffered+fdatasync",
    };
    let row = ranking.find(id).filter(|row| row.standing == Standing::PowerLoss)?;
    let why =
        format!("each write of a group is one sync, as {id}; the log grows, so each commits its length too");
    let notes = [
        "The default, sync = false, leaves commits in the cache: they outlive the process, not the system.",
        "recycle_log_file_num would spare the length, but RocksDB sets it to 0 unless wal_recovery_mode is kSkipAnyCorruptedRecords, which lets recovery pass over lost records.",
    ];
    let lines = ["WriteOptions::sync = true"];
    Some(setting("RocksDB", row, &lines, why, &notes))
}
