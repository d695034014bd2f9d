//! Renders the rows of a result as HTML tables: the table that all reports show, and what was counted call by call.
//!
//! Invariants: the line below which a power cut loses commits is drawn as in the terminal's report; rows carry their
//! unrounded figures as data, for tests and scripts; an unknown value is `-`.

use super::charts::{group, label};
use super::escape::{Id, Text};
use super::{Page, facts as fact_list, scroll, table};
use crate::evidence::PerCommit;
use crate::figures::{count, tight};
use crate::judgement::Judgement;
use crate::rank::{EffectiveClass, Ranking};
use crate::report::columns::Need;
use crate::report::grid::{Grid, Head, Line, Section};
use crate::row::{Measured, Row};
use crate::study::{Better, Study};

pub(super) fn rows(page: &mut Page, ranking: &Ranking<'_>) {
    let study = &ranking.result.study;
    let grid = Grid::new(ranking);
    // Of methods the essential columns come first; those of a study stay under the heading that they share.
    let mut columns: Vec<usize> = (0..grid.heads.len()).collect();
    if study.ranked {
        columns.sort_by_key(|at| grid.heads[*at].need);
    }
    page.out += &scroll(if study.ranked { "Methods by what a commit outlives" } else { &study.title });
    page.add(&format!("<table class=\"{}\"><thead>", if study.ranked { "methods" } else { "study" }));
    heads(page, &grid, &columns, study.ranked);
    page.out += "</thead>\n";
    let mut drawn = false;
    for section in &grid.sections {
        page.out += "<tbody>\n";
        heading(page, section, columns.len() + 1, &mut drawn);
        for line in &section.lines {
            row(page, ranking, &grid, line, &columns);
        }
        page.out += "</tbody>\n";
    }
    page.out += "</table></div>\n";
    if study.ranked {
        page.out += "<p class=\"soft\">Against best: of its own class, by median, with its 95 % interval; ≈ same within \
                     noise; ~ fewer than ten samples beyond it; - unknown, or too few samples. Slow commits are those above the \
                     method's own p99.</p>\n";
    } else {
        explanations(page, study);
    }
}

fn heads(page: &mut Page, grid: &Grid<'_>, columns: &[usize], is_ranked: bool) {
    let head = |at: &usize| &grid.heads[*at];
    if !is_ranked && columns.iter().any(|at| !head(at).group.is_empty()) {
        page.out += "<tr><td></td>";
        for run in columns.chunk_by(|a, b| head(a).group == head(b).group) {
            let (span, group) = (run.len(), Text(&head(&run[0]).group));
            page.add(&format!("<th scope=\"colgroup\" colspan=\"{span}\">{group}</th>"));
        }
        page.out += "</tr>";
    }
    page.add(&format!("<tr><th scope=\"col\">{}</th>", Text(grid.row_title)));
    for head in columns.iter().map(head) {
        let better = match head.kept.map_or(Better::Neither, |column| column.better) {
            Better::Smaller => " title=\"smaller is better\"",
            Better::Larger => " title=\"larger is better\"",
            Better::Neither => "",
        };
        let words = if is_ranked { &head.long } else { &head.title };
        page.add(&format!("<th scope=\"col\"{}{better}>{}</th>", class(head), Text(words)));
    }
    page.out += "</tr>";
}

/// Words are laid out as such; what paper has no room for stays on the screen.
fn class(head: &Head<'_>) -> &'static str {
    match head.need {
        _ if head.is_words => " class=\"words\"",
        Need::Wide | Need::Full if head.kept.is_none() => " class=\"wide\"",
        _ => "",
    }
}

/// The heading of a section, below the line if it is the first of those that lose commits.
fn heading(page: &mut Page, section: &Section<'_>, across: usize, drawn: &mut bool) {
    if section.class > Some(EffectiveClass::PowerLoss) && !*drawn {
        *drawn = true;
        page.add(&format!(
            "<tr class=\"line\"><th scope=\"rowgroup\" colspan=\"{across}\"><span>below this line a power cut loses acknowledged commits</span></th></tr>\n"
        ));
    }
    let class = match section.class {
        None => "",
        Some(EffectiveClass::PowerLoss) => " class=\"good\"",
        Some(EffectiveClass::NotConfirmed) => " class=\"bad\"",
        Some(EffectiveClass::SystemCrash | EffectiveClass::ProcessCrash) => " class=\"caution\"",
    };
    if !section.heading.is_empty() {
        page.add(&format!(
            "<tr><th scope=\"rowgroup\"{class} colspan=\"{across}\"><span>{}</span></th></tr>\n",
            Text(&section.heading)
        ));
    }
}

fn row(page: &mut Page, ranking: &Ranking<'_>, grid: &Grid<'_>, line: &Line<'_>, columns: &[usize]) {
    let (study, row) = (&ranking.result.study, line.row);
    if let Some(measured) = row.measured().filter(|_| study.ranked) {
        let is_best = Judgement::of(ranking).recommended.as_ref() == Some(&row.id);
        let (best, chip) = if is_best {
            (" class=\"best\"", " <span class=\"chip faster\">recommended</span>")
        } else {
            ("", "")
        };
        let latency = measured.main();
        page.add(&format!(
            "<tr{best} data-method=\"{}\" data-commits=\"{}\" data-p50-ns=\"{}\" data-max-ns=\"{}\" data-elapsed-ns=\"{}\"><th scope=\"row\" title=\"{}\">{}{chip}</th>",
            Text(&row.id),
            measured.commits,
            latency.p50_ns(),
            latency.max_ns(),
            measured.elapsed_ns,
            Text(&row.what),
            Id(&row.id),
        ));
    } else {
        let place = row.place.and_then(|place| study.places.get(place));
        let place = place
            .map_or(String::new(), |place| format!(" <span class=\"muted\">{}</span>", Text(&place.label)));
        let (id, what, label) = (Text(&row.id), Text(&row.what), Text(&row.label));
        page.add(&format!("<tr data-row=\"{id}\"><th scope=\"row\" title=\"{what}\">{label}{place}</th>"));
    }
    for at in columns {
        let head = &grid.heads[*at];
        let (key, raw) = match head.kept {
            Some(column) => {
                let value = Study::value(row, column).map(|value| value.value.to_string());
                (&column.key, format!(" data-value=\"{}\"", value.unwrap_or_default()))
            }
            None => (&head.long, String::new()),
        };
        page.add(&format!(
            "<td data-column=\"{}\"{raw}{}>{}</td>",
            Text(key),
            class(head),
            Text(&line.cells[*at])
        ));
    }
    page.out += "</tr>\n";
}

fn explanations(page: &mut Page, study: &Study) {
    // What a group's name says already, or a row of that name in another group, is not said again.
    let mut explained: Vec<(&str, String)> = Vec::new();
    for row in &study.rows {
        let what = Some(row.what.as_str()).filter(|what| !what.is_empty() && !row.group.starts_with(*what));
        let notes = row.measured().map_or(&[][..], |measured| &measured.notes);
        let words: Vec<&str> = what.into_iter().chain(notes.iter().map(String::as_str)).collect();
        let one = (explained_as(study, row), words.join(" "));
        if !words.is_empty() && !explained.contains(&one) {
            explained.push(one);
        }
    }
    if !explained.is_empty() {
        page.out += &fact_list(explained.iter().map(|(label, words)| (*label, words.as_str())));
    }
}

/// What names a row's words: its label, or its group where all rows of that have the same words and their labels are
/// those of other groups too.
fn explained_as<'a>(study: &Study, row: &'a Row) -> &'a str {
    let alike = |other: &Row| other.group != row.group || other.what == row.what;
    group(study, row).filter(|_| study.rows.iter().all(alike)).unwrap_or(&row.label)
}

/// What the devices counted for each method, against what it claims.
pub(super) fn evidence(page: &mut Page, ranking: &Ranking<'_>) {
    if ranking.rows.iter().all(|row| row.evidence.per_commit.is_none()) {
        page.out += "<p class=\"soft\">This system does not count what a device does: nothing confirms or contradicts the classes.</p>\n";
        return;
    }
    page.out += "<p class=\"soft\">What the device itself counted while a method ran, per commit. What claims to outlive a power cut needs a \
                 flush, unless its write goes through the cache by itself.</p>\n";
    let rows = ranking.rows.iter().map(|row| {
        let each = |figure: fn(&PerCommit) -> f64| {
            row.evidence.per_commit.map_or("-".to_owned(), |each| format!("{:.2}", figure(&each)))
        };
        vec![
            row.id().to_owned(),
            row.class.name().to_owned(),
            row.evidence.flushes(),
            each(|each| each.writes),
            each(PerCommit::kib),
            row.evidence.outcome.to_string(),
        ]
    });
    let heads = ["Method", "Outlives", "Flushes", "Device writes", "KiB", "The device says"];
    page.out += &table("Evidence", &heads, rows);
}

/// Call by call, as `truss -c` prints it.
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
