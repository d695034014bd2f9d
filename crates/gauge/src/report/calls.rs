//! Renders what a scenario counted call by call, and its iterations, for the terminal and for Markdown.

use super::text::{Page, elided, width_of};
use super::{Role, WIDTH_NARROW};
use crate::figures::count;
use crate::row::{Measured, Row};
use crate::study::Study;

pub(super) const CALL_HEADS: [&str; 5] = ["call", "calls", "errors", "seconds", "CPU s"];

/// Row label, and the cells under [`CALL_HEADS`].
pub(super) fn call_rows(study: &Study) -> Vec<(String, [String; 5])> {
    let seconds = |ns: u64| format!("{:.3}", ns as f64 / 1e9);
    let of = |(row, measured): (&Row, &Measured)| {
        let name =
            if row.group.is_empty() { row.label.clone() } else { format!("{} {}", row.group, row.label) };
        let rows: Vec<(String, [String; 5])> = measured
            .calls
            .iter()
            .map(|call| {
                let cpu = call.cpu_ns.map_or_else(|| "-".to_owned(), seconds);
                let cells =
                    [call.call.clone(), count(call.calls), count(call.errors), seconds(call.wall_ns), cpu];
                (name.clone(), cells)
            })
            .collect();
        rows
    };
    study.measured().flat_map(of).collect()
}

pub(super) fn calls(page: &mut Page, study: &Study) {
    let rows = call_rows(study);
    if rows.is_empty() {
        return;
    }
    if page.width < WIDTH_NARROW {
        page.blank();
        for (name, [call, number, errors, seconds, cpu]) in rows {
            let words = format!("{name}: {call}, {number} calls, {errors} errors, {seconds} s, CPU {cpu} s");
            page.say(Role::Plain, "", &words);
        }
        return;
    }
    // Two and seven columns for the call, ten for each of its figures.
    let room = page.width.saturating_sub(2 + 7 + 4 * 10);
    let name_width = rows.iter().map(|(name, _)| width_of(name)).max().unwrap_or(0).min(room);
    page.blank();
    let line = |name: &str, cells: [&str; 5]| {
        let [call, cells @ ..] = cells;
        let [number, errors, seconds, cpu] = cells;
        let name = elided(name, name_width);
        format!("{name:<name_width$}  {call:<7} {number:>9} {errors:>9} {seconds:>9} {cpu:>9}")
    };
    page.line(Role::Dim, &line(&study.row_title, CALL_HEADS));
    let mut last = String::new();
    for (name, cells) in rows {
        let shown = if name == last { "" } else { name.as_str() };
        page.line(Role::Plain, &line(shown, cells.each_ref().map(String::as_str)));
        last = name;
    }
}

/// What the published test printed an iteration.
pub(super) const ITERATION_HEAD: &str = "mean,min,50,90,99,99.9,99.99,max,count";

/// On a terminal only the last iteration of each row; all are in the Markdown report.
pub(super) fn iterations(page: &mut Page, study: &Study) {
    let last = |(row, measured): (&Row, &Measured)| {
        measured.iterations.last().map(|iteration| (row.id.clone(), iteration.line()))
    };
    let lines: Vec<(String, String)> = study.measured().filter_map(last).collect();
    if lines.is_empty() {
        return;
    }
    let name_width = lines.iter().map(|(id, _)| width_of(id)).max().unwrap_or(0) + 2;
    page.blank();
    page.say(Role::Dim, "", &format!("the last iteration of each, ns: {ITERATION_HEAD}"));
    for (id, line) in lines {
        if name_width + width_of(&line) <= page.width {
            page.line(Role::Plain, &format!("{id:<name_width$}{line}"));
        } else {
            // A line to be read by programs is not broken where it can be helped.
            page.say(Role::Plain, "", &id);
            page.say(Role::Plain, "  ", &line);
        }
    }
}
