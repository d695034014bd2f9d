//! `seawall log stat`: prints a log's LSNs, segments, commit method, writer and tail.

use std::io::{self, Write as _};

use seawall::View;
use seawall_gauge::rank::EffectiveClass;

use super::{Answer, Look, Stop, loss, records};

pub(super) fn stat(look: &Look) -> Result<(), Stop> {
    let view = View::open(&look.dir)?;
    let mut output = io::stdout().lock();
    if look.format == Answer::Json {
        return Ok(writeln!(output, "{}", records::stat(&view, view.method()?, view.evidence()?.as_ref()))?);
    }
    writeln!(output, "identity     {}", view.log_id())?;
    writeln!(output, "first LSN    {}", view.first_lsn())?;
    writeln!(output, "end LSN      {}", view.end_lsn())?;
    writeln!(output, "segments     {}", view.segments())?;
    let evidence = view.evidence()?;
    writeln!(output, "outlives     {}", EffectiveClass::after(view.durability(), evidence.as_ref()).name())?;
    let method = view.method()?.map_or_else(
        || "none remembered: every opening named one".to_owned(),
        |(method, engine)| format!("{method}, on the {} engine", engine.name()),
    );
    writeln!(output, "method       {method}")?;
    let evidence = evidence.map_or_else(
        || "none since its file system was mounted: the next writer gathers it".to_owned(),
        |evidence| evidence.to_string(),
    );
    writeln!(output, "evidence     {evidence}")?;
    let writer = match view.has_writer() {
        Some(true) => "running",
        Some(false) => "none",
        None => "unknown: LOCK cannot be opened",
    };
    writeln!(output, "writer       {writer}")?;
    if let Some(ahead) = records::ahead(view.time_us()) {
        writeln!(
            output,
            "time         {ahead}; later batches are stamped no earlier, and retention by age waits until then"
        )?;
    }
    if let Some(text) = view.tail().and_then(loss) {
        writeln!(output, "lost         {text}")?;
    }
    Ok(())
}
