//! `seawall probe`: measures commit latency within a bounded time and prints it, also as JSON.
//!
//! Invariants: it never fails its caller: any failure of the disk is a field of the result, and the exit code is 0; only a
//! wrong command line, a closed output, or a file that cannot be written, is an error; figures that are not a disk's are
//! no answer: "cannot tell", with an exit code of its own.

mod metrics;

use crate::amounts;
use crate::exit::{CANNOT_TELL, Failure, INTERRUPTED};
use crate::exposition::Form;
use crate::output::ReplacedFile;
use crate::signals;
use crate::{leftovers, output};
use clap::{Args, ValueEnum};
use seawall::{Durability, PROBE_COMMIT_BYTES, PROBE_TIME_MAX, Probe, Tried};
use seawall_gauge::figures::duration;
use seawall_gauge::judgement;
use seawall_gauge::rank::EffectiveClass;
use seawall_gauge::require::{self, PRESETS, Preset};
use seawall_host::text::printable;
use seawall_sys::clock::nanoseconds;
use seawall_sys::inspect::Environment;
use seawall_sys::methods;
use seawall_sys::{inspect, scratch};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const FORMAT: &str = "seawall-probe";

#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// Folder whose disk is measured; a file of 256 KiB is created there and removed again
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Time limit, at most 1s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = amounts::time)]
    budget: Duration,
    /// Print JSON; the same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// Write metrics to this file, replaced atomically, or to standard output: as `OpenMetrics`, or, if its name ends in .prom,
    /// in the older format of `node_exporter`'s textfile collector
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", conflicts_with_all = ["json", "format"])]
    openmetrics: Option<PathBuf>,
}

/// How a probe answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines for people
    Text,
    /// JSON
    Json,
    /// `OpenMetrics`, for Prometheus and others
    Openmetrics,
}

pub(crate) fn run(options: &ProbeArgs) -> Result<ExitCode, Failure> {
    if options.budget > PROBE_TIME_MAX {
        return Err(Failure::Usage(
            "--budget: a probe takes at most 1s; `seawall bench --time` measures longer".to_owned(),
        ));
    }
    let file = options.openmetrics.as_deref().filter(|file| !output::is_standard(Some(file)));
    let file = file.map(ReplacedFile::find).transpose()?;
    // Its folder must not stay behind after Ctrl-C.
    signals::handle(|| {
        for left in scratch::remove_all() {
            tell!("remove {}", printable(&left.display().to_string()));
        }
        std::process::exit(i32::from(INTERRUPTED));
    })?;
    let answer = Answer::new(seawall::probe(&options.dir, options.budget), &options.dir);
    match &file {
        Some(file) => file.write(metrics::text(&answer, file.form()).as_bytes())?,
        None => output::print(&match options.format {
            Format::Json => output::json(&as_json(&answer)),
            _ if options.json => output::json(&as_json(&answer)),
            Format::Text if options.openmetrics.is_none() => as_text(&answer),
            Format::Text | Format::Openmetrics => metrics::text(&answer, Form::OpenMetrics),
        })?,
    }
    // After the answer, which comes in time however much there is to remove.
    leftovers::sweep(&options.dir);
    Ok(if answer.wrong.is_some() { ExitCode::from(CANNOT_TELL) } else { ExitCode::SUCCESS })
}

/// A probe with what is known of its folder.
struct Answer {
    probe: Probe,
    place: Option<Environment>,
    /// The rule by which its figures are not a disk's, and why.
    wrong: Option<(&'static str, String)>,
}

impl Answer {
    fn new(probe: Probe, dir: &Path) -> Self {
        let place = probe.problem.is_none().then(|| inspect::tried_environment(dir).ok()).flatten();
        let asks =
            |tried: &&Tried| methods::find(tried.method).is_some_and(|method| method.reach().letter() == 'D');
        let p50 = probe.tried.iter().chain(&probe.fastest).filter(asks).map(|tried| tried.p50).min();
        let p50_ns = p50.map(nanoseconds);
        let wrong = place.as_ref().and_then(|place| judgement::distrust(place, p50_ns));
        Self { probe, place, wrong }
    }

    /// What an acknowledged commit outlives, as far as the figures bear it out.
    fn outlives(&self) -> Option<&'static str> {
        let class = self.probe.class?;
        let evidence = Some(&self.probe.evidence).filter(|_| self.wrong.is_none());
        Some(EffectiveClass::after(class, evidence).name())
    }
}

/// A preset held against the probe: the method that it is about, and the outcome.
struct Judged {
    preset: &'static Preset,
    method: String,
    /// What the preset says, or why it says nothing.
    outcome: Result<&'static str, String>,
}

impl Judged {
    fn name(&self) -> &'static str {
        self.outcome.as_ref().copied().unwrap_or("cannot be judged")
    }
}

fn judged(answer: &Answer) -> Vec<Judged> {
    PRESETS.iter().map(|preset| judge(answer, preset)).collect()
}

fn judge(answer: &Answer, preset: &'static Preset) -> Judged {
    let probe = &answer.probe;
    let tried = preset.method.map_or(probe.fastest.as_ref(), |id| probe.tried(id));
    let method = preset.method.or(tried.map(|tried| tried.method)).unwrap_or("none");
    let bound =
        require::parse(preset.name).ok().and_then(|demand| demand.conditions.first().map(|one| one.bound));
    let outcome = match (tried, bound) {
        _ if answer.wrong.is_some() => {
            let why = answer.wrong.as_ref().map(|(_, why)| why.clone()).unwrap_or_default();
            Err(format!("cannot tell: {why}"))
        }
        _ if probe.class.is_some_and(|class| class != Durability::PowerLoss) => {
            Err("nothing here outlives a power cut".to_owned())
        }
        (Some(tried), Some(bound_ns)) => Ok(tried.against(Duration::from_secs_f64(bound_ns / 1e9)).name()),
        _ if method == "none" => Err("no method was tried here".to_owned()),
        _ => Err(format!("{method} was not tried here")),
    };
    Judged { preset, method: method.to_owned(), outcome }
}

fn tried_json(tried: &Tried) -> Value {
    json!({
        "method": tried.method,
        "calls": tried.calls,
        "commits": tried.commits,
        "p50_ns": nanoseconds(tried.p50),
        "max_ns": nanoseconds(tried.max),
    })
}

fn as_json(answer: &Answer) -> Value {
    let probe = &answer.probe;
    let verdicts: Vec<Value> = judged(answer)
        .iter()
        .map(|one| {
            json!({
                "preset": one.preset.name,
                "demand": one.preset.conditions,
                "method": one.method,
                "verdict": one.outcome.as_ref().ok(),
                "why_none": one.outcome.as_ref().err(),
            })
        })
        .collect();
    json!({
        "format": FORMAT,
        "version": 1,
        "problem": probe.problem,
        "fastest": probe.fastest.as_ref().map(tried_json),
        "tried": probe.tried.iter().map(tried_json).collect::<Vec<_>>(),
        "commit_bytes": PROBE_COMMIT_BYTES,
        "outlives": answer.outlives(),
        "claims": probe.class.map(Durability::name),
        "wrong": answer.wrong.as_ref().map(|(rule, why)| json!({ "rule": rule, "sentence": why })),
        "promised_by": probe.promised_by.map(|promiser| format!("{promiser:?}").to_lowercase()),
        "because": probe.because,
        "evidence": probe.evidence.name(),
        "evidence_because": probe.evidence.why(),
        "verdicts": verdicts,
        "elapsed_ns": nanoseconds(probe.elapsed),
        "left_behind": probe.left_behind,
    })
}

fn as_text(answer: &Answer) -> String {
    let probe = &answer.probe;
    let mut lines = Vec::new();
    if let Some((_, why)) = &answer.wrong {
        lines.push(("!!", format!("cannot tell: {why}")));
    }
    if let Some(problem) = &probe.problem {
        lines.push(("problem", problem.clone()));
    }
    if let Some(fastest) = &probe.fastest {
        lines.push(("fastest", format!("{} ({})", fastest.method, fastest.calls)));
    }
    if let Some(class) = probe.class {
        let because =
            if probe.because.is_empty() { String::new() } else { format!(": {}", probe.because.join("; ")) };
        let promiser =
            probe.promised_by.map_or(String::new(), |who| format!(", promised by: {who:?}").to_lowercase());
        let outlives = answer.outlives().unwrap_or(class.name());
        lines.push(("outlives", format!("{outlives}{promiser}{because}")));
        lines.push(("evidence", probe.evidence.to_string()));
    }
    let ns = |time: Duration| duration(time.as_nanos() as f64);
    for tried in &probe.tried {
        let figures =
            format!("p50 {}, max {} of {} commits of 4 KiB", ns(tried.p50), ns(tried.max), tried.commits);
        lines.push(("tried", format!("{}: {figures}", tried.method)));
    }
    for one in judged(answer) {
        let demand = one.preset.conditions.join(", ");
        let name = one.name();
        let verdict = match &one.outcome {
            Err(why) => format!("{name}: {why}"),
            Ok(_) => format!("{name}, by {}", one.method),
        };
        lines.push(("verdict", format!("{} ({demand}): {verdict}", one.preset.name)));
    }
    lines.push(("took", ns(probe.elapsed)));
    if let Some(path) = &probe.left_behind {
        lines.push(("left", format!("{}: remove it", path.display())));
    }
    let mut text = String::new();
    for (label, line) in lines {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{label:<9}{}", printable(&line));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall::Evidence;

    #[test]
    fn an_answer_without_figures_still_has_every_field() {
        let dir = Path::new("/nonexistent/folder");
        let probe = Answer::new(seawall::probe(dir, Duration::from_secs(1)), dir);
        let json = as_json(&probe);
        assert!(json["problem"].is_string() && json["fastest"].is_null());
        let verdicts = json["verdicts"].as_array().expect("a list");
        assert_eq!(verdicts.len(), PRESETS.len());
        assert!(verdicts.iter().all(|one| one["verdict"].is_null() && one["why_none"].is_string()));
        let text = as_text(&probe);
        assert!(text.starts_with("problem") && text.contains("cannot be judged"), "{text}");
    }

    /// As on a full disk: the class is known by its rules, and no commit was made.
    #[test]
    fn every_form_of_an_answer_has_the_class_after_the_evidence() {
        let mut probe = Probe::default();
        (probe.class, probe.evidence) =
            (Some(Durability::PowerLoss), Evidence::NotConfirmed("no commit was made".to_owned()));
        let mut answer = Answer { probe, place: None, wrong: None };
        let said = |answer: &Answer| {
            let text = as_text(answer).lines().find(|line| line.starts_with("outlives")).map(str::to_owned);
            let metrics = metrics::text(answer, Form::OpenMetrics);
            let metric = metrics.lines().find(|line| line.starts_with("seawall_probe_outlives{"));
            (text, as_json(answer)["outlives"].clone(), metric.map(str::to_owned))
        };
        for (evidence, name) in [
            (answer.probe.evidence.clone(), "power loss, not confirmed"),
            (Evidence::Confirmed, "power loss"),
        ] {
            answer.probe.evidence = evidence;
            let (text, json, metric) = said(&answer);
            assert_eq!(text.as_deref(), Some(format!("outlives {name}").as_str()));
            assert_eq!(json, name);
            assert_eq!(metric, Some(format!("seawall_probe_outlives{{class=\"{name}\"}} 1")));
            assert_eq!(as_json(&answer)["claims"], "power loss");
        }
    }

    #[test]
    fn every_preset_is_judged_by_its_own_bound() {
        for preset in &PRESETS {
            let bound = require::parse(preset.name).expect("readable").conditions[0].bound;
            assert!(bound >= 1e6, "{} in nanoseconds", preset.name);
        }
    }
}
