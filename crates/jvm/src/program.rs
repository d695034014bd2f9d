//! Compiles the Java program of the JVM rows into a folder of this run, which goes with it.

use crate::cannot;
use crate::find::{FOREIGN, Jdk, OLDEST};
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const SOURCES: [(&str, &str); 2] = [
    ("Ways.java", include_str!("../java/Ways.java")),
    ("Foreign.java", include_str!("../java/Foreign.java")),
];

const NO_COMPILER: &str = "none of the JDKs has a compiler (bin/javac): install a JDK (Debian: openjdk-17-jdk-headless), \
                           or name one with --jdk";

/// The classes of the program.
pub(crate) struct Program {
    /// Where they are, and what JVMs that run them say on standard error.
    pub(crate) folder: PathBuf,
}

impl Program {
    /// Compiles for JDK 17, and the part for `java.lang.foreign` if the newest of `jdks` that has a compiler knows it.
    ///
    /// # Errors
    /// No JDK here compiles, or the compiler failed.
    pub(crate) fn compile(jdks: &[Jdk]) -> io::Result<Self> {
        let able = jdks.iter().filter(|jdk| jdk.compiles && jdk.major >= OLDEST);
        let jdk = able.max_by_key(|jdk| jdk.major).ok_or_else(|| io::Error::other(NO_COMPILER))?;
        let folder = std::env::temp_dir().join(format!("seawall-java-{}", std::process::id()));
        // Not below a folder that is there: it may be another user's.
        std::fs::create_dir(&folder).map_err(cannot("make", &folder))?;
        let program = Self { folder };
        for (name, text) in SOURCES {
            let path = program.folder.join(name);
            std::fs::write(&path, text).map_err(cannot("write", &path))?;
        }
        program.javac(jdk, &["--release", "17", "Ways.java"])?;
        if jdk.major >= FOREIGN {
            program.javac(jdk, &["-cp", ".", "Foreign.java"])?;
        }
        Ok(program)
    }

    fn javac(&self, jdk: &Jdk, arguments: &[&str]) -> io::Result<()> {
        let compiler = jdk.program("javac");
        let mut javac = Command::new(&compiler);
        javac.args(["-implicit:none", "-d", "."]).args(arguments);
        let output = javac.current_dir(&self.folder).stdin(Stdio::null()).output();
        let output = output.map_err(cannot("start", &compiler))?;
        if output.status.success() {
            return Ok(());
        }
        let output = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!(
            "{} could not compile the measuring program: {}; name another JDK with --jdk",
            compiler.display(),
            output.trim()
        )))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Class files in a temporary folder harm nobody.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
