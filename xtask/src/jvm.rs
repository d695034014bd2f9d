//! Builds the JVM module with the newest JDK here, and runs its tests on every JDK.
//!
//! Invariants: a JDK that lacks rows is reported: in CI it is a failure, elsewhere its rows count as skipped; all
//! downloads and builds stay below the build folder.

use crate::error::{Error, Result};
use crate::jdks::{FOREIGN, Here, Jdk, find};
use crate::shell::{command, has, root, target, tests};
use crate::tally::Counts;

/// Runs the module's tests; the outer error is that they could not be run at all.
pub(crate) fn test(in_ci: bool) -> Result<(Counts, Result)> {
    let jdks = find(&[], &Here).map_err(Error::at("JDKs"))?;
    let newest = jdks.iter().filter(|jdk| jdk.compiles).max_by_key(|jdk| jdk.major);
    let newest = newest
        .ok_or_else(|| Error::lacking("no JDK from 17 on is here; `cargo xtask setup` installs one"))?;
    if !has("mvn") {
        return Err(Error::lacking("Maven is missing; `cargo xtask setup` installs it"));
    }
    println!("built by JDK {}, run on {}", newest.version, versions(&jdks));
    let homes =
        std::env::join_paths(jdks.iter().map(|jdk| &jdk.home)).map_err(Error::at("the homes of the JDKs"))?;
    let folder = target().join("jvm");
    let arguments = [
        "--batch-mode".to_owned(),
        // An archive whose checksum is not the registry's ends the build.
        "--strict-checksums".to_owned(),
        "--no-transfer-progress".to_owned(),
        "-Dstyle.color=never".to_owned(),
        format!("--file={}", root().join("crates/jvm/java/pom.xml").display()),
        format!("-Dmaven.repo.local={}", folder.join("repository").display()),
        format!("-Dseawall.build={}", folder.join("module").display()),
        format!("-Dseawall.jdks={}", homes.to_string_lossy()),
        "verify".to_owned(),
    ];
    let mut maven = command("mvn", &arguments);
    maven.env("JAVA_HOME", &newest.home);
    let (mut counts, result) = tests(maven);
    if newest.major >= FOREIGN {
        return Ok((counts, result));
    }
    let lacking =
        format!("the newest JDK here is {}: the rows that need {FOREIGN} were not tested", newest.version);
    println!("SKIPPED: {lacking}");
    counts.ignored += 1;
    Ok((counts, if in_ci { result.and(Err(Error::Lacking(lacking))) } else { result }))
}

fn versions(jdks: &[Jdk]) -> String {
    let versions: Vec<&str> = jdks.iter().map(|jdk| jdk.version.as_str()).collect();
    versions.join(", ")
}
