//! Formats the benchmark's result as two tables of at most 80 columns: throughput and commit latency.
//!
//! The first table holds each row's figure, its ratio to the floor and its goal; the second one the latencies of
//! single commits.

use std::fmt::Write;

use super::{Goal, Row};

fn count(of: f64) -> String {
    match of {
        of if of <= 0.0 => "-".to_owned(),
        of if of >= 1e9 => format!("{:.2} G", of / 1e9),
        of if of >= 1e6 => format!("{:.2} M", of / 1e6),
        of => format!("{of:.0}"),
    }
}

fn ratio(of: f64) -> String {
    if of > 0.0 { format!("{of:.2}") } else { "-".to_owned() }
}

fn microseconds(ns: f64) -> String {
    if ns > 0.0 { format!("{:.2}", ns / 1e3) } else { "-".to_owned() }
}

/// The goal that the ratio or the rate stands for, and whether all of the row's are met.
fn goal(row: &Row) -> String {
    let goal = match row.goals.first() {
        Some(Goal::Ratio(least)) => format!("{least:.2}"),
        Some(Goal::Rate(least)) => count(*least),
        Some(Goal::P999Ns(most)) => format!("{} us", most / 1000),
        None => return format!("{:>6}", "-"),
        _ => "-".to_owned(),
    };
    let met = if row.is_reached() { "met" } else { "missed" };
    format!("{goal:>6} {met}")
}

/// What was reached of a goal that was missed.
fn missed(row: &Row, goal: Goal) -> String {
    let (p99, (floor_p999, p999)) =
        (row.latency(|summary| summary.p99).1, row.latency(|summary| summary.p999));
    let name = row.name;
    match goal {
        Goal::Ratio(least) => format!("{name}: {:.3} times the floor instead of {least:.2}", row.ratio()),
        Goal::Rate(least) => format!("{name}: {} a second instead of {}", count(row.log()), count(least)),
        Goal::P99Ns(most) => format!("{name}: p99 of {p99} ns instead of {most}"),
        Goal::P999Ns(most) => format!("{name}: p99.9 of {p999} ns instead of {most}"),
        Goal::P999OfFloor => {
            let (p999, floor_p999) = (microseconds(p999), microseconds(floor_p999));
            format!("{name}: p99.9 of {p999} us, above the floor's {floor_p999}")
        }
        Goal::CpuSPerMillion(most) => {
            let cpu = row.cpu()[1].map_or_else(|| "no figure".to_owned(), |cpu| format!("{cpu:.2}"));
            format!("{name}: CPU seconds a million: {cpu} instead of {most:.2}")
        }
    }
}

/// The rows as text, at most 80 columns wide.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from("                                     floor/s    log/s ratio   bare  goal\n");
    // Writing to a string cannot fail.
    for row in rows {
        let _ = writeln!(
            text,
            "{:4}{:31}{:>9}{:>9}{:>6}{:>7} {}",
            row.name,
            row.what,
            count(row.floor()),
            count(row.log()),
            ratio(row.ratio()),
            ratio(row.bare_ratio()),
            goal(row),
        );
    }
    for row in rows {
        for goal in row.goals.iter().filter(|goal| !row.reaches(**goal)) {
            let _ = writeln!(text, "missed {}", missed(row, *goal));
        }
    }
    text.push_str(concat!(
        "\nfloor: a plain loop of durable writes, each of new bytes; ratio: log/floor.\n",
        "bare:  the log against the same loop with one buffer that never changes.\n",
        "goal:  what this project asks of its log; it is no verdict on the disk.\n",
        "W6 is held beside a plain copy into memory, W7 beside a plain read.\n\n",
        "       floor us                 log us                    CPU s/million  records\n",
        "       p50      p99    p99.9     p50      p99    p99.9  floor    log  a batch\n",
    ));
    let waits = rows.iter().filter_map(|row| {
        let [floor, log] = row.cpu_wait();
        floor.zip(log).map(|(floor, log)| (row.name, floor * 100.0, log * 100.0))
    });
    let waits: Vec<String> = waits.map(|(name, floor, log)| format!("{name} {floor:.1}/{log:.1}")).collect();
    for row in rows.iter().filter(|row| row.latency(|summary| summary.count).1 > 0.0) {
        let (floor_p50, p50) = row.latency(|summary| summary.p50);
        let (floor_p99, p99) = row.latency(|summary| summary.p99);
        let (floor_p999, p999) = row.latency(|summary| summary.p999);
        let cpu = row.cpu().map(|cpu| cpu.map_or_else(|| "n/a".to_owned(), |cpu| format!("{cpu:.2}")));
        let _ = writeln!(
            text,
            "{:4}{:>7}{:>9}{:>9}{:>8}{:>9}{:>9}{:>7}{:>7}{:>9}",
            row.name,
            microseconds(floor_p50),
            microseconds(floor_p99),
            microseconds(floor_p999),
            microseconds(p50),
            microseconds(p99),
            microseconds(p999),
            cpu[0],
            cpu[1],
            if row.records_per_batch() > 0.0 {
                format!("{:.1}", row.records_per_batch())
            } else {
                "-".to_owned()
            },
        );
    }
    let fills = rows.iter().filter(|row| row.segments_filled() > 0.0);
    let fills: Vec<String> = fills.map(|row| format!("{} {:.0}", row.name, row.segments_filled())).collect();
    list(&mut text, "Segments that a round filled with zeros beside its commits", (&fills, 8));
    list(&mut text, "Time in which one thread of floor/log waited for a processor, per cent", (&waits, 5));
    text
}

/// Adds a list below a heading, so many in a line; nothing if it is empty.
fn list(text: &mut String, heading: &str, (entries, per_line): (&[String], usize)) {
    if entries.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{heading}:");
    for line in entries.chunks(per_line) {
        let _ = writeln!(text, "{}", line.join("  "));
    }
}

#[cfg(test)]
mod tests {
    use super::table;
    use crate::bench::{Goal, Round, Row};
    use crate::commit::stats::Summary;

    const ALL: &[Goal] = &[
        Goal::Ratio(0.95),
        Goal::Rate(1000.0),
        Goal::P99Ns(200),
        Goal::P999Ns(2000),
        Goal::P999OfFloor,
        Goal::CpuSPerMillion(9.0),
    ];

    fn row(round: Round) -> Row {
        let what = "1 thread, 64 outstanding, 1 KiB";
        Row { name: "W4a", what, unit: "commits/s", goals: ALL, rounds: vec![round; 3] }
    }

    #[test]
    fn every_goal_that_is_missed_is_named_and_no_other() {
        let good = Round {
            floor: 1000.0,
            bare: 1100.0,
            log: 1000.0,
            floor_ns: Summary { count: 9, p50: 1, p99: 100, p999: 2000, max: 9 },
            log_ns: Summary { count: 9, p50: 1, p99: 200, p999: 2000, max: 9 },
            floor_cpu_s_per_million: Some(9.5),
            cpu_s_per_million: Some(9.0),
            floor_cpu_wait: Some(0.001),
            cpu_wait: Some(0.25),
            records_per_batch: 1.0,
            segments_filled: 0,
        };
        let slow = |p99, p999| Summary { p99, p999, ..good.log_ns };
        for (round, named) in [
            (good, &[][..]),
            (Round { floor: 1053.0, ..good }, &["W4a: 0.950 times the floor instead of 0.95"]),
            (Round { floor: 900.0, log: 999.0, ..good }, &["W4a: 999 a second instead of 1000"]),
            (Round { log_ns: slow(201, 2000), ..good }, &["W4a: p99 of 201 ns instead of 200"]),
            (
                Round { log_ns: slow(200, 2001), ..good },
                &["W4a: p99.9 of 2001 ns instead of 2000", "W4a: p99.9 of 2.00 us, above the floor's 2.00"],
            ),
            (
                Round { cpu_s_per_million: Some(9.01), ..good },
                &["W4a: CPU seconds a million: 9.01 instead of 9.00"],
            ),
            (
                Round { cpu_s_per_million: None, ..good },
                &["W4a: CPU seconds a million: no figure instead of 9.00"],
            ),
        ] {
            let text = table(&[row(round)]);
            let missed: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("missed ")).collect();
            assert_eq!(missed, named, "{text}");
            let verdict = text.lines().nth(1).expect("a row");
            assert_eq!(verdict.ends_with("0.95 met"), named.is_empty(), "{text}");
            assert_eq!(text.lines().last(), Some("W4a 0.1/25.0"), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            assert!(!text.contains("zeros"), "{text}");
        }
    }

    #[test]
    fn a_row_without_a_goal_has_no_verdict_and_what_it_filled_is_printed() {
        let round = Round { floor: 1000.0, log: 900.0, segments_filled: 9, ..Round::default() };
        let text = table(&[Row { goals: &[], ..row(round) }]);
        assert!(text.lines().nth(1).is_some_and(|line| line.ends_with("0.90      -      -")), "{text}");
        assert!(!text.contains("met") && !text.contains("missed"), "{text}");
        assert!(text.ends_with("zeros beside its commits:\nW4a 9\n"), "{text}");
    }
}
