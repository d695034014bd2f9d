//! `seawall log verify`: checks every byte of a log and prints damaged places.

use std::io::{self, Write as _};

use seawall::{Report, Tail, verify};
use seawall_host::text::printable;

use super::{Answer, Look, Stop, loss, records};
use crate::exit::Failure;

/// Damage ends the command with exit code 1, even if the report cannot be printed.
pub(super) fn check(look: &Look) -> Result<(), Stop> {
    let report = verify(&look.dir)?;
    let printed = match look.format {
        Answer::Text => print_report(&report),
        Answer::Json => writeln!(io::stdout().lock(), "{}", records::report(&report)).map_err(Stop::from),
    };
    let Some(first) = report.damage.first() else { return printed };
    let mut text = format!(
        "{} damaged place(s), the first one in {}",
        report.damage.len(),
        printable(&first.to_string())
    );
    if let Err(Stop::Failed(unwritten)) = printed {
        text = format!("{text}; {unwritten}");
    }
    Err(Failure::Message(text).into())
}

fn print_report(report: &Report) -> Result<(), Stop> {
    let mut output = io::stdout().lock();
    let (id, epoch, block_bytes) = (report.log_id, report.epoch, report.block_bytes);
    writeln!(output, "identity     {id}, epoch {epoch}, blocks of {block_bytes} bytes")?;
    writeln!(output, "segments     {} and {} prepared", report.segments, report.spares)?;
    writeln!(output, "LSNs         {} to {}", report.first, report.end)?;
    let (records, bytes, batches) = (report.records, report.bytes, report.batches);
    writeln!(output, "intact       {records} records of {bytes} bytes in {batches} batches")?;
    writeln!(output, "tail         {}", tail(report))?;
    for foreign in &report.foreign_files {
        writeln!(output, "not ours     {}", printable(foreign))?;
    }
    if report.damage.is_empty() {
        writeln!(output, "damage       none")?;
    }
    for damage in &report.damage {
        writeln!(output, "damage       {}", printable(&damage.to_string()))?;
    }
    output.flush().map_err(Stop::from)
}

fn tail(report: &Report) -> String {
    match report.tail {
        Tail::Clean => "closed".to_owned(),
        Tail::Lost { .. } => loss(report.tail).map_or_else(String::new, |text| format!("lost {text}")),
        _ => format!("not closed; known to be durable up to LSN {}", report.witnessed),
    }
}
