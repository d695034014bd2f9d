//! `seawall methods`: prints this system's method table, with the class of each row in a folder and the names of its calls
//! in C, Go, Java, Python and Rust.

use crate::exit::Failure;
use crate::{output, paths};
use clap::Args;
use seawall_gauge::method_names::{ALIASES, LANGUAGES, spelled, spellings};
use seawall_gauge::report::facts;
use seawall_gauge::report::text::wrapped;
use seawall_sys::durability::{Durability, FileState, classify};
use seawall_sys::inspect::Environment;
use seawall_sys::method::Set;
use seawall_sys::methods;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

const FORMAT: &str = "seawall-methods";

#[derive(Debug, Args)]
pub(crate) struct Methods {
    /// Folder whose durability is computed
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Methods) -> Result<ExitCode, Failure> {
    let environment = paths::folder(&options.folder, "name one on the disk in question")?;
    if options.json {
        return listed(&environment);
    }
    let around = environment.surroundings(FileState::ZeroFilled);
    let width = output::width();
    let line = |id: &str, outlives: &str, calls: &str| {
        let lines = wrapped(&format!("{id:24}  {outlives:13}  "), &" ".repeat(41), calls, width);
        lines.join("\n") + "\n"
    };
    let mut text = line("method", "outlives", "calls");
    let mut promised = false;
    for method in methods::here() {
        let class = classify(method, &around).class;
        promised |= class == Durability::PowerLoss;
        text += &line(method.id, class.name(), method.calls);
    }
    let say = |label: &str, words: &str| {
        wrapped(label, &" ".repeat(label.chars().count()), words, width).join("\n") + "\n"
    };
    if promised {
        let condition = facts::condition(&environment);
        text += &say("\n", "");
        text += &say(
            "",
            &format!(
                "power loss: by calls, mount and device, {condition}; `seawall bench` counts the flushes"
            ),
        );
    }
    text += "\nin your language\n";
    for (part, words) in spellings() {
        let each = LANGUAGES.iter().zip(words).filter(|(_, call)| !call.is_empty());
        let each: Vec<String> = each.map(|(language, call)| format!("{language} {call}")).collect();
        text += &say(&format!("{part:17}"), &each.join(" · "));
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The same as JSON, with what a table has no room for.
fn listed(environment: &Environment) -> Result<ExitCode, Failure> {
    let around = environment.surroundings(FileState::ZeroFilled);
    let rows: Vec<Value> = methods::here()
        .iter()
        .map(|method| {
            let durability = classify(method, &around);
            let aliases = ALIASES.iter().filter(|(_, ids)| {
                ids.iter().find_map(|id| methods::find(id)).is_some_and(|meant| meant.id == method.id)
            });
            let languages: Map<String, Value> = LANGUAGES
                .iter()
                .zip(spelled(method))
                .map(|(language, calls)| (language.to_lowercase(), json!(calls)))
                .collect();
            json!({
                "id": method.id,
                "aliases": aliases.map(|(alias, _)| alias).collect::<Vec<_>>(),
                "calls": method.calls,
                "in": languages,
                "needs": method.since,
                "reach": method.reach().letter().to_string(),
                "published": method.set == Set::Published,
                "outlives": durability.class.name(),
                "because": durability.because,
            })
        })
        .collect();
    let condition = facts::condition(environment);
    let document = json!({ "format": FORMAT, "version": 1, "power_loss": condition, "methods": rows });
    output::print(&output::json(&document))?;
    Ok(ExitCode::SUCCESS)
}
