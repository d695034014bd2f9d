//! Runs JVMs as further rows of `seawall bench path`: finds JDKs, compiles the program that they run, and starts it.
//!
//! ```text
//!   find     which JDKs are there, or were named; policy only, the machine is a parameter
//!   program  java/Ways.java and java/Foreign.java, compiled by the newest JDK into a folder of this run
//!   machine  a JVM that was started: orders in, figures out
//! ```
//!
//! Invariants: a missing JDK or compiler makes rows `n/a` with a reason and a remedy, never no rows; no JVM and no class file
//! outlives the run.

mod error;
pub mod find;
mod machine;
mod program;

pub use error::{Error, Result};
use find::{Jdk, OLDEST};
use machine::Java;
use program::Program;
use seawall_gauge::scenario::path::jvm::Shape::{self, Aligned, Fixed, Growing};
use seawall_gauge::scenario::path::jvm::{Jvm, JvmRow, Machine};
use std::sync::Arc;

/// The ways of a JVM to write, as `Ways.java` knows them: id, the native row of the same calls, the file, what it does.
#[rustfmt::skip]
const WAYS: [(&str, &str, Shape, &str); 16] = [
    ("raf-seek+write",        "seek+write",         Fixed,   "RandomAccessFile.seek, write(byte[])"),
    ("raf-append",            "append",             Growing, "RandomAccessFile.write(byte[]) at the end of a growing file"),
    ("channel-heap-at",       "pwrite",             Fixed,   "FileChannel.write(heap buffer, position)"),
    ("channel-direct-at",     "pwrite",             Fixed,   "FileChannel.write(direct buffer, position)"),
    ("channel-append",        "append",             Growing, "FileChannel.write(direct buffer) on APPEND"),
    ("mapped-buffer",         "mapped",             Fixed,   "MappedByteBuffer.put(index, byte[])"),
    ("ffm-pwrite",            "pwrite",             Fixed,   "downcall of pwrite from native memory"),
    ("channel-odirect",       "direct",             Aligned, "FileChannel.write(direct buffer, position) on DIRECT"),
    ("raf-rwd",               "dsync",              Fixed,   "RandomAccessFile \"rwd\": seek, write(byte[])"),
    ("channel-dsync",         "dsync",              Fixed,   "FileChannel.write(direct buffer, position) on DSYNC"),
    ("channel-append-dsync",  "dsync",              Growing, "FileChannel.write(direct buffer) on APPEND, DSYNC"),
    ("channel-force-false",   "buffered+fdatasync", Fixed,   "FileChannel.write(direct buffer, position), force(false)"),
    ("channel-force-true",    "buffered+fsync",     Fixed,   "FileChannel.write(direct buffer, position), force(true)"),
    ("channel-odirect-dsync", "direct+dsync",       Aligned, "FileChannel.write(direct buffer, position) on DIRECT, DSYNC"),
    ("mapped-buffer-force",   "mmap+msync",         Fixed,   "MappedByteBuffer.put(index, byte[]), force(index, length)"),
    ("ffm-datasync",          "buffered+fdatasync", Fixed,   "downcalls of pwrite and fdatasync from native memory"),
];

/// The JVMs of a run: their descriptions for the settings, and the machines, index by index.
#[derive(Default)]
pub struct Started {
    /// Their descriptions; those that could not be started say why in every row.
    pub jvms: Vec<Jvm>,
    /// The machines.
    pub machines: Vec<Box<dyn Machine>>,
}

/// Compiles the program and starts each of `jdks` with it. An error is the reason of the rows concerned.
#[must_use]
pub fn start(jdks: &[Jdk]) -> Started {
    let mut started = Started::default();
    if jdks.is_empty() {
        started.absent("jvm", "none", &Error::NoJdkFound);
        return started;
    }
    let program = Program::compile(jdks).map(Arc::new);
    for (jdk, label) in jdks.iter().zip(find::labels(jdks)) {
        let words = format!("{} ({})", jdk.version, jdk.home.display());
        match &program {
            _ if jdk.major < OLDEST => started.absent(&label, &words, &Error::OldJdk(jdk.clone())),
            Err(error) => started.absent(&label, &words, error),
            Ok(program) => match Java::start(jdk, program) {
                Ok((java, hello)) => {
                    started.jvms.push(Jvm {
                        label,
                        words: hello.words,
                        clock_ns: Some(hello.clock_ns),
                        rows: rows(None),
                    });
                    started.machines.push(Box::new(java));
                }
                Err(error) => started.absent(&label, &words, &error),
            },
        }
    }
    started
}

fn rows(not_available: Option<&str>) -> Vec<JvmRow> {
    let row = |(id, like, shape, what): (&str, &str, Shape, &str)| JvmRow {
        id: id.to_owned(),
        like: like.to_owned(),
        shape,
        allocates_nothing: true,
        what: what.to_owned(),
        not_available: not_available.map(str::to_owned),
    };
    WAYS.into_iter().map(row).collect()
}

impl Started {
    fn absent(&mut self, label: &str, words: &str, error: &Error) {
        let reason = error.to_string();
        let rows = rows(Some(&reason));
        self.jvms.push(Jvm { label: label.to_owned(), words: words.to_owned(), clock_ns: None, rows });
        self.machines.push(Box::new(machine::Absent(reason)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jvm_that_cannot_be_had_is_a_reason_in_each_row() {
        let old = Jdk { home: "jdk8".into(), version: "1.8.0_392".into(), major: 8, compiles: true };
        let broken = Jdk { home: "no-such-folder".into(), version: "21".into(), major: 21, compiles: true };
        let bare = Jdk { home: "jre".into(), version: "21".into(), major: 21, compiles: false };
        for (jdks, words) in [
            (vec![], "--jdk"),
            (vec![old], "1.8.0_392"),
            (vec![broken], "no-such-folder"),
            (vec![bare], "bin/javac"),
        ] {
            let started = start(&jdks);
            assert_eq!((started.machines.len(), started.jvms[0].rows.len()), (1, WAYS.len()));
            let reasons = started.jvms[0].rows.iter().filter_map(|row| row.not_available.as_deref());
            assert!(reasons.clone().all(|reason| reason.contains(words)), "{words}");
            assert_eq!(reasons.count(), WAYS.len());
        }
    }
}
