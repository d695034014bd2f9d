//! `seawall completions` and `seawall man`: generates both from the command line's definition.
//!
//! Invariant: nothing is duplicated here: options come from the parser, examples and exit codes from the help.

use crate::exit::Failure;
use crate::{examples, output};
use clap::builder::Resettable;
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command, such as `log append` [default: seawall itself]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write all pages to this existing folder
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

pub(crate) fn completions(options: &Completions) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut crate::args::command(), "seawall", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(options: &ManArgs) -> Result<ExitCode, Failure> {
    // So that each knows its whole name: `seawall-log-append`.
    let mut root = crate::args::command().disable_help_subcommand(true);
    root.build();
    if let Some(dir) = &options.dir {
        write_all(&root, dir)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut at = &root;
    for word in &options.command {
        at = at.find_subcommand(word).ok_or_else(|| {
            Failure::Usage(format!(
                "there is no command `{}`; `seawall --help` lists them",
                options.command.join(" ")
            ))
        })?;
    }
    output::print(&page(at).1)?;
    Ok(ExitCode::SUCCESS)
}

fn write_all(command: &Command, dir: &Path) -> Result<(), Failure> {
    let (name, text) = page(command);
    output::keep(&dir.join(name), &text)?;
    command.get_subcommands().try_for_each(|subcommand| write_all(subcommand, dir))
}

fn page(command: &Command) -> (String, String) {
    // In its own sections, not in the one that is made of the help's end.
    let bare = command.clone().after_help(Resettable::Reset).after_long_help(Resettable::Reset);
    let man = Man::new(bare).manual("Seawall").date("");
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = man.render(&mut text);
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    for example in examples::of(command) {
        let (line, why) = example.split_once("  ").unwrap_or((&example, ""));
        roff.control("TP", []);
        roff.text([bold(line)]);
        roff.text([roman(why.trim())]);
    }
    roff.control("SH", ["EXIT STATUS"]);
    for line in examples::codes(command) {
        let (code, meaning) = line.split_once(' ').unwrap_or((&line, ""));
        roff.control("TP", []);
        roff.text([bold(code)]);
        roff.text([roman(meaning.trim())]);
    }
    let more = roff.to_roff();
    (man.get_filename(), String::from_utf8_lossy(&text).into_owned() + &more)
}
