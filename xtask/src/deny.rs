//! Checks licences, sources and advisories of all dependencies by cargo-deny and `deny.toml`.

use crate::peers;
use crate::shell::{cargo, has, root, status};

/// Whether cargo-deny is installed. Building it takes minutes, so that `test` does not do it unasked.
pub(crate) fn present() -> bool {
    has("cargo-deny")
        || std::env::var("HOME")
            .is_ok_and(|home| std::path::Path::new(&home).join(".cargo/bin/cargo-deny").exists())
}

/// Runs cargo-deny, and installs it first where it is missing.
pub(crate) fn run(_: &[String]) -> Result<(), String> {
    if !present() {
        println!("cargo-deny is missing: installing it from crates.io, which takes several minutes");
        status(cargo(&["install", "cargo-deny", "--locked"]))?;
    }
    check()
}

/// Runs the installed cargo-deny. Advisories need a database from the network and are the business of whoever
/// has one: `cargo deny check advisories`.
pub(crate) fn check() -> Result<(), String> {
    status(cargo(&["deny", "check", "licenses", "bans", "sources"]))?;
    // In no build of ours, yet built here: from the same sources, under the same licences.
    let (manifest, config) = (peers::manifest(), root().join("deny.toml"));
    let (manifest, config) = (manifest.display().to_string(), config.display().to_string());
    let words =
        ["deny", "--manifest-path", &manifest, "--config", &config, "check", "licenses", "bans", "sources"];
    status(cargo(&words))
}
