//! Compiles the Java program of the JVM rows into a scratch folder of this run.

use crate::cannot;
use crate::find::{FOREIGN, Jdk, OLDEST};
use seawall_sys::scratch::Scratch;
use std::process::{Command, Stdio};
use std::{env, fs, io};

/// Each source, its text, what it is compiled with, and the oldest compiler that can.
const SOURCES: [(&str, &str, [&str; 2], u32); 2] = [
    ("Ways.java", include_str!("../java/Ways.java"), ["--release", "17"], OLDEST),
    ("Foreign.java", include_str!("../java/Foreign.java"), ["-cp", "."], FOREIGN),
];

const NO_COMPILER: &str = "none of the JDKs has a compiler (bin/javac): install a JDK (Debian: openjdk-17-jdk-headless), \
                           or name one with --jdk";

/// Compiles for JDK 17, and the part for `java.lang.foreign` if the newest of `jdks` that has a compiler knows it. In the folder are
/// the classes, and what JVMs that run them say on standard error.
///
/// # Errors
/// No JDK here compiles, or the compiler failed.
pub(crate) fn compile(jdks: &[Jdk]) -> io::Result<Scratch> {
    let able = jdks.iter().filter(|jdk| jdk.compiles && jdk.major >= OLDEST);
    let jdk = able.max_by_key(|jdk| jdk.major).ok_or_else(|| io::Error::other(NO_COMPILER))?;
    let compiler = jdk.program("javac");
    let folder = Scratch::new_in(&env::temp_dir()).map_err(io::Error::other)?;
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
