//! Checks a requirement against a result: met, missed, or "cannot tell" without a figure; only the first passes.
//!
//! Invariant: a percentile without a sample beyond it is refused, not replaced by the maximum.

use super::{Condition, Figure, Requirement};
use crate::figures::{count, duration, percent, rate, significant};
use crate::findings::CPU_WAIT_SHARE_MAX;
use crate::judgement::{Judgement, capped};
use crate::latency::{Latency, Percentile};
use crate::rank::{EffectiveClass, Ranked, Ranking};
use crate::require::Preset;

/// The outcome of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionOutcome {
    /// The figure is within its bound, or what must not come true did not.
    Met,
    /// It is not, or it did.
    Missed,
    /// There is no figure; that is not a pass.
    CannotTell,
    /// There is one, but it is not the disk's: commits waited for a CPU. That is neither a pass nor a failure.
    NotJudged,
}

impl ConditionOutcome {
    /// In a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::CannotTell => "cannot tell",
            Self::NotJudged => "not judged",
        }
    }
}

/// A condition of `--require` or `--fail-if`, held against what was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The condition as it was given, of `--require` with the row that it is about: the test's name.
    pub name: String,
    /// Its outcome.
    pub outcome: ConditionOutcome,
    /// The figure and the method it is of, or why there is none.
    pub sentence: String,
}

/// Holds `requirement` against the ranked result. It is met as a whole if every outcome is [`ConditionOutcome::Met`]. Where a
/// finding says that the figures mean something else, none is.
pub fn check(ranking: &Ranking<'_>, requirement: &Requirement) -> Vec<Checked> {
    let judgement = Judgement::of(ranking);
    requirement
        .conditions
        .iter()
        .map(|condition| {
            let preset = requirement.presets.iter().find(|preset| is_of(condition, preset));
            let subject = condition.method.as_deref().or(judgement.subject.as_deref());
            let (outcome, mut sentence) = match subject {
                // What is added goes on after a clause.
                _ if judgement.cannot_tell() => cannot(judgement.verdict.trim_end_matches('.').to_owned()),
                None => cannot("nothing measured here asks the device to make its data stable".to_owned()),
                Some(id) => hold(ranking, condition, id, preset.copied()),
            };
            if let Some(doubt) = preset.and_then(|preset| differs(ranking, preset)) {
                sentence += &doubt;
            }
            // Once for a preset, however many conditions it has.
            if let Some(preset) =
                preset.filter(|preset| preset.conditions.first() == Some(&condition.text.as_str()))
            {
                sentence.extend([" [", preset.name, " ", preset.version, ": ", preset.source, "]"]);
            }
            let text = &condition.text;
            let name = match subject {
                Some(subject) if !text.contains(':') => format!("{subject}:{text}"),
                _ => text.clone(),
            };
            Checked { name, outcome, sentence }
        })
        .collect()
}

fn is_of(condition: &Condition, preset: &Preset) -> bool {
    preset.conditions.contains(&condition.text.as_str()) && condition.method.as_deref() == preset.method
}

fn cannot(why: String) -> (ConditionOutcome, String) {
    (ConditionOutcome::CannotTell, why)
}

fn hold(
    ranking: &Ranking<'_>,
    condition: &Condition,
    id: &str,
    preset: Option<&Preset>,
) -> (ConditionOutcome, String) {
    let Some(row) = ranking.find(id) else {
        let row = ranking.result.study.row(id).and_then(|row| row.outcome.missing());
        return cannot(match row {
            Some((word, reason)) => format!("{id}: {word}: {reason}"),
            None => format!("{id} was not measured"),
        });
    };
    let latency = match (condition.sync_only, row.measured.latency("sync")) {
        (false, _) => row.measured.main(),
        (true, Some(sync)) => sync,
        (true, None) => return cannot(format!("{} has no separate sync to time", row.id())),
    };
    let Some((value, doubt)) = figure(condition, row, latency) else {
        return cannot(format!(
            "{} samples of {} are too few for {}, so it is not met; run longer",
            count(latency.count()),
            row.id(),
            condition.figure.name()
        ));
    };
    // A preset is about a database's journal, and a bound without a method about a durable commit: fast and not durable
    // does not meet it.
    let needs_durable = preset.is_some() || condition.method.is_none();
    let durable_enough = !needs_durable || row.class == EffectiveClass::PowerLoss;
    let waited = row.measured.blamed_wait_share().filter(|share| *share > CPU_WAIT_SHARE_MAX);
    let outcome = match (within(condition, value), durable_enough, waited) {
        (true, true, _) => ConditionOutcome::Met,
        // The disk may well be fast enough.
        (false, true, Some(_)) => ConditionOutcome::NotJudged,
        _ => ConditionOutcome::Missed,
    };
    let shown = match condition.figure {
        Figure::CommitsPerS => rate(value),
        Figure::MbPerS => significant(value),
        _ => duration(value),
    };
    let part = if condition.sync_only { " of the sync" } else { "" };
    // Grades are of the first condition's figure.
    let graded = preset.filter(|preset| preset.conditions.first() == Some(&condition.text.as_str()));
    let graded_as = graded
        .filter(|_| outcome != ConditionOutcome::NotJudged)
        .and_then(|preset| preset.grades.iter().find(|(up_to, _)| value < *up_to as f64))
        .map_or(String::new(), |(_, words)| format!(" ({words})"));
    let class = match row.class {
        EffectiveClass::PowerLoss => String::new(),
        class if needs_durable => format!("; its class is not enough: {}", class.name()),
        class => format!("; note its class: {}", class.name()),
    };
    let name = condition.figure.name();
    let why = match (outcome, waited) {
        (ConditionOutcome::NotJudged, Some(share)) => {
            let remedy = capped::cpu_limit(ranking)
                .map_or("measure on an idle machine".to_owned(), |limit| {
                    format!("this process is limited ({limit})")
                });
            format!("; not judged: CPU wait took {} of the time; {remedy}", percent(share))
        }
        _ => String::new(),
    };
    (outcome, format!("{name}{part} is {shown} by {}{graded_as}{doubt}{class}{why}", row.id()))
}

/// The figure, and a doubt to be stated with it; `None` without enough samples.
fn figure(condition: &Condition, row: &Ranked<'_>, latency: &Latency) -> Option<(f64, &'static str)> {
    Some(match condition.figure {
        Figure::CommitsPerS => (row.measured.commits_per_s(), ""),
        Figure::MbPerS => (row.measured.bytes_per_s() / 1e6, ""),
        Figure::Max => (latency.max_ns() as f64, ""),
        Figure::Mean => (latency.mean_ns(), ""),
        Figure::Percentile(percent) => match latency.percentile(percent) {
            Percentile::Sound(ns) => (ns as f64, ""),
            Percentile::Uncertain(ns) => (ns as f64, ", uncertain: fewer than ten samples lie beyond it"),
            Percentile::Refused => return None,
        },
    })
}

fn within(condition: &Condition, value: f64) -> bool {
    let rate = matches!(condition.figure, Figure::CommitsPerS | Figure::MbPerS);
    match (rate, condition.inclusive) {
        (false, false) => value < condition.bound,
        (false, true) => value <= condition.bound,
        (true, false) => value > condition.bound,
        (true, true) => value >= condition.bound,
    }
}

/// What the run did otherwise than the preset's source means it.
fn differs(ranking: &Ranking<'_>, preset: &Preset) -> Option<String> {
    let plan = &ranking.result.plan;
    let mut otherwise = Vec::new();
    if let Some(bytes) = preset.transaction_bytes.filter(|bytes| *bytes as u64 != plan.transaction_bytes) {
        otherwise.push(format!("--size {bytes}"));
    }
    if preset.transaction_bytes.is_some() && plan.writes != 1 {
        otherwise.push("--writes 1".to_owned());
    }
    if let Some(state) = preset.file_state.filter(|state| *state != plan.file_state) {
        otherwise.push(format!("--file-state {}", state.name()));
    }
    (!otherwise.is_empty()).then(|| format!("; the preset means {}", otherwise.join(" ")))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::require::parse;
    use crate::sample::{latency, measured, run, volatile};
    use crate::testbed::sim::Plant;

    fn check_all(result: &crate::result::RunResult, text: &str) -> Vec<(ConditionOutcome, String)> {
        let requirement = parse(text).expect(text);
        let checked = check(&Ranking::new(result), &requirement);
        checked.into_iter().map(|one| (one.outcome, one.sentence)).collect()
    }

    fn outcome(result: &crate::result::RunResult, text: &str) -> ConditionOutcome {
        check_all(result, text)[0].0
    }

    #[test]
    fn bounds_are_met_or_missed() {
        let result = volatile(Vec::new());
        assert_eq!(outcome(&result, "p99<1ms"), ConditionOutcome::Met);
        assert_eq!(outcome(&result, "p99<10us"), ConditionOutcome::Missed);
        assert_eq!(outcome(&result, "buffered:p50<10us"), ConditionOutcome::Met);
        assert_eq!(outcome(&result, "commits/s>1000 and MB/s>100"), ConditionOutcome::Met);
        assert_eq!(outcome(&result, "commits/s>1000000"), ConditionOutcome::Missed);
        assert!(check_all(&result, "direct:p50<1ms")[0].1.contains("system crash"), "the class is stated");
    }

    #[test]
    fn what_waited_for_a_cpu_is_not_judged_unless_it_is_met_all_the_same() {
        let mut result = volatile(Vec::new());
        let row = crate::sample::measured(&mut result, "dsync");
        row.cpu.wait_ns = Some(u64::MAX / 4);
        let (outcome, sentence) = check_all(&result, "dsync:p99<1us").remove(0);
        assert!(outcome == ConditionOutcome::NotJudged && sentence.contains("CPU wait"), "{sentence}");
        assert_eq!(check_all(&result, "dsync:p99<1s")[0].0, ConditionOutcome::Met);
        assert_eq!(check_all(&result, "dsync:commits/s>1000000000")[0].0, ConditionOutcome::NotJudged);
    }

    #[test]
    fn what_has_no_figure_is_not_met_and_says_why() {
        let result = volatile(Vec::new());
        let cases = [("dsync:sync-p99<1s", "no separate sync"), ("mmap+msync:p99<1s", "not measured")];
        for (text, why) in cases {
            let (outcome, sentence) = check_all(&result, text).remove(0);
            assert!(outcome == ConditionOutcome::CannotTell && sentence.contains(why), "{text}: {sentence}");
        }
        let mut few = volatile(Vec::new());
        *latency(measured(&mut few, "dsync")) = crate::sample::samples(50, 60_000);
        let (outcome, sentence) = check_all(&few, "dsync:p99<1s").remove(0);
        assert!(outcome == ConditionOutcome::CannotTell && sentence.contains("too few"), "{sentence}");
        let lying = volatile(vec![Plant::NoFlushes]);
        assert!(check_all(&lying, "p99<1s")[0].1.contains("go missing"));
    }

    #[test]
    fn presets_grade_and_say_what_was_measured_otherwise() {
        let result = run("buffered+fdatasync", Vec::new(), |_| {});
        let (outcome, sentence) = check_all(&result, "etcd").remove(0);
        assert_eq!(outcome, ConditionOutcome::Met);
        assert!(sentence.contains("fast enough") && sentence.contains("--size 2300"), "{sentence}");
        assert!(check_all(&result, "cockroachdb")[0].1.contains("(good)"));
        let openshift = check_all(&result, "openshift-heavy");
        assert_eq!(openshift.len(), 2, "latency and rate");
        assert!(openshift[0].1.contains("https://") && openshift[0].1.contains("4.20"), "{}", openshift[0].1);
        assert!(
            openshift[1].1.starts_with("commits/s is") && !openshift[1].1.contains("fit"),
            "{}",
            openshift[1].1
        );
        assert!(check_all(&result, "openshift")[0].1.contains("heavily loaded cluster too"));
        let lying = run("buffered+fdatasync", vec![Plant::NoFlushes], |_| {});
        let (outcome, sentence) = check_all(&lying, "etcd").remove(0);
        assert!(outcome == ConditionOutcome::CannotTell && sentence.contains("go missing"), "{sentence}");
        assert!(sentence.contains("confirmed here; the preset means --size 2300"), "{sentence}");
        let weak = run("buffered,direct", Vec::new(), |_| {});
        let (outcome, sentence) = check_all(&weak, "p99<1s").remove(0);
        assert!(outcome == ConditionOutcome::CannotTell && sentence.contains("stable"), "{sentence}");
    }

    #[test]
    fn a_condition_without_a_method_is_about_the_same_row_whatever_is_fastest() {
        let subject = |result: &crate::result::RunResult, text: &str| {
            let requirement = parse(text).expect("readable");
            check(&Ranking::new(result), &requirement).remove(0).name
        };
        let mut result = volatile(Vec::new());
        assert_eq!(subject(&result, "p99<1ms"), "buffered+fdatasync:p99<1ms");
        assert_eq!(subject(&result, "dsync:p99<1ms"), "dsync:p99<1ms");
        for id in ["buffered+fdatasync", "dsync"] {
            let p50_ns = measured(&mut result, id).main().p50_ns();
            (0..40_000).for_each(|_| latency(measured(&mut result, id)).record(p50_ns * 7));
            assert_eq!(subject(&result, "p99<1ms"), "buffered+fdatasync:p99<1ms");
        }
        let reason = "io_uring is not allowed here";
        let missing = run(
            "buffered+fdatasync,dsync",
            vec![Plant::Missing { method: "buffered+fdatasync", reason }],
            |_| {},
        );
        let (outcome, sentence) = check_all(&missing, "p99<1s").remove(0);
        assert!(outcome == ConditionOutcome::CannotTell && sentence.contains(reason), "{sentence}");
        assert_eq!(subject(&run("direct,dsync,sync", Vec::new(), |_| {}), "p99<1s"), "dsync:p99<1s");
    }
}
