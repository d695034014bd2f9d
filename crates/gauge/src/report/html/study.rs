//! Renders any scenario's table as HTML from its columns and rows alone.
//!
//! Invariant: a cell is the result of [`Study::value`], or `-` where there is none.

use super::escape::{Text, Words};
use super::picture::{self, Axis, Kind};
use super::{Caption, Page, facts as fact_list, run, scroll, table};
use crate::figures::{count, duration, tight};
use crate::findings;
use crate::report::facts;
use crate::report::study::shown;
use crate::result::{Round, RunResult};
use crate::study::{Better, Column, Series, Study, StudyMeasured, StudyOutcome, StudyRow, Unit, Value};

/// So many pictures of columns against the rows' axis.
const AXIS_PICTURES_MAX: usize = 8;

pub(super) fn section(
    page: &mut Page,
    result: &RunResult,
    study: &Study,
    contents: &mut Vec<(String, String)>,
) {
    let nav = contents.is_empty();
    run::stamp(page, result);
    if !study.reproduces.is_empty() {
        page.add(&format!("<p class=\"soft\">Reproduces: {}</p>\n", Text(&study.reproduces)));
    }
    page.out += &fact_list(study.settings.iter().map(|fact| (fact.title.as_str(), fact.value.as_str())));
    page.heading(contents, nav, "Figures");
    figures(page, study);
    study.notes.iter().for_each(|note| page.add(&format!("<p class=\"soft\">{}</p>\n", Words(note))));
    page.heading(contents, nav, "Findings");
    run::findings_list(page, &findings::study::find(result));
    page.heading(contents, nav, "Pictures");
    against_axis(page, study);
    percentiles(page, study);
    over_time(page, study);
    calls(page, study, contents, nav);
    page.heading(contents, nav, "The machine");
    let environments = study.places.iter().map(|place| (Some(place.label.as_str()), &place.environment));
    let own = study.places.is_empty().then_some((None, &result.environment));
    for (label, environment) in environments.chain(own) {
        if let Some(label) = label {
            page.add(&format!("<h4>{}</h4>\n", Text(label)));
        }
        let place = facts::place(environment, &result.plan.pinned_to);
        page.out += &fact_list(place.iter().map(|(label, words)| (*label, words.as_str())));
    }
    page.out += &fact_list(study.facts.iter().map(|fact| (fact.title.as_str(), fact.value.as_str())));
}

fn figures(page: &mut Page, study: &Study) {
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
    page.out += "</tr></thead>\n<tbody>\n";
    study.rows.iter().for_each(|row| figures_row(page, study, row));
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

fn figures_row(page: &mut Page, study: &Study, row: &StudyRow) {
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
        StudyOutcome::Measured(_) => {
            for column in &study.columns {
                let value = Study::value(row, column);
                let raw = value.map_or(String::new(), |value| value.value.to_string());
                page.add(&format!(
                    "<td data-column=\"{}\" data-value=\"{raw}\">{}</td>",
                    Text(&column.key),
                    Text(&value.map_or("-".to_owned(), |value| shown(value, column.unit)))
                ));
            }
        }
        StudyOutcome::NotAvailable { reason: words } | StudyOutcome::Failed { error: words } => {
            let why = if matches!(row.outcome, StudyOutcome::Failed { .. }) { "failed" } else { "n/a" };
            let across = study.columns.len();
            page.add(&format!("<td class=\"words muted\" colspan=\"{across}\">{why}: {}</td>", Words(words)));
        }
    }
    page.out += "</tr>\n";
}

/// Where rows stand on an axis: the essential columns against it, one curve a group.
fn against_axis(page: &mut Page, study: &Study) {
    let placed: Vec<&StudyRow> =
        study.rows.iter().filter(|row| row.x.is_some() && row.measured().is_some()).collect();
    if placed.len() < 2 {
        return;
    }
    let mut groups: Vec<(String, Option<usize>)> = Vec::new();
    for row in &placed {
        let key = (row.group.clone(), row.place);
        if !groups.contains(&key) {
            groups.push(key);
        }
    }
    let name = |(group, place): &(String, Option<usize>)| {
        let place = place.and_then(|place| study.places.get(place)).map(|place| place.label.as_str());
        let mut parts: Vec<&str> =
            [group.as_str()].into_iter().chain(place).filter(|part| !part.is_empty()).collect();
        // A group may be the place itself.
        parts.dedup();
        parts.join(", ")
    };
    let columns = study.columns.iter().filter(|column| column.better != Better::Neither);
    for column in columns.filter(|column| column.essential).take(AXIS_PICTURES_MAX) {
        let curve = |group: &(String, Option<usize>)| {
            let points = placed.iter().filter(|row| (&row.group, row.place) == (&group.0, group.1));
            let points = points.filter_map(|row| Some((row.x?, Study::value(row, column)?.value)));
            let name = Some(name(group)).filter(|name| !name.is_empty());
            (name.unwrap_or_else(|| column.title.clone()), points.collect::<Vec<_>>())
        };
        let curves: Vec<_> = groups.iter().map(curve).filter(|(_, points)| !points.is_empty()).collect();
        if !curves.is_empty() {
            axis_picture(page, study, column, &curves);
        }
    }
}

/// What the rows' axis is called and its unit: those of the column that holds the very values, if one does.
fn axis(study: &Study) -> (&str, Unit) {
    let holds = |column: &&Column| {
        let placed = study.rows.iter().filter(|row| row.measured().is_some());
        let mut placed = placed.filter(|row| row.x.is_some()).peekable();
        placed.peek().is_some()
            && placed.all(|row| Study::value(row, column).map(|value| value.value) == row.x)
    };
    let column = study.columns.iter().find(holds);
    column.map_or((study.row_title.as_str(), Unit::Count), |column| (column.title.as_str(), column.unit))
}

fn axis_picture(page: &mut Page, study: &Study, column: &Column, curves: &[picture::Curve]) {
    let id = page.id("picture");
    let title = if column.group.is_empty() {
        column.title.clone()
    } else {
        format!("{}: {}", column.group, column.title)
    };
    let xs = || curves.iter().flat_map(|(_, points)| points.iter().map(|(x, _)| *x));
    // Steps by a constant factor (1, 2, 4, 8 writers) read best on a logarithmic axis.
    let spread = xs().fold(0.0, f64::max) / xs().fold(f64::INFINITY, f64::min);
    let log = spread.is_finite() && spread >= 8.0;
    let (x_title, x_unit) = axis(study);
    let mut x = Axis::new(x_title, kind(x_unit), log);
    x.at_points = curves.iter().map(|(_, points)| points.len()).max().unwrap_or(0) <= 10;
    // Little spread has too few marks on a logarithmic axis, and zero has no place there.
    let ys = || curves.iter().flat_map(|(_, points)| points.iter().map(|(_, y)| *y));
    let wide = ys().fold(f64::INFINITY, f64::min) * 10.0 <= ys().fold(0.0, f64::max);
    let positive = ys().all(|y| y > 0.0);
    let y = Axis::new(&title, kind(column.unit), column.unit == Unit::Nanoseconds && wide && positive);
    let rows = curves.iter().flat_map(|(name, points)| {
        points.iter().map(move |(x, value)| {
            let told = |value: f64, unit| shown(Value { value, uncertain: false }, unit);
            vec![name.clone(), told(*x, x_unit), told(*value, column.unit)]
        })
    });
    let table = table(&title, &["", x_title, &title], rows);
    page.picture(
        picture::curves(id, x, y, curves, true),
        &Caption { title: &format!("{title} against {x_title}"), words: "", table: &table },
    );
}

fn kind(unit: Unit) -> Kind {
    match unit {
        Unit::Nanoseconds => Kind::Ns,
        Unit::Bytes => Kind::Bytes,
        Unit::Share => Kind::Share,
        Unit::Count | Unit::PerSecond | Unit::Ratio | Unit::Outlived => Kind::Number,
    }
}

/// One picture a kind of latency, one curve a row.
fn percentiles(page: &mut Page, study: &Study) {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for named in study.measured().flat_map(|(_, measured)| &measured.latencies) {
        if names.iter().all(|(known, _)| *known != named.name) {
            names.push((&named.name, &named.title));
        }
    }
    for (name, title) in names {
        let medians = study.measured().filter_map(|(row, measured)| {
            let latency = measured.latency(name).filter(|latency| latency.count() > 0)?;
            Some((row, latency.p50_ns()))
        });
        let first = shown_at_first(&medians.collect::<Vec<_>>());
        let curves: Vec<_> = study
            .measured()
            .filter_map(|(row, measured)| {
                Some((label(study, row), measured.latency(name)?, first.contains(&row.id.as_str())))
            })
            .filter(|(_, latency, _)| latency.count() > 0)
            .collect();
        if curves.is_empty() {
            continue;
        }
        let few = if first.len() < curves.len() { FEW } else { "" };
        let id = page.id("picture");
        let table = run::percentile_table(&curves);
        let mut picture = picture::percentiles(id, &curves);
        // A row that lacks this latency leaves its look unused, so that the others keep theirs.
        for line in &mut picture.series {
            let row = study.rows.iter().position(|row| label(study, row) == line.name);
            line.look = row.unwrap_or(line.look);
        }
        page.picture(
            picture,
            &Caption {
                title: &format!("Latency by percentile: {title}"),
                words: &format!(
                    "Each step to the right is ten times rarer; each curve ends at its longest sample.{few}"
                ),
                table: &table,
            },
        );
    }
}

/// Up to so many rows are told apart in a picture.
const MANY: usize = 16;
const FEW: &str = " At first the quickest and the slowest of each group are shown.";

/// The ids of rows with their medians to be shown at first: all where they are few, else two of each group.
fn shown_at_first<'a>(medians: &[(&'a StudyRow, u64)]) -> Vec<&'a str> {
    if medians.len() <= MANY {
        return medians.iter().map(|(row, _)| row.id.as_str()).collect();
    }
    let mut groups: Vec<&str> = medians.iter().map(|(row, _)| row.group.as_str()).collect();
    groups.dedup();
    let mut first: Vec<&str> = Vec::new();
    for group in groups {
        let of_it = || medians.iter().filter(|(row, _)| row.group == group);
        let ends = [of_it().min_by_key(|(_, p50_ns)| *p50_ns), of_it().max_by_key(|(_, p50_ns)| *p50_ns)];
        for (row, _) in ends.into_iter().flatten() {
            if !first.contains(&row.id.as_str()) {
                first.push(&row.id);
            }
        }
    }
    first
}

fn label(study: &Study, row: &StudyRow) -> String {
    let place = row.place.and_then(|place| study.places.get(place)).map(|place| place.label.as_str());
    let parts = [group(study, row), Some(row.label.as_str()), place];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What a row's words stand beside: its label, or its group where all rows of that have the same words and their labels are
/// those of other groups too.
fn explained_as<'a>(study: &Study, row: &'a StudyRow) -> &'a str {
    let alike = |other: &StudyRow| other.group != row.group || other.what == row.what;
    group(study, row).filter(|_| study.rows.iter().all(alike)).unwrap_or(&row.label)
}

/// The row's group, where rows of other groups bear the same label.
fn group<'a>(study: &Study, row: &'a StudyRow) -> Option<&'a str> {
    let twin = |other: &StudyRow| other.group != row.group && other.label == row.label;
    (!row.group.is_empty() && study.rows.iter().any(twin)).then_some(row.group.as_str())
}

/// Where a series pauses because its row's turn is over, seconds: in the middle of each pause.
fn pauses(series: &Series, rounds: &[Round]) -> Vec<f64> {
    let ends = |round: &Round| round.start_ns + round.elapsed_ns;
    let pairs = series.points.windows(2).filter_map(|pair| <&[_; 2]>::try_from(pair).ok());
    pairs
        .filter(|[one, next]| rounds.iter().any(|round| one.at_ns < ends(round) && ends(round) < next.at_ns))
        .map(|[one, next]| f64::midpoint(one.at_ns as f64, next.at_ns as f64) / 1e9)
        .collect()
}

/// Series where a row kept them; its blocks where it did not.
fn over_time(page: &mut Page, study: &Study) {
    let (mut series, mut breaks, mut titles) = (Vec::new(), Vec::new(), Vec::new());
    for (row, measured) in study.measured() {
        for one in measured.series.iter().filter(|one| !one.points.is_empty()) {
            let points = one.points.iter().map(|point| (point.at_ns as f64 / 1e9, point.max_ns as f64));
            titles.push(one.title.as_str());
            series.push((label(study, row), points.collect::<Vec<_>>()));
            breaks.push(pauses(one, &measured.rounds));
        }
    }
    if !series.is_empty() {
        // What all lines show is said once.
        let one = titles.iter().all(|title| *title == titles[0]);
        let what = if one { titles[0] } else { "longest in each span" };
        if !one {
            series.iter_mut().zip(&titles).for_each(|((name, _), title)| *name = format!("{name}: {title}"));
        }
        let id = page.id("picture");
        let rows = series.iter().map(|(name, points)| {
            let longest = points.iter().map(|(_, ns)| *ns).fold(0.0, f64::max);
            let at = points.iter().find(|(_, ns)| *ns >= longest).map_or(0.0, |(at, _)| *at);
            vec![name.clone(), count(points.len() as u64), tight(longest), duration(at * 1e9)]
        });
        let table = table("Latency over time", &["", "Spans", "Longest", "At"], rows);
        let x = Axis::new("time since the run began", Kind::Seconds, false);
        page.picture(
            picture::curves(id, x, Axis::new(what, Kind::Ns, true), &series, false)
                .broken(&breaks),
            &Caption {
                title: "Latency over time",
                words: "The longest of each short span, so that no stall is averaged away. A line is broken while other rows have their turn.",
                table: &table,
            },
        );
    }
    let told =
        || study.measured().filter(|(_, measured)| measured.series.is_empty() && measured.rounds.len() > 1);
    let medians = told().map(|(row, measured)| {
        let mut medians_ns: Vec<u64> = measured.rounds.iter().map(|round| round.p50_ns).collect();
        medians_ns.sort_unstable();
        (row, medians_ns[medians_ns.len() / 2])
    });
    let medians: Vec<_> = medians.collect();
    let first = shown_at_first(&medians);
    let rounds: Vec<(String, &[Round], bool)> = told()
        .map(|(row, measured)| {
            (label(study, row), measured.rounds.as_slice(), first.contains(&row.id.as_str()))
        })
        .collect();
    if rounds.is_empty() {
        return;
    }
    let few = if first.len() < rounds.len() { FEW } else { "" };
    let id = page.id("picture");
    let table = table(
        "Rounds",
        &["", "Round", "Begun at", "p50", "p99", "Longest"],
        rounds.iter().flat_map(|(name, rounds, _)| {
            rounds.iter().map(move |round| {
                vec![
                    name.clone(),
                    (round.round + 1).to_string(),
                    duration(round.start_ns as f64),
                    tight(round.p50_ns as f64),
                    tight(round.p99_ns as f64),
                    tight(round.max_ns as f64),
                ]
            })
        }),
    );
    page.picture(
        picture::over_time(id, &rounds),
        &Caption {
            title: "Rounds over time",
            words: &format!(
                "Each point is the median of one block; its whisker goes up to the block's longest.{few}"
            ),
            table: &table,
        },
    );
}

/// Call by call, as `truss -c` would tell it.
fn calls(page: &mut Page, study: &Study, contents: &mut Vec<(String, String)>, nav: bool) {
    let with: Vec<(&StudyRow, &StudyMeasured)> =
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
