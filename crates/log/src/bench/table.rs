//! How is the result told?
//!
//! Two tables of at most 80 columns: what was reached, and how long single commits took.

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

fn goal(row: &Row) -> String {
    let goal = match row.goal {
        Goal::Ratio(least) => format!("{least:.2}"),
        Goal::Rate(least, _) => count(least),
        Goal::P999Ns(most) => format!("{} us", most / 1000),
    };
    let met = if row.is_reached() { "met" } else { "missed" };
    format!("{goal:>7} {met}")
}

/// The rows as text, at most 80 columns wide.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut text =
        String::from("                                     floor/s    log/s  ratio   fresh  goal\n");
    // Writing to a string cannot fail.
    for row in rows {
        let _ = writeln!(
            text,
            "{:4}{:31}{:>9}{:>9}{:>7}{:>8} {}",
            row.name,
            row.what,
            count(row.floor()),
            count(row.log()),
            ratio(row.ratio()),
            ratio(row.fresh_ratio()),
            goal(row),
        );
    }
    text.push_str(
        "\nfloor: a plain loop of durable writes of one unchanged buffer; ratio: log/floor.\nfresh: the log against the \
         same loop with new bytes in each write.\nW6 is held beside a plain copy into memory, W7 beside a plain read.\n\n        \
         floor us                    log us                      CPU s per records\n         \
         p50      p99     p99.9    p50      p99     p99.9    million a batch\n",
    );
    for row in rows.iter().filter(|row| row.latency(|summary| summary.count).1 > 0.0) {
        let (floor_p50, p50) = row.latency(|summary| summary.p50);
        let (floor_p99, p99) = row.latency(|summary| summary.p99);
        let (floor_p999, p999) = row.latency(|summary| summary.p999);
        let _ = writeln!(
            text,
            "{:4}{:>8} {:>8} {:>9} {:>6} {:>8} {:>9} {:>10} {:>7}",
            row.name,
            microseconds(floor_p50),
            microseconds(floor_p99),
            microseconds(floor_p999),
            microseconds(p50),
            microseconds(p99),
            microseconds(p999),
            row.cpu().map_or_else(|| "n/a".to_owned(), |cpu| format!("{cpu:.2}")),
            if row.records_per_batch() > 0.0 {
                format!("{:.1}", row.records_per_batch())
            } else {
                "-".to_owned()
            },
        );
    }
    text
}
