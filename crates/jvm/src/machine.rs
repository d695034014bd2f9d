//! Sends orders to a started JVM: one line per order and answer, through its standard input and output.
//!
//! Invariants: an order that the JVM refuses is an error with its message, never an empty figure; the JVM ends with
//! its input, and is killed if it does not; its standard error is reported with its end.

use crate::cannot;
use crate::find::{FOREIGN, Jdk};
use seawall_gauge::latency::Latency;
use seawall_gauge::scenario::path::jvm::{BlockRequest, Machine};
use seawall_gauge::scenario::path::{PACES, Trace};
use seawall_gauge::testbed::Until;
use seawall_host::thread::Times;
use seawall_sys::scratch::Scratch;
use seawall_sys::{OpenError, Unavailable, clock};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a JVM may take to end by itself, nanoseconds.
const END_NS: u64 = 3_000_000_000;

/// As much as is shown of standard error, characters.
const STDERR_CHARS: usize = 2000;

/// A JVM that was started.
pub(crate) struct Java {
    /// What it says of itself, for people, and what a reading of its clock costs, nanoseconds.
    pub(crate) said: (String, f64),
    program: PathBuf,
    child: Child,
    answers: BufReader<ChildStdout>,
    stderr: PathBuf,
    /// Classes are loaded when they are first needed.
    _classes: Arc<Scratch>,
}

impl Java {
    /// Starts `jdk` with the program.
    ///
    /// # Errors
    /// Why it did not come up, with the remedy.
    pub(crate) fn start(jdk: &Jdk, label: &str, classes: &Arc<Scratch>) -> io::Result<Self> {
        let program = jdk.program("java");
        let stderr = classes.name().join(format!("stderr-{label}"));
        let mut java = Command::new(&program);
        java.arg("-cp").arg(classes.name());
        if jdk.major >= FOREIGN {
            java.arg("--enable-native-access=ALL-UNNAMED");
        }
        java.arg("Ways").stdin(Stdio::piped()).stdout(Stdio::piped());
        java.stderr(File::create(&stderr).map_err(cannot("make", &stderr))?);
        let mut child = java.spawn().map_err(cannot("start", &program))?;
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut java = Self {
            said: (String::new(), 0.0),
            program,
            child,
            answers,
            stderr,
            _classes: Arc::clone(classes),
        };
        let line = java.line()?;
        java.said = hello(&line).ok_or_else(|| unread(&line))?;
        Ok(java)
    }

    /// The next line; else why there is none.
    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        let bytes = self.answers.read_line(&mut line).map_err(cannot("read the answer of", &self.program))?;
        if bytes > 0 {
            return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
        }
        let said = fs::read(&self.stderr).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).trim().replace('\n', " ");
        let skipped = said.chars().count().saturating_sub(STDERR_CHARS);
        Err(io::Error::other(format!(
            "{} ended unexpectedly: {}; if it does so again, name another JDK with --jdk",
            self.program.display(),
            said.chars().skip(skipped).collect::<String>()
        )))
    }

    fn send(&mut self, request: &str) -> io::Result<String> {
        // A JVM that is gone is reported by its end below.
        let _ = self.child.stdin.as_mut().map(|orders| orders.write_all(request.as_bytes()));
        self.line()
    }

    fn failed(&self, why: io::Error) -> OpenError {
        OpenError::Failed(seawall_sys::Error::new("write", &self.program, why))
    }
}

fn unread(line: &str) -> io::Error {
    io::Error::other(format!("the JVM's answer cannot be read: {line:?}"))
}

/// Reads the first line of a JVM.
fn hello(line: &str) -> Option<(String, f64)> {
    let fields: Vec<&str> = line.split('\t').collect();
    let ["hello", version, vendor, vm, collector, clock_ns] = fields[..] else { return None };
    Some((format!("{version}, {vendor}, {vm}, {collector} collector"), clock_ns.parse().ok()?))
}

/// The order as the program reads it.
fn line(request: &BlockRequest, file_bytes: u64, files: &[PathBuf], block_ns: u64) -> io::Result<String> {
    let pace = request.pace.and_then(|pace| PACES.into_iter().find(|(one, ..)| *one == pace));
    let pace = pace.map_or("tight", |(_, name, _)| name);
    let mut line = format!(
        "{}\t{pace}\t{}\t{block_ns}\t{}\t{file_bytes}",
        request.way.id, request.interval_ns, request.bytes
    );
    for file in files {
        let name = file.to_str().filter(|name| !name.contains(['\t', '\n']));
        line.push('\t');
        line.push_str(name.ok_or_else(|| {
            io::Error::other(format!(
                "{} cannot be passed to a JVM: its name is no plain text; name another folder",
                file.display()
            ))
        })?);
    }
    line.push('\n');
    Ok(line)
}

impl Machine for Java {
    fn write(
        &mut self,
        request: &BlockRequest,
        file_bytes: u64,
        files: &[PathBuf],
        until: Until<'_>,
    ) -> Result<Trace, OpenError> {
        let line = line(request, file_bytes, files, until.block_ns).map_err(|why| self.failed(why))?;
        let answer = self.send(&line).map_err(|why| {
            // A signal to all processes of a terminal ends the JVM at once, and is handled here a little later.
            let until_ns = clock::monotonic_ns() + END_NS / 6;
            while clock::monotonic_ns() < until_ns && !until.stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
            }
            self.failed(why)
        })?;
        match answer.split_once('\t') {
            Some(("na", reason)) => Err(OpenError::Unavailable(Unavailable(reason.to_owned()))),
            Some(("error", message)) => Err(self.failed(io::Error::other(message))),
            Some(("ok", figures)) => trace(figures).ok_or_else(|| self.failed(unread(&answer))),
            _ => Err(self.failed(unread(&answer))),
        }
    }
}

/// Reads the figures of a block: a negative one was not counted.
fn trace(figures: &str) -> Option<Trace> {
    let fields: Vec<&str> = figures.split('\t').collect();
    let [elapsed, allocated, user, system, wait, service, response, roll] = fields[..] else { return None };
    let (service, response, roll) = (latency(service)?, latency(response)?, latency(roll)?);
    let counted = |text: &str| text.parse::<u64>().ok();
    let times = Times {
        user_ns: counted(user).unwrap_or(0),
        system_ns: counted(system).unwrap_or(0),
        voluntary_switches: None,
        involuntary_switches: None,
        wait_ns: counted(wait),
    };
    Some(Trace {
        elapsed_ns: counted(elapsed)?,
        service,
        response: (response.count() > 0).then_some(response),
        times,
        roll: (roll.count() > 0).then_some(roll),
        allocated_bytes: counted(allocated),
        ..Trace::default()
    })
}

/// Reads `NS:TIMES NS:TIMES …`.
fn latency(text: &str) -> Option<Latency> {
    let mut latency = Latency::new();
    for sample in text.split_ascii_whitespace() {
        let (ns, times) = sample.split_once(':')?;
        let ns = ns.parse().ok()?;
        (0..times.parse::<u64>().ok()?).for_each(|_| latency.record(ns));
    }
    Some(latency)
}

impl Drop for Java {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let until_ns = clock::monotonic_ns() + END_NS;
        while clock::monotonic_ns() < until_ns {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_gauge::scenario::path::Pace;
    use seawall_gauge::scenario::path::jvm::WAYS;

    #[test]
    fn an_answer_is_read_sample_by_sample_and_what_was_not_counted_is_unknown() {
        let trace = trace("1000\t0\t20\t-1\t-1\t100:3 7000:1\t\t9:2").expect("an answer");
        assert_eq!((trace.service.count(), trace.service.raw_percentile_ns(50.0)), (4, 100));
        assert_eq!(trace.roll.map(|roll| roll.count()), Some(2));
        assert!(trace.response.is_none() && trace.times.wait_ns.is_none());
        assert_eq!((trace.elapsed_ns, trace.allocated_bytes), (1000, Some(0)));
        for wrong in ["", "1\t2\t3", "x\t0\t0\t0\t0\t\t\t", "1\t0\t0\t0\t0\t5\t\t"] {
            assert!(super::trace(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn an_order_is_a_line_of_fields_and_a_name_that_would_break_it_is_refused() {
        let way = WAYS.iter().find(|way| way.id == "raf-rwd").expect("is there");
        let of = |pace, files: &[&str]| {
            let request = BlockRequest { machine: 0, way, pace, interval_ns: 7, bytes: 64, fill_bytes: 1 };
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            line(&request, 4096, &files, 9).map_err(|why| why.to_string())
        };
        let closed = of(Some(Pace::Closed), &["/a b/c", "/d"]);
        assert_eq!(closed.as_deref(), Ok("raf-rwd\tclosed\t7\t9\t64\t4096\t/a b/c\t/d\n"));
        assert!(of(None, &["/d"]).is_ok_and(|tight| tight.starts_with("raf-rwd\ttight\t")));
        assert!(of(None, &["/a\tb"]).is_err_and(|why| why.contains("another folder")));
    }
}
