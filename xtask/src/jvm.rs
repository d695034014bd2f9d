//! Builds the JVM module with the newest JDK here, and runs its tests on every JDK.
//!
//! Invariants: a JDK that lacks rows is reported: in CI it is a failure, elsewhere its rows count as skipped; all
//! downloads and builds stay below the build folder.

use crate::error::{Error, Result};
use crate::jdks::{FOREIGN, Here, Jdk, find};
use crate::shell::{command, has, root, target, tests};
use crate::tally::Counts;
use std::process::Command;

/// The JDKs that are here, and the newest that compiles.
pub(crate) fn find_jdks() -> Result<(Vec<Jdk>, Jdk)> {
    let jdks = find(&[], &Here).map_err(Error::at("JDKs"))?;
    let newest = jdks.iter().filter(|jdk| jdk.compiles).max_by_key(|jdk| jdk.major).cloned();
    let newest = newest
        .ok_or_else(|| Error::lacking("no JDK from 17 on is here; `cargo xtask setup` installs one"))?;
    if !has("mvn") {
        return Err(Error::lacking("Maven is missing; `cargo xtask setup` installs it"));
    }
    Ok((jdks, newest))
}

/// Maven on the project `pom`, run by `jdk`, with its downloads in the build folder.
pub(crate) fn maven(jdk: &Jdk, pom: &str, more: &[String]) -> Command {
    let common = [
        "--batch-mode".to_owned(),
        // An archive whose checksum is not the registry's ends the build.
        "--strict-checksums".to_owned(),
        "--no-transfer-progress".to_owned(),
        "-Dstyle.color=never".to_owned(),
        format!("--file={}", root().join(pom).display()),
        format!("-Dmaven.repo.local={}", target().join("jvm/repository").display()),
    ];
    let mut maven = command("mvn", &[&common[..], more].concat());
    maven.env("JAVA_HOME", &jdk.home);
    maven
}

/// Runs the module's tests; the outer error is that they could not be run at all.
pub(crate) fn test(in_ci: bool) -> Result<(Counts, Result)> {
    let (jdks, newest) = find_jdks()?;
    println!("built by JDK {}, run on {}", newest.version, versions(&jdks));
    let homes =
        std::env::join_paths(jdks.iter().map(|jdk| &jdk.home)).map_err(Error::at("the homes of the JDKs"))?;
    let arguments = [
        format!("-Dseawall.build={}", target().join("jvm/module").display()),
        format!("-Dseawall.jdks={}", homes.to_string_lossy()),
        "verify".to_owned(),
    ];
    let (mut counts, result) = tests(maven(&newest, "crates/jvm/java/pom.xml", &arguments));
    if newest.major >= FOREIGN {
        return Ok((counts, result));
    }
    let lacking =
        format!("the newest JDK here is {}: the rows that need {FOREIGN} were not tested", newest.version);
    println!("SKIPPED: {lacking}");
    counts.ignored += 1;
    Ok((counts, if in_ci { result.and(Err(Error::Lacking(lacking))) } else { result }))
}

pub(crate) fn versions(jdks: &[Jdk]) -> String {
    let versions: Vec<&str> = jdks.iter().map(|jdk| jdk.version.as_str()).collect();
    versions.join(", ")
}
