//! Finds JDKs: those named with `--jdk`, else one of each major version on this machine.
//!
//! ```text
//!   named with --jdk    each of them, or an error with the reason
//!   else                JAVA_HOME, java on the PATH, the usual folders: the first found of each major from 17 on
//! ```

use std::env::{self, consts::EXE_SUFFIX};
use std::io;
use std::path::{Path, PathBuf};

/// The oldest JDK that the measuring program runs on.
pub const OLDEST: u32 = 17;

/// The first JDK whose compiler knows `java.lang.foreign`.
pub const FOREIGN: u32 = 22;

/// Why no JDK is used, with the remedy.
pub const NO_JDK: &str = "no JDK from 17 on was found by JAVA_HOME, on the PATH or in the usual folders: install one \
                          (Debian: openjdk-17-jdk-headless) or name one with --jdk DIR";

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

impl Jdk {
    /// The file of one of its programs.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        program(&self.home, name)
    }
}

fn program(home: &Path, name: &str) -> PathBuf {
    home.join("bin").join(format!("{name}{EXE_SUFFIX}"))
}

/// Where packages, installers and version managers put JDKs.
const USUAL: [&str; 5] = [
    "/usr/lib/jvm",
    "/opt/java",
    "/Library/Java/JavaVirtualMachines",
    "C:\\Program Files\\Java",
    "C:\\Program Files\\Eclipse Adoptium",
];

/// The same below the home folder.
const USUAL_AT_HOME: [&str; 2] = [".sdkman/candidates/java", ".jdks"];

/// Where to look, most wanted first.
#[derive(Default)]
struct Places {
    java_home: Option<PathBuf>,
    path: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl Places {
    fn here() -> Self {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
        let at_home = variable("HOME").map(|home| USUAL_AT_HOME.map(|folder| Path::new(&home).join(folder)));
        Self {
            java_home: variable("JAVA_HOME").map(PathBuf::from),
            path: variable("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default(),
            folders: USUAL.map(PathBuf::from).into_iter().chain(at_home.into_iter().flatten()).collect(),
        }
    }

    /// Folders that may be a JDK.
    fn candidates(&self) -> Vec<PathBuf> {
        let mut homes: Vec<PathBuf> = self.java_home.iter().cloned().collect();
        for folder in &self.path {
            // The link on the PATH leads to bin/java below the home.
            let real = folder.join(format!("java{EXE_SUFFIX}")).canonicalize();
            homes.extend(real.ok().and_then(|java| Some(java.parent()?.parent()?.to_path_buf())));
        }
        for folder in &self.folders {
            let Ok(entries) = folder.read_dir() else { continue };
            let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            // macOS keeps the home below the bundle.
            homes.extend(paths.into_iter().flat_map(|path| [path.join("Contents/Home"), path]));
        }
        homes
    }
}

/// The JDKs to use, in the order of their versions, or as they were named.
///
/// # Errors
/// Which named folder is no JDK, and the remedy.
pub fn find(named: &[PathBuf]) -> io::Result<Vec<Jdk>> {
    if named.is_empty() {
        Ok(one_of_each(&Places::here()))
    } else {
        named.iter().map(|home| at(home)).collect()
    }
}

fn one_of_each(places: &Places) -> Vec<Jdk> {
    let mut found: Vec<Jdk> = Vec::new();
    for jdk in places.candidates().iter().filter_map(|home| at(home).ok()) {
        if jdk.major >= OLDEST && found.iter().all(|known| known.major != jdk.major) {
            found.push(jdk);
        }
    }
    found.sort_by_key(|jdk| jdk.major);
    found
}

fn at(home: &Path) -> io::Result<Jdk> {
    let lacks = |what| io::Error::other(format!("{} is no JDK: it has no {what}", home.display()));
    if !program(home, "java").is_file() {
        return Err(lacks("bin/java; name the folder above bin with --jdk"));
    }
    let release = std::fs::read_to_string(home.join("release")).unwrap_or_default();
    let line = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="));
    let version = line.unwrap_or_default().trim().trim_matches('"').to_owned();
    let Some(major) = major(&version) else {
        return Err(lacks("file `release` with its version (JAVA_VERSION); name a complete JDK with --jdk"));
    };
    let compiles = program(home, "javac").is_file();
    Ok(Jdk { home: home.to_path_buf(), version, major, compiles })
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
    let label = |(at, jdk): (usize, &Jdk)| {
        let alone = jdks.iter().filter(|other| other.major == jdk.major).count() == 1;
        match jdks[..at].iter().filter(|other| other.version == jdk.version).count() {
            0 if alone => jdk.major.to_string(),
            0 => jdk.version.clone(),
            alike => format!("{}-{}", jdk.version, alike + 1),
        }
    };
    jdks.iter().enumerate().map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes folders that look like JDKs of these versions.
    fn made(homes: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("made");
        for (home, version) in homes {
            let home = root.path().join(home);
            std::fs::create_dir_all(home.join("bin")).expect("made");
            std::fs::write(program(&home, "java"), "").expect("written");
            let text = format!("IMPLEMENTOR=\"N\"\nJAVA_VERSION=\"{version}\"\n");
            std::fs::write(home.join("release"), text).expect("written");
        }
        root
    }

    #[test]
    fn one_of_each_major_is_taken_the_most_wanted_first_and_none_that_is_too_old() {
        let root = made(&[
            ("jvm/a-17", "17.0.1"),
            ("jvm/b-17", "17.0.2"),
            ("jvm/c-25/Contents/Home", "25.0.3"),
            ("jvm/d-11", "11.0.9"),
            ("x/17", "17.0.9"),
        ]);
        let versions = |places: &Places| {
            one_of_each(places).into_iter().map(|jdk| jdk.version).collect::<Vec<_>>().join(" ")
        };
        let mut places = Places { folders: vec![root.path().join("jvm")], ..Places::default() };
        assert_eq!(versions(&places), "17.0.1 25.0.3");
        places.path = vec![root.path().join("jvm/b-17/bin")];
        assert_eq!(versions(&places), "17.0.2 25.0.3");
        #[cfg(unix)]
        {
            let link = root.path().join("java");
            std::os::unix::fs::symlink(root.path().join("jvm/b-17/bin/java"), link).expect("linked");
            places.path = vec![root.path().to_path_buf()];
            assert_eq!(versions(&places), "17.0.2 25.0.3");
        }
        places.java_home = Some(root.path().join("x/17"));
        assert_eq!(versions(&places), "17.0.9 25.0.3");
        assert_eq!(versions(&Places::default()), "");
    }

    #[test]
    fn a_named_folder_is_taken_as_it_is_or_refused_with_the_remedy() {
        let root = made(&[("8", "1.8.0_392"), ("21", "21")]);
        let named = |home: &str| root.path().join(home);
        let jdks = find(&[named("21"), named("8")]).expect("both are");
        assert_eq!(jdks.iter().map(|jdk| jdk.major).collect::<Vec<_>>(), [21, 8]);
        let refusal = find(&[named("17")]).expect_err("no JDK").to_string();
        assert!(refusal.contains("bin/java") && refusal.contains("--jdk"), "{refusal}");
        std::fs::remove_file(named("8").join("release")).expect("removed");
        assert!(find(&[named("8")]).is_err_and(|why| why.to_string().contains("JAVA_VERSION")));
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
