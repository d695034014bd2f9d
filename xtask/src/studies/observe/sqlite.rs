//! Runs the real SQLite shell on `UPDATE`s of one row, each a transaction.
//!
//! Invariant: the time to start the shell and to make the connection is measured separately and subtracted, because
//! no commit pays it.

use super::replay::{Journal, Synchronous};
use super::sleeper::Sleeper;
use crate::error::{Error, Result};
use crate::files;
use crate::shell::{command, output};
use seawall_sys::clock::monotonic_ns;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Rows of about a hundred bytes, which fill [`super::replay::TABLE_PAGES`] pages.
const ROWS: u64 = 1000;

/// A database of our own.
pub(super) struct Database {
    folder: PathBuf,
}

impl Database {
    pub(super) fn make(folder: &Path) -> Result<Self> {
        let database = Self { folder: folder.to_path_buf() };
        let script = format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER, filler TEXT);
             WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < {ROWS})
             INSERT INTO t SELECT x, 0, printf('%080d', x) FROM c;\n"
        );
        database.shell(&script, None)?;
        Ok(database)
    }

    /// What the shell says of itself.
    pub(super) fn version() -> Result<String> {
        let text = output(command("sqlite3", &["--version"]))?;
        Ok(text.split_whitespace().next().unwrap_or("unknown").to_owned())
    }

    /// Runs `script`; gives the nanoseconds that it took.
    fn shell(&self, script: &str, asleep: Option<&Sleeper>) -> Result<u64> {
        let path = self.folder.join("script.sql");
        files::write(&path, script)?;
        let input = std::fs::File::open(&path).map_err(Error::at(path.display()))?;
        let database = self.folder.join("observed.db").display().to_string();
        let mut shell = command("sqlite3", &["-bail", database.as_str()]);
        shell.stdin(Stdio::from(input)).current_dir(&self.folder);
        shell.envs(asleep.into_iter().flat_map(Sleeper::variables));
        let began_ns = monotonic_ns();
        output(shell)?;
        Ok(monotonic_ns() - began_ns)
    }

    /// Nanoseconds a commit over `commits` of them. `asleep`: with so many nanoseconds of sleep for each sync, which are
    /// taken off.
    pub(super) fn commit(
        &self,
        journal: Journal,
        synchronous: Synchronous,
        commits: u64,
        asleep: Option<(&Sleeper, u64)>,
    ) -> Result<f64> {
        let mode = match journal {
            Journal::Wal => "WAL",
            Journal::Delete => "DELETE",
        };
        let level = match synchronous {
            Synchronous::Normal => "NORMAL",
            Synchronous::Full => "FULL",
        };
        // Changing the journal's mode is work of its own, and syncs: done before the clock runs.
        self.shell(&format!("PRAGMA journal_mode = {mode};\n"), None)?;
        let head = format!("PRAGMA journal_mode = {mode};\nPRAGMA synchronous = {level};\n");
        let mut start_ns = u64::MAX;
        for _ in 0..3 {
            start_ns = start_ns.min(self.shell(&head, asleep.map(|(sleeper, _)| sleeper))?);
        }
        let mut script = head;
        for commit in 0..commits {
            let row = commit * 37 % ROWS + 1;
            // Writing to a string cannot fail.
            let _ = writeln!(script, "UPDATE t SET v = v + 1 WHERE id = {row};");
        }
        let Some((sleeper, sleep_ns)) = asleep else {
            return Ok(self.shell(&script, None)?.saturating_sub(start_ns) as f64 / commits as f64);
        };
        sleeper.sleep_for(Some(sleep_ns))?;
        let spent_ns = self.shell(&script, Some(sleeper))?;
        let slept = sleeper.slept()?;
        sleeper.sleep_for(None)?;
        if slept.syncs == 0 {
            return Err(Error::check("SQLite was to sleep instead of syncing, and never did"));
        }
        Ok(spent_ns.saturating_sub(start_ns + slept.ns) as f64 / commits as f64)
    }
}
