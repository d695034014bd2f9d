//! `seawall log cat`: prints records; `follow` takes the same arguments.

use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;

use clap::Args;
use seawall::{Lsn, View};

use super::records::{Form, Output};
use super::{Stop, follow, loss};
use crate::exit::Failure;

#[derive(Debug, Args)]
pub(super) struct Cat {
    /// The log's folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// First LSN to print [default: the first one in the log]
    #[arg(long, value_name = "LSN")]
    from: Option<Lsn>,
    /// Format of the records
    #[arg(long, value_enum, default_value = "text")]
    format: Form,
    /// End after this many records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// Where records are printed; a terminal gets no character that it would obey.
fn printer(form: Form) -> Result<Output<impl Write>, Stop> {
    let output = io::stdout().lock();
    let is_terminal = output.is_terminal();
    if is_terminal && form == Form::Raw {
        let text = "--format raw is for a file or a pipe: a terminal would interpret the records as control sequences";
        return Err(Failure::message(text).into());
    }
    Ok(Output::new(io::BufWriter::new(output), form, is_terminal))
}

pub(super) fn cat(options: &Cat) -> Result<(), Stop> {
    let mut output = printer(options.format)?;
    let view = View::open(&options.dir)?;
    if let Some(text) = view.tail().and_then(loss) {
        tell!("lost: {text}");
    }
    let from = options.from.unwrap_or(view.first_lsn());
    let limit = usize::try_from(options.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    for record in view.read(from)?.take(limit) {
        output.record(&record?)?;
    }
    output.flush().map_err(Stop::from)
}

pub(super) fn follow(options: &Cat) -> Result<(), Stop> {
    let output = printer(options.format)?;
    follow::follow(&options.dir, options.from, options.limit.unwrap_or(u64::MAX), output)
}
