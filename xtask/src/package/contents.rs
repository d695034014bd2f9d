//! Builds the program of a target and lays out what its archive and its packages hold.
//!
//! ```text
//!   target/package/TRIPLE/seawall-VERSION-TRIPLE/
//!     seawall, README.md, CHANGELOG.md, LICENSE-*    man/*.1    completions/    seawall.cdx.json
//! ```
//!
//! Invariant: manual pages and completions come from the program that they are packed with, run as it runs here.

use super::{FEATURES, Release, bom, folder, targets::Runner, targets::Target};
use crate::error::{Error, Result};
use crate::files;
use crate::shell::{cargo, command, output, root, status, target as builds};
use crate::tools;
use crate::wine::Wine;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Shells, and what their systems call the file of a command's completions.
const SHELLS: [(&str, &str); 4] =
    [("bash", "seawall.bash"), ("zsh", "_seawall"), ("fish", "seawall.fish"), ("powershell", "_seawall.ps1")];
/// A scenario, which every shell has to know.
const SCENARIO: &str = "interfere";
/// A method of every system, a state of the journal and a preset: values, which clap's completions of PowerShell leave out.
const VALUES: [&str; 3] = ["buffered", "overwrite", "zookeeper"];

/// What runs the programs of a target here.
pub(crate) struct Runs {
    wine: Option<Wine>,
    qemu: Option<String>,
}

impl Runs {
    pub(crate) fn prepare(target: &Target) -> Result<Self> {
        target.tools.map_or(Ok(()), tools::provide)?;
        tools::provide_target(target.triple)?;
        let qemu = match target.runner {
            Runner::Qemu { arch } if arch != std::env::consts::ARCH => Some(format!("qemu-{arch}-static")),
            _ => None,
        };
        let wine = if target.runner == Runner::Wine { Some(Wine::prepare()?) } else { None };
        Ok(Self { wine, qemu })
    }

    pub(crate) fn qemu(&self) -> Option<&str> {
        self.qemu.as_deref()
    }

    pub(crate) fn command(&self, program: &Path, words: &[&str]) -> Command {
        match (&self.wine, &self.qemu) {
            (Some(wine), _) => wine.program(program, words),
            (None, Some(qemu)) => {
                let mut run = command(qemu, &[program]);
                run.args(words);
                run
            }
            (None, None) => command(program, words),
        }
    }
}

/// Builds it and fills the folder; gives the folder.
pub(crate) fn lay_out(target: &Target, release: &Release, runs: &Runs) -> Result<PathBuf> {
    let program = build(target)?;
    let here = folder(target).join(target.folder(&release.version));
    files::empty_folder(&here)?;
    let (man, completions) = (here.join("man"), here.join("completions"));
    files::make_folder(&man)?;
    files::make_folder(&completions)?;
    copy(&program, &here.join(target.program()))?;
    for name in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&root().join(name), &here.join(name))?;
    }
    output(runs.command(&program, &["man", "--dir", &man.to_string_lossy()]))?;
    ensure!(man.join("seawall-bench.1").is_file(), "{} has no page of `seawall bench`", man.display());
    for (shell, name) in SHELLS {
        let script = output(runs.command(&program, &["completions", shell]))?;
        let values = VALUES.iter().filter(|_| shell != "powershell");
        if let Some(unknown) = values.chain([&SCENARIO]).find(|word| !script.contains(**word)) {
            fail!("the completions of {shell} do not know {unknown}");
        }
        files::write(&completions.join(name), script)?;
    }
    files::write(&here.join("seawall.cdx.json"), bom::of(target, release)?)?;
    Ok(here)
}

fn build(target: &Target) -> Result<PathBuf> {
    let mut build = cargo(&["build", "--profile", "dist", "--locked", "--quiet", "--package", "seawall-cli"]);
    build.args(["--features", FEATURES, "--target", target.triple]);
    build.envs(target.environment.iter().copied());
    status(build)?;
    Ok(builds().join(target.triple).join("dist").join(target.program()))
}

pub(crate) fn copy(from: &Path, to: &Path) -> Result {
    std::fs::copy(from, to).map(drop).map_err(Error::at(format!("{} to {}", from.display(), to.display())))
}
