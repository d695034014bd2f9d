//! Tests the findings: a healthy run has none, and each planted fault is found.

use super::*;
use crate::result::RunResult;
use crate::row::{NamedLatency, Outcome, Tail};
use crate::sample::{durability, healthy, latency, measured, samples, volatile};
use crate::testbed::sim::Plant;
use seawall_sys::durability::Durability;

fn headline(result: &RunResult) -> Option<String> {
    crate::judgement::Judgement::of_result(result).headline().map(str::to_owned)
}

fn ids(result: &RunResult) -> Vec<&'static str> {
    find(&Ranking::new(result)).iter().map(|finding| finding.rule).collect()
}

fn sentence(result: &RunResult, rule: &str) -> String {
    let found = find(&Ranking::new(result));
    found
        .iter()
        .find(|finding| finding.rule == rule)
        .map(|finding| finding.sentence.clone())
        .unwrap_or_default()
}

#[test]
fn a_healthy_run_has_no_findings() {
    assert_eq!(ids(&healthy()), [""; 0]);
    assert_eq!(headline(&healthy()), None);
}

#[test]
fn ids_are_unique() {
    for rule in &RULES {
        assert_eq!(RULES.iter().filter(|other| other.id == rule.id).count(), 1, "{}", rule.id);
    }
}

#[test]
fn a_failing_device_is_distinguished_from_another_error() {
    for (of_device, remedy) in [(false, "remove the cause"), (true, "acknowledged before may be lost")] {
        let mut result = healthy();
        result.study.rows[0].outcome = Outcome::Failed { error: "pwrite: refused".to_owned(), of_device };
        let found = find(&Ranking::new(&result));
        let finding = found.iter().find(|finding| finding.rule == "failed").expect("found");
        assert!(finding.remedy.contains(remedy), "{}", finding.remedy);
    }
}

/// A rule, and what makes it speak when done to a healthy result; the gravest ones are those of the judgement's tests.
type Planted = (&'static str, fn(&mut RunResult));

#[test]
fn what_is_planted_is_found() {
    const DURABLE: &str = "buffered+fdatasync";
    let planted: [Planted; 21] = [
        ("cpu-wait", |r| measured(r, DURABLE).tail = Tail { commits: 100, latency_ns: 1000, wait_ns: 840 }),
        ("too-fast", |r| durability(r, "buffered").class = Durability::PowerLoss),
        ("promiser", |r| r.environment.hypervisor = Some("KVM".to_owned())),
        ("burst-credits", |r| r.environment.hypervisor = Some("KVM".to_owned())),
        ("interrupted", |r| r.complete = false),
        ("busy", |r| r.environment.pressure.waiting_percent_10s = Some(43.0)),
        ("busy", |r| {
            // Where waiting is reported, it decides.
            r.environment.pressure.waiting_percent_10s = None;
            r.environment.pressure.load_1m = Some(7.0);
        }),
        ("stolen", |r| r.environment.pressure.stolen_percent = Some(9.0)),
        ("not-idle", |r| r.idle.as_mut().expect("counters").counts.writes = 1000),
        ("drift", |r| measured(r, "direct").rounds[3].p50_ns *= 2),
        ("few-samples", |r| {
            let few = latency(measured(r, "direct"));
            *few = crate::latency::Latency::new();
            (0..500).for_each(|i| few.record(24_000 + i));
        }),
        ("single-round", |r| r.plan.rounds = 1),
        ("clock", |r| r.environment.clock.tick_ns = 100_000),
        ("queueing", |r| {
            let response = samples(5000, 9_000_000);
            measured(r, "direct").latencies.push(NamedLatency::new("response", "response", response));
        }),
        ("outside-range", |r| r.environment.devices[0].rotational = Some(true)),
        ("stalls", |r| latency(measured(r, "direct")).record(80_000_000)),
        ("metadata", |r| {
            for id in ["direct", DURABLE] {
                measured(r, id).counts.as_mut().expect("counts").writes *= 3;
            }
            assert!(sentence(r, "metadata").contains("what other programs wrote"));
            r.environment.file_system.kind = "ext4".to_owned();
            r.environment.file_system.weak_calls.sync_file_range = true;
            assert!(sentence(r, "metadata").contains("writes the data twice"));
        }),
        ("cpu-wait", |r| {
            measured(r, DURABLE).tail = Tail { commits: 100, latency_ns: 1000, wait_ns: 840 };
            measured(r, DURABLE).cpu.wait_ns = Some(500_000_000);
            assert!(sentence(r, "cpu-wait").contains("Over all its commits"));
        }),
        ("amplification", |r| measured(r, DURABLE).counts.as_mut().expect("counts").sectors *= 64),
        ("copy-on-write", |r| r.environment.file_system.copy_on_write = true),
        ("small-journal", |r| r.plan.journal_bytes = 1 << 20),
    ];
    for (rule, plant) in planted {
        let mut result = healthy();
        plant(&mut result);
        assert!(ids(&result).contains(&rule), "{rule} is not among {:?}", ids(&result));
    }
}

#[test]
fn a_volatile_cache_shows_the_direct_trap_and_methods_alike() {
    let result = volatile(Vec::new());
    assert_eq!(ids(&result), ["outside-range", "direct-trap", "same-within-noise", "write-buffer"]);
    assert!(sentence(&result, "direct-trap").contains("direct is 2.04 times as fast"));
}

#[test]
fn a_stall_and_a_wait_for_a_cpu_are_distinguished() {
    let id = "buffered+fdatasync";
    let stall = volatile(vec![Plant::Stall { method: id, every: 5_000, ns: 80_000_000 }]);
    let wait = volatile(vec![Plant::CpuWait { method: id, every: 90, ns: 2_000_000 }]);
    assert!(sentence(&stall, "stalls").contains(id) && sentence(&stall, "cpu-wait").is_empty());
    assert!(sentence(&wait, "cpu-wait").contains(id) && sentence(&wait, "stalls").is_empty());
    assert_eq!(headline(&wait), None, "the row of the verdict did not wait");
}

#[test]
fn a_device_that_counts_no_flushes_contradicts_every_durable_method() {
    let result = volatile(vec![Plant::NoFlushes]);
    assert!(sentence(&result, "contradicted").contains("0.00 flushes"));
}

#[test]
fn a_raw_device_that_is_flushed_although_it_takes_fua_is_found() {
    let ran = |flushes_of: fn(u64) -> u64, raw_device: bool| {
        let mut result =
            crate::sample::run("direct,direct+dsync,direct+rwf-dsync", Vec::new(), |environment| {
                environment.devices[0].fua = Some(true);
            });
        result.plan.raw_device = raw_device;
        let figures = measured(&mut result, "direct+rwf-dsync");
        let commits = figures.commits;
        figures.counts.as_mut().expect("counts").flushes = flushes_of(commits);
        result
    };
    let flushed = sentence(&ran(|commits| commits, true), "raw-flushes");
    assert!(flushed.contains("direct+rwf-dsync") && flushed.contains("1.00 flushes a commit"), "{flushed}");
    // A file, and a device that only gets what it needs.
    assert_eq!(sentence(&ran(|commits| commits, false), "raw-flushes"), "");
    let mut forced = ran(|_| 0, true);
    measured(&mut forced, "direct+dsync").counts.as_mut().expect("counts").flushes = 0;
    assert_eq!(sentence(&forced, "raw-flushes"), "");
}

#[test]
fn fsync_dearer_than_fdatasync_is_found() {
    let mut result = volatile(Vec::new());
    measured(&mut result, "buffered+fsync").rounds.iter_mut().for_each(|round| round.p50_ns *= 2);
    assert!(sentence(&result, "fsync-dearer").contains("2.00 times"));
}

#[test]
fn two_writes_a_commit_show_what_a_flush_for_each_costs() {
    use crate::method_names::choose_methods;
    use crate::scenario::commit;
    use crate::scenario::settings::{Amount, Settings};
    let methods = choose_methods("buffered+fdatasync,dsync").expect("methods");
    let settings = Settings {
        writes: 2,
        methods,
        others: Vec::new(),
        amount: Amount::Transactions(12_000),
        ..commit::settings()
    };
    let mut testbed = crate::testbed::sim::SimTestbed::new(1, Vec::new());
    let result =
        commit::run(&settings, &mut testbed, &mut crate::scenario::Unwatched::default()).expect("a result");
    let words = sentence(&result, "each-write-flushed");
    assert!(words.starts_with("With 2 writes a commit dsync takes"), "{words}");
    for rule in ["contradicted", "metadata", "outside-range"] {
        assert!(!ids(&result).contains(&rule), "{rule}: {:?}", ids(&result));
    }
    assert!(!ids(&volatile(Vec::new())).contains(&"each-write-flushed"));
    let advice = crate::advise::advise(&Ranking::new(&result));
    let postgresql = advice.settings.iter().find(|one| one.product == "PostgreSQL").expect("set");
    assert!(postgresql.why.contains("dsync takes"), "{}", postgresql.why);
    assert!(advice.basis.contains("2 writes of 16 KiB a commit"), "{}", advice.basis);
}

#[test]
fn classes_that_nothing_confirms_are_said_to_be_computed() {
    let mut result = volatile(Vec::new());
    for id in ["buffered+fdatasync", "buffered+fsync", "dsync"] {
        measured(&mut result, id).counts = None;
    }
    assert!(sentence(&result, "unvouched").contains("no counters"));
}

#[test]
fn a_run_too_noisy_to_rank_says_so() {
    let mut result = volatile(Vec::new());
    for (i, id) in ["buffered+fsync", "dsync"].into_iter().enumerate() {
        for (j, round) in measured(&mut result, id).rounds.iter_mut().enumerate() {
            round.p50_ns *= if (i + j) % 2 == 0 { 5 } else { 1 };
        }
    }
    assert!(sentence(&result, "same-within-noise").starts_with("Too noisy to rank"));
}

/// Ten minutes of ten blocks of a method, with these commits a second in each.
fn over_ten_minutes(result: &mut RunResult, id: &str, per_s: impl Fn(u64) -> u64) {
    use crate::row::{Round, Series, SeriesPoint};
    const SPAN_NS: u64 = 100_000_000;
    let figures = measured(result, id);
    let block = |index: u64| Round {
        round: u32::try_from(index).expect("few"),
        start_ns: index * 600 * SPAN_NS,
        elapsed_ns: 300 * SPAN_NS,
        ..figures.rounds[0]
    };
    figures.rounds = (0..10).map(block).collect();
    let spans = figures.rounds.iter().flat_map(|round| (0..300).map(|span| round.start_ns + span * SPAN_NS));
    let points = spans.map(|at_ns| SeriesPoint {
        at_ns,
        max_ns: 1_000_000,
        commits: per_s(at_ns / (600 * SPAN_NS)) / 10,
    });
    figures.series = vec![Series {
        name: crate::scenario::commit::COMMITS_OVER_TIME.to_owned(),
        title: String::new(),
        points: points.collect(),
    }];
}

#[test]
fn a_disk_whose_credits_run_out_is_found_with_the_time_the_volume_and_the_source() {
    const BEST: &str = "direct";
    let mut result = healthy();
    over_ten_minutes(&mut result, BEST, |minute| if minute < 6 { 4000 } else { 1000 });
    let words = sentence(&result, "slower-for-minutes");
    assert!(words.starts_with("direct was slower until the end, from 360 s after the start on: 1,000 commits/s instead of 4,000, 25 %"), "{words}");
    assert!(words.contains("744,000 commits of all methods had written 11.4 GiB"), "{words}");
    let remedy = |result: &RunResult| {
        let found = find(&Ranking::new(result));
        found.into_iter().find(|finding| finding.rule == "slower-for-minutes").expect("found").remedy
    };
    assert!(remedy(&result).starts_with("burst credits, an SSD's write buffer"), "{}", remedy(&result));
    result.environment.devices[0].model = Some("Amazon Elastic Block Store".to_owned());
    assert!(remedy(&result).contains("gp2") && remedy(&result).contains("https://"), "{}", remedy(&result));
    let page = crate::report::html::html(&result);
    assert!(page.contains("\"spans\":[{\"from\":360.0,") && page.contains("direct was slower: the findings"));
    over_ten_minutes(&mut result, BEST, |_| 4000);
    assert_eq!(sentence(&result, "slower-for-minutes"), "");
    assert!(!crate::report::html::html(&result).contains("\"spans\":"));
    over_ten_minutes(&mut result, BEST, |minute| if minute < 6 { 4000 } else { 1000 });
    result.plan.rate_per_s = Some(4000.0);
    assert_eq!(sentence(&result, "slower-for-minutes"), "", "a schedule has the rate that it has");
}

#[test]
fn a_neighbour_that_flushes_leaves_no_outcome() {
    let mut result = volatile(Vec::new());
    result.idle.as_mut().expect("counters").counts.flushes = 5_000;
    assert!(sentence(&result, "not-idle").contains("prove little"));
    assert!(!ids(&result).contains(&"contradicted") && !ids(&result).contains(&"unvouched"));
}

#[test]
fn a_flush_that_costs_nothing_is_doubted_and_one_that_costs_a_round_trip_is_not() {
    let doubted = |flushed_ns: u64| {
        let mut result = volatile(Vec::new());
        for (id, p50_ns) in [("direct", 37_700), ("buffered+fdatasync", flushed_ns)] {
            *latency(measured(&mut result, id)) = samples(12_000, p50_ns);
        }
        ids(&result).contains(&"free-flush")
    };
    assert!(doubted(38_000) && doubted(50_000));
    assert!(!doubted(74_700) && !doubted(400_000));
}

#[test]
fn without_slow_commits_the_wait_of_all_of_them_is_named_and_the_device_is_not_blamed() {
    let mut result = volatile(Vec::new());
    for id in ["buffered+fdatasync", "buffered+fsync", "dsync"] {
        let one = measured(&mut result, id);
        one.tail = Tail::default();
        one.cpu.wait_ns = Some(u64::MAX / 8);
        *latency(one) = samples(200, 3_990_000);
        one.rounds[3].p50_ns *= 3;
    }
    let found = ids(&result);
    assert!(found.contains(&"cpu-wait") && found.contains(&"ticks"), "{found:?}");
    assert!(!found.contains(&"drift") && !found.contains(&"stalls"), "{found:?}");
    assert!(sentence(&result, "cpu-wait").starts_with("Commits waited"));
    assert!(sentence(&result, "ticks").contains("250 Hz"));
    assert!(headline(&result).is_some_and(|words| words.contains("CPU")));
}

#[test]
fn bytes_that_the_device_never_saw_are_named_with_both_figures() {
    let mut result = volatile(Vec::new());
    measured(&mut result, "direct").counts.as_mut().expect("counts").sectors /= 20;
    crate::evidence::convict(&mut result);
    assert!(sentence(&result, "bytes-missing").contains("direct committed"));
    assert!(headline(&result).is_some_and(|words| words.contains("never reached")));
}
