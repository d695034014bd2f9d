//! Judges a result once, for every output: what a durable commit costs here, or why that is unknown.
//!
//! ```text
//!   a finding is *wrong*               cannot tell     figures mean something else: no gate passes, nothing is recommended
//!   nothing outlives a power cut       none
//!   not all rounds were run            interrupted
//!   fewer than COMMITS_MIN commits     few
//!   the disk is held at a rate         capped          the cost below that rate, and the rate
//!   waits for a CPU, or noise          at most         a bound, of which the disk takes at least so much
//!   otherwise                          costs
//! ```
//!
//! Screen, page, picture, Markdown, JSON, JUnit, metrics, advice and comparison print this; none judges by itself.
//!
//! Invariants: pure; computed from what was measured when it is reported, and stored in a result's file for other programs
//! only: this one never reads it back.

pub(crate) mod capped;
pub(crate) mod disturbed;
mod stored;

use crate::figures::{duration_ns, listing, plural, rate};
use crate::findings::{self, Finding, Grave, Severity};
use crate::lookup;
use crate::ranges::MEMORY_NS;
use crate::rank::{EffectiveClass, Ranked, Ranking};
use crate::result::RunResult;
use crate::row::Row;
use capped::Cap;
use seawall_sys::durability::{Durability, Medium};
use seawall_sys::inspect::Environment;
use seawall_sys::method::System;
use serde::Serialize;

/// The version of [`Judgement`]'s form in result files; within a version fields are only added.
pub const VERSION: u32 = 1;

/// Fewer commits than these say nothing of a method: its median would be one of a handful.
pub(crate) const COMMITS_MIN: u64 = 100;

/// What a run says of a durable commit's cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It was measured.
    Costs,
    /// The disk is held at a rate; below it a commit costs what the median says.
    Capped,
    /// Other work is in the figures: they are bounds.
    AtMost,
    /// Too few commits.
    Few,
    /// Not all rounds were run.
    Interrupted,
    /// No method measured here is shown to outlive a power cut.
    None,
    /// A finding says that the figures mean something else.
    CannotTell,
    /// The rows are not ways to commit: their scenario says what it found.
    NotRanked,
}

/// What is said of a result by every output.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// [`VERSION`].
    pub version: u32,
    /// Whether and how the question is answered.
    pub answer: Answer,
    /// In a sentence or two.
    pub verdict: String,
    /// What the figures of the verdict are not: tails that waited for a CPU.
    pub caution: Option<String>,
    /// Why the answer is a bound or none, as the end of "No advice from this run: …".
    pub disturbed: Option<String>,
    /// The row to commit by, if one is recommended.
    pub recommended: Option<String>,
    /// The row that a requirement without a method is about: the same one in every run of the same command line.
    pub subject: Option<String>,
    /// The median of the verdict's row, nanoseconds.
    pub p50_ns: Option<u64>,
    /// What the disk takes of it at least, where other work is in the figures, nanoseconds.
    pub disk_at_least_ns: Option<u64>,
    /// The rate at which the disk is held.
    pub capped: Option<Cap>,
    /// Rules whose findings are *wrong*.
    pub wrong: Vec<&'static str>,
    /// Everything found, gravest first.
    pub findings: Vec<Finding>,
    /// What a commit of each row outlives after the evidence.
    pub rows: Vec<JudgedRow>,
}

/// A row's class after the evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedRow {
    /// The row.
    pub id: String,
    /// What a commit of it outlives, as far as the evidence bears it out.
    pub outlives: EffectiveClass,
    /// What its calls promise here.
    pub claims: Durability,
    /// What the device's counters say to that.
    pub evidence: String,
    /// Device flushes a commit; `None` without counters.
    pub flushes_per_commit: Option<f64>,
}

impl Judgement {
    /// The judgement of a ranked result.
    pub fn of(ranking: &Ranking<'_>) -> Self {
        let found = findings::find(ranking);
        let wrong: Vec<&'static str> =
            found.iter().filter(|one| one.severity == Severity::Wrong).map(|one| one.rule).collect();
        let best = ranking.recommended().filter(|_| ranking.result.environment.wine.is_none());
        let disturbed = best.and_then(|_| disturbed::disturbance(ranking));
        let capped = best.and_then(|_| capped::of(ranking));
        let answer = if !ranking.result.study.ranked {
            Answer::NotRanked
        } else if !wrong.is_empty() {
            Answer::CannotTell
        } else {
            best.map_or(Answer::None, |best| answer(ranking, best, capped.is_some(), disturbed.is_some()))
        };
        let is_cost = matches!(answer, Answer::Costs | Answer::Capped | Answer::AtMost);
        let costed = best.filter(|_| is_cost);
        let caution = costed.filter(|best| findings::waiting_for_cpu(ranking).contains(&best.id()));
        let mut judgement = Self {
            version: VERSION,
            answer,
            verdict: String::new(),
            caution: caution.filter(|_| answer == Answer::Costs).map(|_| TAIL_WAITED.to_owned()),
            disturbed: disturbed.filter(|_| !matches!(answer, Answer::Costs | Answer::Capped)),
            recommended: costed.filter(|_| answer != Answer::AtMost).map(|best| best.id().to_owned()),
            subject: subject(ranking.result).map(|row| row.id.clone()),
            p50_ns: costed.map(Ranked::p50_ns),
            disk_at_least_ns: costed.filter(|_| answer == Answer::AtMost).and_then(disk_at_least_ns),
            capped: capped.filter(|_| answer == Answer::Capped),
            wrong,
            findings: found,
            rows: ranking.rows.iter().map(judged).collect(),
        };
        judgement.verdict = verdict(ranking, &judgement, best);
        judgement
    }

    /// The judgement of a result.
    pub fn of_result(result: &RunResult) -> Self {
        Self::of(&Ranking::new(result))
    }

    /// Whether figures of this result decide nothing: what they would be compared with is unknown.
    pub fn cannot_tell(&self) -> bool {
        !self.wrong.is_empty()
    }

    /// What stands above the figures, if they would else be taken for more than they are.
    pub(crate) fn headline(&self) -> Option<&str> {
        match self.answer {
            Answer::Costs => self.caution.as_deref(),
            Answer::NotRanked => Some(self.verdict.as_str()).filter(|_| self.cannot_tell()),
            _ => Some(&self.verdict),
        }
    }

    /// What to do next, where the answer is no cost.
    pub fn remedy(&self) -> Option<&str> {
        match self.answer {
            Answer::CannotTell => self.findings.first().map(|found| found.remedy.as_str()),
            Answer::Interrupted => Some("let it run to its end"),
            Answer::AtMost => {
                Some("for the disk's own figure: a quieter machine, --pin, or --time 2m for more samples")
            }
            Answer::Few => Some("give it more time (--time)"),
            Answer::None => Some("--methods durable measures only what claims to outlive a power cut"),
            Answer::Capped => Some(
                "raise the limit, or commit more in one write: where it counts requests, group commit is free",
            ),
            Answer::Costs | Answer::NotRanked => None,
        }
    }
}

const TAIL_WAITED: &str = "Its slow commits waited for a CPU, not for the disk.";

fn answer(ranking: &Ranking<'_>, best: &Ranked<'_>, is_capped: bool, is_disturbed: bool) -> Answer {
    if !ranking.result.complete {
        Answer::Interrupted
    } else if best.measured.commits < COMMITS_MIN {
        Answer::Few
    } else if is_capped {
        Answer::Capped
    } else if is_disturbed {
        Answer::AtMost
    } else {
        Answer::Costs
    }
}

/// What the disk takes of a commit at least: what all but one in a hundred took, without this program's own CPU time.
fn disk_at_least_ns(row: &Ranked<'_>) -> Option<u64> {
    let cpu = row.measured.cpu;
    let own_ns = (cpu.user_ns + cpu.system_ns) / row.measured.commits.max(1);
    Some(row.measured.main().raw_percentile_ns(1.0).saturating_sub(own_ns)).filter(|ns| *ns > 0)
}

fn verdict(ranking: &Ranking<'_>, judgement: &Judgement, best: Option<&Ranked<'_>>) -> String {
    match (judgement.answer, best) {
        (Answer::NotRanked, _) => not_ranked(ranking.result, &judgement.findings),
        (Answer::CannotTell, _) => format!("Cannot tell. {}", why_wrong(ranking, &judgement.findings)),
        (Answer::Interrupted, _) => {
            format!("No verdict: {}.", judgement.disturbed.as_deref().unwrap_or("the run was interrupted"))
        }
        (Answer::Few, Some(best)) => format!(
            "No verdict: {} of {} are too few, of at least {COMMITS_MIN}.",
            plural(best.measured.commits, "commit", "commits"),
            best.id()
        ),
        (_, Some(best)) => costs(ranking, judgement, best),
        (_, None) => why_none(ranking),
    }
}

fn why_wrong(ranking: &Ranking<'_>, found: &[Finding]) -> String {
    let short = findings::grave(ranking).map(|Grave { sentence, .. }| sentence.to_owned());
    short.or_else(|| found.first().map(|first| first.sentence.clone())).unwrap_or_default()
}

/// What a durable commit costs, by which method, and which others are as good.
fn costs(ranking: &Ranking<'_>, judgement: &Judgement, best: &Ranked<'_>) -> String {
    let (id, calls, p50) = (best.id(), best.calls(), duration_ns(best.p50_ns()));
    if let Some(cap) = &judgement.capped {
        let p99 = best.measured.main().percentile(99.0).ns();
        let beyond = p99.map_or(String::new(), |ns| format!(", beyond it up to {} (p99)", duration_ns(ns)));
        return format!(
            "{} A commit that outlives a power cut costs {p50} below that rate{beyond}, by {id} ({calls}).",
            cap.sentence()
        );
    }
    if judgement.answer == Answer::AtMost {
        let least = judgement.disk_at_least_ns;
        let least = least
            .map_or(String::new(), |ns| format!(", of which the disk takes at least {}", duration_ns(ns)));
        let why = judgement.disturbed.as_deref().unwrap_or("other work is in the figures");
        return format!(
            "A commit that outlives a power cut costs at most {p50} here{least}, by {id} ({calls}): {why}."
        );
    }
    let p99 = best.measured.main().percentile(99.0).ns().filter(|_| judgement.caution.is_none());
    let p99 = p99.map_or(String::new(), |ns| format!(" (p99 {})", duration_ns(ns)));
    let others: Vec<&str> = ranking
        .of(EffectiveClass::PowerLoss)
        .filter(|row| row.id() != id && row.to_best.within_noise())
        .map(Ranked::id)
        .collect();
    let same = if others.is_empty() {
        String::new()
    } else {
        format!(" The same within noise: {}.", listing(&others, 2))
    };
    format!("A commit that outlives a power cut costs {p50} here{p99}, by {id} ({calls}).{same}")
}

fn why_none(ranking: &Ranking<'_>) -> String {
    let durable = |class: EffectiveClass| {
        ranking
            .of(class)
            .filter(|row| row.measured.letter == Some('D'))
            .flat_map(|row| row.durability.because.iter().map(String::as_str))
    };
    let because = if ranking.rows.is_empty() {
        "none was measured"
    } else {
        durable(EffectiveClass::SystemCrash)
            .chain(durable(EffectiveClass::ProcessCrash))
            .next()
            .unwrap_or("none of the measured methods asks the device to make its data stable")
    };
    format!("No method can be recommended: none is shown to outlive a power cut here, because {because}.")
}

fn not_ranked(result: &RunResult, found: &[Finding]) -> String {
    let judged = crate::scenario::find(&result.scenario).map(|of| (of.judge)(&result.study));
    let gravest = judged.unwrap_or_default().into_iter().min_by_key(|finding| finding.severity);
    let wrong = found.iter().find(|one| one.severity == Severity::Wrong).cloned();
    wrong.or(gravest).map_or_else(
        || format!("{}: nothing stands out.", crate::figures::capital(&result.study.title)),
        |finding| finding.sentence,
    )
}

fn judged(row: &Ranked<'_>) -> JudgedRow {
    JudgedRow {
        id: row.id().to_owned(),
        outlives: row.class,
        claims: row.durability.class,
        evidence: row.evidence.outcome.to_string(),
        flushes_per_commit: row.evidence.per_commit.and_then(|each| each.flushes),
    }
}

/// The row that a requirement without a method is about: the sync that most software calls, if the run lists it, else the
/// first listed row that asks the device to make its data stable. It does not depend on any figure.
pub fn subject(result: &RunResult) -> Option<&Row> {
    let usual = match lookup::system(result) {
        System::Linux | System::Illumos => "buffered+fdatasync",
        System::MacOs => "buffered+fullfsync",
        System::Windows => "buffered+flush",
    };
    let rows = || result.study.rows.iter().filter(|_| result.study.ranked);
    let stable =
        |row: &&Row| lookup::method(result, row).is_some_and(|method| method.reach().letter() == 'D');
    rows().find(|row| row.id == usual).or_else(|| rows().find(stable))
}

/// Why a few commits of a place are no figures of a disk, for the commands that make no whole run: what ignores syncs,
/// memory, or an answer faster than any device. The rule of the finding, and in words. `p50_ns` is of calls that ask the
/// device to make the data stable.
pub fn distrust(place: &Environment, p50_ns: Option<u64>) -> Option<(&'static str, String)> {
    if let Some(lie) = place.lies.first() {
        return Some(("lies", format!("something here turns syncs into nothing: {}", lie.evidence)));
    }
    if place.file_system.medium == Medium::Memory {
        return Some(("memory", format!("{} keeps its files in memory", place.file_system.kind)));
    }
    let p50_ns = p50_ns.filter(|ns| *ns < MEMORY_NS)?;
    Some((
        "too-fast",
        format!("{} a commit is too fast for any device: it was answered from memory", duration_ns(p50_ns)),
    ))
}

pub(crate) fn per_s(per_s: f64) -> String {
    format!("{}/s", rate(per_s))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::require::{self, ConditionOutcome};
    use crate::row::Outcome;
    use crate::sample::{durability, healthy, latency, measured, run, samples, volatile};
    use crate::testbed::sim::Plant;
    use seawall_sys::durability::{DeviceCache, FileState, Lie};
    use seawall_sys::inspect::{FoundLie, Limit, LimitKind};

    /// A finding of the severity *wrong*, and what plants it in a run of which nothing else is to be said.
    type Planted = (&'static str, fn(&mut RunResult));

    const WRONG: [Planted; 8] = [
        ("too-fast", |r| {
            *latency(measured(r, "buffered+fdatasync")) = samples(12_000, 500);
        }),
        ("lies", |r| {
            let evidence = "libeatmydata.so".to_owned();
            r.environment.lies.push(FoundLie { lie: Lie::Preload, evidence });
        }),
        ("wine", |r| r.environment.wine = Some("8.0".to_owned())),
        ("memory", |r| r.environment.file_system.medium = Medium::Memory),
        ("contradicted", |r| {
            r.environment.devices[0].write_cache = DeviceCache::WriteBack;
            measured(r, "buffered+fdatasync").counts = Some(seawall_sys::counters::Counts::default());
        }),
        ("bytes-missing", |r| {
            durability(r, "direct").because.insert(0, crate::evidence::BYTES_MISSING.to_owned());
        }),
        ("file-state", |r| r.plan.file_state = FileState::Unwritten),
        ("failed", |r| {
            let error = "pwrite: refused".to_owned();
            r.study.rows[0].outcome = Outcome::Failed { error, of_device: true };
        }),
    ];

    #[test]
    fn whatever_is_wrong_is_said_by_every_output_and_passes_no_gate() {
        use crate::advise::advise;
        use crate::compare::families::Families;
        use crate::compare::gate;
        use crate::compare::side::Side;
        use crate::report::{self, Style};
        let good = healthy();
        assert_eq!(Judgement::of_result(&good).answer, Answer::Costs);
        for (rule, plant) in WRONG {
            let mut result = healthy();
            plant(&mut result);
            let ranking = Ranking::new(&result);
            let judgement = Judgement::of(&ranking);
            assert!(judgement.wrong.contains(&rule), "{rule}: {:?}", judgement.wrong);
            assert_eq!(judgement.answer, Answer::CannotTell, "{rule}");
            let requirement = require::parse("etcd,p99<1s,direct:p99<1h").expect("readable");
            let checked = require::check(&ranking, &requirement);
            assert!(checked.iter().all(|one| one.outcome == ConditionOutcome::CannotTell), "{rule}");
            let junit = report::junit::conditions("bench --require", &checked);
            assert!(junit.contains("errors=\"3\"") && junit.contains("Cannot tell."), "{rule}: {junit}");
            let advice = advise(&ranking);
            assert!(advice.judgement.recommended.is_none() && advice.settings.is_empty(), "{rule}");
            let sides = vec![Side::own("a.json", &good), Side::own("b.json", &result)];
            let families = Families::new(sides, None).expect("comparable");
            let gates = gate::parse("p99>+1000%").expect("readable");
            let judged = gate::judge(&families, &gates);
            assert!(judged.iter().all(|one| one.outcome == ConditionOutcome::CannotTell), "{rule}");
            let json = result.to_json().expect("written");
            let written: serde_json::Value = serde_json::from_str(&json).expect("JSON");
            assert_eq!(written["judgement"]["answer"], "cannot-tell", "{rule}");
            for (output, text) in [
                ("screen", report::screen::screen(&result, None, 200, Style::PLAIN)),
                ("table", report::terminal(&result, 200, Style::PLAIN)),
                ("markdown", report::markdown::markdown(&result)),
                ("page", report::html::html(&result)),
                ("summary", report::summary::sentence(&result)),
                ("advice", report::advice::text(&result, report::advice::Scope::All, 200, Style::PLAIN)),
            ] {
                assert!(text.contains("Cannot tell."), "{rule}: {output}: {text}");
            }
        }
    }

    #[test]
    fn a_file_holds_the_class_after_the_evidence_and_is_judged_again_when_it_is_read() {
        let result = volatile(vec![Plant::NoFlushes]);
        let text = result.to_json().expect("written");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let rows = value["study"]["rows"].as_array().expect("rows");
        let of = |id: &str| &rows.iter().find(|row| row["id"] == id).expect("a row")["outcome"]["measured"];
        assert_eq!(of("dsync")["durability"]["class"], "system-crash");
        assert_eq!(of("dsync")["claims"], "power-loss");
        assert!(of("direct")["claims"].is_null());
        assert_eq!(RunResult::from_json(&text).expect("read"), result);
    }

    #[test]
    fn a_disk_that_is_held_at_a_rate_is_recognised_with_it_and_others_are_not() {
        let methods = "buffered,direct,buffered+fdatasync,dsync";
        let held = |plants, environment: fn(&mut Environment)| {
            let result = run(methods, plants, environment);
            let judgement = Judgement::of_result(&result);
            (judgement.answer, judgement.capped, judgement.verdict)
        };
        for per_s in [100, 300, 3_000] {
            let (answer, cap, verdict) = held(vec![Plant::Held { per_s }], |_| {});
            let cap = cap.unwrap_or_else(|| panic!("{per_s}: {verdict}"));
            assert!(answer == Answer::Capped && (cap.per_s / per_s as f64 - 1.0).abs() < 0.05, "{cap:?}");
            assert!(!verdict.contains("idle") && verdict.contains("below that rate"), "{verdict}");
        }
        let (_, cap, verdict) = held(vec![Plant::Held { per_s: 300 }], |environment| {
            let source = "io.max wiops=300 of sim0".to_owned();
            environment.limits.push(Limit { kind: LimitKind::Requests, most: 300.0, source });
        });
        assert!(
            cap.is_some_and(|cap| cap.limit.is_some()) && verdict.contains("io.max wiops=300"),
            "{verdict}"
        );
        let stall = Plant::Stall { method: "dsync", every: 100, ns: 50_000_000 };
        let wait = Plant::CpuWait { method: "dsync", every: 100, ns: 50_000_000 };
        for plants in [vec![], vec![stall], vec![wait], vec![Plant::Neighbour { writes_per_s: 2_000 }]] {
            let (_, cap, verdict) = held(plants.clone(), |_| {});
            assert_eq!(cap, None, "{plants:?}: {verdict}");
        }
    }

    #[test]
    fn own_waits_decide_whether_a_run_was_disturbed_and_leave_a_bound() {
        let busy = |result: &mut RunResult| result.environment.pressure.waiting_percent_10s = Some(97.0);
        let mut result = volatile(Vec::new());
        busy(&mut result);
        let judgement = Judgement::of_result(&result);
        assert_eq!(judgement.answer, Answer::Costs, "its commits did not wait: {}", judgement.verdict);
        let note = judgement.findings.iter().find(|one| one.rule == "busy").expect("said");
        assert_eq!(note.severity, Severity::Note);
        for id in ["buffered+fdatasync", "buffered+fsync", "dsync"] {
            measured(&mut result, id).cpu.wait_ns = Some(u64::MAX / 8);
        }
        let judgement = Judgement::of_result(&result);
        assert_eq!(judgement.answer, Answer::AtMost);
        let (p50_ns, least_ns) =
            (judgement.p50_ns.expect("a bound"), judgement.disk_at_least_ns.expect("a part"));
        assert!(least_ns > 0 && least_ns <= p50_ns, "{least_ns} of {p50_ns}");
        let says = |words: &str| judgement.verdict.contains(words);
        assert!(says("costs at most") && says("of which the disk takes at least"), "{}", judgement.verdict);
        assert_eq!(judgement.recommended, None);
        // Where waits are not counted, the machine's pressure decides.
        for row in result.study.rows.iter_mut().filter_map(Row::measured_mut) {
            row.cpu.wait_ns = None;
        }
        assert_eq!(Judgement::of_result(&result).answer, Answer::AtMost);
    }

    #[test]
    fn a_quota_of_cpu_time_is_named_where_commits_waited() {
        let mut result = volatile(Vec::new());
        for id in ["buffered+fdatasync", "buffered+fsync", "dsync"] {
            measured(&mut result, id).cpu.wait_ns = Some(u64::MAX / 8);
        }
        let source = "cpu.max 20000 100000".to_owned();
        result.environment.limits.push(Limit { kind: LimitKind::Cpu, most: 0.2, source });
        let found = findings::find(&Ranking::new(&result));
        let wait = found.iter().find(|one| one.rule == "cpu-wait").expect("found");
        assert!(wait.sentence.contains("cpu.max 20000 100000") && wait.remedy.contains("raise"), "{wait:?}");
    }
}
