//! Names the writer that a take-over fences, and asks before it does.
//!
//! Invariants: nothing is taken before an answer; where there is no terminal to ask on, `--fence` is the answer; a dry run takes nothing.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;

use bytesize::ByteSize;
use clap::Args;
use seawall_ship::destination::Destination;
use seawall_ship::note::hex;
use seawall_ship::status::{self, Held};

use super::Stop;
use crate::exit::Failure;

#[derive(Debug, Default, Args)]
pub(super) struct Fence {
    /// Fence the old writer without asking; required where there is no terminal
    #[arg(long, help_heading = "Safety")]
    pub(super) fence: bool,
    /// Print what would be done and which writer would be fenced; change nothing
    #[arg(long, help_heading = "Safety")]
    pub(super) dry_run: bool,
}

/// The command, and what to run instead so that no writer is fenced.
pub(super) struct Act {
    pub(super) command: &'static str,
    pub(super) instead: &'static str,
}

impl Fence {
    /// Prints what each destination holds and the writer that would be fenced; returns whether to continue: not in a dry run, and
    /// not without a yes. Without an act no writer is fenced, and nothing is asked.
    pub(super) fn confirm(&self, act: Option<&Act>, from: &mut [Box<dyn Destination>]) -> Result<bool, Stop> {
        if act.is_none() && !self.dry_run {
            return Ok(true);
        }
        for one in from.iter_mut() {
            // The command that reads it fails by this error; it is printed here too.
            match status::of_destination(one.as_mut()) {
                Ok(Some(held)) => tell!("{}: {}", one.address(), whom(&held)),
                Ok(None) => return Err(Failure::Message(format!("{} holds no log", one.address())).into()),
                Err(error) if self.dry_run => return Err(error.into()),
                Err(error) => {
                    let error = error.to_string();
                    tell!("{}: {}", one.address(), seawall_host::text::printable(&error));
                }
            }
        }
        let Some(Act { command, instead }) = act.filter(|_| !self.dry_run) else {
            let refused = act.map_or("nobody", |_| "that writer");
            tell!("it would be read, and {refused} fenced; nothing was changed");
            return Ok(false);
        };
        if self.fence {
            return Ok(true);
        }
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Err(Failure::Usage(format!(
                "{command} fences the writer of this log, and there is no terminal to ask on: add --fence to confirm{instead}"
            ))
            .into());
        }
        crate::output::tell(format_args!("{command} fences that writer for good. Type yes to continue: "));
        io::stderr().flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map_err(Failure::message)?;
        if answer.trim() == "yes" {
            Ok(true)
        } else {
            Err(Failure::message("the answer was not yes: nothing was changed").into())
        }
    }
}

/// The log and the writer that a take-over fences.
fn whom(held: &Held) -> String {
    let Held { log_id, first, end, epoch, owner, .. } = held;
    let size = ByteSize(end.since(*first));
    let owner = &hex(owner)[..8];
    let last = held.age().map_or_else(String::new, |age| {
        let age = humantime::format_duration(std::time::Duration::from_secs(age.as_secs()));
        format!(", last records {age} old")
    });
    format!("log {log_id}, LSN {first} to {end} ({size}), epoch {epoch}, writer {owner}{last}")
}

/// Refuses a folder whose parent is not there: a name with a mistake must not become a log.
pub(super) fn refuse_missing_parent(dir: &Path) -> Result<(), Failure> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if parent.is_dir() {
        return Ok(());
    }
    Err(Failure::Message(format!(
        "{} does not exist: create it, or check the name; only the last folder of {} is created",
        parent.display(),
        dir.display()
    )))
}
