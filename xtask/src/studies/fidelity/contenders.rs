//! Runs each compared instrument for one method and parses its figures.
//!
//! Invariant: before each run the shared journal is synced and evicted from the cache, as Seawall does with its own.

use crate::error::{Error, Result};
use crate::files;
use crate::shell::{command, output};
use crate::tools::pg_test_fsync;
use seawall_sys::durability::FileState;
use seawall_sys::journal::{Recipe, make, sync_and_evict};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const TRANSACTION_BYTES: u64 = 16 << 10;
const JOURNAL_BYTES: u64 = 64 << 20;
const SMALL_BYTES: u64 = 512;
const SMALL_JOURNAL_BYTES: u64 = 1 << 20;
/// As many small writes as one of Seawall's blocks makes at most, rounded down.
const SMALL_COMMITS: u64 = 100_000;

/// What an instrument says of a method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figures {
    pub(super) commits_per_s: f64,
    /// The median commit, nanoseconds; `None` where the instrument has none.
    pub(super) p50_ns: Option<f64>,
}

/// The instruments and the journal they share.
pub(super) struct Bench {
    seawall: PathBuf,
    plain: PathBuf,
    folder: PathBuf,
    journal: Journal,
}

/// A zero-filled file, removed when dropped.
struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    fn new(folder: &Path, bytes: u64) -> Result<Self> {
        let path = folder.join(format!("yardstick-journal-{}.tmp", std::process::id()));
        let recipe = Recipe { state: FileState::ZeroFilled, bytes, fill_bytes: 1 << 20, keep_cached: false };
        let made = make(&path, &recipe, &mut |_| true).map_err(Error::at(path.display()))?;
        Ok(Self { path, file: made.file })
    }

    /// Synced and dropped from the cache.
    fn rested(&self) -> Result<String> {
        sync_and_evict(&self.file, &self.path, true).map_err(Error::at(self.path.display()))?;
        Ok(self.path.display().to_string())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // The figures are printed; a file left in the build tree is no reason to fail.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Bench {
    pub(super) fn new(seawall: PathBuf, plain: PathBuf, folder: &Path) -> Result<Self> {
        let journal = Journal::new(folder, JOURNAL_BYTES)?;
        Ok(Self { seawall, plain, folder: folder.to_path_buf(), journal })
    }

    /// So many commits by `method` as take about `seconds`.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped just before")]
    pub(super) fn calibrate(&self, method: &str, seconds: f64) -> Result<u64> {
        let mut commits_per_s: f64 = 0.0;
        // The best of three, because a hiccup of the first would make all that follow too short to tell.
        for _ in 0..3 {
            commits_per_s = commits_per_s.max(self.plain(method, 100)?.commits_per_s);
        }
        Ok((commits_per_s * seconds).clamp(100.0, 1e6) as u64)
    }

    /// The C loop.
    pub(super) fn plain(&self, method: &str, commits: u64) -> Result<Figures> {
        let figures =
            self.plain_on(&self.journal, method, [TRANSACTION_BYTES, JOURNAL_BYTES, commits], true)?;
        Ok(Figures { commits_per_s: figures[0], p50_ns: Some(figures[1]) })
    }

    /// Commits per second, median and elapsed nanoseconds of the C loop.
    fn plain_on(
        &self,
        journal: &Journal,
        method: &str,
        [bytes, journal_bytes, commits]: [u64; 3],
        timed: bool,
    ) -> Result<Vec<f64>> {
        let path = journal.rested()?;
        let [bytes, journal_bytes, commits] =
            [bytes, journal_bytes, commits].map(|figure| figure.to_string());
        let timed = if timed { "1" } else { "0" };
        let text = output(command(&self.plain, &[method, &path, &bytes, &journal_bytes, &commits, timed]))?;
        let figures: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let odd = || Error::check(format!("the C loop printed {text:?}"));
        if figures.len() == 3 { Ok(figures) } else { Err(odd()) }
    }

    /// `seawall bench`.
    pub(super) fn seawall(&self, method: &str, commits: u64) -> Result<Figures> {
        self.seawall_in(&self.folder, method, [TRANSACTION_BYTES, JOURNAL_BYTES, commits], &[])
    }

    /// `seawall bench` on a journal of one transaction, left in the cache: what `pg_test_fsync` writes.
    pub(super) fn rewriting(&self, method: &str, commits: u64) -> Result<Figures> {
        let sizes = [TRANSACTION_BYTES, TRANSACTION_BYTES, commits];
        self.seawall_in(&self.folder, method, sizes, &["--keep-cached"])
    }

    fn seawall_in(&self, folder: &Path, method: &str, sizes: [u64; 3], more: &[&str]) -> Result<Figures> {
        let json = self.folder.join(format!("seawall-{}.json", std::process::id()));
        let [bytes, journal_bytes, commits] = sizes.map(|size| size.to_string());
        let mut bench = command(&self.seawall, &["bench", "--methods", method]);
        bench.args(["--size", &bytes, "--journal", &journal_bytes, "--transactions", &commits]);
        bench.args(["--rounds", "1", "--no-out", "--no-progress", "--allow-memory"]);
        bench.args(more).arg("--json").arg(&json).arg(folder);
        output(bench)?;
        let result = files::read_json(&json);
        let _ = std::fs::remove_file(&json);
        figures(&result?).ok_or_else(|| Error::check(format!("seawall did not measure {method}")))
    }

    /// fio, with the options that make the same calls.
    pub(super) fn fio(&self, method: &str, commits: u64) -> Result<Figures> {
        let options: &[&str] = match method {
            "buffered+fdatasync" => &["--ioengine=psync", "--fdatasync=1"],
            "buffered+fsync" => &["--ioengine=psync", "--fsync=1"],
            "dsync" => &["--ioengine=psync", "--sync=dsync"],
            "sync" => &["--ioengine=psync", "--sync=sync"],
            "direct+dsync" => &["--ioengine=psync", "--direct=1", "--sync=dsync"],
            "uring-direct-fixed-dsync" => &[
                "--ioengine=io_uring",
                "--iodepth=1",
                "--fixedbufs=1",
                "--registerfiles=1",
                "--direct=1",
                "--sync=dsync",
            ],
            other => return Err(Error::check(format!("there are no options of fio for {other}"))),
        };
        let path = self.journal.rested()?;
        let mut fio = command("fio", &["--name=fidelity", "--rw=write", "--fallocate=none", "--overwrite=1"]);
        fio.args(["--lat_percentiles=1", "--clat_percentiles=0", "--percentile_list=50"]);
        fio.args(["--output-format=json", "--thread=1"]).args(options);
        fio.args([format!("--filename={path}"), format!("--size={JOURNAL_BYTES}")]);
        fio.arg(format!("--bs={TRANSACTION_BYTES}"));
        fio.arg(format!("--io_size={}", commits * TRANSACTION_BYTES));
        let one_call = !method.starts_with("buffered+");
        read_fio(&output(fio)?, commits, one_call)
    }

    /// fdatasync and fsync behind two writes of 8 KiB; the rest of its tests is not waited for.
    pub(super) fn postgres(&self) -> Result<Vec<(&'static str, Figures)>> {
        let program = pg_test_fsync().ok_or_else(|| Error::lacking("pg_test_fsync is missing"))?;
        let file = self.folder.join(format!("pg_test_fsync-{}.tmp", std::process::id()));
        let mut child = command(program, &["-s", "1", "-f"])
            .arg(&file)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::at("pg_test_fsync"))?;
        let mut reader = PostgresReader::default();
        if let Some(stdout) = child.stdout.take() {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                reader.add_line(&line);
                if reader.found.len() == 2 {
                    break;
                }
            }
        }
        // It would go on with tests that nothing is compared to; whether it has just ended by itself is no matter.
        let _ = child.kill();
        let _ = child.wait();
        let _ = std::fs::remove_file(&file);
        if reader.found.len() == 2 {
            Ok(reader.found)
        } else {
            Err(Error::check("pg_test_fsync gave no figures"))
        }
    }

    /// What Seawall's loop costs beyond the calls, nanoseconds a commit: in memory, where the calls cost least.
    pub(super) fn overhead_ns(&self) -> Result<f64> {
        let memory = Path::new("/dev/shm");
        let journal = Journal::new(memory, SMALL_JOURNAL_BYTES)?;
        let sizes = [SMALL_BYTES, SMALL_JOURNAL_BYTES, SMALL_COMMITS];
        let (mut own, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..15 {
            own.push(1e9 / self.seawall_in(memory, "buffered", sizes, &[])?.commits_per_s);
            bare.push(self.plain_on(&journal, "buffered", sizes, false)?[2] / SMALL_COMMITS as f64);
        }
        // The least of each: other work on the CPUs only ever adds.
        let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
        println!(
            "\nIn memory, a commit of {SMALL_BYTES} bytes takes seawall {:.0} ns and the bare C loop {:.0} ns",
            least(&own),
            least(&bare)
        );
        Ok(least(&own) - least(&bare))
    }
}

/// Commits per second from the run time, which fio gives in whole milliseconds. `one_call`: the write is the
/// commit; otherwise fio's median is that of the write alone, and medians of parts do not add.
fn read_fio(text: &str, commits: u64, one_call: bool) -> Result<Figures> {
    // Warnings may stand before the object.
    let json = &text[text.find('{').unwrap_or(text.len())..];
    let json: Value = serde_json::from_str(json).map_err(Error::at("fio's JSON"))?;
    let write = &json["jobs"][0]["write"];
    let done = write["total_ios"].as_u64().unwrap_or(0);
    let runtime_ms = write["runtime"].as_f64().unwrap_or(0.0);
    if done != commits || runtime_ms <= 0.0 {
        return Err(Error::check(format!("fio made {done} of {commits} commits in {runtime_ms} ms")));
    }
    let p50 = write["lat_ns"]["percentile"]["50.000000"].as_f64();
    Ok(Figures {
        commits_per_s: commits as f64 * 1000.0 / runtime_ms,
        p50_ns: if one_call { p50 } else { None },
    })
}

/// Reads the section on two writes.
#[derive(Default)]
struct PostgresReader {
    in_section: bool,
    found: Vec<(&'static str, Figures)>,
}

impl PostgresReader {
    fn add_line(&mut self, line: &str) {
        if line.starts_with("Compare file sync methods") {
            self.in_section = line.contains("two 8kB writes");
        }
        let mut words = line.split_whitespace();
        let (Some(name), Some(Ok(commits_per_s)), Some("ops/sec")) =
            (words.next(), words.next().map(str::parse), words.next())
        else {
            return;
        };
        let method = match name {
            "fdatasync" if self.in_section => "buffered+fdatasync",
            "fsync" if self.in_section => "buffered+fsync",
            _ => return,
        };
        self.found.push((method, Figures { commits_per_s, p50_ns: None }));
    }
}

/// Commits a second and their median in nanoseconds, from the result of one round of one method.
fn figures(result: &Value) -> Option<Figures> {
    let measured = &result["study"]["rows"][0]["outcome"]["measured"];
    let (commits, elapsed_ns) = (measured["commits"].as_f64()?, measured["elapsed_ns"].as_f64()?);
    let p50_ns = measured["rounds"][0]["p50_ns"].as_f64()?;
    let figures = Figures { commits_per_s: commits * 1e9 / elapsed_ns, p50_ns: Some(p50_ns) };
    (commits > 0.0 && elapsed_ns > 0.0).then_some(figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_the_section_on_two_writes_is_read() {
        let mut reader = PostgresReader::default();
        for line in [
            "1 second per test",
            "Compare file sync methods using one 8kB write:",
            "        fdatasync                          2000.000 ops/sec     500 usecs/op",
            "Compare file sync methods using two 8kB writes:",
            "(in \"wal_sync_method\" preference order, except fdatasync is Linux's default)",
            "        open_datasync                       999.000 ops/sec    1001 usecs/op",
            "        fdatasync                          1800.500 ops/sec     555 usecs/op",
            "        fsync                              1700.250 ops/sec     588 usecs/op",
            "        fsync_writethrough                                  n/a",
        ] {
            reader.add_line(line);
        }
        let rates: Vec<_> =
            reader.found.iter().map(|(method, figures)| (*method, figures.commits_per_s)).collect();
        assert_eq!(rates, [("buffered+fdatasync", 1800.5), ("buffered+fsync", 1700.25)]);
    }

    #[test]
    fn a_run_of_fio_that_fell_short_is_an_error() {
        let json = r#"fio: a warning
            {"jobs": [{"write": {"total_ios": 10, "runtime": 5, "lat_ns": {"percentile": {"50.000000": 400}}}}]}"#;
        let read = |one_call| read_fio(json, 10, one_call).expect("all were made");
        assert_eq!(read(true), Figures { commits_per_s: 2000.0, p50_ns: Some(400.0) });
        assert_eq!(read(false), Figures { commits_per_s: 2000.0, p50_ns: None });
        assert!(read_fio(json, 11, true).is_err());
    }

    #[test]
    fn the_figures_of_a_result_are_read() {
        let result = |commits: u32| {
            let measured =
                json!({"commits": commits, "elapsed_ns": 2_000_000_000, "rounds": [{"p50_ns": 7}]});
            json!({"study": {"rows": [{"outcome": {"measured": measured}}]}})
        };
        let five = Figures { commits_per_s: 5.0, p50_ns: Some(7.0) };
        assert_eq!(super::figures(&result(10)), Some(five));
        assert_eq!(super::figures(&result(0)), None);
        assert_eq!(
            super::figures(&json!({"study": {"rows": [{"outcome": {"failed": {"error": "x"}}}]}})),
            None
        );
    }
}
