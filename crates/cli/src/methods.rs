//! `seawall methods`: prints this system's method table, with the class of each row in a folder.

use crate::args::Methods;
use crate::exit::Failure;
use crate::{output, paths};
use seawall_gauge::method_names::ALIASES;
use seawall_gauge::report::text::wrapped;
use seawall_sys::durability::{FileState, Surroundings, classify};
use seawall_sys::method::Set;
use seawall_sys::methods;
use serde_json::{Value, json};
use std::process::ExitCode;

/// What the list in JSON says it is.
const FORMAT: &str = "seawall-methods";

pub(crate) fn run(options: &Methods) -> Result<ExitCode, Failure> {
    let environment = paths::folder(&options.folder, "name one on the disk in question")?;
    let around = environment.surroundings(FileState::ZeroFilled);
    if options.json {
        return listed(&around);
    }
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

/// The same as JSON, with what a table has no room for.
fn listed(around: &Surroundings) -> Result<ExitCode, Failure> {
    let rows: Vec<Value> = methods::here()
        .iter()
        .map(|method| {
            let durability = classify(method, around);
            let aliases = ALIASES.iter().filter(|(_, ids)| {
                ids.iter().find_map(|id| methods::find(id)).is_some_and(|meant| meant.id == method.id)
            });
            json!({
                "id": method.id,
                "aliases": aliases.map(|(alias, _)| alias).collect::<Vec<_>>(),
                "calls": method.calls,
                "needs": method.since,
                "reach": method.reach().letter().to_string(),
                "published": method.set == Set::Published,
                "outlives": durability.class.name(),
                "because": durability.because,
            })
        })
        .collect();
    let document = json!({ "format": FORMAT, "version": 1, "methods": rows });
    output::print(&output::json(&document))?;
    Ok(ExitCode::SUCCESS)
}
