//! Checks licences, sources and advisories of all dependencies by cargo-deny and `deny.toml`.

use crate::error::Result;
use crate::shell::{output, root, status};
use crate::{peers, python, tools};

/// Runs cargo-deny, and prints what it could not check.
pub(crate) fn run() -> Result {
    if let Some(left_out) = check()? {
        println!("{left_out}");
    }
    Ok(())
}

/// Runs cargo-deny on the workspace, and on the harness and the package of Python beside it, which have lock
/// files of their own. Advisories need a database from the network: without it everything else is checked, and
/// what was not is returned as a sentence.
pub(crate) fn check() -> Result<Option<String>> {
    let config = root().join("deny.toml");
    let all = ["Cargo.toml", "adapters/raft-rs/peers/Cargo.toml"].map(|path| root().join(path));
    let all = all.into_iter().chain([peers::manifest(), python::manifest()]);
    let check = |words: &[&str]| {
        all.clone().try_for_each(|manifest| {
            let mut deny = tools::of_cargo("deny")?;
            deny.arg("--manifest-path").arg(manifest).arg("--config").arg(&config).arg("check").args(words);
            status(deny)
        })
    };
    check(&["licenses", "bans", "sources"])?;
    let fetch = || output(tools::of_cargo("deny")?.args(["fetch", "db"])).map(drop);
    // It was fetched a moment ago, for all.
    advisories(fetch, || check(&["--disable-fetch", "advisories"]))
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
