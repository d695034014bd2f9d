//! Lints the workflows and the action of GitHub: actionlint reads the workflows, zizmor both.
//!
//! Invariant: an action of others is named by the hash of a commit, which zizmor demands and a test as well.

use crate::error::Result;
use crate::shell::{command, root, status};
use crate::{files, python, tools};

const ACTIONLINT: (&str, &str) = ("github.com/rhysd/actionlint/cmd/actionlint", "v1.7.12");
const WORKFLOWS: &str = ".github/workflows";

/// Lints them all.
pub(crate) fn check() -> Result {
    let actionlint = tools::go_program(ACTIONLINT.0, ACTIONLINT.1)?;
    let mut lint = command(actionlint, &["-no-color"]);
    lint.args(files::list(&root().join(WORKFLOWS))?);
    status(lint)?;
    let environment =
        python::environment(&python::find()?, "packages", &root().join("xtask/package/requirements.txt"))?;
    // Offline: what it knows of the actions themselves would come from GitHub.
    let words = [
        "--offline",
        "--no-progress",
        "--persona=pedantic",
        WORKFLOWS,
        "action.yml",
        "crash-test/action.yml",
    ];
    // A program beside the interpreter, and no module of its.
    let zizmor = environment.with_file_name(format!("zizmor{}", std::env::consts::EXE_SUFFIX));
    status(command(zizmor, &words))
}

#[cfg(test)]
mod tests {
    use super::WORKFLOWS;
    use crate::files;
    use crate::shell::root;

    #[test]
    fn actions_of_others_are_pinned_by_a_commit() {
        let mut pinned = 0;
        for path in files::list(&root().join(WORKFLOWS)).expect("the workflows") {
            let text = files::read(&path).expect("a workflow");
            for line in
                text.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix("uses: "))
            {
                let hash =
                    line.split_once('@').and_then(|(_, rest)| rest.split(' ').next()).unwrap_or_default();
                let ours = line.starts_with("./");
                assert!(ours || hash.len() == 40 && hash.chars().all(|c| c.is_ascii_hexdigit()), "{line}");
                pinned += usize::from(!ours);
            }
        }
        assert!(pinned > 0);
    }
}
