//! How is a JVM told to write, and what does it answer? One line each way, through its standard input and output.
//!
//! Invariants: what it does not know is an error with its words, never an empty figure; it ends when its input does, and
//! is ended if it does not; what it printed on standard error is told with its end.

use crate::find::Jdk;
use seawall_gauge::latency::Latency;
use seawall_gauge::scenario::path::jvm::{Machine, Order};
use seawall_gauge::scenario::path::{PACES, Trace};
use seawall_gauge::stage::Until;
use seawall_sys::thread::Times;
use seawall_sys::{Error, OpenError, Unavailable, clock};
use serde::Deserialize;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The version of the talk with the jar.
const PROTOCOL: u32 = 1;

/// How long a JVM may take to end by itself, nanoseconds.
const END_NS: u64 = 3_000_000_000;

/// As much as is kept of standard error, bytes.
const TOLD_BYTES: usize = 2000;

/// A JVM that was started.
pub(crate) struct Java {
    program: PathBuf,
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    told: Arc<Mutex<String>>,
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
    pub(crate) fn start(jdk: &Jdk, jar: &Path) -> Result<(Self, Hello), String> {
        let program = jdk.home.join("bin").join(format!("java{}", std::env::consts::EXE_SUFFIX));
        let mut child = Command::new(&program)
            .arg("-jar")
            .arg(jar)
            .arg("--serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| {
                format!("cannot start {}: {error}; name another JDK with --jdk", program.display())
            })?;
        let told = listen(&mut child);
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        let Some(answers) = answers else { return Err(format!("{} has no output", program.display())) };
        let mut java = Self { program, child, orders, answers: BufReader::new(answers), told };
        let line =
            java.line().map_err(|why| format!("{why}; name another JDK with --jdk, or jar with --jar"))?;
        let hello: Hello = serde_json::from_str(&line).map_err(|error| {
            format!(
                "{} does not speak as the measuring program does ({error}): name another with --jar",
                jar.display()
            )
        })?;
        if hello.protocol != PROTOCOL {
            return Err(format!(
                "{} speaks version {} and not {PROTOCOL}: let it be built again, or name another with --jar",
                jar.display(),
                hello.protocol
            ));
        }
        Ok((java, hello))
    }

    /// The next line; else why there is none.
    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(bytes) if bytes > 0 => Ok(line),
            Ok(_) => {
                let told = self.told.lock().map(|told| told.trim().replace('\n', " ")).unwrap_or_default();
                Err(format!("{} ended unexpectedly: {told}", self.program.display()))
            }
            Err(error) => Err(format!("{}: {error}", self.program.display())),
        }
    }

    fn ask(&mut self, order: &str) -> Result<String, String> {
        let orders = self.orders.as_mut().ok_or("it was ended")?;
        // A JVM that is gone is told by its end below.
        let _ = orders.write_all(order.as_bytes()).and_then(|()| orders.flush());
        self.line()
    }

    fn failed(&self, why: String) -> OpenError {
        OpenError::Failed(Error::new("write", &self.program, io::Error::other(why)))
    }
}

/// Keeps the end of what the JVM prints on standard error.
fn listen(child: &mut Child) -> Arc<Mutex<String>> {
    let told = Arc::new(Mutex::new(String::new()));
    if let Some(mut stderr) = child.stderr.take() {
        let kept = Arc::clone(&told);
        std::thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(read @ 1..) = stderr.read(&mut bytes) {
                if let Ok(mut kept) = kept.lock() {
                    kept.push_str(&String::from_utf8_lossy(&bytes[..read]));
                    while kept.len() > TOLD_BYTES {
                        kept.remove(0);
                    }
                }
            }
        });
    }
    told
}

/// The order as the jar reads it.
fn line(order: &Order<'_>, file_bytes: u64, files: &[PathBuf], block_ns: u64) -> Result<String, String> {
    let pace = order.pace.and_then(|pace| PACES.into_iter().find(|(one, ..)| *one == pace));
    let pace = pace.map_or("tight", |(_, name, _)| name);
    let mut line = format!(
        "{}\t{pace}\t{}\t{block_ns}\t{}\t{}\t{file_bytes}",
        order.row.id,
        order.interval_ns,
        i64::MAX,
        order.bytes
    );
    for file in files {
        let name = file.to_str().filter(|name| !name.contains(['\t', '\n']));
        let name = name.ok_or_else(|| {
            format!(
                "{} cannot be told to a JVM: its name is no plain text; name another folder",
                file.display()
            )
        })?;
        line.push('\t');
        line.push_str(name);
    }
    line.push('\n');
    Ok(line)
}

impl Machine for Java {
    fn write(
        &mut self,
        order: &Order<'_>,
        file_bytes: u64,
        files: &[PathBuf],
        until: Until<'_>,
    ) -> Result<Trace, OpenError> {
        let line = line(order, file_bytes, files, until.block_ns).map_err(|why| self.failed(why))?;
        let answer = self.ask(&line).map_err(|why| {
            // A signal to all processes of a terminal ends the JVM at once, and is heard here only a little later.
            let patience_ns = clock::monotonic_ns() + END_NS / 6;
            while clock::monotonic_ns() < patience_ns && !until.stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
            }
            self.failed(why)
        })?;
        match serde_json::from_str(&answer) {
            Ok(Answer::Measured(measured)) => Ok(measured.trace()),
            Ok(Answer::Unavailable { na }) => Err(OpenError::Unavailable(Unavailable(na))),
            Ok(Answer::Failed { error }) => Err(self.failed(error)),
            Err(error) => Err(self.failed(format!("its answer cannot be read: {error}"))),
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
        let patience_ns = clock::monotonic_ns() + END_NS;
        while clock::monotonic_ns() < patience_ns {
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
    fn write(&mut self, _: &Order<'_>, _: u64, _: &[PathBuf], _: Until<'_>) -> Result<Trace, OpenError> {
        Err(OpenError::Unavailable(Unavailable(self.0.clone())))
    }
}
