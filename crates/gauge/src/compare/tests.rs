//! Tests comparisons on the published tables, which are exact, and on simulated results.
//!
//! Invariant: expected figures are computed here from the printed times, not taken from the code under test.

use super::families::Families;
use super::*;
use crate::report::Style;

const LINUX: &str = "published:i2.2xlarge-linux-ssd";
const WINDOWS: &str = "published:i2.2xlarge-windows-ssd";

fn published(ids: &[&str], by: Option<&str>) -> Comparison {
    let sides = ids.iter().map(|id| Side::published(id).expect("it ships")).collect();
    Comparison::new(sides, by).expect("they share a figure")
}

fn families(ids: &[&str], by: Option<&str>) -> Result<Families, Incomparable> {
    Families::new(ids.iter().map(|id| Side::published(id).expect("it ships")).collect(), by)
}

fn difference(comparison: &Comparison, id: &str) -> Difference {
    let line = comparison.rows.iter().find(|line| text::name(line) == id).expect("a row");
    line.cells[1].as_ref().expect("paired").difference.expect("both have the figure")
}

#[test]
fn windows_against_linux_as_printed_and_as_it_should_be() {
    let comparison = published(&[LINUX, WINDOWS], None);
    assert_eq!(comparison.measure.id, "cost");
    let expected = [
        ("buffered", 522.0, 410.0),
        ("buffered+fsync", 23_094.0, 21_077.0),
        ("dsync", 19_555.0, 10_029.0),
        ("direct", 9_371.0, 8_491.0),
        ("direct+dsync", 20_595.0, 8_378.0),
    ];
    for (id, linux_ms, windows_ms) in expected {
        let percent = (windows_ms / linux_ms - 1.0) * 100.0;
        let computed = difference(&comparison, id);
        assert!((computed.percent() - percent).abs() < 1e-9, "{id}: {} {percent}", computed.percent());
        assert_eq!(computed.interval, None, "published figures state no confidence");
    }
    assert!((difference(&comparison, "buffered").percent() + 22.0).abs() < 1.0, "not 80 but 22 per cent");
    // From the rounded costs of the same row, each printed percentage follows to within about a point.
    let printed = text::printed(&comparison, 1).expect("the source compared these two");
    for (row, stated) in printed.rows.iter().zip([80.0, 9.0, 48.0, 8.0, 60.0]) {
        let rounded = row.percent_of_rounded().expect("both costs were printed");
        assert_eq!(row.percent.parse(), Ok(stated));
        assert!((rounded - stated).abs() <= 1.0, "{}: {rounded} {stated}", row.method);
    }
}

#[test]
fn fua_is_not_a_flush_and_is_never_ranked_against_one() {
    let comparison = published(&[LINUX, WINDOWS], None);
    for (id, same) in [
        ("buffered", true),
        ("buffered+fsync", true),
        ("direct", true),
        ("dsync", false),
        ("direct+dsync", false),
    ] {
        assert_eq!(difference(&comparison, id).same_promise, same, "{id}");
    }
    let page = text::text(&comparison, 80, Style::PLAIN);
    let (before, after) = page.split_once("NOT THE SAME PROMISE").expect("a heading");
    assert!(before.contains("buffered+flush") && !before.contains("write-through"), "{page}");
    assert!(after.contains("no-buffering+write-through") && after.contains("FUA"), "{page}");
    for words in ["80 % win", "−21.5 %", "−80.0 %", "60 % win", "−59.3 %", "not stated", "0.0080 ms"] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

#[test]
fn no_line_is_wider_than_asked_for() {
    for width in [40, 60, 80, 100, 120] {
        for ids in [
            &[LINUX, WINDOWS][..],
            &[LINUX, WINDOWS, "published:i2.2xlarge-linux-hdd", "published:i2.2xlarge-windows-hdd"],
        ] {
            let page = text::text(&published(ids, None), width, Style::PLAIN);
            for line in page.lines() {
                assert!(crate::report::text::width_of(line) <= width, "{width}: {line}");
            }
        }
        assert!(text::list(width).lines().all(|line| crate::report::text::width_of(line) <= width));
    }
}

#[test]
fn tables_without_methods_pair_by_their_rows() {
    let comparison = published(&["published:solaris9-ufs", "published:solaris9-vxfs"], None);
    let fsync = difference(&comparison, "fsync");
    assert!((fsync.ratio - 403.329 / 0.094).abs() < 1e-6, "{}", fsync.ratio);
    let page = text::text(&comparison, 80, Style::PLAIN);
    assert!(page.contains("4,291×") && !page.contains("POWER LOSS"), "{page}");
    let by_calls = published(&["published:solaris9-ufs", "published:solaris9-vxfs"], Some("calls"));
    assert!((difference(&by_calls, "fsync").ratio - 1.0).abs() < 1e-12);
}

#[test]
fn what_cannot_be_compared_is_refused_in_words() {
    let refused = |ids: &[&str], by| {
        let sides = ids.iter().map(|id| Side::published(id).expect("it ships")).collect();
        Comparison::new(sides, by).expect_err("refused").to_string()
    };
    assert!(refused(&[LINUX], None).contains("--list"));
    assert!(refused(&[LINUX, WINDOWS], Some("p99")).contains("they share cost, elapsed"));
    assert!(refused(&[LINUX, "published:kafka-stall"], None).contains("`stall`"));
    assert!(
        refused(&["published:solaris9-ufs", "published:solaris9-vxfs-timex"], None)
            .contains("no figure that all of them have")
    );
}

#[test]
fn every_form_holds_the_same_unrounded_figures() {
    let families = families(&[LINUX, WINDOWS], None).expect("compared");
    let json: serde_json::Value = serde_json::from_str(&formats::json(&families)).expect("JSON");
    let row =
        json["rows"].as_array().expect("rows").iter().find(|row| row["row"] == "buffered").expect("a row");
    let percent = row["cells"][1]["percent_against_a"].as_f64().expect("a figure");
    assert!((percent - (410.0 / 522.0 - 1.0) * 100.0).abs() < 1e-9);
    assert_eq!(row["cells"][1]["percent_less_printed"], "80");
    assert!(row["cells"][1]["percent_low"].is_null());
    let csv = formats::csv(&families);
    assert!(
        csv.contains(&percent.to_string()) && csv.lines().all(|line| line.split(',').count() >= 14),
        "{csv}"
    );
    let markdown = formats::markdown(&families);
    assert!(markdown.contains("| −21.5 % (not stated) |") && markdown.contains("≠ −59.3 %"), "{markdown}");
}

#[test]
fn each_scenario_is_compared_with_its_own_and_what_has_no_fellow_is_named() {
    const STALL: &str = "published:kafka-stall";
    let made = families(&[LINUX, STALL, WINDOWS], None).expect("two of one scenario");
    let sides = |one: &Comparison| one.sides.iter().map(|side| side.name.clone()).collect::<Vec<_>>();
    assert_eq!(made.comparisons.iter().map(sides).collect::<Vec<_>>(), [[LINUX, WINDOWS]]);
    assert_eq!(made.left_out(), [format!("not compared: {STALL} (the only one of `stall`)")]);
    let two = ["published:solaris9-ufs", LINUX, "published:solaris9-vxfs", WINDOWS];
    let made = families(&two, None).expect("two of each");
    assert_eq!(made.comparisons.iter().map(Comparison::scenario).collect::<Vec<_>>(), ["cached", "commit"]);
    assert!(made.alone.is_empty());
    let json: serde_json::Value = serde_json::from_str(&formats::json(&made)).expect("JSON");
    assert_eq!(json["format"], formats::FORMAT_SEVERAL);
    assert_eq!(json["comparisons"][1]["sides"][0]["name"], LINUX);
    assert!(formats::csv(&made).lines().skip(1).any(|line| line.ends_with(",cached")));
    let page = text::all(&made, 80, Style::PLAIN);
    assert!(page.contains("seawall compare · cached") && page.contains("seawall compare · commit"), "{page}");
    // Of one scenario, but of other figures: a call by call table beside one by the clock.
    let made = families(&["published:solaris9-ufs", "published:solaris9-vxfs-timex", two[2]], None);
    let left_out = made.expect("two share a figure").left_out();
    assert!(left_out[0].contains("solaris9-vxfs-timex") && left_out[0].contains("shares no figure"));
    let refused = families(&[LINUX, STALL], None).expect_err("nothing shares a scenario").to_string();
    assert!(refused.contains("`stall`") && refused.contains("seawall report"), "{refused}");
    let refused = families(&two, Some("p99")).expect_err("no side has it").to_string();
    assert!(refused.contains("`p99`"), "{refused}");
}

#[cfg(target_os = "linux")]
mod on_the_simulated_rig {
    use super::*;
    use crate::sample::{healthy, measured, volatile};

    fn own(change: fn(&mut crate::result::RunResult)) -> Comparison {
        let base = volatile(Vec::new());
        let mut other = base.clone();
        change(&mut other);
        Comparison::new(vec![Side::own("old.json", &base), Side::own("new.json", &other)], Some("p50"))
            .expect("compared")
    }

    #[test]
    fn the_same_run_twice_is_the_same_within_noise() {
        let comparison = own(|_| {});
        let same = difference(&comparison, "dsync");
        assert!((same.ratio - 1.0).abs() < 1e-12);
        assert_eq!((same.within_noise(), same.same_promise), (Some(true), true));
        assert!(text::text(&comparison, 80, Style::PLAIN).contains('≈'));
    }

    #[test]
    fn a_real_difference_is_outside_the_noise() {
        let comparison = own(|result| {
            let spoilt = measured(result, "dsync");
            let slower: Vec<u64> = spoilt.rounds.iter().map(|round| round.p50_ns * 3).collect();
            spoilt.latencies[0].latency = crate::sample::samples(1000, slower[0]);
            spoilt.rounds.iter_mut().zip(slower).for_each(|(round, p50_ns)| round.p50_ns = p50_ns);
        });
        let slower = difference(&comparison, "dsync");
        assert!(slower.within_noise() == Some(false) && slower.ratio > 2.9, "{slower:?}");
    }

    #[test]
    fn classes_and_settings_that_differ_are_stated() {
        let sides = vec![
            Side::own("volatile.json", &{
                let mut volatile = volatile(Vec::new());
                volatile.environment.cpu_model = Some("one CPU".to_owned());
                volatile
            }),
            Side::own("healthy.json", &{
                let mut healthy = healthy();
                healthy.plan.transaction_bytes = 4096;
                healthy.environment.cpu_model = Some("another CPU".to_owned());
                healthy
            }),
        ];
        let comparison = Comparison::new(sides, None).expect("compared");
        assert!(!difference(&comparison, "direct").same_promise, "durable on one device only");
        let caveats = caveats::caveats(&comparison).join("\n");
        assert!(caveats.contains("transaction: 4 KiB in B, 16 KiB in A"), "{caveats}");
        assert!(caveats.contains("not the same machine: another CPU in B, one CPU in A"), "{caveats}");
        assert!(caveats.contains("outlives: power loss, A outlives: system crash (direct)"), "{caveats}");
    }

    #[test]
    fn commits_of_different_numbers_of_writes_are_not_compared() {
        let mut two = volatile(Vec::new());
        two.plan.writes = 2;
        let one = || Side::own("one.json", &volatile(Vec::new()));
        let refused = Families::new(vec![one(), Side::own("two.json", &two)], None).expect_err("refused");
        assert!(matches!(refused, Incomparable::Writes { .. }));
        assert!(refused.to_string().contains("1 in one.json, 2 in two.json"), "{refused}");
        let sides = vec![one(), Side::own("two.json", &two), one()];
        let left_out = Families::new(sides, None).expect("two of one write").left_out();
        assert_eq!(left_out, ["not compared: two.json (no other has 2 writes a commit)"]);
    }

    #[test]
    fn an_own_run_stands_beside_a_published_table() {
        let sides =
            vec![Side::own("mine.json", &volatile(Vec::new())), Side::published(WINDOWS).expect("it ships")];
        let comparison = Comparison::new(sides, None).expect("compared");
        assert_eq!(difference(&comparison, "dsync").interval, None);
        assert!(text::text(&comparison, 80, Style::PLAIN).contains("only in A: buffered+fdatasync"));
    }
}
