//! Row SQLite: one connection, one `INSERT` per commit, WAL mode with `synchronous=FULL`.

use rusqlite::Connection;

use seawall_gauge::scenario::log::contest::Opening;
use seawall_gauge::testbed::real::{Fault, Writer};

/// What `PRAGMA synchronous` says for FULL: the log is synced at every commit.
const FULL: i64 = 2;

struct Sqlite(Connection);

pub(crate) fn open(opening: &Opening<'_>) -> Result<Vec<Box<dyn Writer>>, Fault> {
    let base = Connection::open(opening.folder.join("log.db"))?;
    let mode: String = base.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
    base.execute_batch("PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0")?;
    let synchronous: i64 = base.query_row("PRAGMA synchronous", [], |row| row.get(0))?;
    if mode != "wal" || synchronous != FULL {
        return Err(format!("it is in mode {mode} with synchronous={synchronous}, not WAL and {FULL}").into());
    }
    base.execute_batch("CREATE TABLE log (lsn INTEGER PRIMARY KEY, record BLOB NOT NULL)")?;
    Ok(vec![Box::new(Sqlite(base))])
}

impl Writer for Sqlite {
    fn put(&mut self, record: &[u8]) -> Result<(), Fault> {
        self.0.prepare_cached("INSERT INTO log (record) VALUES (?1)")?.execute([record])?;
        Ok(())
    }

    fn tidy(&mut self) -> Result<(), Fault> {
        self.0.execute("DELETE FROM log", [])?;
        // The log begins again in its file, which keeps its length: it is written over, as the others' recycled files.
        let busy: i64 = self.0.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get(0))?;
        if busy == 0 { Ok(()) } else { Err("its checkpoint another connection held the database".into()) }
    }
}
