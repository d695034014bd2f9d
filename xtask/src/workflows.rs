//! Lints the workflows and the action of GitHub: actionlint reads the workflows, zizmor both.
//!
//! Invariant: an action of others is named by the hash of a commit, which zizmor demands.

use crate::error::Result;
use crate::shell::{command, root, status};
use crate::{files, tools};

const ACTIONLINT: (&str, &str) = ("github.com/rhysd/actionlint/cmd/actionlint", "v1.7.12");
const WORKFLOWS: &str = ".github/workflows";

pub(crate) fn check() -> Result {
    let actionlint = tools::go_program(ACTIONLINT.0, ACTIONLINT.1)?;
    status(command(actionlint, &["-no-color"]).args(files::list(&root().join(WORKFLOWS))?))?;
    // Offline: what it knows of the actions themselves would come from GitHub.
    let words = [
        "--offline",
        "--no-progress",
        "--persona=pedantic",
        WORKFLOWS,
        "action.yml",
        "crash-test/action.yml",
    ];
    status(command(tools::listed("zizmor")?, &words))
}
