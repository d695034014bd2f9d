//! Finds the JDKs here, and runs Maven by one of them; all downloads stay below the build folder.

use crate::error::{Error, Result};
use crate::jdks::{Here, Jdk, find};
use crate::shell::{command, has, root, target};
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

pub(crate) fn versions(jdks: &[Jdk]) -> String {
    let versions: Vec<&str> = jdks.iter().map(|jdk| jdk.version.as_str()).collect();
    versions.join(", ")
}
