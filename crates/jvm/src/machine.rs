//! Sends orders to a started JVM: one line per order and answer, through its standard input and output.
//!
//! Invariants: an order that the JVM refuses is an error with its message, never an empty figure; the JVM ends with
//! its input, and is killed if it does not; its standard error is reported with its end.

use crate::find::Jdk;
use crate::{Error, Result};
use seawall_gauge::latency::Latency;
use seawall_gauge::scenario::path::jvm::{BlockRequest, Machine};
use seawall_gauge::scenario::path::{PACES, Trace};
use seawall_gauge::testbed::Until;
use seawall_sys::thread::Times;
use seawall_sys::{OpenError, Unavailable, clock};
use serde::Deserialize;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The version of the protocol with the jar.
pub(crate) const PROTOCOL: u32 = 1;

/// How long a JVM may take to end by itself, nanoseconds.
const END_NS: u64 = 3_000_000_000;

/// As much as is kept of standard error, bytes.
const STDERR_BYTES: usize = 2000;

/// A JVM that was started.
pub(crate) struct Java {
    program: PathBuf,
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    stderr: Arc<Mutex<String>>,
}

/// The first line that a JVM prints.
#[derive(Debug, Deserialize)]
pub(crate) struct Hello {
    protocol: u32,
    java: String,
    vendor: String,
    vm: String,
    collectors: String,
    /// What a reading of its clock costs.
    pub(crate) clock_ns: f64,
    rows: Vec<HelloRow>,
}

#[derive(Debug, Deserialize)]
struct HelloRow {
    id: String,
    na: Option<String>,
}

/// What it answers to an order.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Answer {
    Unavailable { na: String },
    Failed { error: String },
    Measured(Box<Measured>),
}

#[derive(Debug, Deserialize)]
struct Measured {
    elapsed_ns: u64,
    service: Latency,
    response: Option<Latency>,
    roll: Latency,
    allocated_bytes: Option<u64>,
    user_ns: Option<u64>,
    system_ns: Option<u64>,
    wait_ns: Option<u64>,
}

impl Hello {
    /// What it is, for people.
    pub(crate) fn words(&self) -> String {
        let collector = self.collectors.split(' ').next().unwrap_or("no");
        format!("{}, {}, {}, {collector} collector", self.java, self.vendor, self.vm)
    }

    /// Why it cannot run a row.
    pub(crate) fn not_available(&self, id: &str) -> Option<String> {
        match self.rows.iter().find(|row| row.id == id) {
            Some(row) => row.na.clone(),
            None => Some(
                "the jar does not know this row: let a newer one be built, or name one with --jar".to_owned(),
            ),
        }
    }
}

impl Java {
    /// Starts `jdk` with `jar`.
    ///
    /// # Errors
    /// Why it did not come up, with the remedy.
    pub(crate) fn start(jdk: &Jdk, jar: &Path) -> Result<(Self, Hello)> {
        let program = jdk.home.join("bin").join(format!("java{}", std::env::consts::EXE_SUFFIX));
        let mut child = Command::new(&program)
            .arg("-jar")
            .arg(jar)
            .arg("--serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| Error::Io {
                operation: "start",
                path: program.clone(),
                source,
                remedy: "; name another JDK with --jdk",
            })?;
        let stderr = keep_stderr(&mut child);
        let (orders, answers) = (child.stdin.take(), child.stdout.take().expect("it is piped"));
        let mut java = Self { program, child, orders, answers: BufReader::new(answers), stderr };
        let line = java.line()?;
        let jar = jar.to_path_buf();
        let hello: Hello = match serde_json::from_str(&line) {
            Ok(hello) => hello,
            Err(source) => return Err(Error::Foreign { jar, source }),
        };
        if hello.protocol != PROTOCOL {
            return Err(Error::Version { jar, version: hello.protocol });
        }
        Ok((java, hello))
    }

    /// The next line; else why there is none.
    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(bytes) if bytes > 0 => Ok(line),
            Ok(_) => {
                let output = self.stderr.lock().map(|kept| kept.trim().replace('\n', " "));
                let output = output.unwrap_or_default();
                Err(Error::Ended { program: self.program.clone(), output })
            }
            Err(source) => Err(Error::Io {
                operation: "read the answer of",
                path: self.program.clone(),
                source,
                remedy: "",
            }),
        }
    }

    fn send(&mut self, request: &str) -> Result<String> {
        // A JVM that is gone is reported by its end below.
        let _ = self
            .orders
            .as_mut()
            .map(|orders| orders.write_all(request.as_bytes()).and_then(|()| orders.flush()));
        self.line()
    }

    fn failed(&self, why: Error) -> OpenError {
        OpenError::Failed(seawall_sys::Error::new("write", &self.program, io::Error::other(why)))
    }
}

/// Keeps the end of what the JVM prints on standard error.
fn keep_stderr(child: &mut Child) -> Arc<Mutex<String>> {
    let stderr = Arc::new(Mutex::new(String::new()));
    if let Some(mut output) = child.stderr.take() {
        let kept = Arc::clone(&stderr);
        std::thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                if let Ok(mut kept) = kept.lock() {
                    kept.push_str(&String::from_utf8_lossy(&bytes[..read]));
                    while kept.len() > STDERR_BYTES {
                        kept.remove(0);
                    }
                }
            }
        });
    }
    stderr
}

/// The order as the jar reads it.
fn line(request: &BlockRequest<'_>, file_bytes: u64, files: &[PathBuf], block_ns: u64) -> Result<String> {
    let pace = request.pace.and_then(|pace| PACES.into_iter().find(|(one, ..)| *one == pace));
    let pace = pace.map_or("tight", |(_, name, _)| name);
    let mut line = format!(
        "{}\t{pace}\t{}\t{block_ns}\t{}\t{}\t{file_bytes}",
        request.row.id,
        request.interval_ns,
        i64::MAX,
        request.bytes
    );
    for file in files {
        let name = file.to_str().filter(|name| !name.contains(['\t', '\n']));
        line.push('\t');
        line.push_str(name.ok_or_else(|| Error::FileName(file.clone()))?);
    }
    line.push('\n');
    Ok(line)
}

impl Machine for Java {
    fn write(
        &mut self,
        request: &BlockRequest<'_>,
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
        match serde_json::from_str(&answer) {
            Ok(Answer::Measured(measured)) => Ok(measured.trace()),
            Ok(Answer::Unavailable { na }) => Err(OpenError::Unavailable(Unavailable(na))),
            Ok(Answer::Failed { error }) => Err(self.failed(Error::Block(error))),
            Err(error) => Err(self.failed(Error::Answer(error))),
        }
    }
}

impl Measured {
    fn trace(self) -> Trace {
        let times = Times {
            user_ns: self.user_ns.unwrap_or(0),
            system_ns: self.system_ns.unwrap_or(0),
            voluntary_switches: None,
            involuntary_switches: None,
            wait_ns: self.wait_ns,
        };
        Trace {
            elapsed_ns: self.elapsed_ns,
            service: self.service,
            response: self.response,
            times,
            roll: (self.roll.count() > 0).then_some(self.roll),
            allocated_bytes: self.allocated_bytes,
            ..Trace::default()
        }
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        self.orders = None;
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

/// In the place of a JVM that could not be started; its rows say so and are not run.
pub(crate) struct Absent(pub(crate) String);

impl Machine for Absent {
    fn write(
        &mut self,
        _: &BlockRequest<'_>,
        _: u64,
        _: &[PathBuf],
        _: Until<'_>,
    ) -> Result<Trace, OpenError> {
        Err(OpenError::Unavailable(Unavailable(self.0.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_gauge::scenario::path::Pace;
    use seawall_gauge::scenario::path::jvm::{JvmRow, Shape};

    /// What the jar answered once to an order on a schedule.
    const ANSWER: &str = include_str!("../tests/answer.json");

    #[test]
    fn percentiles_of_the_histogram_are_those_of_the_jvm_s_own() {
        let Ok(Answer::Measured(measured)) = serde_json::from_str(ANSWER) else {
            panic!("it is an answer");
        };
        let own: serde_json::Value = serde_json::from_str(ANSWER).expect("JSON");
        let both =
            [("service", &measured.service), ("response", measured.response.as_ref().expect("scheduled"))];
        for (name, latency) in both {
            let figure = |field: &str| own[name][field].as_u64().expect("a figure");
            assert_eq!(latency.count(), 12_000);
            let points = [
                ("p50_ns", 50.0),
                ("p90_ns", 90.0),
                ("p99_ns", 99.0),
                ("p999_ns", 99.9),
                ("p9999_ns", 99.99),
            ];
            for (field, percent) in points {
                assert_eq!(latency.raw_percentile_ns(percent), figure(field), "{name} {field}");
            }
            assert_eq!((latency.min_ns(), latency.max_ns()), (figure("min_ns"), figure("max_ns")), "{name}");
            assert!(
                (latency.mean_ns() / own[name]["mean_ns"].as_f64().expect("a figure") - 1.0).abs() < 0.001,
                "{name}"
            );
        }
        let trace = measured.trace();
        assert!(trace.times.wait_ns.is_some() && trace.allocated_bytes.is_some());
    }

    #[test]
    fn a_reason_and_an_error_are_distinguished_from_figures() {
        let read = |text: &str| serde_json::from_str::<Answer>(text).expect("an answer");
        assert!(matches!(read(r#"{"na":"needs JDK 22"}"#), Answer::Unavailable { na } if na.contains("22")));
        assert!(matches!(read(r#"{"error":"java.io.IOException"}"#), Answer::Failed { .. }));
        assert!(serde_json::from_str::<Answer>(r#"{"elapsed_ns":5}"#).is_err());
    }

    #[test]
    fn an_order_is_a_line_of_fields_and_a_name_that_would_break_it_is_refused() {
        let row = JvmRow {
            id: "raf-rwd".to_owned(),
            like: "dsync".to_owned(),
            shape: Shape::Fixed,
            allocates_nothing: true,
            what: String::new(),
            not_available: None,
        };
        let request = BlockRequest {
            machine: 0,
            row: &row,
            pace: Some(Pace::Closed),
            interval_ns: 7,
            bytes: 64,
            fill_bytes: 1,
        };
        let fields = line(&request, 4096, &["/a b/c".into(), "/d".into()], 9).expect("a line");
        assert_eq!(fields, format!("raf-rwd\tclosed\t7\t9\t{}\t64\t4096\t/a b/c\t/d\n", i64::MAX));
        let tight = line(&BlockRequest { pace: None, ..request }, 1, &["/d".into()], 9).expect("a line");
        assert!(tight.starts_with("raf-rwd\ttight\t"));
        assert!(
            line(&request, 1, &["/a\tb".into()], 9)
                .is_err_and(|why| why.to_string().contains("another folder"))
        );
    }
}
