//! Lists the tools that `cargo xtask test` needs, and installs the missing ones.
//!
//! Invariant: a missing tool is installed (where there is apt-get, as root) or named together with its package on Debian,
//! or with its project where Debian has none that is new enough ([`ELSEWHERE`]); it is never skipped silently.

use crate::error::{Error, Result};
use crate::files;
use crate::python;
use crate::shell::{cargo_by, command, find_program, has, is_root, output, root, status, target};
use seawall_host::jdk::{FOREIGN, find};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program on the path, or a file by its whole name (others behind `|` do as well), its package on Debian, its purpose, and what
/// needs it.
type Tool = (&'static str, &'static str, &'static str, &'static [For]);

/// What tools are provided for.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum For {
    Tests,
    /// The tests of the C interface.
    C,
    /// The static program for this kind of processor.
    Musl,
    /// The static program for ARM, and what runs it.
    Arm,
    /// The Windows rows.
    Windows,
    /// Installing deb and rpm.
    Packages,
    Peers,
    Replicated,
    /// The nodes of Kafka, and its client: librdkafka is built from the sources in its crate.
    Kafka,
    KafkaClient,
    SecondKernel,
}
use For::{Arm, C, Kafka, KafkaClient, Musl, Packages, Peers, Replicated, SecondKernel, Tests, Windows};

#[rustfmt::skip]
const TOOLS: [Tool; 39] = [
    ("cc",                         "gcc",                     "linking, and building what is in C",        &[Tests, C, Peers]),
    ("c++",                        "g++",                     "programs in C++, and building librdkafka",  &[C, Kafka, KafkaClient]),
    ("make",                       "make",                    "building librdkafka",                       &[Kafka, KafkaClient]),
    ("pkg-config",                 "pkg-config",              "finding libraries",                         &[C, Kafka, KafkaClient]),
    ("/usr/include/openssl/ssl.h", "libssl-dev",              "TLS of librdkafka",                         &[Kafka, KafkaClient]),
    ("/usr/include/zlib.h",        "zlib1g-dev",              "compression of librdkafka",                 &[Kafka, KafkaClient]),
    ("nm",                         "binutils",                "what the shared library exports",           &[C]),
    ("strace",                     "strace",                  "system calls of methods and of nodes",      &[Tests, Replicated]),
    ("losetup",                    "mount",                   "file systems of the tests' own",            &[Tests]),
    ("mount",                      "mount",                   "file systems of the tests' own",            &[Tests]),
    ("unshare",                    "util-linux",              "a mount namespace for the tests",           &[Tests]),
    ("setpriv",                    "util-linux",              "runs without root's rights",                &[Tests]),
    ("mkfs.ext4",                  "e2fsprogs",               "file systems of the tests' own",            &[Tests, SecondKernel]),
    ("mkfs.xfs",                   "xfsprogs",                "flush counts on xfs",                       &[Tests]),
    ("mkfs.btrfs",                 "btrfs-progs",             "flush counts on btrfs",                     &[Tests]),
    ("eatmydata",                  "eatmydata",               "a lie to be caught",                        &[Tests]),
    ("fusermount3",                "fuse3",                   "recording programs where namespaces are refused", &[Tests]),
    ("sqlite3",                    "sqlite3",                 "recipes of docs/crash-test.md, and `trace`", &[Tests]),
    ("curl",                       "curl",                    "recipes of docs/crash-test.md",             &[Tests]),
    ("psql",                       "postgresql",              "recipes of docs/crash-test.md",             &[Tests]),
    ("jq",                         "jq",                      "the lines of docs/result.md",               &[Tests]),
    ("x86_64-w64-mingw32-gcc",     "gcc-mingw-w64-x86-64",    "the Windows build",                         &[Tests, Windows]),
    // Newer Wines have one loader for both kinds of programs.
    ("wine|wine64",                "wine wine64",             "the Windows tests",                         &[Tests, Windows]),
    ("javac",                      "default-jdk-headless",    "the JVM part of `path`, Java, and Kafka",   &[Tests, Kafka]),
    ("mvn",                        "maven",                   "Java, and fetching Kafka",                  &[Tests, Kafka]),
    ("openssl",                    "openssl",                 "certificates for `replicated`",             &[Tests, Replicated]),
    ("python3",                    "python3-venv",            "the package of Python",                     &[Tests]),
    ("qemu-io",                    "qemu-utils",              "a client for the block device of the tests", &[Tests]),
    ("groff",                      "groff-base",              "the manual pages",                          &[Tests]),
    ("chromium",                   "chromium",                "the HTML report in a browser",              &[Tests]),
    ("musl-gcc",                   "musl-tools",              "the C and assembler of a crate",            &[Musl]),
    ("aarch64-linux-gnu-gcc",      "gcc-aarch64-linux-gnu",   "the C and assembler of a crate",            &[Arm]),
    ("qemu-aarch64-static",        "qemu-user-static",        "programs for ARM",                          &[Arm]),
    ("dpkg",                       "dpkg",                    "installing the deb",                        &[Packages]),
    ("rpm",                        "rpm",                     "installing the rpm",                        &[Packages]),
    ("chroot",                     "coreutils",               "running a program with nothing else",       &[Packages]),
    ("qemu-system-x86_64",         "qemu-system-x86",         "the emulated machine",                      &[SecondKernel]),
    ("busybox",                    "busybox-static",          "what runs in it",                           &[SecondKernel]),
    ("dmsetup",                    "dmsetup",                 "stacks of devices in it",                   &[SecondKernel]),
];

/// What a step of `test` needs and Debian 12 has not, or too old: it is named, and the step counts as skipped; in CI, as failed.
pub(crate) struct Elsewhere {
    what: &'static str,
    purpose: &'static str,
    remedy: &'static str,
    found: fn() -> bool,
}

/// Builds NATS' server, and the tools of packages and workflows.
pub(crate) const GO: Elsewhere = Elsewhere {
    what: "Go 1.26",
    purpose: "the steps `replicated`, `packages` and `workflows`: it builds the NATS server, nfpm and actionlint",
    remedy: "put the `go` archive of its makers into /usr/local/go, or a Go from 1.21 on, which fetches the newer one, into PATH",
    found: || go_version().is_some_and(|minor| minor >= 21),
};

const ELSEWHERE: [Elsewhere; 2] = [
    GO,
    Elsewhere {
        what: "JDK 25",
        purpose: "the calls of JVMs and Java: the rows of java.lang.foreign and the log for Java need one from 22 on",
        remedy: "put one (Temurin, or the package openjdk-25-jdk-headless of newer systems) into /usr/lib/jvm beside the other",
        found: || find(&[]).is_ok_and(|jdks| jdks.iter().any(|jdk| jdk.compiles && jdk.major >= FOREIGN)),
    },
];

impl Elsewhere {
    /// What is missing, for what, and where it comes from; nothing if it is here.
    pub(crate) fn lacking(&self) -> Option<String> {
        let Self { what, purpose, remedy, found } = self;
        (!found()).then(|| format!("{what} is missing, needed for {purpose}: {remedy}"))
    }
}

/// Names what is missing of [`ELSEWHERE`]; gives how many.
pub(crate) fn lacking() -> usize {
    let lacking: Vec<String> = ELSEWHERE.iter().filter_map(Elsewhere::lacking).collect();
    for missing in &lacking {
        println!("{missing}");
    }
    lacking.len()
}

/// The minor version of Go 1, where `cargo xtask cluster` looks for it.
fn go_version() -> Option<u32> {
    let version = |go: &str| output(command(go, &["version"])).ok();
    minor(&version("go").or_else(|| version("/usr/local/go/bin/go"))?)
}

pub(crate) fn go() -> &'static str {
    if has("go") { "go" } else { "/usr/local/go/bin/go" }
}

/// A program of a Go module at a version: built once, kept in `target/go`.
pub(crate) fn go_program(module: &str, version: &str) -> Result<PathBuf> {
    let folder = target().join("go").join(version);
    // The last part of a module's name may be its version.
    let is_version = |part: &&str| part.strip_prefix('v').is_some_and(|rest| rest.parse::<u32>().is_ok());
    let program = folder.join(module.rsplit('/').find(|part| !is_version(part)).unwrap_or(module));
    if program.is_file() {
        return Ok(program);
    }
    if let Some(lacking) = GO.lacking() {
        return Err(Error::lacking(lacking));
    }
    status(command(go(), &["install", &format!("{module}@{version}")]).env("GOBIN", &folder))?;
    Ok(program)
}

/// A program of what `xtask/requirements.txt` lists, which is installed the first time.
pub(crate) fn listed(program: &str) -> Result<PathBuf> {
    let list = root().join("xtask/requirements.txt");
    let python = python::environment(&python::find()?, "xtask", &list)?;
    Ok(python.with_file_name(format!("{program}{}", std::env::consts::EXE_SUFFIX)))
}

/// A command of cargo's that is no part of it: the one that is here, else the one that is listed.
pub(crate) fn of_cargo(name: &str) -> Result<Command> {
    let program = format!("cargo-{name}");
    let found = find_program(&program).map_or_else(|| listed(&program), Ok);
    let remedy =
        format!("{program} is not on the path: `cargo install --locked {program}`, or install python3-venv");
    Ok(cargo_by(found.map_err(|error| Error::lacking(format!("{remedy} ({error})")))?, &[name]))
}

fn minor(text: &str) -> Option<u32> {
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("go1."))?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Provides what this needs and prints what was done; the error names what is missing, by package.
pub(crate) fn provide(what: For) -> Result {
    if !cfg!(target_os = "linux") {
        println!("the tests on real file systems need Linux; nothing to install");
        return Ok(());
    }
    let tools = || TOOLS.iter().filter(|(.., needed)| needed.contains(&what));
    let missing: Vec<&Tool> = tools().filter(|tool| !present(tool)).collect();
    if missing.is_empty() {
        println!("all {} tools are here", tools().count());
        return Ok(());
    }
    for (probe, package, purpose, _) in &missing {
        println!("missing: {probe} (Debian's package {package}), needed for {purpose}");
    }
    let probes = |tools: Vec<&Tool>| tools.iter().map(|tool| tool.0).collect::<Vec<_>>().join(", ");
    let mut packages: Vec<&str> = missing.iter().flat_map(|tool| tool.1.split(' ')).collect();
    packages.dedup();
    if !(is_root() && has("apt-get")) {
        return Err(Error::lacking(format!(
            "install what provides {} (on Debian, as root: apt-get install {})",
            probes(missing),
            packages.join(" ")
        )));
    }
    install(&packages)?;
    let still: Vec<&Tool> = missing.into_iter().filter(|tool| !present(tool)).collect();
    if still.is_empty() {
        println!("installed {}", packages.join(" "));
        Ok(())
    } else {
        Err(Error::lacking(format!("still missing after installing their packages: {}", probes(still))))
    }
}

/// Unpacks a package of Debian's, which is not installed: into a new folder that is renamed at the end, so that an interrupted run
/// leaves no part of it.
pub(crate) fn unpack(package: &str, folder: &Path) -> Result {
    let new = folder.with_extension("new");
    files::empty_folder(&new)?;
    output(command("apt-get", &["download", "-q", package]).current_dir(&new))?;
    let mut files = files::list(&new)?.into_iter();
    let file = files.find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let file = file.ok_or_else(|| Error::check(format!("apt-get left no package in {}", new.display())))?;
    status(command("dpkg-deb", &[Path::new("--extract"), &file, &new]))?;
    if folder.exists() {
        files::remove_folder(folder)?;
    }
    std::fs::rename(&new, folder).map_err(Error::at(folder.display()))
}

fn install(packages: &[&str]) -> Result {
    let apt = |arguments: &[&str]| {
        let mut apt = command("apt-get", arguments);
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    output(apt(&["update", "-q"]))?;
    status(apt(&[&["install", "-q", "-y", "--no-install-recommends"], packages].concat()))
}

fn present((probe, ..): &Tool) -> bool {
    probe.split('|').any(has)
}

/// Adds the standard library of a foreign target to this toolchain, if it is missing.
pub(crate) fn provide_target(target: &str) -> Result {
    if !has("rustup") {
        let missing = format!(
            "the standard library of {target} is missing: install Rust by rustup (https://rustup.rs), which adds it"
        );
        return if has_target(target) { Ok(()) } else { Err(Error::lacking(missing)) };
    }
    let installed = output(command("rustup", &["target", "list", "--installed"]))?;
    if installed.lines().any(|line| line == target) {
        return Ok(());
    }
    println!("missing: the standard library of {target}, which rustup adds");
    status(command("rustup", &["target", "add", target]))
}

/// Whether a compiler that no rustup installed has the target's standard library.
fn has_target(target: &str) -> bool {
    let library = output(command("rustc", &["--print", "target-libdir", "--target", target]));
    library.is_ok_and(|folder| Path::new(folder.trim()).is_dir())
}

#[cfg(test)]
mod tests {
    use super::{has_target, minor};

    #[test]
    fn a_target_without_its_library_is_noticed() {
        assert!(!has_target("no-such-target"));
    }

    #[test]
    fn a_version_of_go_is_read() {
        assert_eq!(minor("go version go1.26.8 linux/amd64"), Some(26));
        assert_eq!(minor("go version go1.9rc1 linux/amd64"), Some(9));
        assert_eq!(minor("not found"), None);
    }
}
