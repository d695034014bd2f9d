//! Runs JVMs as further rows of `seawall bench path`: finds JDKs, builds the jar and starts it.
//!
//! ```text
//!   find     which JDKs are there, or were named; policy only, the machine is a parameter
//!   jar      the program that they run: named, built before, or built now by Maven from the sources in here
//!   machine  a JVM that was started: orders in, figures out
//!   table    its rows, from the file that the jar reads too
//! ```
//!
//! Invariants: a missing JDK or jar makes rows `n/a` with a reason and a remedy, never no rows; nothing is downloaded
//! or built but below the build folder or where `--jar` says; no JVM outlives the run.

mod error;
pub mod find;
pub mod jar;
mod machine;
mod sources;
mod table;

pub use error::{Error, Result};
use find::{Jdk, OLDEST};
use jar::JarPath;
use machine::Java;
use seawall_gauge::scenario::path::jvm::{Jvm, Machine};

/// The JVMs of a run: their descriptions for the settings, and the machines, index by index.
#[derive(Default)]
pub struct Started {
    /// Their descriptions; those that could not be started say why in every row.
    pub jvms: Vec<Jvm>,
    /// The machines.
    pub machines: Vec<Box<dyn Machine>>,
}

/// Starts each of `jdks` with the jar at `place`, which is built first if it has to be; `report` takes lines of progress.
///
/// An error is the reason of the rows concerned.
pub fn start(jdks: &[Jdk], place: &JarPath, report: &mut dyn FnMut(&str)) -> Started {
    let mut started = Started::default();
    if jdks.is_empty() {
        started.absent("jvm", "none", &Error::NoJdkFound);
        return started;
    }
    let jar = jar::provide(jdks, place, report);
    for (jdk, label) in jdks.iter().zip(find::labels(jdks)) {
        let words = format!("{} ({})", jdk.version, jdk.home.display());
        match &jar {
            _ if jdk.major < OLDEST => started.absent(&label, &words, &Error::OldJdk(jdk.clone())),
            Err(error) => started.absent(&label, &words, error),
            Ok(jar) => match Java::start(jdk, jar) {
                Ok((java, hello)) => started.present(label, java, &hello),
                Err(error) => started.absent(&label, &words, &error),
            },
        }
    }
    started
}

impl Started {
    fn absent(&mut self, label: &str, words: &str, error: &Error) {
        let reason = error.to_string();
        let rows = table::rows(|_| Some(reason.clone()));
        self.jvms.push(Jvm { label: label.to_owned(), words: words.to_owned(), clock_ns: None, rows });
        self.machines.push(Box::new(machine::Absent(reason)));
    }

    fn present(&mut self, label: String, java: Java, hello: &machine::Hello) {
        let rows = table::rows(|id| hello.not_available(id));
        self.jvms.push(Jvm { label, words: hello.words(), clock_ns: Some(hello.clock_ns), rows });
        self.machines.push(Box::new(java));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn reasons(started: &Started) -> Vec<String> {
        let rows = started.jvms.iter().flat_map(|jvm| &jvm.rows);
        let mut reasons: Vec<String> = rows.filter_map(|row| row.not_available.clone()).collect();
        reasons.dedup();
        reasons
    }

    #[test]
    fn without_a_jdk_there_are_rows_that_say_so() {
        let place = JarPath::Named(PathBuf::from("none.jar"));
        let started = start(&[], &place, &mut |_| {});
        assert_eq!(started.machines.len(), 1);
        assert!(started.jvms[0].rows.len() > 25);
        let reasons = reasons(&started);
        assert_eq!(reasons.len(), 1);
        assert!(reasons[0].contains("--jdk"), "{reasons:?}");
    }

    #[test]
    fn a_jdk_that_is_too_old_is_a_row_s_reason_with_its_version() {
        let old = Jdk { home: "jdk8".into(), version: "1.8.0_392".into(), major: 8, compiles: true };
        let folder = tempfile::tempdir().expect("a folder");
        let jar = folder.path().join("any.jar");
        std::fs::write(&jar, "no jar").expect("written");
        let started = start(&[old], &JarPath::Named(jar), &mut |_| {});
        assert!(reasons(&started)[0].contains("1.8.0_392"), "{:?}", reasons(&started));
        assert_eq!(started.jvms[0].label, "8");
    }
}
