//! Renders a comparison of results as HTML: a conclusion, intervals as pictures, one table per figure, and overlaid curves.
//!
//! Invariants: differences are those of [`crate::compare`]; a difference between rows of different promises is marked
//! in words.

use super::escape::{Id, Text, Words};
use super::{Caption, Named, Page, charts, facts as fact_list, picture, scroll, table};
use crate::compare::side::{self, Side};
use crate::compare::text::Group;
use crate::compare::{Comparison, Difference, caveats, conclusion, kin, text};
use crate::latency::Latency;
use crate::lookup;
use crate::report::figure::intervals::{Interval, Judgement, scene};
use crate::result::RunResult;
use crate::study::Unit;

/// The figures of a commit run that are compared, as far as all sides have them; the first one that they share in any case.
const MEASURES: [&str; 4] = ["cost", "p50", "p99", "max"];

/// The number of figures beyond the first, for sides without a study of their own.
const OTHERS_MAX: usize = 5;

pub(super) fn section(
    page: &mut Page,
    first: &Comparison,
    results: &[Named<'_>],
    contents: &mut Vec<(String, String)>,
) {
    let id = page.id("comparison");
    let heading = format!("Comparison: {}", first.scenario());
    page.add(&format!("<h2 id=\"{id}\">{}</h2>\n", Text(&heading)));
    contents.push((id, heading));
    introduce(page, &first.sides);
    for words in conclusion::conclusions(first) {
        page.add(&format!("<div class=\"advice\"><p><strong>{}</strong></p></div>\n", Text(&words)));
    }
    (1..first.sides.len()).for_each(|side| intervals(page, first, side));
    let compared: Vec<(usize, &Named<'_>)> = first
        .sides
        .iter()
        .enumerate()
        .filter(|(_, side)| !side.published)
        .filter_map(|(index, side)| Some((index, results.iter().find(|named| named.name == side.name)?)))
        .collect();
    let others = first.others.iter().filter(|measure| is_compared(first, &compared, &measure.id));
    let others = others.filter_map(|measure| Comparison::new(first.sides.clone(), Some(&measure.id)).ok());
    for comparison in std::iter::once(first.clone()).chain(others) {
        differences(page, &comparison);
    }
    notes(page, first);
    overlays(page, &compared);
}

/// The differences of one side as a picture.
fn intervals(page: &mut Page, comparison: &Comparison, side: usize) {
    let interval = |line: &crate::compare::Line| {
        let (group, cell) = (Group::of(line, side)?, line.cells[side].as_ref()?);
        let difference = cell.difference?;
        let is = match judged(comparison, &difference) {
            "faster" => Judgement::Better,
            "slower" => Judgement::Worse,
            _ => Judgement::Neither,
        };
        Some((
            group,
            Interval {
                name: text::name(line).to_owned(),
                group: group.heading().map_or(String::new(), |(_, words)| words),
                ratio: difference.ratio,
                ends: difference.interval.map(|interval| [interval.low, interval.high]),
                words: text::marked(&difference),
                is,
            },
        ))
    };
    let mut rows: Vec<_> = comparison.rows.iter().filter_map(interval).collect();
    if rows.is_empty() {
        return;
    }
    rows.sort_by_key(|(group, _)| *group);
    let rows: Vec<Interval> = rows.into_iter().map(|(_, row)| row).collect();
    let title = format!("{} of {} against A", comparison.measure.title, Comparison::letter(side));
    page.share(|form| scene(&title, &rows, form));
}

/// Whether a difference is `faster` or `slower`, or, where it cannot be judged or is none, `same`.
fn judged(comparison: &Comparison, difference: &Difference) -> &'static str {
    let unit = comparison.measure.unit;
    let is_judged = matches!(unit, Unit::Nanoseconds | Unit::PerSecond) && difference.same_promise;
    let is_none = difference.within_noise() == Some(true) || difference.percent().abs() < 0.05;
    match (difference.ratio < 1.0) == (unit == Unit::Nanoseconds) {
        // What does not promise the same is no better for being faster.
        _ if is_none || !is_judged => "same",
        true => "faster",
        false => "slower",
    }
}

/// Whether that figure has a table of its own: those of [`MEASURES`], and of a study what its narrow table shows.
fn is_compared(first: &Comparison, compared: &[(usize, &Named<'_>)], id: &str) -> bool {
    if MEASURES.contains(&id) {
        return true;
    }
    match compared.first().map(|(_, named)| &named.result.study) {
        Some(study) => study.columns.iter().any(|column| {
            column.key == id && column.essential && column.better != crate::study::Better::Neither
        }),
        None => first.others.iter().take(OTHERS_MAX).any(|measure| measure.id == id),
    }
}

/// A published table that nothing here is compared with.
pub(super) fn lone(page: &mut Page, side: &Side, contents: &mut Vec<(String, String)>) {
    let id = page.id("published");
    page.add(&format!("<h2 id=\"{id}\">{}</h2>\n", Text(&side.name)));
    contents.push((id, side.name.clone()));
    page.out += &fact_list(side.about.iter().map(|(label, words)| (*label, words.as_str())));
    let measures = side.measures();
    let heads: Vec<&str> =
        std::iter::once("Row").chain(measures.iter().map(|measure| measure.title.as_str())).collect();
    let rows = side.rows.iter().map(|row| {
        let cell = |measure: &&crate::compare::measure::Measure| {
            row.figure(&measure.id)
                .map_or("-".to_owned(), |figure| measure.cell(figure.value).trim().to_owned())
        };
        std::iter::once(row.calls.clone()).chain(measures.iter().map(cell)).collect()
    });
    page.out += &table(&side.name, &heads, rows);
    for remark in &side.remarks {
        page.add(&format!("<p class=\"soft\">{}</p>\n", Words(remark)));
    }
}

fn introduce(page: &mut Page, sides: &[Side]) {
    let lines: Vec<(String, String)> = sides
        .iter()
        .enumerate()
        .map(|(index, side)| {
            let about: Vec<&str> = side.about.iter().map(|(_, words)| words.as_str()).collect();
            (format!("{}: {}", Comparison::letter(index), side.name), about.join(" · "))
        })
        .collect();
    page.out += &fact_list(lines.iter().map(|(label, words)| (label.as_str(), words.as_str())));
}

fn differences(page: &mut Page, comparison: &Comparison) {
    let title = &comparison.measure.title;
    page.add(&format!("<h3>By {}</h3>\n", Text(title)));
    page.out += &scroll(title);
    page.add(&format!(
        "<table class=\"versus\" data-measure=\"{}\"><thead><tr><th scope=\"col\">Row</th><th scope=\"col\">A</th>",
        Text(&comparison.measure.id)
    ));
    for side in 1..comparison.sides.len() {
        let letter = Comparison::letter(side);
        page.add(&format!(
            "<th scope=\"col\">{letter}</th><th scope=\"col\">{letter} against A</th><th scope=\"col\">95 %</th>"
        ));
        if text::printed(comparison, side).is_some() {
            page.out += "<th scope=\"col\">from its rounded costs</th><th scope=\"col\">as printed</th>";
        }
    }
    page.out += "</tr></thead>\n<tbody>\n";
    // Rows that one side alone has are named below the table.
    let shared = comparison.rows.iter().filter(|line| line.cells.iter().flatten().count() > 1);
    let group = |line: &crate::compare::Line| (1..line.cells.len()).find_map(|side| Group::of(line, side));
    let mut lines: Vec<_> = shared.map(|line| (group(line), line)).collect();
    lines.sort_by_key(|(group, _)| *group);
    let mut under = None;
    for (group, line) in lines {
        let heading = group.and_then(Group::heading).map(|(_, words)| words);
        if let Some(words) = heading.filter(|_| group != under) {
            let across = 2 + 3 * (comparison.sides.len() - 1);
            page.add(&format!(
                "<tr><th scope=\"rowgroup\" colspan=\"{across}\"><span>{}</span></th></tr>\n",
                Text(&words)
            ));
        }
        under = group;
        row(page, comparison, line);
    }
    page.out += "</tbody></table></div>\n";
}

fn row(page: &mut Page, comparison: &Comparison, line: &crate::compare::Line) {
    page.add(&format!(
        "<tr data-row=\"{}\"><th scope=\"row\">{}{}</th>",
        Text(text::name(line)),
        Id(&text::ids(line).join(" / ")),
        promise(line)
    ));
    for (side, cell) in line.cells.iter().enumerate() {
        let figure = cell.as_ref().and_then(|cell| cell.figure.as_ref());
        let raw = figure.map_or(String::new(), |figure| figure.value.to_string());
        let words = text::shown(comparison, line, side);
        page.add(&format!("<td data-value=\"{raw}\">{}</td>", Text(&words)));
        if side == 0 {
            continue;
        }
        let difference = cell.as_ref().and_then(|cell| cell.difference);
        page.out += &difference.map_or("<td>-</td><td>-</td>".to_owned(), |difference| {
            format!(
                "<td data-percent=\"{}\">{}</td><td>{}</td>",
                difference.percent(),
                chip(comparison, &difference),
                Text(&text::interval(&difference))
            )
        });
        if let Some(printed) = text::printed(comparison, side) {
            for words in text::as_printed(printed, cell.as_ref()) {
                page.add(&format!("<td>{}</td>", Text(if words.is_empty() { "-" } else { &words })));
            }
        }
    }
    page.out += "</tr>\n";
}

fn chip(comparison: &Comparison, difference: &Difference) -> String {
    let (more, less) = comparison.measure.more_and_less();
    let class = judged(comparison, difference);
    let word = if difference.within_noise() == Some(true) {
        "same within noise"
    } else if difference.percent().abs() < 0.05 {
        "same"
    } else if difference.ratio < 1.0 {
        less
    } else {
        more
    };
    format!("{} <span class=\"chip {class}\">{word}</span>", Text(&text::percent(difference.percent())))
}

/// What the sides' rows outlive, as markup: one class, or that they differ.
fn promise(line: &crate::compare::Line) -> String {
    let differs = line.cells.iter().flatten().filter_map(|cell| cell.difference).any(|one| !one.same_promise);
    if differs {
        return "<small class=\"bad\">not the same promise</small>".to_owned();
    }
    let class = line.cells.iter().flatten().find_map(|cell| cell.row.class);
    class.map_or(String::new(), |class| format!("<small>outlives: {}</small>", Text(class.name())))
}

fn notes(page: &mut Page, comparison: &Comparison) {
    page.out += "<p class=\"soft\">Differences are against A, from unrounded values; the interval comes from the rounds of both.</p>\n";
    for words in text::lonely(comparison) {
        page.add(&format!("<p class=\"soft\">{}</p>\n", Words(&words)));
    }
    page.out += "<h3>Caveats</h3>\n<ol class=\"findings\">\n";
    for words in caveats::caveats(comparison) {
        page.add(&format!(
            "<li class=\"caution\"><span class=\"tag\">caution</span><p>{}</p></li>\n",
            Words(&words)
        ));
    }
    for (index, side) in comparison.sides.iter().enumerate().filter(|(_, side)| !side.remarks.is_empty()) {
        let remarks = side
            .remarks
            .iter()
            .map(|remark| format!("<p>{}</p>", Words(remark)))
            .collect::<Vec<_>>()
            .concat();
        page.add(&format!(
            "<li class=\"note\"><span class=\"tag\">note on {}</span>{remarks}</li>\n",
            Comparison::letter(index)
        ));
    }
    page.out += "</ol>\n";
}

/// The distributions of a result by the ids of their rows: of a study each row's main one.
fn distributions(result: &RunResult) -> Vec<(String, &Latency)> {
    let study = &result.study;
    study
        .rows
        .iter()
        .filter_map(|row| {
            let latency = row.measured()?.latencies.iter().find(|named| named.latency.count() > 0)?;
            Some((side::row_id(study, row), &latency.latency))
        })
        .collect()
}

/// The distributions of one row on all sides, one picture a row, of which one is shown at a time.
fn overlays(page: &mut Page, compared: &[(usize, &Named<'_>)]) {
    let Some((_, base)) = compared.first() else { return };
    let system = |result: &RunResult| result.study.ranked.then(|| lookup::system(result));
    let of_all: Vec<_> = compared.iter().map(|(_, named)| distributions(named.result)).collect();
    let mut options = Vec::new();
    let start = page.out.len();
    let mut rows: Vec<(String, Vec<picture::Distribution<'_>>)> = Vec::new();
    for (base_id, _) in &of_all[0] {
        let curve = |(position, (index, named)): (usize, &(usize, &Named<'_>))| {
            let id = kin::kin(base_id, system(base.result), system(named.result))?;
            let (_, latency) = of_all[position].iter().find(|(other, _)| other == id)?;
            Some((format!("{}: {}", Comparison::letter(*index), named.name), *latency, true))
        };
        let curves: Vec<_> = compared.iter().enumerate().filter_map(curve).collect();
        if curves.len() > 1 {
            rows.push((base_id.clone(), curves));
        }
    }
    for (name, curves) in rows {
        let wrapper = page.id("overlay");
        let id = page.id("picture");
        page.add(&format!("<div id=\"{wrapper}\">\n"));
        let table = charts::percentile_table(&curves);
        page.picture(
            picture::percentiles(id, &curves),
            &Caption {
                title: &format!("Latency by percentile: {name}"),
                words: "The same row on every side.",
                table: &table,
            },
        );
        page.out += "</div>\n";
        options.push(format!("<option value=\"{wrapper}\">{}</option>", Text(&name)));
    }
    if !options.is_empty() {
        let choice = format!(
            "<h3>Distributions over each other</h3>\n<p class=\"only-screen\"><label>row <select data-shows>{}</select></label></p>\n",
            options.concat()
        );
        page.out.insert_str(start, &choice);
    }
}
