//! Runs a private PostgreSQL cluster with one client and one `INSERT` per transaction.
//!
//! Invariants: the cluster belongs to a user without rights (PostgreSQL refuses root), listens on a socket in its own
//! folder only, and ends with this program, even if that is killed; no other cluster is touched.

use super::sleeper::Sleeper;
use crate::error::{Error, Result};
use crate::files;
use crate::shell::{command, is_root, output, status};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const USER: &str = "nobody";
/// The kernel's bound on the path of a socket is 107 bytes; `/.s.PGSQL.5432` is a part of it.
const FOLDER_BYTES_MAX: usize = 90;
/// Segments recycled ahead, so that none is made while commits are timed.
const SEGMENTS_AHEAD: usize = 12;
const SETTINGS: &str = "listen_addresses = ''
autovacuum = off
checkpoint_timeout = 1h
max_wal_size = 4GB
min_wal_size = 1GB
shared_buffers = 128MB
";

/// A cluster that was made here.
pub(super) struct Cluster {
    folder: PathBuf,
    programs: PathBuf,
    server: Child,
}

/// Debian keeps the programs apart, one folder a version; the newest is taken.
fn programs() -> Result<PathBuf> {
    let folder = crate::tools::pg_test_fsync().and_then(|path| path.parent().map(Path::to_path_buf));
    folder.ok_or_else(|| Error::lacking("PostgreSQL is missing: install the package postgresql"))
}

/// `program`, without root's rights, to be ended with this process.
fn without_rights(program: &Path, arguments: &[&str]) -> Command {
    let program = program.display().to_string();
    let mut words = vec!["--pdeathsig", "INT"];
    let (user, group) = (format!("--reuid={USER}"), "--regid=nogroup");
    if is_root() {
        words.extend([user.as_str(), group, "--clear-groups"]);
    }
    words.push(&program);
    words.extend(arguments);
    let mut command = command("setpriv", &words);
    // The repository may be closed to that user.
    command.current_dir("/");
    command
}

impl Cluster {
    /// Makes and starts it in `folder`, which is ours and empty.
    ///
    /// Its processes sleep instead of syncing while `sleeper` says so.
    pub(super) fn start(folder: &Path, sleeper: &Sleeper) -> Result<Self> {
        let name = folder.display().to_string();
        if name.len() > FOLDER_BYTES_MAX {
            let what = format!("{name} is too long for a socket: name a shorter folder with --dir");
            return Err(Error::Usage(what));
        }
        if is_root() {
            output(command("chown", &[USER, &name]))?;
        }
        output(without_rights(Path::new("test"), &["-w", &name])).map_err(|_| {
            Error::usage(format!(
                "{USER} cannot write to {name}: name a folder that others can enter, with --dir"
            ))
        })?;
        let programs = programs()?;
        let data = folder.join("cluster").display().to_string();
        let initdb = ["-D", data.as_str(), "-A", "trust", "-U", "seawall", "-E", "UTF8", "--locale=C"];
        output(without_rights(&programs.join("initdb"), &initdb))?;
        let settings = Path::new(&data).join("postgresql.conf");
        let text = format!("{SETTINGS}unix_socket_directories = '{}'\n", name.replace('\'', "''"));
        files::write(&settings, files::read(&settings)? + &text)?;
        let log = std::fs::File::create(folder.join("log")).map_err(Error::at(&name))?;
        let mut server = without_rights(&programs.join("postgres"), &["-D", &data]);
        let server = server.envs(sleeper.variables()).stdout(Stdio::null()).stderr(log).spawn();
        let server = server.map_err(Error::at("PostgreSQL"))?;
        let cluster = Self { folder: folder.to_path_buf(), programs, server };
        cluster.await_answer(&["SELECT 1"], "1")?;
        cluster.prepare()?;
        Ok(cluster)
    }

    fn prepare(&self) -> Result {
        self.ask(&["CREATE TABLE t(a int, b timestamptz DEFAULT now(), filler char(22))"])?;
        for _ in 0..SEGMENTS_AHEAD {
            self.ask(&["INSERT INTO t(a) VALUES (0)", "SELECT pg_switch_wal()"])?;
        }
        self.ask(&["CHECKPOINT"])?;
        files::write(&self.script(), "INSERT INTO t(a, filler) VALUES (1, 'x');\n")
    }

    fn script(&self) -> PathBuf {
        self.folder.join("insert.sql")
    }

    fn socket(&self) -> String {
        self.folder.display().to_string()
    }

    /// Runs the statements, each a transaction of its own; gives what they answer.
    fn ask(&self, statements: &[&str]) -> Result<String> {
        let socket = self.socket();
        let mut words = vec!["-h", socket.as_str(), "-U", "seawall", "-d", "postgres", "-qAtX"];
        for statement in statements {
            words.extend(["-c", statement]);
        }
        output(self.client("psql", &words))
    }

    fn client(&self, program: &str, words: &[&str]) -> Command {
        let mut client = command(self.programs.join(program), words);
        client.current_dir("/");
        client
    }

    /// Asks until the last line of the answer is `wanted`.
    fn await_answer(&self, statements: &[&str], wanted: &str) -> Result {
        const ATTEMPTS: u32 = 1200;
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            match self.ask(statements) {
                Ok(answer) if answer.lines().last() == Some(wanted) => return Ok(()),
                Ok(answer) => last = answer,
                Err(error) => last = error.to_string(),
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        Err(Error::check(format!("PostgreSQL does not answer {wanted}: {last}\n{log}")))
    }

    /// `server_version`.
    pub(super) fn version(&self) -> Result<String> {
        let text = self.ask(&["SHOW server_version"])?;
        Ok(text.split_whitespace().next().unwrap_or("unknown").to_owned())
    }

    /// Sets how commits are synced: a value of `wal_sync_method`.
    pub(super) fn sync_by(&self, setting: &str) -> Result {
        let set = format!("ALTER SYSTEM SET wal_sync_method = {setting}");
        self.ask(&[&set, "SELECT pg_reload_conf()"])?;
        self.await_answer(&["SELECT current_setting('wal_sync_method')"], setting)
    }

    /// Nanoseconds a transaction of one client, over so many, with so many nanoseconds of sleep for each sync, which are
    /// taken off.
    pub(super) fn commit_asleep(&self, sleeper: &Sleeper, sleep_ns: u64, transactions: u64) -> Result<f64> {
        self.sync_by("fdatasync")?;
        sleeper.sleep_for(Some(sleep_ns))?;
        let spent_ns = self.commit(transactions)?;
        let slept = sleeper.slept()?;
        sleeper.sleep_for(None)?;
        if slept.syncs < transactions {
            let what = format!("PostgreSQL was to sleep {transactions} times and did {} times", slept.syncs);
            return Err(Error::Check(what));
        }
        // One sync a transaction; the sleep of the server's other processes beside it is not the client's time.
        Ok(spent_ns - slept.mean_ns())
    }

    /// Nanoseconds a transaction of one client, over so many.
    pub(super) fn commit(&self, transactions: u64) -> Result<f64> {
        let (socket, script) = (self.socket(), self.script().display().to_string());
        let transactions = transactions.to_string();
        let words = ["-h", &socket, "-U", "seawall", "-n", "-M", "prepared", "-c", "1", "-t", &transactions];
        let words: Vec<&str> = words.into_iter().chain(["-f", &script, "postgres"]).collect();
        let text = output(self.client("pgbench", &words))?;
        let rate = rate_of(&text).ok_or_else(|| Error::check(format!("pgbench gave no figure: {text}")))?;
        Ok(1e9 / rate)
    }
}

/// The transactions per second that pgbench prints, without the time to connect.
fn rate_of(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("tps = ") && line.contains("without"))?;
    line.split_whitespace().nth(2)?.parse().ok().filter(|rate| *rate > 0.0)
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Its folder goes with it: nothing needs to be saved.
        let _ = status(command("kill", &["-QUIT", &self.server.id().to_string()]));
        let _ = self.server.wait();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_the_rate_without_connecting_counts() {
        let text = "latency average = 0.1 ms\ninitial connection time = 3 ms\ntps = 9876.5 (without initial connection time)\n";
        assert_eq!(super::rate_of(text), Some(9876.5));
        assert_eq!(super::rate_of("tps = 0.0 (without initial connection time)"), None);
        assert_eq!(super::rate_of("tps = 12 (including connections establishing)"), None);
    }
}
