//! Tests SlateDB over the log: recovery, readers, garbage collection, clones, fencing and refusals of foreign logs.

use std::path::Path as Dir;
use std::sync::Arc;
use std::time::Duration;

use seawall::Lsn;
use seawall_slatedb::{Options, Wal, Wals};
use slatedb::admin::{Admin, CloneSourceSpec};
use slatedb::config::{
    CheckpointOptions, CheckpointScope, CloseOptions, DbReaderOptions, FlushOptions, FlushType,
    GarbageCollectorDirectoryOptions, GarbageCollectorOptions, Settings,
};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::memory::InMemory;
use slatedb::wal::{WalAdmin, WalGc, WalReader};
use slatedb::{Db, DbReader, DbReaderMode, GarbageCollectorBuilder};

const DB: &str = "tenant/db";
/// What takes longer never comes.
const LIMIT: Duration = Duration::from_secs(20);

struct Fixture {
    dir: tempfile::TempDir,
    store: Arc<dyn ObjectStore>,
}

impl Fixture {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory"), store: Arc::new(InMemory::new()) }
    }

    fn wals(&self) -> Wals {
        self.wals_in(self.dir.path())
    }

    fn wals_in(&self, root: &Dir) -> Wals {
        Wals::new(root, Options::default().segment_bytes(1 << 20), Arc::clone(&self.store))
    }

    async fn open(&self, wal: &Wal) -> Result<Db, slatedb::Error> {
        self.open_at(DB, wal).await
    }

    async fn open_at(&self, path: &'static str, wal: &Wal) -> Result<Db, slatedb::Error> {
        let settings = Settings {
            flush_interval: None,
            compactor_options: None,
            garbage_collector_options: None,
            ..Settings::default()
        };
        let builder = Db::builder(path, Arc::clone(&self.store)).with_settings(settings);
        builder.with_wal_writer(Box::new(wal.clone())).build().await
    }

    /// Makes the database `clone`.
    async fn clone_of(&self, source: CloneSourceSpec) -> Result<(), slatedb::Error> {
        let admin = Admin::builder("clone", Arc::clone(&self.store)).with_wal_admin(Arc::new(self.wals()));
        admin.build().create_clone_builder_from_source(source).build().await
    }
}

async fn close(db: &Db) {
    db.close_with_options(CloseOptions::default().with_flush_type(None)).await.expect("closes");
}

async fn put(db: &Db, key: &str, value: &str) {
    let written = db.put(key.as_bytes(), value.as_bytes()).await.expect("is accepted");
    written.await_durable().await.expect("is durable");
}

async fn get(db: &Db, key: &str) -> Option<String> {
    let value = db.get(key.as_bytes()).await.expect("reads");
    value.map(|value| String::from_utf8_lossy(&value).into_owned())
}

/// How many rows a reader finds in the log.
async fn rows(fixture: &Fixture) -> usize {
    let reader = fixture.wals().reader(DB);
    let last = reader.last_wal_file_id(0).await.expect("has an end");
    let (mut all, mut rows) = (reader.iterator((1..last + 1).into()).await.expect("reads"), 0);
    while let Some(found) = all.next().await.expect("reads") {
        rows += found.rows.len();
    }
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn awaited_writes_are_there_after_another_opening() {
    let fixture = Fixture::new();
    for reopened in [false, true] {
        let db = fixture.open(&fixture.wals().wal(DB).expect("opens")).await.expect("opens");
        if reopened {
            assert_eq!(get(&db, "key-1").await.as_deref(), Some("value-1"));
            assert_eq!(get(&db, "key-2").await, None, "it was deleted");
        } else {
            put(&db, "key-1", "value-1").await;
            put(&db, "key-2", "value-2").await;
            let deleted = db.delete(b"key-2").await.expect("is accepted");
            deleted.await_durable().await.expect("is durable");
        }
        close(&db).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_not_awaited_is_durable_after_a_flush() {
    let fixture = Fixture::new();
    let wal = fixture.wals().wal(DB).expect("opens");
    let db = fixture.open(&wal).await.expect("opens");
    for i in 0..100 {
        db.put(format!("{i}"), b"v").await.expect("is accepted");
    }
    db.flush_with_options(FlushOptions { flush_type: FlushType::Wal }).await.expect("is durable");
    assert_eq!(wal.log().durable_lsn(), wal.log().appended_lsn());
    assert_eq!(rows(&fixture).await, 100);
    close(&db).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_follows_the_log_of_a_writer() {
    let fixture = Fixture::new();
    let db = fixture.open(&fixture.wals().wal(DB).expect("opens")).await.expect("opens");
    put(&db, "key", "value").await;
    let reader = DbReader::builder(DB, Arc::clone(&fixture.store))
        .with_reader_mode(DbReaderMode::FollowLatest)
        .with_options(DbReaderOptions {
            manifest_poll_interval: Duration::from_millis(50),
            ..DbReaderOptions::default()
        })
        .with_wal_reader(Arc::new(fixture.wals().reader(DB)))
        .build()
        .await
        .expect("opens");
    assert_eq!(reader.get(b"key").await.expect("reads").as_deref(), Some(&b"value"[..]));
    put(&db, "later", "value").await;
    let comes = async {
        while reader.get(b"later").await.expect("reads").is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, comes).await.expect("is shown");
    reader.close().await.expect("closes");
    close(&db).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_iterator_without_an_end_waits_and_loses_no_row_of_a_call_that_is_given_up() {
    let fixture = Fixture::new();
    let db = fixture.open(&fixture.wals().wal(DB).expect("opens")).await.expect("opens");
    let mut rows = fixture.wals().reader(DB).iterator((1..).into()).await.expect("reads");
    let mut found = 0;
    for i in 0..20 {
        let given_up = tokio::time::timeout(Duration::from_millis(i % 3), rows.next()).await;
        found += given_up.map_or(0, |all| all.expect("reads").expect("has no end").rows.len());
        put(&db, &i.to_string(), "value").await;
    }
    while found < 20 {
        let next = tokio::time::timeout(LIMIT, rows.next()).await.expect("comes");
        found += next.expect("reads").expect("has no end").rows.len();
    }
    assert_eq!(found, 20);
    close(&db).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_manifest_references_is_trimmed_in_the_process_of_the_writer_only() {
    let fixture = Fixture::new();
    let (wals, path) = (fixture.wals(), DB.into());
    let wal = wals.wal(DB).expect("opens");
    let db = fixture.open(&wal).await.expect("opens");
    for i in 0..3 {
        put(&db, &format!("key-{i}"), "value").await;
    }
    db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await.expect("is flushed");
    let flushed = wal.log().appended_lsn();
    put(&db, "key-4", "value").await;
    let collector = |gc: Arc<dyn WalGc>, dry_run| {
        let wal_options =
            GarbageCollectorDirectoryOptions { interval: None, min_age: Duration::ZERO, dry_run };
        GarbageCollectorBuilder::new(DB, Arc::clone(&fixture.store))
            .with_wal_gc(gc)
            .with_options(GarbageCollectorOptions {
                manifest_options: None,
                wal_options: Some(wal_options),
                wal_fence_options: None,
                compacted_options: None,
                compactions_options: None,
                detach_options: None,
                ..GarbageCollectorOptions::default()
            })
            .build()
    };
    collector(Arc::new(wal.clone()), true).run_gc_once().await;
    assert_eq!(wal.log().first_lsn(), Lsn::ZERO, "a dry run");
    // Another process has no handle: the lock keeps it out.
    let elsewhere = fixture.wals().garbage_collector(&path);
    let refused = elsewhere.collect(vec![(flushed.get()..).into()], Duration::ZERO, false).await;
    assert!(refused.expect_err("is locked").to_string().contains("another writer"), "it says why");
    let young = wals.garbage_collector(&path);
    young.collect(vec![(flushed.get()..).into()], Duration::from_hours(1), false).await.expect("is young");
    assert_eq!(wal.log().first_lsn(), Lsn::ZERO, "too young");
    collector(wals.garbage_collector(&path), false).run_gc_once().await;
    let first = wal.log().first_lsn();
    assert!(first > Lsn::ZERO && first <= flushed, "{first} of {flushed}");
    wal.collect(Vec::new(), Duration::ZERO, false).await.expect("collects nothing");
    assert_eq!(wal.log().first_lsn(), first);
    close(&db).await;
    let db = fixture.open(&wal).await.expect("opens");
    for i in [0, 1, 2] {
        assert_eq!(get(&db, &format!("key-{i}")).await.as_deref(), Some("value"));
    }
    close(&db).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_has_the_same_rows_and_a_log_of_its_own() {
    let fixture = Fixture::new();
    let wals = fixture.wals();
    let db = fixture.open(&wals.wal(DB).expect("opens")).await.expect("opens");
    put(&db, "key-1", "value-1").await;
    put(&db, "key-2", "value-2").await;
    close(&db).await;
    for _ in 0..2 {
        fixture.clone_of(CloneSourceSpec::new(DB)).await.expect("clones, and again");
    }
    let clone = fixture.open_at("clone", &wals.wal("clone").expect("opens")).await.expect("opens");
    put(&clone, "key-1", "other").await;
    assert_eq!(get(&clone, "key-2").await.as_deref(), Some("value-2"));
    close(&clone).await;
    let db = fixture.open(&wals.wal(DB).expect("opens")).await.expect("opens");
    assert_eq!(get(&db, "key-1").await.as_deref(), Some("value-1"));
    close(&db).await;
    drop(db);

    let path = DB.into();
    let last = wals.reader(DB).last_wal_file_id(0).await.expect("has an end");
    assert!(!wals.is_empty(&path, 0, last).await.expect("reads"));
    assert!(wals.is_empty(&path, last, last).await.expect("reads"));
    let dir = fixture.dir.path().join("tenant%%db");
    let named = vec![dir.display().to_string()];
    assert_eq!(wals.delete_wal(&path, true).await.expect("names it"), named);
    assert!(dir.exists());
    assert_eq!(wals.delete_wal(&path, false).await.expect("removes it"), named);
    assert!(!dir.exists());
    assert!(wals.delete_wal(&path, false).await.expect("has nothing to do").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_of_a_checkpoint_lacks_what_came_later() {
    let fixture = Fixture::new();
    let wals = fixture.wals();
    let db = fixture.open(&wals.wal(DB).expect("opens")).await.expect("opens");
    put(&db, "before", "value").await;
    let checkpoint =
        db.create_checkpoint(CheckpointScope::Durable, &CheckpointOptions::default()).await.expect("is made");
    put(&db, "after", "value").await;
    fixture.clone_of(CloneSourceSpec::with_checkpoint(DB, checkpoint.id)).await.expect("clones");
    let clone = fixture.open_at("clone", &wals.wal("clone").expect("opens")).await.expect("opens");
    assert_eq!(get(&clone, "before").await.as_deref(), Some("value"));
    assert_eq!(get(&clone, "after").await, None);
    close(&clone).await;
    close(&db).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_writer_fences_the_first_in_its_process_and_is_kept_out_of_another() {
    let fixture = Fixture::new();
    let wal = fixture.wals().wal(DB).expect("opens");
    let first = fixture.open(&wal).await.expect("opens");
    put(&first, "key-1", "value-1").await;
    let locked = fixture.wals().wal(DB).expect_err("is locked").to_string();
    assert!(locked.contains("another writer"), "{locked}");
    put(&first, "key-2", "value-2").await;

    let second = fixture.open(&wal).await.expect("opens");
    let refused = first.put(b"key-2", b"too late").await.expect_err("is fenced");
    assert!(refused.to_string().contains("newer DB client"), "{refused}");
    put(&second, "key-3", "value-3").await;
    for i in 1..=3 {
        assert_eq!(get(&second, &format!("key-{i}")).await, Some(format!("value-{i}")));
    }
    close(&second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_left_behind_is_not_replayed() {
    let fixture = Fixture::new();
    let (old, new) = (fixture.wals(), tempfile::tempdir().expect("a directory"));
    let wal = old.wal(DB).expect("opens");
    let db = fixture.open(&wal).await.expect("opens");
    put(&db, "key-1", "old").await;
    // The machine is lost. Its log was archived up to here.
    let restored = new.path().join("tenant%%db");
    wal.log().backup(&restored).expect("is copied");
    let here = fixture.wals_in(new.path()).wal(DB).expect("opens");
    let refused = fixture.open(&here).await.err().expect("is refused").to_string();
    assert!(refused.contains("tenant%%db") && refused.contains("take_over"), "{refused}");
    let second = fixture.open(&here.clone().take_over()).await.expect("opens");
    assert_eq!(get(&second, "key-1").await.as_deref(), Some("old"));
    put(&second, "key-1", "new").await;
    close(&second).await;

    // It comes back with a log that lacks what was written since, alone or beside the newer one.
    for _ in 0..2 {
        let stale = fixture.open(&wal).await.err().expect("is refused").to_string();
        assert!(stale.contains(&restored.display().to_string()) && stale.contains("take_over"), "{stale}");
    }
    let third = fixture.open(&here).await.expect("is the newest log, and not kept out by what was refused");
    assert_eq!(get(&third, "key-1").await.as_deref(), Some("new"));
    close(&third).await;
    let old = fixture.open(&wal.clone().take_over()).await.expect("loses what it is told to lose");
    assert_eq!(get(&old, "key-1").await.as_deref(), Some("old"));
    close(&old).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_database_that_was_deleted_is_not_replayed() {
    let fixture = Fixture::new();
    let db = fixture.open(&fixture.wals().wal(DB).expect("opens")).await.expect("opens");
    put(&db, "key", "value").await;
    close(&db).await;
    drop(db);
    let emptied = Fixture { store: Arc::new(InMemory::new()), ..fixture };
    let wal = emptied.wals().wal(DB).expect("opens");
    let refused = emptied.open(&wal).await.err().expect("is refused").to_string();
    assert!(refused.contains("never opened") && refused.contains("take_over"), "{refused}");
    drop(wal);
    emptied.wals().delete_wal(&DB.into(), false).await.expect("is removed");
    let db = emptied.open(&emptied.wals().wal(DB).expect("opens")).await.expect("opens");
    assert_eq!(get(&db, "key").await, None);
    close(&db).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_openings_at_the_same_time_one_goes_on() {
    for _ in 0..30 {
        let fixture = Fixture::new();
        let wal = fixture.wals().wal(DB).expect("opens");
        let opened = tokio::join!(fixture.open(&wal), fixture.open(&wal), fixture.open(&wal));
        let mut written = 0;
        for db in [opened.0, opened.1, opened.2].into_iter().flatten() {
            let Ok(put) = db.put(b"key", b"value").await else { continue };
            let durable = tokio::time::timeout(LIMIT, put.await_durable()).await;
            written += u32::from(durable.expect("ends").is_ok());
        }
        assert!(written >= 1, "none goes on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_takes_no_other_log_for_its_copy() {
    let fixture = Fixture::new();
    let wals = fixture.wals();
    let db = fixture.open(&wals.wal(DB).expect("opens")).await.expect("opens");
    put(&db, "key", "value").await;
    close(&db).await;
    let early = wals.wal("clone").expect("opens");
    let refused = fixture.clone_of(CloneSourceSpec::new(DB)).await.expect_err("is refused").to_string();
    assert!(refused.contains("another log than the copy"), "{refused}");
    drop(early);
    // A database that lies below another one by its path is no part of it.
    wals.wal("clone/below").expect("opens").log().append_commit(b"kept").expect("commits");
    wals.delete_wal(&"clone".into(), false).await.expect("is removed");
    assert!(wals.wal("clone/below").expect("opens").log().durable_lsn() > Lsn::ZERO);
    fixture.clone_of(CloneSourceSpec::new(DB)).await.expect("clones");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_ends_before_what_the_database_has_is_refused_or_filled_up() {
    let fixture = Fixture::new();
    let wal = fixture.wals().wal(DB).expect("opens");
    let db = fixture.open(&wal).await.expect("opens");
    for i in 0..50 {
        put(&db, &format!("key-{i}"), &"v".repeat(100_000)).await;
    }
    db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await.expect("is flushed");
    put(&db, "lost", "value").await;
    close(&db).await;
    let new = tempfile::tempdir().expect("a directory");
    let empty = fixture.wals_in(new.path()).wal(DB).expect("opens");
    let refused = fixture.open(&empty).await.err().expect("is refused").to_string();
    assert!(refused.contains("ends at LSN 0") && refused.contains("take_over"), "{refused}");
    let db = fixture.open(&empty.clone().take_over()).await.expect("opens");
    put(&db, "key-1", "newer").await;
    close(&db).await;
    let db = fixture.open(&empty).await.expect("is the newest now");
    assert_eq!(get(&db, "lost").await, None);
    assert_eq!(get(&db, "key-1").await.as_deref(), Some("newer"));
    assert_eq!(get(&db, "key-49").await, Some("v".repeat(100_000)));
    close(&db).await;
}

/// How many manifests there are.
async fn manifests(fixture: &Fixture) -> usize {
    let listed = fixture.store.list_with_delimiter(Some(&format!("{DB}/manifest").into())).await;
    listed.expect("lists").objects.len()
}

/// SlateDB's own log writes a manifest for every 4,096 of its files. `SEAWALL_FLUSHES` chooses how many flushes are tried.
#[tokio::test(flavor = "multi_thread")]
async fn many_flushes_write_no_manifests() {
    let fixture = Fixture::new();
    let flushes =
        std::env::var("SEAWALL_FLUSHES").map_or(10_000, |flushes| flushes.parse().expect("a number"));
    let wal = fixture.wals().wal(DB).expect("opens");
    let db = fixture.open(&wal).await.expect("opens");
    let before = manifests(&fixture).await;
    let mut newest = None;
    for i in 0_u64..flushes {
        newest = Some(db.put(b"key", i.to_le_bytes()).await.expect("is accepted"));
        if i % 64 == 0 {
            newest.take().expect("was put").await_durable().await.expect("is durable");
        }
    }
    if let Some(newest) = newest {
        newest.await_durable().await.expect("is durable");
    }
    assert_eq!(
        (rows(&fixture).await as u64, manifests(&fixture).await),
        (flushes, before),
        "rows and manifests"
    );
    close(&db).await;
}
