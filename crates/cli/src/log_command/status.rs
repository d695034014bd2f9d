//! `seawall log status`: prints where a log is shipped, the lag and the last error, for a folder or a destination.
//!
//! Invariant: nothing is written, at neither place.

use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use bytesize::ByteSize;
use clap::Args;
use seawall::View;
use seawall_host::text::printable;
use seawall_ship::destination::Follower;
use seawall_ship::note::{Note, hex};
use seawall_ship::status::{self, Folder, Held, Said, Shipped};
use seawall_sys::clock::unix_seconds;
use serde_json::{Value, json};

use super::ship::{Place, source};
use super::{Answer, Stop};

#[derive(Debug, Args)]
pub(super) struct Status {
    /// Folder of a log or a standby, or address of a destination as in `seawall log ship`
    #[arg(value_name = "DIR|ADDRESS")]
    at: String,
    #[command(flatten)]
    place: Place,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: Answer,
}

pub(super) fn run(options: &Status) -> Result<(), Stop> {
    let dir = Path::new(&options.at);
    let is_archive = options.at.starts_with("folder:") || dir.join("messages").is_dir();
    let found = if is_archive || (options.at.contains("://") && !dir.exists()) {
        let mut from = source(&options.at, &options.place)?;
        let held = status::of_destination(from.as_mut())?;
        of_held(&from.address(), held.as_ref(), &from.followers()?)
    } else {
        match status::of_folder(dir)? {
            Folder::Log { view, shipped, waiting, .. } => of_log(&view, &shipped, &waiting),
            Folder::Standby { note, saved } => of_standby(dir, note.as_deref(), saved),
            _ => Value::Null,
        }
    };
    let mut output = io::stdout().lock();
    if options.format == Answer::Json {
        return Ok(writeln!(output, "{found}")?);
    }
    Ok(output.write_all(text(&found).as_bytes())?)
}

fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

fn of_log(view: &View, shipped: &[Shipped], waiting: &[Said]) -> Value {
    let destinations = shipped.iter().map(|Shipped { note, lag, said, .. }| {
        json!({
            "address": note.address,
            "destination": note.identity,
            "owner": hex(&note.owner),
            "term": note.chain.epoch,
            "position": note.chain.position,
            "acknowledged": note.chain.lsn.get(),
            "lag": { "records": lag.records, "bytes": lag.bytes, "seconds": seconds(lag.time) },
            "service": said.as_ref().map(service),
            "last_error": said.as_ref().and_then(last_error),
        })
    });
    let waiting = waiting.iter().map(|said| {
        json!({ "address": said.to, "acknowledged": null, "service": service(said), "last_error": last_error(said) })
    });
    json!({
        "kind": "log",
        "path": view.dir().display().to_string(),
        "identity": view.log_id().to_string(),
        "first": view.first_lsn().get(),
        "end": view.end_lsn().get(),
        "writer": view.has_writer(),
        "destinations": destinations.chain(waiting).collect::<Vec<_>>(),
    })
}

fn service(said: &Said) -> String {
    format!("{}, {} s ago", said.state, unix_seconds().saturating_sub(said.unix_s))
}

fn last_error(said: &Said) -> Option<String> {
    let (at, why) = said.last_error.as_ref()?;
    Some(format!("{} s ago: {why}", unix_seconds().saturating_sub(*at)))
}

fn of_standby(dir: &Path, note: Option<&Note>, saved: Duration) -> Value {
    json!({
        "kind": "standby",
        "path": dir.display().to_string(),
        "identity": note.and_then(|note| note.chain.log_id).map(|log_id| log_id.to_string()),
        "address": note.map(|note| note.address.clone()),
        "owner": note.map(|note| hex(&note.owner)),
        "term": note.map(|note| note.chain.epoch),
        "end": note.map(|note| note.chain.lsn.get()),
        "saved_s_ago": seconds(saved),
    })
}

fn of_held(address: &str, held: Option<&Held>, followers: &[Follower]) -> Value {
    let Some(held) = held else {
        return json!({ "kind": "destination", "address": address, "identity": null });
    };
    let standbys = followers.iter().map(|follower| {
        json!({
            "owner": hex(&follower.owner),
            "position": follower.position,
            "behind": held.position.saturating_sub(follower.position),
            "said_s_ago": unix_seconds().saturating_sub(follower.unix_s),
        })
    });
    json!({
        "kind": "destination",
        "address": address,
        "identity": held.log_id.to_string(),
        "first": held.first.get(),
        "end": held.end.get(),
        "position": held.position,
        "term": held.epoch,
        "owner": hex(&held.owner),
        "last_record_s_ago": held.age().map(seconds),
        "standbys": standbys.collect::<Vec<_>>(),
    })
}

/// What JSON has, as lines.
fn text(found: &Value) -> String {
    let mut lines = Vec::new();
    let word = |value: &Value| match value {
        Value::Bool(true) => "running".to_owned(),
        Value::Null | Value::Bool(false) => "none".to_owned(),
        Value::String(text) => printable(text).into_owned(),
        other => other.to_string(),
    };
    let Some(fields) = found.as_object() else { return String::new() };
    for (name, value) in fields {
        if let Value::Array(all) = value {
            if all.is_empty() {
                lines.push(format!("{name:<18}none"));
            }
            for one in all.iter().filter_map(Value::as_object) {
                let (title, first) =
                    if name == "standbys" { ("standby", "owner") } else { ("shipped to", "address") };
                lines.push(format!("{title:<18}{}", word(&one[first])));
                for (name, value) in one.iter().filter(|(name, _)| *name != first) {
                    let value = match value.as_object() {
                        Some(lag) => behind(lag),
                        None => word(value),
                    };
                    lines.push(format!("  {:<15} {value}", name.replace('_', " ")));
                }
            }
        } else {
            let value = word(value);
            lines.push(format!("{:<18}{value}", name.replace('_', " ")));
        }
    }
    lines.join("\n") + "\n"
}

fn behind(lag: &serde_json::Map<String, Value>) -> String {
    let bytes = ByteSize(lag["bytes"].as_u64().unwrap_or_default());
    format!("{} records, {bytes}, the oldest {} s old", lag["records"], lag["seconds"])
}
