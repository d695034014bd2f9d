//! Provides the jar: named with `--jar`, kept in the build folder, or built there by Maven.
//!
//! ```text
//!   target/jvm/seawall-jvm-path-FINGERPRINT-22.jar   built by a JDK ≥ 22: has the rows of java.lang.foreign
//!   target/jvm/seawall-jvm-path-FINGERPRINT.jar      built by an older one
//!   target/jvm/repository                            what Maven downloads
//!   target/jvm/work-PID                              sources and classes while it is being built
//! ```
//!
//! Invariants: a jar in the build folder is built from these sources, because its name holds their fingerprint; it
//! appears whole or not at all; nothing is written outside the build folder, or the folder of `--jar`.

use crate::find::{FOREIGN, Jdk};
use crate::{Error, Result, sources};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the jar is, or is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JarPath {
    /// This file; built if it is not there.
    Named(PathBuf),
    /// Below this build folder.
    Below(PathBuf),
    /// Nowhere: this program does not lie in a build folder, and none was named.
    Nowhere,
}

/// What cargo puts into its build folder: the tag only if it made the folder.
const MARKS: [&str; 2] = ["CACHEDIR.TAG", ".rustc_info.json"];

/// The place of the jar for a program at `exe`: as `named`, else in cargo's build folder, next to the program.
#[must_use]
pub fn place(named: Option<&Path>, exe: Option<&Path>, is_file: &dyn Fn(&Path) -> bool) -> JarPath {
    if let Some(jar) = named {
        return JarPath::Named(jar.to_path_buf());
    }
    let folders = exe.into_iter().flat_map(Path::ancestors).skip(1);
    let build = folders.take(4).find(|folder| MARKS.iter().any(|mark| is_file(&folder.join(mark))));
    build.map_or(JarPath::Nowhere, |folder| JarPath::Below(folder.join("jvm")))
}

/// The jar, built if need be.
///
/// # Errors
/// Why there is none, with the remedy.
pub(crate) fn provide(jdks: &[Jdk], place: &JarPath, report: &mut dyn FnMut(&str)) -> Result<PathBuf> {
    let (jar, folder) = match place {
        JarPath::Nowhere => return Err(Error::NoPlace),
        JarPath::Named(jar) if jar.is_file() => return Ok(jar.clone()),
        JarPath::Named(jar) => {
            let folder = jar.parent().filter(|parent| !parent.as_os_str().is_empty());
            (jar.clone(), folder.unwrap_or(Path::new(".")).join("seawall-jvm-build"))
        }
        JarPath::Below(folder) => {
            let complete = folder.join(name(true));
            let plain = folder.join(name(false));
            let builder = builder(jdks);
            if complete.is_file() {
                return Ok(complete);
            }
            if plain.is_file() && builder.is_none_or(|jdk| jdk.major < FOREIGN) {
                return Ok(plain);
            }
            (if builder.is_some_and(|jdk| jdk.major >= FOREIGN) { complete } else { plain }, folder.clone())
        }
    };
    let builder = builder(jdks).ok_or(Error::NoCompiler)?;
    report(&format!(
        "building the measuring jar with Maven and JDK {} into {}: once, about a minute",
        builder.version,
        jar.display()
    ));
    build(builder, &jar, &folder)?;
    Ok(jar)
}

fn name(foreign: bool) -> String {
    format!("seawall-jvm-path-{}{}.jar", sources::fingerprint(), if foreign { "-22" } else { "" })
}

/// The newest JDK that has a compiler.
fn builder(jdks: &[Jdk]) -> Option<&Jdk> {
    let able = jdks.iter().filter(|jdk| jdk.compiles && jdk.major >= crate::find::OLDEST);
    able.max_by_key(|jdk| jdk.major)
}

fn build(jdk: &Jdk, jar: &Path, folder: &Path) -> Result<()> {
    let work = folder.join(format!("work-{}", std::process::id()));
    let outcome = build_in(&work, jdk, jar, folder);
    // What is left of a build is of no use; that it cannot be removed is no reason to fail.
    let _ = std::fs::remove_dir_all(&work);
    outcome
}

fn build_in(work: &Path, jdk: &Jdk, jar: &Path, folder: &Path) -> Result<()> {
    let at =
        |source| Error::Io { operation: "build the jar in", path: folder.to_path_buf(), source, remedy: "" };
    std::fs::create_dir_all(work).map_err(at)?;
    let work = std::fs::canonicalize(work).map_err(at)?;
    let source = work.join("source");
    sources::unpack(&source).map_err(at)?;
    let repository = std::fs::canonicalize(folder).map_err(at)?.join("repository");
    let output = Command::new(maven())
        .args(["--batch-mode", "--quiet", "-DskipTests", "-Dstyle.color=never"])
        .arg(format!("-Dmaven.repo.local={}", repository.display()))
        .arg(format!("-Dseawall.build={}", work.join("build").display()))
        .arg("package")
        .current_dir(&source)
        .env("JAVA_HOME", &jdk.home)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Io {
            operation: "start",
            path: maven().into(),
            source,
            remedy: "; install Maven (Debian: maven), or name a built jar with --jar FILE",
        })?;
    if !output.status.success() {
        return Err(failure(&String::from_utf8_lossy(&output.stdout)));
    }
    // Renamed within one file system: there is never half a jar under that name.
    let made = work.join("build/seawall-jvm-path.jar");
    let near = jar.with_extension(format!("{}.tmp", std::process::id()));
    std::fs::copy(&made, &near).and_then(|_| std::fs::rename(&near, jar)).map_err(at)
}

fn maven() -> &'static str {
    if std::env::consts::EXE_SUFFIX == ".exe" { "mvn.cmd" } else { "mvn" }
}

/// The first error in Maven's output.
fn failure(output: &str) -> Error {
    let first = output.lines().find_map(|line| line.strip_prefix("[ERROR] ")).unwrap_or("it did not say why");
    Error::Maven(first.chars().take(300).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jdk(major: u32, compiles: bool) -> Jdk {
        Jdk { home: "nowhere".into(), version: major.to_string(), major, compiles }
    }

    #[test]
    fn the_place_is_as_named_or_beside_the_program_in_cargo_s_folder_or_nowhere() {
        let tag = |path: &Path| path == Path::new("/work/target/CACHEDIR.TAG");
        let at = |exe: &str| place(None, Some(Path::new(exe)), &tag);
        assert_eq!(at("/work/target/release/seawall"), JarPath::Below("/work/target/jvm".into()));
        assert_eq!(at("/work/target/debug/deps/seawall-1"), JarPath::Below("/work/target/jvm".into()));
        assert_eq!(at("/usr/bin/seawall"), JarPath::Nowhere);
        let named = place(Some(Path::new("x.jar")), Some(Path::new("/work/target/release/seawall")), &tag);
        assert_eq!(named, JarPath::Named("x.jar".into()));
    }

    #[test]
    fn a_jar_that_is_there_is_taken_and_nothing_is_built() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut reported = Vec::new();
        let below = JarPath::Below(folder.path().to_path_buf());
        let old = folder.path().join(name(false));
        std::fs::write(&old, "").expect("made");
        let mut find =
            |jdks: &[Jdk]| provide(jdks, &below, &mut |text| reported.push(text.to_owned())).expect("there");
        assert_eq!(find(&[jdk(17, true)]), old);
        let new = folder.path().join(name(true));
        std::fs::write(&new, "").expect("made");
        assert_eq!(find(&[jdk(17, true), jdk(25, true)]), new);
        assert_eq!(reported, Vec::<String>::new());
    }

    #[test]
    fn without_compiler_or_place_the_error_has_the_remedy() {
        let folder = tempfile::tempdir().expect("a folder");
        let below = JarPath::Below(folder.path().to_path_buf());
        assert!(matches!(provide(&[jdk(17, false)], &below, &mut |_| {}), Err(Error::NoCompiler)));
        let refusal = provide(&[jdk(17, true)], &JarPath::Nowhere, &mut |_| {}).expect_err("no place");
        for (refusal, words) in [(Error::NoCompiler, ["javac", "--jar"]), (refusal, ["--jar", "Maven"])] {
            assert!(words.iter().all(|word| refusal.to_string().contains(word)), "{refusal}");
        }
    }

    #[test]
    fn the_first_error_of_maven_is_the_reason() {
        let error = failure("[INFO] x\n[ERROR] Could not resolve dependencies\n[ERROR] more").to_string();
        assert!(error.contains("Could not resolve dependencies") && error.contains("--jar"), "{error}");
    }
}
