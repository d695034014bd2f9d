//! Renders any scenario's self-describing table for the terminal, from its columns and rows alone.
//!
//! ```text
//!   title · facts
//!   table: groups of rows under a heading each; columns that fit, else the table goes on below
//!   calls, where the scenario counts them · iterations, where it lists them
//!   what did not run · how to read it · findings with remedies
//! ```
//!
//! Invariants: no line of the terminal's report is wider than the given width; a figure has the same form everywhere
//! but in CSV, where it is raw; an unknown value is `-` in Markdown and on the terminal, and empty in CSV.

mod paper;

pub use paper::{csv, markdown};

use super::text::{Page, elided, width_of};
use super::{Role, Style, WIDTH_MIN, facts};
use crate::figures::{bytes, count, percent, plural, rate_tight, round_duration, significant, tight};
use crate::findings::{Finding, Severity, study as findings};
use crate::result::RunResult;
use crate::study::{Column, Study, StudyMeasured, StudyOutcome, StudyRow, Unit, Value};

/// Below this width names have half of it, and tables of calls are words.
const WIDTH_NARROW: usize = 60;

/// What a cell shows.
#[must_use]
pub fn cell(row: &StudyRow, column: &Column) -> String {
    Study::value(row, column).map_or_else(|| "-".to_owned(), |value| shown(value, column.unit))
}

/// A value in its unit, as every report tells it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count or a size, never negative"
)]
pub(super) fn shown(value: Value, unit: Unit) -> String {
    let Value { value, uncertain } = value;
    let text = match unit {
        Unit::Nanoseconds => tight(value),
        Unit::Count => count(value.max(0.0).round() as u64),
        Unit::PerSecond => rate_tight(value),
        Unit::Bytes => bytes(value.max(0.0).round() as u64),
        Unit::Share => percent(value),
        Unit::Ratio => significant(value),
        Unit::Outlived => outlived(value).to_owned(),
    };
    if uncertain { format!("~{text}") } else { text }
}

/// A promise in a word.
fn outlived(value: f64) -> &'static str {
    match value {
        0.0 => "no",
        1.0 => "yes",
        _ => "if apart",
    }
}

/// What was done, in one line.
#[must_use]
pub fn title(result: &RunResult, study: &Study) -> String {
    let rounds = if result.complete {
        plural(u64::from(result.plan.rounds), "round", "rounds")
    } else {
        format!("{} of {} rounds", result.order.len(), result.plan.rounds)
    };
    let time = result.plan.time_ns.map_or(String::new(), |ns| format!(" · {} in all", round_duration(ns)));
    {
        let label = result.label.as_ref().map_or(String::new(), |label| format!("{label} · "));
        format!("{label}seawall {} {} · {}{time} · {rounds}", result.seawall, result.scenario, study.title)
    }
}

/// The lines above the table.
fn header(result: &RunResult, study: &Study) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    if !study.reproduces.is_empty() {
        lines.push(("original".to_owned(), study.reproduces.clone()));
    }
    if study.places.is_empty() {
        let place = facts::place(&result.environment, &result.plan.pinned_to);
        lines.extend(place.into_iter().map(|(label, text)| (label.to_owned(), text)));
    }
    for place in &study.places {
        let facts = facts::place(&place.environment, &result.plan.pinned_to);
        let parts: Vec<String> = facts
            .into_iter()
            .filter(|(label, _)| ["files", "device"].contains(label))
            .map(|(_, text)| text)
            .collect();
        lines.push((place.label.clone(), parts.join("; ")));
    }
    if !study.facts.is_empty() {
        let facts: Vec<String> =
            study.facts.iter().map(|fact| format!("{} {}", fact.title, fact.value)).collect();
        lines.push(("settings".to_owned(), facts.join(", ")));
    }
    lines
}

/// The rows of each group, in order of first appearance.
fn groups(study: &Study) -> Vec<(&str, Vec<&StudyRow>)> {
    let mut groups: Vec<(&str, Vec<&StudyRow>)> = Vec::new();
    for row in
        study.rows.iter().filter(|row| row.measured().is_some_and(|measured| !measured.rounds.is_empty()))
    {
        match groups.iter_mut().find(|(name, _)| *name == row.group) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((&row.group, vec![row])),
        }
    }
    groups
}

/// Columns that say something about at least one row.
fn columns(study: &Study, essential_only: bool) -> Vec<&Column> {
    let says = |column: &&Column| study.rows.iter().any(|row| Study::value(row, column).is_some());
    study.columns.iter().filter(|column| column.essential || !essential_only).filter(says).collect()
}

/// The report for a terminal of `width` columns.
#[must_use]
pub fn terminal(result: &RunResult, study: &Study, width: usize, style: Style) -> String {
    let mut page = Page::new(width.max(WIDTH_MIN), style);
    page.say(Role::Heading, "", &title(result, study));
    let lines = header(result, study);
    // A label as long as a path stands above its text.
    let label_max = page.width / 2;
    let widths = lines.iter().map(|(label, _)| width_of(label)).filter(|width| *width < label_max);
    let label_width = widths.max().unwrap_or(0) + 1;
    for (label, text) in lines {
        if width_of(&label) < label_max {
            page.say(Role::Plain, &format!("{label:<label_width$}"), &text);
        } else {
            page.say(Role::Plain, "", &label);
            page.say(Role::Plain, &" ".repeat(label_width), &text);
        }
    }
    grid(&mut page, study);
    calls(&mut page, study);
    iterations(&mut page, study);
    not_run(&mut page, study);
    page.blank();
    for note in &study.notes {
        page.say(Role::Dim, "", note);
    }
    found(&mut page, &findings::find(result));
    page.out
}

/// The table, in as many pieces as the width demands.
fn grid(page: &mut Page, study: &Study) {
    let groups = groups(study);
    if groups.is_empty() {
        return;
    }
    let names = study.rows.iter().map(|row| width_of(&row.label)).chain([width_of(&study.row_title)]).max();
    let share = if page.width < WIDTH_NARROW { 2 } else { 3 };
    let name_width = names.unwrap_or(0).min(page.width / share);
    let room = page.width.saturating_sub(name_width + 1);
    let all = columns(study, false);
    let fits = |columns: &[&Column]| {
        name_width + widths_of(study, columns, room).iter().map(|width| 1 + width).sum::<usize>()
            <= page.width
    };
    let chosen = if fits(&all) { all } else { columns(study, true) };
    let mut pieces: Vec<Vec<&Column>> = vec![Vec::new()];
    for column in chosen {
        let mut longer = pieces.last().cloned().unwrap_or_default();
        longer.push(column);
        match pieces.last_mut() {
            Some(piece) if fits(&longer) || piece.is_empty() => piece.push(column),
            _ => pieces.push(vec![column]),
        }
    }
    for piece in pieces {
        page.blank();
        piece_of(page, study, &groups, &piece, name_width);
    }
    let uncertain = study.rows.iter().any(|row| {
        study.columns.iter().any(|column| Study::value(row, column).is_some_and(|value| value.uncertain))
    });
    if uncertain {
        page.say(Role::Dim, "", "~: fewer than ten samples beyond it; -: unknown, or too few samples");
    }
}

fn column_width(study: &Study, column: &Column) -> usize {
    let cells = study.rows.iter().map(|row| width_of(&cell(row, column)));
    cells.chain([width_of(&column.title)]).max().unwrap_or(0)
}

/// The width of each column, none wider than `room`; the last of a group is widened where the group's heading needs it.
fn widths_of(study: &Study, columns: &[&Column], room: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = columns.iter().map(|column| column_width(study, column).min(room)).collect();
    let mut at = 0;
    while at < columns.len() {
        let same = columns[at..].iter().take_while(|column| column.group == columns[at].group).count();
        let span: usize = widths[at..at + same].iter().map(|width| width + 1).sum::<usize>() - 1;
        widths[at + same - 1] += width_of(&columns[at].group).min(room).saturating_sub(span);
        at += same;
    }
    widths
}

fn piece_of(
    page: &mut Page,
    study: &Study,
    groups: &[(&str, Vec<&StudyRow>)],
    columns: &[&Column],
    name_width: usize,
) {
    let widths = widths_of(study, columns, page.width.saturating_sub(name_width + 1));
    if columns.iter().any(|column| !column.group.is_empty()) {
        let heads = spans(columns, &widths);
        page.line(Role::Dim, &format!("{:name_width$}{heads}", ""));
    }
    let line = |name: &str, cell: &dyn Fn(&Column) -> String| {
        let cells = columns
            .iter()
            .zip(&widths)
            .map(|(column, width)| format!(" {:>width$}", elided(&cell(column), *width)));
        format!("{:<name_width$}{}", elided(name, name_width), cells.collect::<String>())
    };
    page.line(Role::Dim, &line(&study.row_title, &|column| column.title.clone()));
    for (name, rows) in groups {
        if !name.is_empty() {
            page.say(Role::Heading, "", name);
        }
        for row in rows {
            page.line(Role::Plain, &line(&row.label, &|column| cell(row, column)));
        }
    }
}

/// The headings that neighbouring columns share, each over its columns.
fn spans(columns: &[&Column], widths: &[usize]) -> String {
    let mut out = String::new();
    let mut at = 0;
    while at < columns.len() {
        let group = &columns[at].group;
        let same = columns[at..].iter().take_while(|column| column.group == *group).count();
        let span: usize = widths[at..at + same].iter().map(|width| width + 1).sum::<usize>() - 1;
        let text = if group.is_empty() { String::new() } else { elided(group, span) };
        let rule = if group.is_empty() || same == 1 { ' ' } else { '─' };
        let gap = span.saturating_sub(width_of(&text));
        let left: String = std::iter::repeat_n(rule, (gap / 2).saturating_sub(1)).collect();
        let text = if gap >= 2 && same > 1 && !group.is_empty() {
            format!("{left} {text} ")
        } else {
            format!("{text:>span$}")
        };
        let pad: String = std::iter::repeat_n(rule, span.saturating_sub(width_of(&text))).collect();
        out += " ";
        out += &text;
        out += &pad;
        at += same;
    }
    out
}

const CALL_HEADS: [&str; 5] = ["call", "calls", "errors", "seconds", "CPU s"];

/// Row label, and the cells under [`CALL_HEADS`].
fn call_rows(study: &Study) -> Vec<(String, [String; 5])> {
    let seconds = |ns: u64| format!("{:.3}", ns as f64 / 1e9);
    let of = |(row, measured): (&StudyRow, &StudyMeasured)| {
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

fn calls(page: &mut Page, study: &Study) {
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
const ITERATION_HEAD: &str = "mean,min,50,90,99,99.9,99.99,max,count";

/// On a terminal only the last iteration of each row; all are in the Markdown report.
fn iterations(page: &mut Page, study: &Study) {
    let last = |(row, measured): (&StudyRow, &StudyMeasured)| {
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

/// A reason that rows share, whether it was a failure, and the rows.
struct Missing<'a> {
    failed: bool,
    reason: &'a str,
    ids: Vec<&'a str>,
}

/// What did not run, each reason once, in order of first appearance.
fn missing(study: &Study) -> Vec<Missing<'_>> {
    let mut found: Vec<Missing<'_>> = Vec::new();
    for row in &study.rows {
        let (failed, reason) = match &row.outcome {
            StudyOutcome::Measured(_) => continue,
            StudyOutcome::NotAvailable { reason } => (false, reason.as_str()),
            StudyOutcome::Failed { error } => (true, error.as_str()),
        };
        match found.iter_mut().find(|one| one.failed == failed && one.reason == reason) {
            Some(one) => one.ids.push(&row.id),
            None => found.push(Missing { failed, reason, ids: vec![&row.id] }),
        }
    }
    found
}

fn not_run(page: &mut Page, study: &Study) {
    let missing = missing(study);
    if !missing.is_empty() {
        page.blank();
    }
    for Missing { failed, reason, ids } in missing {
        let (role, label) = if failed { (Role::Bad, "failed ") } else { (Role::Dim, "n/a    ") };
        page.say(role, label, &format!("{}: {reason}", ids.join(", ")));
    }
}

fn found(page: &mut Page, findings: &[Finding]) {
    page.blank();
    page.line(Role::Heading, if findings.is_empty() { "findings: none" } else { "findings" });
    for finding in findings {
        let (mark, role) = match finding.severity {
            Severity::Wrong => ("!! ", Role::Bad),
            Severity::Caution => (" ! ", Role::Caution),
            Severity::Note => (" · ", Role::Plain),
        };
        page.say(role, mark, &finding.sentence);
        page.say(Role::Plain, "   → ", &finding.remedy);
    }
}
