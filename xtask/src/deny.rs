//! Checks licences, sources and advisories of all dependencies by cargo-deny and `deny.toml`.

use crate::error::{Error, Result};
use crate::shell::{cargo, has, output, root, status};
use crate::{peers, python};

/// Runs cargo-deny, and prints what it could not check.
pub(crate) fn run() -> Result {
    if let Some(left_out) = check(true)? {
        println!("{left_out}");
    }
    Ok(())
}

/// Runs cargo-deny on the workspace, and on the harness and the package of Python beside it, which have lock
/// files of their own. Advisories need a database from the network: without it everything else is checked, and
/// what was not is returned as a sentence. Installing cargo-deny takes minutes, so that `test` does not do it unasked.
pub(crate) fn check(install: bool) -> Result<Option<String>> {
    if !has("cargo-deny") {
        if !install {
            let how = "cargo-deny is not installed; `cargo xtask deny` installs it, in minutes";
            return Err(Error::lacking(how));
        }
        println!("cargo-deny is missing: installing it from crates.io, which takes minutes");
        status(crate::shell::install("cargo-deny"))?;
    }
    let config = root().join("deny.toml").to_string_lossy().into_owned();
    let of_raft = root().join("adapters/raft-rs/peers/Cargo.toml");
    let beside =
        [peers::manifest(), python::manifest(), of_raft].map(|path| path.to_string_lossy().into_owned());
    let beside = beside.each_ref().map(|path| ["deny", "--manifest-path", path, "--config", &config]);
    let all = [&["deny"][..], &beside[0], &beside[1], &beside[2]];
    for beginning in all {
        status(cargo(&[beginning, &["check", "licenses", "bans", "sources"]].concat()))?;
    }
    let fetch = || output(cargo(&["deny", "fetch", "db"])).map(drop);
    advisories(fetch, || {
        all.into_iter().try_for_each(|beginning| {
            // It was fetched a moment ago, for all.
            status(cargo(&[beginning, &["check", "--disable-fetch", "advisories"]].concat()))
        })
    })
}

/// Checks advisories if their database can be had; what was not checked, if it cannot.
fn advisories(fetch: impl FnOnce() -> Result, check: impl FnOnce() -> Result) -> Result<Option<String>> {
    match fetch() {
        Ok(()) => check().map(|()| None),
        Err(error) => {
            let first: String = error.to_string().lines().take(1).flat_map(str::chars).take(160).collect();
            Ok(Some(format!("NOT checked: advisories, their database cannot be fetched: {first}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::advisories;
    use crate::error::Error;
    use crate::shell::root;

    #[test]
    fn advisories_are_checked_where_their_database_is_and_said_to_be_unchecked_where_it_is_not() {
        let (held, broken) = (|| Ok(()), || Err(Error::check("RUSTSEC-1")));
        assert!(matches!(advisories(held, held), Ok(None)));
        assert!(matches!(advisories(held, broken), Err(Error::Check(text)) if text == "RUSTSEC-1"));
        let away = || Err(Error::check("no route to host\nand more"));
        let remark = advisories(away, || unreachable!("nothing to check by")).expect("no failure");
        assert_eq!(
            remark.as_deref(),
            Some("NOT checked: advisories, their database cannot be fetched: no route to host")
        );
    }

    /// `deny.toml` lets one advisory pass, for the harness and for hosts of raft-rs.
    #[test]
    fn what_is_let_pass_is_in_no_build_but_that_of_raft() {
        let read = |name: &str| std::fs::read_to_string(root().join(name)).expect("readable");
        assert!(read("deny.toml").contains("RUSTSEC-2024-0437"));
        assert!(read("crates/log/peers/Cargo.lock").contains("name = \"protobuf\""));
        let words =
            ["tree", "--workspace", "--all-features", "--invert=protobuf", "--prefix=none", "--offline"];
        let tree = crate::shell::output(crate::shell::cargo(&words)).expect("cargo tree");
        let ours: Vec<&str> = tree.lines().filter(|line| line.starts_with("seawall")).collect();
        assert!(!ours.is_empty() && ours.iter().all(|line| line.starts_with("seawall-raft-rs ")), "{ours:?}");
    }
}
