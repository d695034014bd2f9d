//! The metrics of a probe's answer.
//!
//! Invariant: what was not measured has no sample.

use super::{Answer, judged};
use crate::exposition::{Family, Form, Kind, device};
use seawall::Tried;
use std::time::Duration;

pub(super) fn text(answer: &Answer, form: Form) -> String {
    let probe = &answer.probe;
    let up = u8::from(probe.problem.is_none());
    let timed = [("p50", (|tried| tried.p50) as fn(&Tried) -> Duration), ("max", |tried| tried.max)];
    let seconds = timed.iter().flat_map(|(stat, of)| {
        let sample =
            |tried: &Tried| (vec![("method", tried.method), ("stat", *stat)], of(tried).as_secs_f64());
        probe.tried.iter().map(sample)
    });
    let judged = judged(answer);
    let verdicts = judged.iter().map(|one| (vec![("preset", one.preset.name), ("verdict", one.name())], 1));
    let mut families = vec![
        Family::new("seawall_probe_success", Kind::Gauge, "Whether the probe ran without a problem.")
            .with(&[], &up),
        Family::new("seawall_probe_commit_seconds", Kind::Gauge, "Time of one durable commit of 4 KiB.")
            .with_all(seconds),
        Family::new("seawall_probe_commits", Kind::Gauge, "Commits that were timed.")
            .with_all(probe.tried.iter().map(|tried| (vec![("method", tried.method)], tried.commits))),
        Family::new("seawall_probe_fastest", Kind::Gauge, "The fastest method of the best class.")
            .with_all(probe.fastest.iter().map(|tried| (vec![("method", tried.method)], 1))),
        Family::new("seawall_probe_outlives", Kind::Gauge, "What an acknowledged commit outlives here.")
            .with_all(answer.outlives().iter().map(|class| (vec![("class", *class)], 1))),
        Family::new("seawall_probe_evidence", Kind::Gauge, "What the devices' counters say to that.")
            .with_all(probe.class.iter().map(|_| (vec![("evidence", probe.evidence.name())], 1))),
        Family::new(
            "seawall_probe_cannot_tell",
            Kind::Gauge,
            "Whether the figures are not a disk's, so that nothing is judged by them.",
        )
        .with(&[], &u8::from(answer.wrong.is_some())),
        Family::new(
            "seawall_probe_verdict",
            Kind::Gauge,
            "Whether the disk meets the requirements of well-known systems.",
        )
        .with_all(verdicts),
        Family::new("seawall_probe_elapsed_seconds", Kind::Gauge, "How long the probe took.")
            .with(&[], &probe.elapsed.as_secs_f64()),
    ];
    families.extend(answer.place.as_ref().map(|place| device("seawall_probe_device", place)));
    form.text(&families)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_probe_that_could_do_nothing_is_still_a_whole_exposition() {
        let dir = Path::new("/nonexistent/folder");
        let probe = Answer::new(seawall::probe(dir, Duration::from_secs(1)), dir);
        let text = text(&probe, Form::OpenMetrics);
        assert!(text.ends_with("# EOF\n") && text.contains("\nseawall_probe_success 0\n"), "{text}");
        assert!(!text.contains("seawall_probe_commit_seconds{"), "nothing was measured: {text}");
        assert!(text.contains("preset=\"etcd\",verdict=\"cannot be judged\""), "{text}");
    }
}
