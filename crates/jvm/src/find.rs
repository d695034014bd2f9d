//! Finds the JDKs of a run: those named with `--jdk`, else one of each major version on this machine.
//!
//! ```text
//!   named with --jdk    each of them, or an error with the reason
//!   else                JAVA_HOME, java on the PATH, the usual folders: the first found of each major from 17 on
//! ```
//!
//! Invariant: policy only: the facts of the machine come through `Look`, so that tests can try every order.

use std::fmt;
use std::path::{Path, PathBuf};

/// The oldest JDK that the measuring program runs on.
pub const OLDEST: u32 = 17;

/// The first JDK whose compiler knows `java.lang.foreign`.
pub const FOREIGN: u32 = 22;

/// A named folder that is no JDK.
#[derive(Debug)]
pub struct NoJdk {
    home: PathBuf,
    lacks: &'static str,
}

impl fmt::Display for NoJdk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is no JDK: it has no {}", self.home.display(), self.lacks)
    }
}

impl std::error::Error for NoJdk {}

/// A JDK, or a JRE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jdk {
    /// Its folder, with `bin/java` in it.
    pub home: PathBuf,
    /// Its version, such as `17.0.15`.
    pub version: String,
    /// The first number of it; 8 for `1.8`.
    pub major: u32,
    /// Whether it has a compiler.
    pub compiles: bool,
}

/// The facts of the machine that finding needs.
pub trait Look {
    /// An environment variable.
    fn variable(&self, name: &str) -> Option<PathBuf>;
    /// The folders of the PATH.
    fn path(&self) -> Vec<PathBuf>;
    /// The entries of a folder, in order; none if it is not there.
    fn entries(&self, folder: &Path) -> Vec<PathBuf>;
    /// Whether this is a file.
    fn is_file(&self, path: &Path) -> bool;
    /// A file's text.
    fn text(&self, path: &Path) -> Option<String>;
    /// The path without links; itself if it is not there.
    fn real(&self, path: &Path) -> PathBuf;
}

/// Where JDKs are put by packages, installers and version managers.
const USUAL: [&str; 5] = [
    "/usr/lib/jvm",
    "/opt/java",
    "/Library/Java/JavaVirtualMachines",
    "C:\\Program Files\\Java",
    "C:\\Program Files\\Eclipse Adoptium",
];

/// The same below the home folder.
const USUAL_AT_HOME: [&str; 2] = [".sdkman/candidates/java", ".jdks"];

/// The JDKs to use, in the order of their versions, or as they were named.
///
/// # Errors
/// Which named folder is no JDK, and the remedy.
pub fn find(named: &[PathBuf], look: &dyn Look) -> Result<Vec<Jdk>, NoJdk> {
    if !named.is_empty() {
        return named.iter().map(|home| named_one(home, look)).collect();
    }
    let mut found: Vec<Jdk> = Vec::new();
    for home in candidates(look) {
        let Some(jdk) = at(&home, look) else { continue };
        if jdk.major >= OLDEST && found.iter().all(|known| known.major != jdk.major) {
            found.push(jdk);
        }
    }
    found.sort_by_key(|jdk| jdk.major);
    Ok(found)
}

fn named_one(home: &Path, look: &dyn Look) -> Result<Jdk, NoJdk> {
    let lacks = |lacks| NoJdk { home: home.to_path_buf(), lacks };
    if !look.is_file(&home.join("bin").join(java())) {
        return Err(lacks("bin/java; name the folder above bin with --jdk"));
    }
    at(home, look).ok_or_else(|| {
        lacks("file `release` with its version (JAVA_VERSION); name a complete JDK with --jdk")
    })
}

/// Possible homes, most wanted first.
fn candidates(look: &dyn Look) -> Vec<PathBuf> {
    let mut homes: Vec<PathBuf> = look.variable("JAVA_HOME").into_iter().collect();
    let programs = look.path().into_iter().map(|folder| folder.join(java()));
    for program in programs.filter(|program| look.is_file(program)) {
        // The link on the PATH leads to bin/java below the home.
        homes.extend(look.real(&program).parent().and_then(Path::parent).map(Path::to_path_buf));
    }
    let at_home = look.variable("HOME").map(|home| USUAL_AT_HOME.map(|folder| home.join(folder)));
    let folders = USUAL.map(PathBuf::from).into_iter().chain(at_home.into_iter().flatten());
    for folder in folders {
        for entry in look.entries(&folder) {
            // macOS keeps the home below the bundle.
            homes.push(entry.join("Contents/Home"));
            homes.push(entry);
        }
    }
    homes
}

fn at(home: &Path, look: &dyn Look) -> Option<Jdk> {
    if !look.is_file(&home.join("bin").join(java())) {
        return None;
    }
    let release = look.text(&home.join("release"))?;
    let line = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="))?;
    let version = line.trim().trim_matches('"').to_owned();
    let major = major(&version)?;
    let compiles = look.is_file(&home.join("bin").join(format!("javac{}", std::env::consts::EXE_SUFFIX)));
    Some(Jdk { home: home.to_path_buf(), version, major, compiles })
}

fn java() -> String {
    format!("java{}", std::env::consts::EXE_SUFFIX)
}

/// The major version: up to JDK 8 it is the second number.
fn major(version: &str) -> Option<u32> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    match numbers.next()?.parse().ok()? {
        1 => numbers.next()?.parse().ok(),
        major => Some(major),
    }
}

/// Short names, unique: the major version, or the whole where several have the same, or numbered where these are alike.
#[must_use]
pub fn labels(jdks: &[Jdk]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for jdk in jdks {
        let alone = jdks.iter().filter(|other| other.major == jdk.major).count() == 1;
        let label = if alone { jdk.major.to_string() } else { jdk.version.clone() };
        let same =
            labels.iter().filter(|known| **known == label || known.starts_with(&format!("{label}-"))).count();
        labels.push(if same == 0 { label } else { format!("{label}-{}", same + 1) });
    }
    labels
}

/// This machine.
pub struct Here;

impl Look for Here {
    fn variable(&self, name: &str) -> Option<PathBuf> {
        std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    fn path(&self) -> Vec<PathBuf> {
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
    }

    fn entries(&self, folder: &Path) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn text(&self, path: &Path) -> Option<String> {
        std::fs::read_to_string(path).ok()
    }

    fn real(&self, path: &Path) -> PathBuf {
        std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Homes with their versions, variables, and what java on the PATH leads to.
    #[derive(Default)]
    struct Made {
        homes: Vec<(&'static str, &'static str)>,
        java_home: Option<&'static str>,
        on_path: Option<&'static str>,
    }

    impl Look for Made {
        fn variable(&self, name: &str) -> Option<PathBuf> {
            (name == "JAVA_HOME").then_some(self.java_home).flatten().map(PathBuf::from)
        }
        fn path(&self) -> Vec<PathBuf> {
            self.on_path.map(|_| PathBuf::from("/usr/bin")).into_iter().collect()
        }
        fn entries(&self, folder: &Path) -> Vec<PathBuf> {
            let homes = self.homes.iter().map(|(home, _)| PathBuf::from(home));
            homes.filter(|home| home.parent() == Some(folder)).collect()
        }
        fn is_file(&self, path: &Path) -> bool {
            let link = self.on_path.is_some() && path == Path::new("/usr/bin").join(java());
            link || self.homes.iter().any(|(home, _)| path.starts_with(Path::new(home).join("bin")))
        }
        fn text(&self, path: &Path) -> Option<String> {
            let home = self.homes.iter().find(|(home, _)| path == Path::new(home).join("release"));
            home.map(|(_, version)| format!("IMPLEMENTOR=\"N\"\nJAVA_VERSION=\"{version}\"\n"))
        }
        fn real(&self, path: &Path) -> PathBuf {
            self.on_path.map_or_else(|| path.to_path_buf(), |home| Path::new(home).join("bin/java"))
        }
    }

    fn found(made: &Made) -> Vec<String> {
        let jdks = find(&[], made).expect("no named ones");
        jdks.iter().map(|jdk| format!("{} {}", jdk.major, jdk.home.display())).collect()
    }

    #[test]
    fn one_of_each_major_is_taken_the_most_wanted_first_and_none_that_is_too_old() {
        let homes = vec![
            ("/usr/lib/jvm/a-17", "17.0.1"),
            ("/usr/lib/jvm/b-17", "17.0.2"),
            ("/usr/lib/jvm/c-25", "25.0.3"),
            ("/usr/lib/jvm/d-11", "11.0.9"),
            ("/home/x/17", "17.0.9"),
        ];
        let mut made = Made { homes, ..Made::default() };
        assert_eq!(found(&made), ["17 /usr/lib/jvm/a-17", "25 /usr/lib/jvm/c-25"]);
        made.on_path = Some("/usr/lib/jvm/b-17");
        assert_eq!(found(&made), ["17 /usr/lib/jvm/b-17", "25 /usr/lib/jvm/c-25"]);
        made.java_home = Some("/home/x/17");
        assert_eq!(found(&made), ["17 /home/x/17", "25 /usr/lib/jvm/c-25"]);
        assert!(found(&Made::default()).is_empty());
    }

    #[test]
    fn a_named_folder_is_taken_as_it_is_or_refused_with_the_remedy() {
        let made = Made { homes: vec![("/j/8", "1.8.0_392"), ("/j/21", "21")], ..Made::default() };
        let majors: Vec<u32> = find(&["/j/21".into(), "/j/8".into()], &made)
            .expect("both are")
            .iter()
            .map(|jdk| jdk.major)
            .collect();
        assert_eq!(majors, [21, 8]);
        let refusal = find(&["/j".into()], &made).expect_err("no JDK").to_string();
        assert!(refusal.contains("bin/java") && refusal.contains("--jdk"), "{refusal}");
    }

    #[test]
    fn labels_are_short_and_unique() {
        let jdk = |version: &str| Jdk {
            home: version.into(),
            version: version.to_owned(),
            major: major(version).expect("a number"),
            compiles: true,
        };
        let of = |versions: &[&str]| labels(&versions.iter().map(|version| jdk(version)).collect::<Vec<_>>());
        assert_eq!(of(&["17.0.1", "25"]), ["17", "25"]);
        assert_eq!(of(&["17.0.1", "17.0.2", "25"]), ["17.0.1", "17.0.2", "25"]);
        assert_eq!(of(&["21", "21", "21"]), ["21", "21-2", "21-3"]);
    }
}
