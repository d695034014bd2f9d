//! Parses requirements such as `--require 'p99<10ms'` and presets.
//!
//! ```text
//!   requirement = part { ("," | "and") part }
//!   part        = preset | [ method ":" ] figure "<" bound | [ method ":" ] rate ">" number
//!   figure      = [ "sync-" ] ( "p50" | "p90" | "p99" | "p99.9" | "p99.99" | "max" | "mean" )
//!   bound       = a duration: 10ms, 500us, 1.5ms
//!   rate        = "commits/s" | "MB/s"
//! ```
//!
//! `<=` and `>=` stand for `<` and `>` with the bound included. Without a method the condition applies to the subject of
//! the run ([`crate::judgement::subject`]), which no figure changes. `sync-` takes the sync alone, as etcd's own metric does.
//!
//! Invariants: a condition that cannot be decided is not met; an error names the token and the grammar.

pub(crate) mod check;
pub(crate) mod preset;

pub use check::{Checked, ConditionOutcome, check};
pub use preset::{PRESETS, Preset};

use crate::lookup::nearest;
use crate::{Error, Result};
use seawall_sys::methods;
use std::fmt;
use std::time::Duration;

/// The grammar, for errors and help.
pub(crate) const GRAMMAR: &str = "[METHOD:]p50|p90|p99|p99.9|p99.99|max|mean < DURATION, or [METHOD:]commits/s|MB/s > NUMBER, or a preset (etcd, openshift, openshift-heavy, cockroachdb, zookeeper); several joined by `,` or `and`";

/// What a condition is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    /// A percentile of the commits' latency.
    Percentile(f64),
    /// The slowest commit.
    Max,
    /// The mean.
    Mean,
    /// Commits per second.
    CommitsPerS,
    /// Megabytes (10^6) per second.
    MbPerS,
}

const FIGURES: [(&str, Figure); 9] = [
    ("p50", Figure::Percentile(50.0)),
    ("p90", Figure::Percentile(90.0)),
    ("p99", Figure::Percentile(99.0)),
    ("p99.9", Figure::Percentile(99.9)),
    ("p99.99", Figure::Percentile(99.99)),
    ("max", Figure::Max),
    ("mean", Figure::Mean),
    ("commits/s", Figure::CommitsPerS),
    ("MB/s", Figure::MbPerS),
];

impl Figure {
    /// Its name in the grammar.
    pub fn name(self) -> &'static str {
        FIGURES.iter().find(|(_, figure)| *figure == self).map_or("?", |(name, _)| name)
    }

    fn is_rate(self) -> bool {
        matches!(self, Self::CommitsPerS | Self::MbPerS)
    }
}

/// One condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The method it is about; `None`: the run's subject.
    pub method: Option<String>,
    /// Whether it is about the sync alone.
    pub sync_only: bool,
    /// The figure.
    pub figure: Figure,
    /// The bound: nanoseconds, commits/s or MB/s.
    pub bound: f64,
    /// Whether the bound itself is allowed.
    pub inclusive: bool,
    /// As it was given.
    pub text: String,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// All that is demanded.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Requirement {
    /// Presets that were named; a run should be planned as they ask.
    pub presets: Vec<&'static Preset>,
    /// All conditions, those of the presets among them.
    pub conditions: Vec<Condition>,
}

/// Reads a requirement.
///
/// # Errors
/// The token that does not fit, what is wrong with it, and the grammar.
pub fn parse(text: &str) -> Result<Requirement> {
    let mut requirement = Requirement::default();
    let spaced = text.replace(',', " , ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    for part in words.split(|word| *word == "," || *word == "and") {
        let part = part.concat();
        if part.is_empty() {
            return Err(wrong(text, "a condition is missing"));
        }
        if let Some(preset) = preset::find(&part) {
            if let Some(other) = requirement.presets.iter().find(|other| !preset.is_measured_like(other)) {
                return Err(wrong(
                    &part,
                    &format!("not measured in the same way as {}: demand each in a separate run", other.name),
                ));
            }
            requirement.presets.push(preset);
            requirement.conditions.extend(preset.conditions.iter().map(|text| {
                let mut condition = condition(text).expect("a preset's condition is tested");
                condition.method = preset.method.map(str::to_owned);
                condition
            }));
        } else {
            requirement.conditions.push(condition(&part)?);
        }
    }
    Ok(requirement)
}

fn wrong(token: &str, what: &str) -> Error {
    Error::token("--require", token, what, GRAMMAR)
}

fn condition(part: &str) -> Result<Condition> {
    let (method, rest) = match part.split_once(':') {
        Some((method, rest)) => (Some(known_method(method)?), rest),
        None => (None, part),
    };
    let at = rest
        .find(['<', '>'])
        .ok_or_else(|| wrong(rest, "neither a preset nor a condition with `<` or `>`"))?;
    let (name, comparison) = (&rest[..at], &rest[at..=at]);
    let after = &rest[at + 1..];
    let (inclusive, bound_text) = after.strip_prefix('=').map_or((false, after), |bound| (true, bound));
    let (sync_only, figure_name) = name.strip_prefix("sync-").map_or((false, name), |name| (true, name));
    let figure = FIGURES
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(figure_name))
        .map(|(_, figure)| *figure)
        .ok_or_else(|| wrong(name, "no such figure"))?;
    if sync_only && figure.is_rate() {
        return Err(wrong(name, "a rate is of whole commits, not of the sync alone"));
    }
    match (figure.is_rate(), comparison) {
        (false, ">") => return Err(wrong(part, "a latency is demanded to be below (`<`) its bound")),
        (true, "<") => return Err(wrong(part, "a rate is demanded to be above (`>`) its bound")),
        _ => {}
    }
    let bound = if figure.is_rate() {
        number(bound_text).ok_or_else(|| wrong(bound_text, "not a number"))?
    } else {
        duration(bound_text)
            .filter(|ns| *ns > 0.0)
            .ok_or_else(|| wrong(bound_text, "not a duration such as 10ms, 500us or 1.5ms"))?
    };
    Ok(Condition { method, sync_only, figure, bound, inclusive, text: part.to_owned() })
}

fn known_method(id: &str) -> Result<String> {
    if methods::ALL.into_iter().flatten().any(|method| method.id == id) {
        Ok(id.to_owned())
    } else {
        let known = methods::ALL.into_iter().flatten().map(|method| method.id);
        let meant = nearest(id, known).map_or(String::new(), |id| format!("; did you mean {id}?"));
        Err(wrong(id, &format!("no such method (its id, as the table shows it){meant}")))
    }
}

fn number(text: &str) -> Option<f64> {
    text.replace('_', "").parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// A duration in nanoseconds. humantime reads whole numbers only, so a fraction is read here.
pub(crate) fn duration(text: &str) -> Option<f64> {
    let text = text.replace('µ', "u");
    if let Ok(duration) = humantime::parse_duration(&text) {
        return Some(duration_ns(duration));
    }
    let (value, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let one = humantime::parse_duration(&format!("1{unit}")).ok()?;
    let value = value.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)?;
    Some(value * duration_ns(one))
}

fn duration_ns(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e9
}

#[cfg(test)]
mod tests;
