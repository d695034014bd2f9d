//! Starts JVMs with the program in `java/` and sends them orders: one line per order and answer, through standard input and output.
//!
//! Invariants: what is missing is a reason with a remedy; an order that the JVM refuses is an error with its message, never an
//! empty figure; a JVM ends with its input, and is killed if it does not; its standard error is reported with its end; no JVM and
//! no class file outlives the run.

use super::super::{BlockRequest, Trace};
use super::Way;
use crate::latency::Latency;
use crate::testbed::Until;
use seawall_host::jdk::{FOREIGN, Jdk, NO_JDK, OLDEST, labels};
use seawall_host::thread::Times;
use seawall_sys::scratch::Scratch;
use seawall_sys::{OpenError, Unavailable, clock};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a JVM may take to end by itself, nanoseconds.
const END_NS: u64 = 3_000_000_000;

/// As much as is shown of standard error, characters.
const STDERR_CHARS: usize = 2000;

/// Each source, its text, what it is compiled with, and the oldest compiler that can.
const SOURCES: [(&str, &str, [&str; 2], u32); 2] = [
    ("Ways.java", include_str!("../../../../java/Ways.java"), ["--release", "17"], OLDEST),
    ("Foreign.java", include_str!("../../../../java/Foreign.java"), ["-cp", "."], FOREIGN),
];

const NO_COMPILER: &str = "none of the JDKs has a compiler (bin/javac): install a JDK (Debian: openjdk-17-jdk-headless), \
                           or name one with --jdk";

pub(super) struct Jvm {
    /// Short, unique, in front of its rows' names, such as `17`.
    pub(super) label: String,
    /// What it is, for people, such as `17.0.15, Eclipse Adoptium, OpenJDK 64-Bit Server VM, G1 collector`.
    pub(super) words: String,
    /// An error is the reason of its rows, with the remedy.
    pub(super) java: io::Result<Java>,
}

/// Compiles the program and starts each of `jdks` with it.
pub(super) fn start(jdks: &[Jdk]) -> Vec<Jvm> {
    if jdks.is_empty() {
        let java = Err(io::Error::other(NO_JDK));
        return vec![Jvm { label: "jvm".to_owned(), words: "none".to_owned(), java }];
    }
    let program = compile(jdks).map(Arc::new);
    let one = |(jdk, label): (&Jdk, String)| {
        let java = match &program {
            _ if jdk.major < OLDEST => Err(io::Error::other(format!(
                "this is JDK {}, and the measuring program needs {OLDEST}: name a newer one with --jdk",
                jdk.version
            ))),
            Err(why) => Err(io::Error::other(why.to_string())),
            Ok(program) => Java::start(jdk, &label, program),
        };
        let unstarted = || format!("{} ({})", jdk.version, jdk.home.display());
        let words = java.as_ref().map_or_else(|_| unstarted(), |java| java.words.clone());
        Jvm { label, words, java }
    };
    jdks.iter().zip(labels(jdks)).map(one).collect()
}

/// Compiles for JDK 17, and the part for `java.lang.foreign` if the newest of `jdks` that has a compiler knows it. In the folder are
/// the classes, and what JVMs that run them say on standard error.
fn compile(jdks: &[Jdk]) -> io::Result<Scratch> {
    let able = jdks.iter().filter(|jdk| jdk.compiles && jdk.major >= OLDEST);
    let jdk = able.max_by_key(|jdk| jdk.major).ok_or_else(|| io::Error::other(NO_COMPILER))?;
    let compiler = jdk.program("javac");
    let folder = Scratch::new_in(&std::env::temp_dir()).map_err(io::Error::other)?;
    for (name, text, arguments, _) in SOURCES.iter().filter(|(.., oldest)| jdk.major >= *oldest) {
        let path = folder.name().join(name);
        fs::write(&path, text).map_err(cannot("write", &path))?;
        let mut javac = Command::new(&compiler);
        javac.args(["-implicit:none", "-d", "."]).args(arguments).arg(name);
        let output = javac.current_dir(folder.name()).stdin(Stdio::null()).output();
        let output = output.map_err(cannot("start", &compiler))?;
        if !output.status.success() {
            return Err(io::Error::other(format!(
                "{} could not compile the measuring program: {}; name another JDK with --jdk",
                compiler.display(),
                String::from_utf8_lossy(&output.stderr).trim()
            )));
        }
    }
    Ok(folder)
}

/// Says what failed at which file, for `map_err`.
fn cannot(operation: &str, path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |why| io::Error::new(why.kind(), format!("cannot {operation} {}: {why}", path.display()))
}

pub(super) struct Java {
    words: String,
    /// What a reading of its clock costs, nanoseconds.
    pub(super) clock_ns: f64,
    program: PathBuf,
    child: Child,
    answers: BufReader<ChildStdout>,
    stderr: PathBuf,
    /// Classes are loaded when they are first needed.
    _classes: Arc<Scratch>,
}

impl Java {
    fn start(jdk: &Jdk, label: &str, classes: &Arc<Scratch>) -> io::Result<Self> {
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
        let (words, classes) = (String::new(), Arc::clone(classes));
        let mut java = Self { words, clock_ns: 0.0, program, child, answers, stderr, _classes: classes };
        let line = java.line()?;
        (java.words, java.clock_ns) = hello(&line).ok_or_else(|| unread(&line))?;
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

    /// Runs a block on `files`, which exist, are `file_bytes` long unless they grow, and are taken in turn.
    ///
    /// # Errors
    /// Unavailable, with the reason, or the failed call.
    pub(super) fn write(
        &mut self,
        request: &BlockRequest<'_, &Way>,
        file_bytes: u64,
        files: &[PathBuf],
        until: Until<'_>,
    ) -> Result<Trace, OpenError> {
        let failed =
            |java: &Self, why| OpenError::Failed(seawall_sys::Error::new("write", &java.program, why));
        let order = order(request, file_bytes, files, until.block_ns).map_err(|why| failed(self, why))?;
        // A JVM that is gone is reported by its end below.
        let _ = self.child.stdin.as_mut().map(|orders| orders.write_all(order.as_bytes()));
        let answer = self.line().map_err(|why| {
            // A signal to all processes of a terminal ends the JVM at once, and is handled here a little later.
            let until_ns = clock::monotonic_ns() + END_NS / 6;
            while clock::monotonic_ns() < until_ns && !until.stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
            }
            failed(self, why)
        })?;
        match answer.split_once('\t') {
            Some(("na", reason)) => Err(OpenError::Unavailable(Unavailable(reason.to_owned()))),
            Some(("error", message)) => Err(failed(self, io::Error::other(message))),
            Some(("ok", figures)) => trace(figures).ok_or_else(|| failed(self, unread(&answer))),
            _ => Err(failed(self, unread(&answer))),
        }
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
fn order(
    request: &BlockRequest<'_, &Way>,
    file_bytes: u64,
    files: &[PathBuf],
    block_ns: u64,
) -> io::Result<String> {
    let BlockRequest { settings, way, pace, interval_ns } = request;
    let mut order =
        format!("{}\t{}\t{interval_ns}\t{block_ns}\t{}\t{file_bytes}", way.id, pace.id, settings.bytes);
    for file in files {
        let name = file.to_str().filter(|name| !name.contains(['\t', '\n']));
        order.push('\t');
        order.push_str(name.ok_or_else(|| {
            io::Error::other(format!(
                "{} cannot be passed to a JVM: its name is no plain text; name another folder",
                file.display()
            ))
        })?);
    }
    order.push('\n');
    Ok(order)
}

/// Reads the figures of a block: a negative one was not counted.
fn trace(figures: &str) -> Option<Trace> {
    let fields: Vec<&str> = figures.split('\t').collect();
    let [elapsed, allocated, user, system, wait, service, response, roll] = fields[..] else { return None };
    let counted = |text: &str| text.parse::<u64>().ok();
    let kept = |latency: Latency| (latency.count() > 0).then_some(latency);
    Some(Trace {
        elapsed_ns: counted(elapsed)?,
        service: latency(service)?,
        response: kept(latency(response)?),
        times: Times {
            user_ns: counted(user).unwrap_or(0),
            system_ns: counted(system).unwrap_or(0),
            wait_ns: counted(wait),
            ..Times::default()
        },
        roll: kept(latency(roll)?),
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
    use super::super::super::PACES;
    use super::super::{TIGHT, WAYS};
    use super::*;
    use crate::scenario::settings::Settings;

    #[test]
    fn a_jvm_that_cannot_be_had_has_a_reason() {
        let jdk = |home: &str, version: &str, major, compiles| {
            vec![Jdk { home: home.into(), version: version.to_owned(), major, compiles }]
        };
        for (jdks, words) in [
            (vec![], "--jdk"),
            (jdk("jdk8", "1.8.0_392", 8, true), "1.8.0_392"),
            (jdk("no-such-folder", "21", 21, true), "no-such-folder"),
            (jdk("jre", "21", 21, false), "bin/javac"),
        ] {
            let started = start(&jdks);
            let [Jvm { java: Err(reason), .. }] = &started[..] else {
                panic!("{words}: one that does not run")
            };
            assert!(reason.to_string().contains(words), "{words}: {reason}");
        }
    }

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
        let settings = Settings { bytes: 64, ..Settings::default() };
        let way = WAYS.iter().find(|way| way.id == "raf-rwd").expect("is there");
        let of = |pace, files: &[&str]| {
            let request = BlockRequest { settings: &settings, way, pace, interval_ns: 7 };
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            order(&request, 4096, &files, 9).map_err(|why| why.to_string())
        };
        let closed = of(PACES[0], &["/a b/c", "/d"]);
        assert_eq!(closed.as_deref(), Ok("raf-rwd\tclosed\t7\t9\t64\t4096\t/a b/c\t/d\n"));
        assert!(of(TIGHT, &["/d"]).is_ok_and(|tight| tight.starts_with("raf-rwd\ttight\t")));
        assert!(of(TIGHT, &["/a\tb"]).is_err_and(|why| why.contains("another folder")));
    }
}
