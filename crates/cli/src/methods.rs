//! `seawall methods`: prints this system's method table, with the class of each row in a folder.

use crate::args::Methods;
use crate::exit::Failure;
use crate::output;
use seawall_gauge::report::text::wrapped;
use seawall_sys::durability::{FileState, classify};
use seawall_sys::{inspect, methods};
use std::process::ExitCode;

pub(crate) fn run(options: &Methods) -> Result<ExitCode, Failure> {
    let environment =
        inspect::environment(&options.folder).map_err(|error| Failure::Told(error.to_string()))?;
    let around = environment.surroundings(FileState::ZeroFilled);
    let line = |id: &str, outlives: &str, calls: &str| {
        let lines = wrapped(&format!("{id:24}  {outlives:13}  "), &" ".repeat(41), calls, output::width());
        lines.join("\n") + "\n"
    };
    let rows = methods::here()
        .iter()
        .map(|method| line(method.id, classify(method, &around).class.name(), method.calls));
    let text: String = std::iter::once(line("method", "outlives", "calls")).chain(rows).collect();
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
