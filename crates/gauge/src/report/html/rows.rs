//! Renders the rows of a result as HTML tables: ranked methods by class, any other rows with the table's own columns, and
//! what was counted call by call.
//!
//! Invariants: the line below which a power cut loses commits is drawn as in the terminal's report; rows carry their
//! unrounded figures as data, for tests and scripts; an unknown value is `-`.

use super::charts::{group, label};
use super::escape::{Id, Text, Words};
use super::{Page, facts as fact_list, scroll, table};
use crate::figures::{count, tight};
use crate::rank::{Ranked, Ranking, Standing};
use crate::report::columns::{COLUMNS, Column, JUDGED, Need, UNKNOWN, shown};
use crate::report::table as terminal;
use crate::row::{Measured, Outcome, Row};
use crate::study::{Better, Study};

/// The main table.
pub(super) fn rows(page: &mut Page, ranking: &Ranking<'_>) {
    if ranking.result.study.ranked { methods(page, ranking) } else { figures(page, ranking) }
}

/// The columns that say something here, the essential first.
fn columns(ranking: &Ranking<'_>) -> Vec<&'static Column> {
    let mut columns: Vec<&Column> =
        COLUMNS.iter().filter(|column| ranking.rows.iter().any(|row| (column.cell)(row) != "-")).collect();
    columns.sort_by_key(|column| column.need);
    columns
}

/// Words are laid out as such; what paper has no room for stays on the screen.
fn class(column: &Column) -> &'static str {
    match (column.title, column.need) {
        ("Evidence", _) => " class=\"words\"",
        (_, Need::Essential) => "",
        _ => " class=\"wide\"",
    }
}

fn methods(page: &mut Page, ranking: &Ranking<'_>) {
    let columns = columns(ranking);
    let across = columns.len() + 1;
    page.out += &scroll("Methods by what a commit outlives");
    page.out += "<table class=\"methods\"><thead><tr><th scope=\"col\">Method</th>";
    for column in &columns {
        let class = class(column);
        page.add(&format!("<th scope=\"col\"{class}>{}</th>", Text(column.title)));
    }
    page.out += "</tr></thead>\n";
    let mut drawn = false;
    for standing in Standing::ALL {
        let rows: Vec<&Ranked<'_>> = ranking.of(standing).collect();
        if rows.is_empty() {
            continue;
        }
        page.out += "<tbody>\n";
        if standing > Standing::PowerLoss && !drawn {
            drawn = true;
            page.add(&format!(
                "<tr class=\"line\"><th scope=\"rowgroup\" colspan=\"{across}\"><span>below this line a power cut loses acknowledged commits</span></th></tr>\n"
            ));
        }
        let class = match standing {
            Standing::PowerLoss => "good",
            Standing::NotConfirmed => "bad",
            Standing::SystemCrash | Standing::ProcessCrash => "caution",
        };
        page.add(&format!(
            "<tr><th scope=\"rowgroup\" class=\"{class}\" colspan=\"{across}\"><span>{}</span></th></tr>\n",
            Text(&terminal::heading(ranking.result, standing, &rows))
        ));
        for row in rows {
            method(page, ranking, row, &columns);
        }
        page.out += "</tbody>\n";
    }
    page.out += "</table></div>\n<p class=\"soft\">Against best: of its own class, by median, with its 95 % interval; ≈ same within \
                 noise; ~ fewer than ten samples beyond it; - unknown, or too few samples. Slow commits are those above the \
                 method's own p99.</p>\n";
}

fn method(page: &mut Page, ranking: &Ranking<'_>, row: &Ranked<'_>, columns: &[&Column]) {
    let best = ranking.recommended().is_some_and(|best| best.id() == row.id());
    let latency = row.measured.main();
    page.add(&format!(
        "<tr{} data-method=\"{}\" data-commits=\"{}\" data-p50-ns=\"{}\" data-max-ns=\"{}\" data-elapsed-ns=\"{}\"><th scope=\"row\" title=\"{}\">{}{}</th>",
        if best { " class=\"best\"" } else { "" },
        Text(row.id()),
        row.measured.commits,
        latency.p50_ns(),
        latency.max_ns(),
        row.measured.elapsed_ns,
        Text(row.calls()),
        Id(row.id()),
        if best { " <span class=\"chip faster\">recommended</span>" } else { "" },
    ));
    for column in columns {
        let class = class(column);
        page.add(&format!(
            "<td{class} data-column=\"{}\">{}</td>",
            Text(column.title),
            Text(&(column.cell)(row))
        ));
    }
    page.out += "</tr>\n";
}

fn figures(page: &mut Page, ranking: &Ranking<'_>) {
    let study = &ranking.result.study;
    let judged: Vec<&Column> = if ranking.rows.is_empty() { Vec::new() } else { JUDGED.iter().collect() };
    page.out += &scroll(&study.title);
    page.out += "<table class=\"study\"><thead>";
    if study.columns.iter().any(|column| !column.group.is_empty()) {
        page.out += "<tr><td></td>";
        let mut rest = study.columns.as_slice();
        while let Some(first) = rest.first() {
            let span = rest.iter().take_while(|column| column.group == first.group).count();
            page.add(&format!("<th scope=\"colgroup\" colspan=\"{span}\">{}</th>", Text(&first.group)));
            rest = &rest[span..];
        }
        if !judged.is_empty() {
            page.add(&format!("<th scope=\"colgroup\" colspan=\"{}\"></th>", judged.len()));
        }
        page.out += "</tr>";
    }
    page.add(&format!("<tr><th scope=\"col\">{}</th>", Text(&study.row_title)));
    for column in &study.columns {
        let better = match column.better {
            Better::Smaller => "smaller is better",
            Better::Larger => "larger is better",
            Better::Neither => "",
        };
        page.add(&format!("<th scope=\"col\" title=\"{better}\">{}</th>", Text(&column.title)));
    }
    for column in &judged {
        page.add(&format!("<th scope=\"col\" class=\"words\">{}</th>", Text(column.title)));
    }
    page.out += "</tr></thead>\n<tbody>\n";
    study.rows.iter().for_each(|row| figures_row(page, ranking, row, &judged));
    page.out += "</tbody></table></div>\n";
    // What a group's name tells already, or a row of that name in another group, is not told again.
    let mut explained: Vec<(&str, String)> = Vec::new();
    for row in &study.rows {
        let what = Some(row.what.as_str()).filter(|what| !what.is_empty() && !row.group.starts_with(*what));
        let notes = row.measured().map_or(&[][..], |measured| &measured.notes);
        let words: Vec<&str> = what.into_iter().chain(notes.iter().map(String::as_str)).collect();
        let told = (explained_as(study, row), words.join(" "));
        if !words.is_empty() && !explained.contains(&told) {
            explained.push(told);
        }
    }
    if !explained.is_empty() {
        page.out += &fact_list(explained.iter().map(|(label, words)| (*label, words.as_str())));
    }
}

fn figures_row(page: &mut Page, ranking: &Ranking<'_>, row: &Row, judged: &[&Column]) {
    let study = &ranking.result.study;
    let place = row.place.and_then(|place| study.places.get(place));
    let place =
        place.map_or(String::new(), |place| format!(" <span class=\"muted\">{}</span>", Text(&place.label)));
    let group = group(study, row)
        .map_or(String::new(), |group| format!(" <span class=\"muted\">{}</span>", Text(group)));
    page.add(&format!(
        "<tr data-row=\"{}\"><th scope=\"row\" title=\"{}\">{}{group}{place}</th>",
        Text(&row.id),
        Text(&row.what),
        Text(&row.label)
    ));
    match &row.outcome {
        Outcome::Measured(_) => {
            for column in &study.columns {
                let value = Study::value(row, column);
                let raw = value.map_or(String::new(), |value| value.value.to_string());
                page.add(&format!(
                    "<td data-column=\"{}\" data-value=\"{raw}\">{}</td>",
                    Text(&column.key),
                    Text(&value.map_or(UNKNOWN.to_owned(), |value| shown(value, column.unit)))
                ));
            }
            let ranked = ranking.rows.iter().find(|ranked| std::ptr::eq(ranked.row, row));
            for column in judged {
                let words = ranked.map_or(UNKNOWN.to_owned(), |ranked| (column.cell)(ranked));
                page.add(&format!("<td class=\"words\">{}</td>", Text(&words)));
            }
        }
        Outcome::NotAvailable { .. } | Outcome::Failed { .. } => {
            let (why, words) = row.outcome.missing().unwrap_or_default();
            let across = study.columns.len() + judged.len();
            page.add(&format!("<td class=\"words muted\" colspan=\"{across}\">{why}: {}</td>", Words(words)));
        }
    }
    page.out += "</tr>\n";
}

/// What a row's words stand beside: its label, or its group where all rows of that have the same words and their labels are
/// those of other groups too.
fn explained_as<'a>(study: &Study, row: &'a Row) -> &'a str {
    let alike = |other: &Row| other.group != row.group || other.what == row.what;
    group(study, row).filter(|_| study.rows.iter().all(alike)).unwrap_or(&row.label)
}

/// Call by call, as `truss -c` would tell it.
pub(super) fn calls(page: &mut Page, study: &Study, contents: &mut Vec<(String, String)>, nav: bool) {
    let with: Vec<(&Row, &Measured)> =
        study.measured().filter(|(_, measured)| !measured.calls.is_empty()).collect();
    if with.is_empty() {
        return;
    }
    page.heading(contents, nav, "Call by call");
    let rows = with.iter().flat_map(|(row, measured)| {
        measured.calls.iter().map(|tally| {
            let each = |ns: u64| tight(ns as f64 / tally.calls.max(1) as f64);
            vec![
                label(study, row),
                tally.call.clone(),
                count(tally.calls),
                count(tally.errors),
                tight(tally.wall_ns as f64),
                each(tally.wall_ns),
                tally.cpu_ns.map_or("-".to_owned(), |ns| tight(ns as f64)),
                tally.cpu_ns.map_or("-".to_owned(), each),
            ]
        })
    });
    page.out += &table(
        "Call by call",
        &[&study.row_title, "Call", "Calls", "Errors", "Time", "Time each", "CPU", "CPU each"],
        rows,
    );
}
