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

pub mod find;
mod machine;
mod program;

use find::{Jdk, NO_JDK, OLDEST};
use machine::Java;
use seawall_gauge::scenario::path::jvm::Shape::{self, Aligned, Fixed, Growing};
use seawall_gauge::scenario::path::jvm::{Jvm, JvmRow, Machine};
use std::io;
use std::path::Path;
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

/// A JVM's description for the settings, which says why in every row if it could not be started, and the machine if it was.
pub type Started = (Jvm, Option<Box<dyn Machine>>);

/// Compiles the program and starts each of `jdks` with it. An error is the reason of the rows concerned.
#[must_use]
pub fn start(jdks: &[Jdk]) -> Vec<Started> {
    if jdks.is_empty() {
        return vec![described("jvm".to_owned(), "none".to_owned(), Err(io::Error::other(NO_JDK)))];
    }
    let program = program::compile(jdks).map(Arc::new);
    let one = |(jdk, label): (&Jdk, String)| {
        let words = format!("{} ({})", jdk.version, jdk.home.display());
        let java = match &program {
            _ if jdk.major < OLDEST => Err(io::Error::other(format!(
                "this is JDK {}, and the measuring program needs {OLDEST}: name a newer one with --jdk",
                jdk.version
            ))),
            Err(why) => Err(io::Error::other(why.to_string())),
            Ok(program) => Java::start(jdk, &label, program),
        };
        described(label, words, java)
    };
    jdks.iter().zip(find::labels(jdks)).map(one).collect()
}

fn described(label: String, words: String, java: io::Result<Java>) -> Started {
    let reason = java.as_ref().err().map(ToString::to_string);
    let rows = WAYS.map(|(id, like, shape, what)| JvmRow {
        id: id.to_owned(),
        like: like.to_owned(),
        shape,
        allocates_nothing: true,
        what: what.to_owned(),
        not_available: reason.clone(),
    });
    let said = java.as_ref().ok().map(|java| java.said.clone());
    let (words, clock_ns) = said.map_or((words, None), |(words, clock_ns)| (words, Some(clock_ns)));
    let jvm = Jvm { label, words, clock_ns, rows: rows.into() };
    (jvm, java.ok().map(|java| Box::new(java) as Box<dyn Machine>))
}

/// Says what failed at which file, for `map_err`.
fn cannot(operation: &str, path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |why| io::Error::new(why.kind(), format!("cannot {operation} {}: {why}", path.display()))
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
            let [(jvm, None)] = &started[..] else { panic!("{words}: one that does not run") };
            assert_eq!(jvm.rows.len(), WAYS.len());
            for row in &jvm.rows {
                let reason = row.not_available.as_deref().unwrap_or_default();
                assert!(reason.contains(words), "{words}: {reason}");
            }
        }
    }
}
