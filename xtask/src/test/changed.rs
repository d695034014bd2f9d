//! Selects the steps that the changed files affect, as reported by git.
//!
//! Invariant: a file that no step names matters to every step that names nothing, so that nothing changes unseen.

use crate::error::Result;
use crate::shell::{command, output};

/// Files that differ from a revision, those that git does not know yet included.
pub(super) fn files(revision: &str) -> Result<Vec<String>> {
    let differ = output(command("git", &["diff", "--name-only", revision, "--"]))?;
    let new = output(command("git", &["ls-files", "--others", "--exclude-standard"]))?;
    Ok(differ.lines().chain(new.lines()).map(str::to_owned).collect())
}

/// Whether a step that names these paths matters to the files; one that names none matters to all.
pub(super) fn matters(paths: &[&str], files: &[String]) -> bool {
    paths.is_empty() || files.iter().any(|file| paths.iter().any(|path| file.starts_with(path)))
}

#[cfg(test)]
mod tests {
    use super::matters;

    #[test]
    fn a_step_matters_to_what_lies_below_its_paths() {
        let files = |name: &str| vec![name.to_owned()];
        assert!(matters(&["crates/log/"], &files("crates/log/src/lib.rs")));
        assert!(!matters(&["crates/log/"], &files("docs/format.md")));
        assert!(!matters(&["crates/log/"], &[]));
        assert!(matters(&[], &[]));
    }
}
