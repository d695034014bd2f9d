//! Draws the pictures of a result: against the rows' axis, by percentile, over time, and what a commit spends its time on.
//!
//! Invariant: each picture has the table of its figures behind it.

use super::escape::{Id, Text};
use super::picture::{self, Axis, AxisUnit, Span};
use super::{Caption, Page, table};
use crate::figures::{count, duration, tight};
use crate::findings;
use crate::latency::Latency;
use crate::lookup::{self, unique};
use crate::rank::{EffectiveClass, Ranked, Ranking};
use crate::report::columns::{percentile, shown};
use crate::row::{Measured, Round, Row, Series};
use crate::study::{Better, Column, Study, Unit, Value};
use seawall_sys::method::{Method, Set};
use seawall_sys::methods;

/// So many pictures of columns against the rows' axis.
const AXIS_PICTURES_MAX: usize = 8;

pub(super) fn charts(page: &mut Page, ranking: &Ranking<'_>) {
    against_axis(page, &ranking.result.study);
    percentiles(page, ranking);
    over_time(page, ranking);
}

/// The rows that ran: ranked, or in the table's order.
fn ran<'a>(ranking: &Ranking<'a>) -> Vec<(&'a Row, &'a Measured)> {
    if ranking.result.study.ranked {
        ranking.rows.iter().map(|ranked| (ranked.row, ranked.measured)).collect()
    } else {
        ranking.result.study.measured().collect()
    }
}

/// Where rows stand on an axis: the essential columns against it, one curve a group.
fn against_axis(page: &mut Page, study: &Study) {
    let placed: Vec<&Row> =
        study.rows.iter().filter(|row| row.x.is_some() && row.measured().is_some()).collect();
    if placed.len() < 2 {
        return;
    }
    let groups = unique(placed.iter().map(|row| (row.group.clone(), row.place)));
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
            let cell = |value: f64, unit| shown(Value { value, uncertain: false }, unit);
            vec![name.clone(), cell(*x, x_unit), cell(*value, column.unit)]
        })
    });
    let table = table(&title, &["", x_title, &title], rows);
    page.picture(
        picture::curves(id, x, y, curves, true),
        &Caption { title: &format!("{title} against {x_title}"), words: "", table: &table },
    );
}

fn kind(unit: Unit) -> AxisUnit {
    match unit {
        Unit::Nanoseconds => AxisUnit::Ns,
        Unit::Bytes => AxisUnit::Bytes,
        Unit::Share => AxisUnit::Share,
        Unit::Count | Unit::PerSecond | Unit::Ratio | Unit::Outlived => AxisUnit::Number,
    }
}

/// One picture a kind of latency, one curve a row.
pub(super) fn percentiles<'a>(page: &mut Page, ranking: &Ranking<'a>) {
    let (study, rows) = (&ranking.result.study, ran(ranking));
    let mut names: Vec<(&str, &str)> = Vec::new();
    for named in rows.iter().flat_map(|(_, measured)| &measured.latencies) {
        if names.iter().all(|(known, _)| *known != named.name) {
            names.push((&named.name, &named.title));
        }
    }
    for (name, title) in names {
        let samples = |measured: &Measured| measured.latency(name).map_or(0, Latency::count);
        let rows: Vec<_> = rows.iter().copied().filter(|(_, measured)| samples(measured) > 0).collect();
        let median_ns = |measured: &Measured| measured.latency(name).map_or(0, Latency::p50_ns);
        let first = shown_at_first(ranking, &rows, median_ns);
        let curve = |(row, measured): &(&'a Row, &'a Measured)| {
            Some((label(study, row), measured.latency(name)?, first.contains(&row.id.as_str())))
        };
        let curves: Vec<(String, &Latency, bool)> = rows.iter().filter_map(curve).collect();
        if curves.is_empty() {
            continue;
        }
        let few = if first.len() < curves.len() { few(study) } else { "" };
        let id = page.id("picture");
        let table = percentile_table(&curves);
        let picture = picture::percentiles(id, &curves).looking(&looks(ranking, &rows));
        page.picture(
            picture,
            &Caption {
                title: &format!("Latency by percentile: {title}"),
                words: &format!(
                    "Each step to the right is ten times rarer. A curve that turns up early has a slow tail; each ends at its longest sample.{few}"
                ),
                table: &table,
            },
        );
    }
}

/// The look of each row: that of its method in every report, different for every published one; else that of its place
/// in the table, so that a row has one look in all pictures.
fn looks(ranking: &Ranking<'_>, rows: &[(&Row, &Measured)]) -> Vec<usize> {
    let study = &ranking.result.study;
    let mut table: Vec<&str> = study.rows.iter().map(|row| row.id.as_str()).collect();
    if study.ranked {
        let mut methods: Vec<&Method> = methods::of(lookup::system(ranking.result)).iter().collect();
        methods.sort_by_key(|method| method.set != Set::Published);
        table = methods.iter().map(|method| method.id).collect();
    }
    let known = |id: &str| table.iter().position(|known| *known == id);
    let rows = rows.iter().enumerate();
    rows.map(|(index, (row, _))| known(&row.id).unwrap_or(table.len() + index)).collect()
}

pub(super) fn percentile_table(curves: &[(String, &Latency, bool)]) -> String {
    table(
        "Latency by percentile",
        &["", "Samples", "Shortest", "50 %", "90 %", "99 %", "99.9 %", "99.99 %", "Longest"],
        curves.iter().map(|(name, latency, _)| {
            let at = |percent| percentile(latency, percent);
            vec![
                name.clone(),
                count(latency.count()),
                tight(latency.min_ns() as f64),
                at(50.0),
                at(90.0),
                at(99.0),
                at(99.9),
                at(99.99),
                tight(latency.max_ns() as f64),
            ]
        }),
    )
}

/// So many rows at most are shown at first in a picture.
const MANY: usize = 16;
/// The same for ranked methods, whose names are long.
const METHODS_MANY: usize = 7;

/// Which rows a picture shows at first, where those are not all.
fn few(study: &Study) -> &'static str {
    if study.ranked {
        " At first the best of each class and the published methods are shown."
    } else {
        " At first the quickest and the slowest of each group are shown."
    }
}

/// The ids of rows to be shown at first: all where they are few; else the best of each class and the published methods, or
/// two of each group.
fn shown_at_first<'a>(
    ranking: &Ranking<'a>,
    rows: &[(&'a Row, &'a Measured)],
    median_ns: impl Fn(&Measured) -> u64,
) -> Vec<&'a str> {
    let ranked = ranking.result.study.ranked;
    if rows.len() <= if ranked { METHODS_MANY + 1 } else { MANY } {
        return rows.iter().map(|(row, _)| row.id.as_str()).collect();
    }
    let mut first: Vec<&str> = Vec::new();
    let mut add = |row: &'a Row| {
        if !first.contains(&row.id.as_str()) {
            first.push(&row.id);
        }
    };
    if ranked {
        let is_published = |row: &&Ranked<'_>| lookup::is_published(ranking.result, row.row);
        let best = EffectiveClass::ALL.into_iter().filter_map(|class| ranking.of(class).next());
        best.chain(ranking.rows.iter().filter(is_published)).for_each(|ranked| add(ranked.row));
        first.truncate(METHODS_MANY);
        return first;
    }
    let mut groups: Vec<&str> = rows.iter().map(|(row, _)| row.group.as_str()).collect();
    groups.dedup();
    for group in groups {
        let of_it = || rows.iter().filter(|(row, _)| row.group == group);
        let quickest = of_it().min_by_key(|(_, measured)| median_ns(measured));
        let slowest = of_it().max_by_key(|(_, measured)| median_ns(measured));
        quickest.into_iter().chain(slowest).for_each(|(row, _)| add(row));
    }
    first
}

pub(super) fn label(study: &Study, row: &Row) -> String {
    let place = row.place.and_then(|place| study.places.get(place)).map(|place| place.label.as_str());
    let parts = [group(study, row), Some(row.label.as_str()), place];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The row's group, where rows of other groups bear the same label.
pub(super) fn group<'a>(study: &Study, row: &'a Row) -> Option<&'a str> {
    let twin = |other: &Row| other.group != row.group && other.label == row.label;
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

/// The time in which the best durable method was slower for minutes, if there is one, and words for it.
fn slower(ranking: &Ranking<'_>) -> (Vec<Span>, String) {
    let Some((id, from_ns, to_ns)) = findings::slower_for_minutes(ranking) else {
        return (Vec::new(), String::new());
    };
    let [from, to] = [from_ns, to_ns].map(|ns| ns as f64);
    let words = format!(
        " In the shaded time, from {} to {}, {id} was slower: the findings say how much.",
        duration(from),
        duration(to)
    );
    (vec![Span { from: from / 1e9, to: to / 1e9, words: format!("{id} is slower") }], words)
}

/// Series where a row kept them; its blocks where it did not.
pub(super) fn over_time(page: &mut Page, ranking: &Ranking<'_>) {
    let (study, rows) = (&ranking.result.study, ran(ranking));
    let (mut series, mut breaks, mut titles) = (Vec::new(), Vec::new(), Vec::new());
    let mut with_series = Vec::new();
    for (row, measured) in &rows {
        for one in measured.series.iter().filter(|one| !one.points.is_empty()) {
            let points = one.points.iter().map(|point| (point.at_ns as f64 / 1e9, point.max_ns as f64));
            titles.push(one.title.as_str());
            series.push((label(study, row), points.collect::<Vec<_>>()));
            breaks.push(pauses(one, &measured.rounds));
            with_series.push((*row, *measured));
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
        let x = Axis::new("time since the run began", AxisUnit::Seconds, false);
        let first = shown_at_first(ranking, &with_series, |measured| measured.main().p50_ns());
        let few = if study.ranked && first.len() < series.len() { few(study) } else { "" };
        // Few blocks are as long as two spans: a point may stand alone.
        let mut picture = picture::curves(id, x, Axis::new(what, AxisUnit::Ns, true), &series, study.ranked)
            .broken(&breaks);
        if study.ranked {
            let is_shown: Vec<bool> =
                with_series.iter().map(|(row, _)| first.contains(&row.id.as_str())).collect();
            picture = picture.looking(&looks(ranking, &with_series)).showing(&is_shown);
        }
        let (spans, shaded) = slower(ranking);
        picture = picture.pointing_at(spans);
        page.picture(
            picture,
            &Caption {
                title: "Latency over time",
                words: &format!("The longest of each short span, so that no stall is averaged away. A line is broken while other rows have their turn.{shaded}{few}"),
                table: &table,
            },
        );
    }
    let with_rounds: Vec<_> = rows
        .into_iter()
        .filter(|(_, measured)| measured.series.is_empty() && measured.rounds.len() > 1)
        .collect();
    let first = shown_at_first(ranking, &with_rounds, |measured| {
        let mut medians_ns: Vec<u64> = measured.rounds.iter().map(|round| round.p50_ns).collect();
        medians_ns.sort_unstable();
        medians_ns[medians_ns.len() / 2]
    });
    let rounds: Vec<(String, &[Round], bool)> = with_rounds
        .iter()
        .map(|(row, measured)| {
            (label(study, row), measured.rounds.as_slice(), first.contains(&row.id.as_str()))
        })
        .collect();
    if rounds.is_empty() {
        return;
    }
    let few = if first.len() < rounds.len() { few(study) } else { "" };
    let id = page.id("picture");
    let table = table(
        "Rounds",
        &["", "Round", "Begun at", "Samples", "p50", "p99", "Longest"],
        rounds.iter().flat_map(|(name, rounds, _)| {
            rounds.iter().map(move |round| {
                vec![
                    name.clone(),
                    (round.round + 1).to_string(),
                    duration(round.start_ns as f64),
                    count(round.commits),
                    tight(round.p50_ns as f64),
                    tight(round.p99_ns as f64),
                    tight(round.max_ns as f64),
                ]
            })
        }),
    );
    page.picture(
        picture::over_time(id, &rounds).looking(&looks(ranking, &with_rounds)),
        &Caption {
            title: "Rounds over time",
            words: &format!(
                "Each point is the median of one block; its whisker goes up to the block's longest, so that stalls stand out. A rising line is a device that slows down.{few}"
            ),
            table: &table,
        },
    );
}

struct Parts {
    whole_ns: f64,
    /// Write, sync; `None` where one call does both.
    split: Option<(f64, f64)>,
    wait_ns: f64,
}

/// Waiting for a CPU is known for a commit as a whole, so it is taken off write and sync in proportion.
fn parts(row: &Ranked<'_>) -> Parts {
    let measured = row.measured;
    let whole_ns = measured.main().mean_ns();
    let wait_ns = measured.wait_share().map_or(0.0, |share| share.clamp(0.0, 1.0) * whole_ns);
    let left = if whole_ns > 0.0 { (whole_ns - wait_ns) / whole_ns } else { 0.0 };
    let split = measured.latency("write").zip(measured.latency("sync"));
    let split = split.map(|(write, sync)| (write.mean_ns() * left, sync.mean_ns() * left));
    Parts { whole_ns, split, wait_ns }
}

pub(super) fn split(page: &mut Page, ranking: &Ranking<'_>) {
    let most = ranking.rows.iter().map(|row| parts(row).whole_ns).fold(1.0, f64::max);
    page.out += "<figure class=\"split\">\n<figcaption><strong>What a commit spends its time on</strong> <span class=\"soft\">Mean of all commits. \
                 Methods whose write is the commit have one part. Waiting for a CPU is counted for whole commits and taken off \
                 write and sync in proportion.</span></figcaption>\n\
                 <ul class=\"key\"><li><i class=\"p-write\"></i>write</li><li><i class=\"p-sync\"></i>sync</li>\
                 <li><i class=\"p-whole\"></i>write and sync in one call</li><li><i class=\"p-wait\"></i>waiting for a CPU</li></ul>\n\
                 <div class=\"bars\">\n";
    let mut class = None;
    for row in &ranking.rows {
        if class != Some(row.class) {
            class = Some(row.class);
            page.add(&format!("<h4>outlives: {}</h4>\n", Text(row.class.name())));
        }
        bar(page, row, most);
    }
    page.out += "</div>\n</figure>\n";
}

fn bar(page: &mut Page, row: &Ranked<'_>, most: f64) {
    let Parts { whole_ns, split, wait_ns } = parts(row);
    let pieces: Vec<(&str, &str, f64)> = match split {
        Some((write, sync)) => vec![("p-write", "write", write), ("p-sync", "sync", sync)],
        // Calls that ask for nothing stable are writes and no more.
        None if matches!(row.measured.letter, Some('K' | 'O')) => {
            vec![("p-write", "write", whole_ns - wait_ns)]
        }
        None => vec![("p-whole", "in one call", whole_ns - wait_ns)],
    };
    let pieces: Vec<_> = pieces.into_iter().chain([("p-wait", "CPU wait", wait_ns)]).collect();
    page.add(&format!(
        "<span class=\"name\">{}</span><span class=\"track\" aria-hidden=\"true\">",
        Id(row.id())
    ));
    for (class, _, ns) in &pieces {
        let wide = page.wide(ns / most * 100.0);
        page.add(&format!("<span class=\"{class} {wide}\"></span>"));
    }
    let words: Vec<String> = pieces
        .iter()
        .filter(|(_, _, ns)| *ns >= 0.5)
        .map(|(_, name, ns)| format!("{name} {}", duration(*ns)))
        .collect();
    page.add(&format!(
        "</span><span class=\"words\">{} = {}</span>\n",
        Text(&duration(whole_ns)),
        Text(&words.join(" + "))
    ));
}
