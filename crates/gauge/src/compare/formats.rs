//! Exports a comparison as Markdown, CSV and JSON.
//!
//! Invariants: CSV and JSON hold unrounded values; an unknown value is empty or null, never 0.

use super::families::Families;
use super::measure::sign;
use super::text::{as_printed, ids, interval, lonely, marked, name, printed, shown};
use super::{Cell, Comparison, Line, caveats, conclusion, published};
use crate::report::csv::quoted;
use crate::report::markdown::{add, escaped};
use serde_json::{Value, json};

/// The `format` of a comparison in JSON.
pub(crate) const FORMAT: &str = "seawall-comparison";
pub(crate) const VERSION: u32 = 1;

/// The `format` of several comparisons in JSON.
pub(crate) const FORMAT_SEVERAL: &str = "seawall-comparisons";

/// All comparisons as a Markdown document.
pub fn markdown(families: &Families) -> String {
    let documents: Vec<String> = families.comparisons.iter().map(markdown_of).collect();
    let mut out = documents.join("\n");
    for words in families.left_out() {
        add(&mut out, &format!("\n{}.\n", escaped(&words)));
    }
    out
}

fn markdown_of(comparison: &Comparison) -> String {
    let mut out = format!("# {}: {}\n\n", escaped(comparison.scenario()), escaped(&comparison.measure.title));
    for (index, side) in comparison.sides.iter().enumerate() {
        let about: Vec<String> = side.about.iter().map(|(_, words)| escaped(words)).collect();
        add(
            &mut out,
            &format!(
                "- **{}** `{}`: {}\n",
                Comparison::letter(index),
                side.name.replace('`', "'"),
                about.join("; ")
            ),
        );
    }
    out += "\n";
    out += &heads(comparison);
    for line in &comparison.rows {
        out += &markdown_row(comparison, line);
    }
    out += "\nDifferences are against A and from unrounded values; in brackets their 95 % interval, from the rounds of both. \
            `≈`: same within noise; `≠`: not the same promise.\n";
    for words in conclusion::conclusions(comparison) {
        add(&mut out, &format!("\n**{}**\n", escaped(&words)));
    }
    for words in lonely(comparison) {
        add(&mut out, &format!("\n{}.\n", escaped(&words)));
    }
    out += "\n## Caveats\n\n";
    for caveat in caveats::caveats(comparison) {
        add(&mut out, &format!("- {}\n", escaped(&caveat)));
    }
    for (index, side) in comparison.sides.iter().enumerate() {
        for remark in &side.remarks {
            add(&mut out, &format!("- {}: {}\n", Comparison::letter(index), escaped(remark)));
        }
    }
    out
}

fn heads(comparison: &Comparison) -> String {
    let mut heads = vec!["Row".to_owned(), "A".to_owned()];
    for side in 1..comparison.sides.len() {
        let letter = Comparison::letter(side);
        heads.extend([letter.clone(), format!("{letter} against A")]);
        if printed(comparison, side).is_some() {
            heads.extend(["From its rounded costs", "As printed"].map(str::to_owned));
        }
    }
    let rules: Vec<&str> =
        heads.iter().enumerate().map(|(i, _)| if i == 0 { "---" } else { "---:" }).collect();
    format!("| {} |\n| {} |\n", heads.join(" | "), rules.join(" | "))
}

fn markdown_row(comparison: &Comparison, line: &Line) -> String {
    let mut cells = vec![format!("`{}`", ids(line).join("` / `")), shown(comparison, line, 0)];
    for side in 1..comparison.sides.len() {
        let cell = line.cells[side].as_ref();
        cells.push(shown(comparison, line, side));
        cells.push(cell.and_then(|cell| cell.difference).map_or("-".to_owned(), |difference| {
            let mark = if difference.same_promise { "" } else { "≠ " };
            format!("{mark}{} ({})", marked(&difference), interval(&difference))
        }));
        if let Some(printed) = printed(comparison, side) {
            cells.extend(as_printed(printed, cell));
        }
    }
    format!("| {} |\n", cells.join(" | "))
}

/// All comparisons as CSV: one line a row and side.
pub fn csv(families: &Families) -> String {
    let head = "row,side,name,id,measure,unit,value,printed,outlives,percent_against_a,low,high,same_promise,scenario\r\n";
    families.comparisons.iter().fold(head.to_owned(), |out, comparison| out + &csv_lines(comparison))
}

fn csv_lines(comparison: &Comparison) -> String {
    let mut out = String::new();
    for line in &comparison.rows {
        for (side, cell) in line.cells.iter().enumerate() {
            let Some(cell) = cell else { continue };
            let figure = cell.figure.as_ref();
            let difference = cell.difference;
            let bound = |bound: fn(crate::stats::Ratio) -> f64| {
                let interval = difference.and_then(|difference| difference.interval);
                interval.map_or(String::new(), |interval| ((bound(interval) - 1.0) * 100.0).to_string())
            };
            let fields = [
                name(line).to_owned(),
                Comparison::letter(side),
                comparison.sides[side].name.clone(),
                cell.row.id.clone(),
                comparison.measure.id.clone(),
                sign(comparison.measure.unit).to_owned(),
                figure.map_or(String::new(), |figure| figure.value.to_string()),
                figure.and_then(|figure| figure.printed.clone()).unwrap_or_default(),
                cell.row.class.map_or(String::new(), |class| class.name().to_owned()),
                difference.map_or(String::new(), |difference| difference.percent().to_string()),
                bound(|interval| interval.low),
                bound(|interval| interval.high),
                difference.map_or(String::new(), |difference| difference.same_promise.to_string()),
                comparison.sides[side].scenario.clone(),
            ];
            let quoted: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
            out += &(quoted.join(",") + "\r\n");
        }
    }
    out
}

/// One comparison as JSON; several as a list of such.
pub fn json(families: &Families) -> String {
    let mut documents: Vec<Value> = families.comparisons.iter().map(json_of).collect();
    if let ([_], []) = (documents.as_slice(), families.alone.as_slice()) {
        return format!("{:#}\n", documents.remove(0));
    }
    let alone: Vec<Value> = families
        .alone
        .iter()
        .map(|side| json!({ "name": side.name, "scenario": side.scenario, "why": side.why }))
        .collect();
    let document = json!({
        "format": FORMAT_SEVERAL,
        "version": VERSION,
        "comparisons": documents,
        "not_compared": alone,
    });
    format!("{document:#}\n")
}

fn json_of(comparison: &Comparison) -> Value {
    let sides = comparison.sides.iter().enumerate().map(|(index, side)| {
        let about: Vec<Value> =
            side.about.iter().map(|(label, words)| json!({ "label": label, "words": words })).collect();
        json!({
            "side": Comparison::letter(index),
            "name": side.name,
            "published": side.published,
            "scenario": side.scenario,
            "about": about,
            "remarks": side.remarks,
        })
    });
    let rows = comparison.rows.iter().map(|line| {
        let cells = line
            .cells
            .iter()
            .enumerate()
            .filter_map(|(side, cell)| Some(json_cell(comparison, side, cell.as_ref()?)));
        json!({ "row": name(line), "cells": cells.collect::<Vec<_>>() })
    });
    json!({
        "format": FORMAT,
        "version": VERSION,
        "measure": comparison.measure,
        "sides": sides.collect::<Vec<_>>(),
        "rows": rows.collect::<Vec<_>>(),
        "conclusions": conclusion::conclusions(comparison),
        "caveats": caveats::caveats(comparison),
    })
}

fn json_cell(comparison: &Comparison, side: usize, cell: &Cell) -> Value {
    let row = printed(comparison, side)
        .and_then(|printed| printed.rows.iter().find(|row| row.method == cell.row.id));
    json!({
        "side": Comparison::letter(side),
        "id": cell.row.id,
        "outlives": cell.row.class.map(crate::rank::EffectiveClass::name),
        "asks": cell.row.depth,
        "value": cell.figure.as_ref().map(|figure| figure.value),
        "printed": cell.figure.as_ref().and_then(|figure| figure.printed.clone()),
        "rounds": cell.figure.as_ref().map(|figure| figure.rounds.len()),
        "percent_against_a": cell.difference.map(|difference| difference.percent()),
        "percent_low": cell.difference.and_then(|d| d.interval).map(|interval| (interval.low - 1.0) * 100.0),
        "percent_high": cell.difference.and_then(|d| d.interval).map(|interval| (interval.high - 1.0) * 100.0),
        "same_promise": cell.difference.map(|difference| difference.same_promise),
        "within_noise": cell.difference.and_then(|difference| difference.within_noise()),
        "percent_less_of_rounded": row.and_then(published::PrintedRow::percent_of_rounded),
        "percent_less_printed": row.map(|row| row.percent.clone()),
    })
}
