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
use seawall_gauge::scenario::path::jvm::{Jvm, Machine};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A JVM's description for the settings, which says why if it could not be started, and the machine if it was.
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
    let not_available = java.as_ref().err().map(ToString::to_string);
    let said = java.as_ref().ok().map(|java| java.said.clone());
    let (words, clock_ns) = said.map_or((words, None), |(words, clock_ns)| (words, Some(clock_ns)));
    let jvm = Jvm { label, words, clock_ns, not_available };
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
    fn a_jvm_that_cannot_be_had_has_a_reason() {
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
            let reason = jvm.not_available.as_deref().unwrap_or_default();
            assert!(reason.contains(words), "{words}: {reason}");
        }
    }
}
