//! Renders the answer of a probe as `OpenMetrics` text.
//!
//! Invariants: every family has its type and help once, before its samples; a label's value is escaped; the text ends in
//! `# EOF`; what was not measured has no sample.

use super::judged;
use seawall::{Durability, Probe};
use std::fmt::Write as _;
use std::time::Duration;

/// The whole exposition.
pub(super) fn text(probe: &Probe) -> String {
    let mut out = String::new();
    let up = u8::from(probe.problem.is_none());
    family(
        &mut out,
        "seawall_probe_success",
        "Whether the probe ran without a problem.",
        &[(String::new(), up.to_string())],
    );
    let each = |stat: &str, of: fn(&seawall::Tried) -> Duration| {
        let sample = |tried: &seawall::Tried| {
            (labels(&[("method", tried.method), ("stat", stat)]), of(tried).as_secs_f64().to_string())
        };
        probe.tried.iter().map(sample).collect::<Vec<_>>()
    };
    let seconds = [each("p50", |tried| tried.p50), each("max", |tried| tried.max)].concat();
    family(&mut out, "seawall_probe_commit_seconds", "Time of one durable commit of 4 KiB.", &seconds);
    let commits: Vec<_> = probe
        .tried
        .iter()
        .map(|tried| (labels(&[("method", tried.method)]), tried.commits.to_string()))
        .collect();
    family(&mut out, "seawall_probe_commits", "Commits that were timed.", &commits);
    let fastest: Vec<_> =
        probe.fastest.iter().map(|tried| (labels(&[("method", tried.method)]), "1".to_owned())).collect();
    family(&mut out, "seawall_probe_fastest", "The fastest method of the best class.", &fastest);
    let class: Vec<_> = probe
        .class
        .iter()
        .map(|class| (labels(&[("class", Durability::name(*class))]), "1".to_owned()))
        .collect();
    family(&mut out, "seawall_probe_outlives", "What an acknowledged commit outlives here.", &class);
    let verdicts: Vec<_> = judged(probe)
        .iter()
        .map(|one| (labels(&[("preset", one.preset.name), ("verdict", one.outcome.name())]), "1".to_owned()))
        .collect();
    family(
        &mut out,
        "seawall_probe_verdict",
        "Whether the disk meets the requirements of well-known systems.",
        &verdicts,
    );
    let took = probe.elapsed.as_secs_f64().to_string();
    family(&mut out, "seawall_probe_elapsed_seconds", "How long the probe took.", &[(String::new(), took)]);
    out + "# EOF\n"
}

fn family(out: &mut String, name: &str, help: &str, samples: &[(String, String)]) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "# TYPE {name} gauge\n# HELP {name} {help}");
    for (labels, value) in samples {
        let _ = writeln!(out, "{name}{labels} {value}");
    }
}

fn labels(pairs: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    };
    format!("{{{}}}", pairs.iter().map(pair).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_probe_that_could_do_nothing_is_still_a_whole_exposition() {
        let probe = seawall::probe(Path::new("/nonexistent/folder"), Duration::from_secs(1));
        let text = text(&probe);
        assert!(text.ends_with("# EOF\n") && text.contains("\nseawall_probe_success 0\n"), "{text}");
        assert!(!text.contains("seawall_probe_commit_seconds{"), "nothing was measured: {text}");
        assert!(text.contains("preset=\"etcd\",verdict=\"cannot be judged\""), "{text}");
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(labels(&[("a", "x\"y\\z\n")]), "{a=\"x\\\"y\\\\z\\n\"}");
    }
}
