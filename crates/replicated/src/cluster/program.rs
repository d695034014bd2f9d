//! Fetches and builds a cluster's programs from their package registries, once.
//!
//! | engine | package | fetched by | needs |
//! | --- | --- | --- | --- |
//! | NATS | `github.com/nats-io/nats-server/v2@v2.15.2` | `go install` | Go 1.26 |
//! | Kafka | `org.apache.kafka:kafka_2.13:4.3.1` | Maven | a JDK from 17 on, Maven |
//!
//! Programs are kept in the user's cache, where every cluster of the user finds them.
//!
//! Invariants: everything is fetched into that folder, caches included, and files needed only for fetching are removed
//! again; a partly fetched program is never taken for complete; before each use it is held against the checksum that
//! was noted when it was put there.

use super::{checksum, owned};
use crate::{EngineKind, Error, Result};
use seawall_sys::process::start_apart;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NATS_VERSION: &str = "2.15.2";
const KAFKA_VERSION: &str = "4.3.1";
/// From this minor version of Go 1 on it fetches a newer one where a module asks for that.
const GO_THAT_FETCHES: u32 = 21;

/// Kafka's server and something to write its log with; the latter has to fit the interface that the former brings.
const KAFKA_POM: &str = r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>seawall</groupId>
  <artifactId>kafka-to-try</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.3.1</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"#;

/// The program of `kind`: NATS' server, or the folder with Kafka's archives.
pub(super) fn provide(kind: EngineKind, report: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<PathBuf> {
    let engines = owned::programs()?;
    owned::provide_folder(&engines)?;
    match kind {
        EngineKind::Nats => nats(&engines, report, stop),
        EngineKind::Kafka => kafka(&engines, report, stop),
    }
}

fn nats(engines: &Path, report: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<PathBuf> {
    let program = engines.join(format!("nats-server-{NATS_VERSION}"));
    if is_kept(&program)? {
        return Ok(program);
    }
    let go = found("go", &["/usr/local/go/bin/go"], &["version"]).ok_or_else(|| {
        Error::failed(
            "Go is missing, which builds the NATS server",
            "install Go 1.26 or later (package `golang-go` where it is new enough, else the `go` archive of its makers) and put it into PATH",
        )
    })?;
    let version = Command::new(&go).arg("version").output().map_err(Error::io("run", &go))?;
    old_go(&String::from_utf8_lossy(&version.stdout))?;
    report(&format!("fetching and building nats-server {NATS_VERSION}: minutes the first time …"));
    let work = engines.join("nats-build");
    let mut command = Command::new(go);
    command.args(["install", &format!("github.com/nats-io/nats-server/v2@v{NATS_VERSION}")]);
    command.env("GOBIN", &work).env("GOPATH", work.join("path")).env("GOCACHE", work.join("cache"));
    // Otherwise the fetched sources could not be removed.
    command.env("GOFLAGS", "-modcacherw");
    run(&mut command, &work, report, stop)?;
    put(&work.join("nats-server"), &program, &work)
}

/// Whether the program is there; one that is not what was fetched and built is refused.
fn is_kept(program: &Path) -> Result<bool> {
    let is_absent = |error: std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    if std::fs::symlink_metadata(program).is_err_and(is_absent) {
        return Ok(false);
    }
    checksum::verify(program).map(|()| true)
}

/// Refuses a Go that is too old to fetch the one that the server asks for; its own message would only be that the build
/// failed.
fn old_go(output: &str) -> Result<()> {
    let version = output.split_whitespace().find_map(|word| word.strip_prefix("go1."));
    let minor: Option<u32> =
        version.and_then(|version| version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    match minor {
        Some(minor) if minor < GO_THAT_FETCHES => Err(Error::failed(
            format!("Go 1.{minor} is too old to build the NATS server"),
            "put Go 1.26 (the `go` archive of its makers) before it in PATH",
        )),
        // What cannot be read is for the build to judge.
        _ => Ok(()),
    }
}

fn kafka(engines: &Path, report: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<PathBuf> {
    if found("java", &[], &["-version"]).is_none() {
        return Err(Error::failed(
            "Java is missing, which runs Kafka",
            "install a JDK from 17 on (package `openjdk-17-jdk-headless`)",
        ));
    }
    let archives = engines.join(format!("kafka-{KAFKA_VERSION}"));
    if is_kept(&archives)? {
        return Ok(archives);
    }
    let maven = found("mvn", &[], &["-v"]).ok_or_else(|| {
        Error::failed("Maven is missing, which fetches Kafka", "install it (package `maven`)")
    })?;
    report(&format!("fetching Kafka {KAFKA_VERSION}: about a minute the first time …"));
    let work = engines.join("kafka-build");
    let written =
        std::fs::create_dir_all(&work).and_then(|()| std::fs::write(work.join("pom.xml"), KAFKA_POM));
    written.map_err(Error::io("write to", &work))?;
    let mut command = Command::new(maven);
    command.args([
        "-B",
        "-q",
        // An archive whose checksum is not the registry's ends the build.
        "-C",
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
        "-DoutputDirectory=jars",
    ]);
    command.arg(format!("-Dmaven.repo.local={}", work.join("repository").display()));
    run(&mut command, &work, report, stop)?;
    put(&work.join("jars"), &archives, &work)
}

/// The program by its name, or at one of these places, if it runs.
fn found(name: &str, places: &[&str], arguments: &[&str]) -> Option<PathBuf> {
    let runs = |program: &PathBuf| {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    std::iter::once(name).chain(places.iter().copied()).map(PathBuf::from).find(runs)
}

/// Runs `command` in `work` until it ends or `stop`; its output goes into a log next to that folder.
fn run(command: &mut Command, work: &Path, report: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<()> {
    let log = work.with_extension("log");
    let failed = Error::io("run the build in", work);
    std::fs::create_dir_all(work).map_err(failed)?;
    let file = File::create(&log).map_err(failed)?;
    command.current_dir(work).stdin(Stdio::null());
    command.stdout(file.try_clone().map_err(failed)?).stderr(file);
    let (mut child, kept) = start_apart(command).map_err(failed)?;
    let mut looks = 0_u32;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            kept.end_group_now().map_err(failed)?;
            child.wait().map_err(failed)?;
            return Err(Error::Interrupted);
        }
        std::thread::sleep(Duration::from_millis(200));
        looks += 1;
        if looks.is_multiple_of(150) {
            report(&format!("… still at it after {} s", looks / 5));
        }
    };
    if status.success() {
        return Ok(());
    }
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("without output");
    Err(Error::failed(
        format!("the build in {} ended with {status}", work.display()),
        format!("{last} (all of it is in {})", log.display()),
    ))
}

/// Puts what was made where it is looked for, at once, and removes what making it needed.
fn put(made: &Path, place: &Path, work: &Path) -> Result<PathBuf> {
    std::fs::rename(made, place).map_err(Error::io("make", place))?;
    std::fs::remove_dir_all(work).map_err(Error::io("remove", work))?;
    owned::close_to_others(place)?;
    checksum::keep(place)?;
    Ok(place.to_path_buf())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_go_that_is_too_old_is_refused_and_one_of_unknown_age_is_tried() {
        let old = old_go("go version go1.19.8 linux/amd64").expect_err("Debian 12's").to_string();
        assert!(old.contains("Go 1.19") && old.contains("1.26"), "{old}");
        for fit in ["go version go1.21rc2 linux/amd64", "go version go1.26.8 linux/amd64", "go version devel"]
        {
            assert!(old_go(fit).is_ok());
        }
    }

    #[test]
    fn what_was_put_runs_while_it_is_what_was_built_and_not_when_it_was_changed_or_planted() {
        let folder = tempfile::tempdir().expect("a folder");
        let (work, place) = (folder.path().join("work"), folder.path().join("server-1"));
        assert!(!is_kept(&place).expect("looked"));
        std::fs::create_dir(&work).expect("made");
        std::fs::write(work.join("server"), "#!/bin/sh").expect("written");
        // As a wide umask leaves it.
        std::fs::set_permissions(work.join("server"), PermissionsExt::from_mode(0o775)).expect("set");
        put(&work.join("server"), &place, &work).expect("put");
        assert!(is_kept(&place).expect("as noted"));
        std::fs::write(&place, "#!/bin/sh\nid").expect("changed");
        assert!(is_kept(&place).is_err_and(|error| error.to_string().contains("server-1 differs")));
        let planted = folder.path().join("server-2");
        std::fs::write(&planted, "planted").expect("written");
        assert!(is_kept(&planted).is_err_and(|error| error.to_string().contains("no checksum")));
        std::os::unix::fs::symlink("/bin/true", folder.path().join("server-3")).expect("linked");
        assert!(is_kept(&folder.path().join("server-3")).is_err());
    }

    #[test]
    fn a_build_that_fails_is_reported_with_its_last_line_and_where_the_rest_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let work = folder.path().join("work");
        let mut command = Command::new("sh");
        command.args(["-c", "echo first; echo no such module; exit 7"]);
        let error = run(&mut command, &work, &mut |_| {}, &AtomicBool::new(false)).expect_err("fails");
        let error = error.to_string();
        assert!(error.contains("no such module") && error.contains("work.log"), "{error}");
    }

    #[test]
    fn an_interrupted_build_leaves_nothing_running() {
        let folder = tempfile::tempdir().expect("a folder");
        let work = folder.path().join("work");
        let mark = folder.path().join("mark");
        let mut command = Command::new("sh");
        // A child of the child holds the file open as long as it runs.
        command.args(["-c", "sleep 600 & echo $! > mark.new; mv mark.new ../mark; wait"]);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let build = scope.spawn(|| run(&mut command, &work, &mut |_| {}, &stop));
            while !mark.exists() {
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
            let outcome = build.join().expect("no panic");
            assert!(matches!(outcome, Err(Error::Interrupted)));
        });
        let pid = std::fs::read_to_string(&mark).expect("its number");
        let ended = || {
            std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
                .map_or(true, |stat| stat.contains(") Z "))
        };
        while !ended() {
            std::thread::yield_now();
        }
    }
}
