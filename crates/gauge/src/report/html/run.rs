//! Renders a commit run as HTML: verdict, methods by class, charts, findings, settings and machine.
//!
//! Invariants: the figures, ranks and words are those of the terminal's report; the line below which a power cut
//! loses commits is drawn as in the terminal's report; rows carry their unrounded figures as data, for tests and
//! scripts.

use super::escape::{Id, Text, Words};
use super::{Caption, Page, facts as fact_list, picture, scroll, table};
use crate::advise;
use crate::figures::{bytes, count, duration, plural, rate, tight};
use crate::findings;
use crate::lookup;
use crate::ranges;
use crate::rank::{Ranked, Ranking, Standing};
use crate::report::columns::{COLUMNS, Column, Need, percentile};
use crate::report::{facts, table as terminal};
use crate::result::{Outcome, RunResult};
use seawall_sys::method::{Method, Set};
use seawall_sys::methods;

/// So many curves at first; all can be shown.
const SHOWN_AT_FIRST: usize = 7;

/// What the page is about, in a sentence.
pub(super) fn heading(result: &RunResult) -> String {
    if let Some(study) = &result.study {
        let mut letters = study.title.chars();
        return letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect());
    }
    let files = &result.environment.file_system;
    format!(
        "What a durable commit of {} costs on {} ({})",
        bytes(result.plan.transaction_bytes),
        files.source,
        files.kind
    )
}

/// When and where a result was measured, and what its user called it.
pub(super) fn stamp(page: &mut Page, result: &RunResult) {
    /// The last second that has a date of four digits for its year.
    const LAST_S: u64 = 253_402_300_799;
    let environment = &result.environment;
    let mut parts: Vec<String> = result.label.iter().cloned().collect();
    if (1..=LAST_S).contains(&result.started_unix_s) {
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(result.started_unix_s);
        parts.push(format!("measured {}", humantime::format_rfc3339_seconds(at)));
    }
    parts.push(environment.system.clone());
    parts.extend(environment.hypervisor.as_ref().map(|name| format!("virtual machine: {name}")));
    parts.push(plural(environment.cpus as u64, "CPU", "CPUs"));
    page.add(&format!("<p class=\"soft\">{}</p>\n", Text(&parts.join(" · "))));
}

pub(super) fn section(
    page: &mut Page,
    result: &RunResult,
    several: bool,
    contents: &mut Vec<(String, String)>,
) {
    let ranking = Ranking::new(result);
    let nav = !several;
    stamp(page, result);
    page.add(&format!("<p class=\"soft\">{}</p>\n", Text(&facts::title(result))));
    verdict(page, &ranking);
    if !ranking.rows.is_empty() {
        page.heading(contents, nav, "Methods by what a commit outlives");
        methods(page, &ranking);
        page.heading(contents, nav, "Pictures");
        pictures(page, &ranking);
    }
    page.heading(contents, nav, "Findings");
    findings_list(page, &findings::find(&ranking));
    page.heading(contents, nav, "Settings");
    settings(page, &ranking);
    page.heading(contents, nav, "The machine");
    machine(page, &ranking);
    not_run(page, result);
}

fn verdict(page: &mut Page, ranking: &Ranking<'_>) {
    if let Some(headline) = findings::headline(ranking) {
        page.add(&format!(
            "<div class=\"verdict bad\" role=\"note\"><p><strong>{}</strong></p></div>\n",
            Words(&headline)
        ));
    }
    let advice = advise::advise(ranking);
    let class = if advice.method.is_some() { "verdict" } else { "verdict bad" };
    page.add(&format!("<div class=\"{class}\"><p>{}</p></div>\n", Words(&advice.sentence)));
    let Some(best) = ranking.recommended() else { return };
    let latency = &best.measured.latency;
    let wait = best.measured.tail.wait_share().map(|share| format!("{:.0} %", share * 100.0));
    let tiles = [
        ("median commit", duration(best.p50_ns() as f64), best.id().to_owned()),
        (
            "p99",
            latency.percentile(99.0).ns().map_or("-".to_owned(), |ns| duration(ns as f64)),
            "one in a hundred is slower".to_owned(),
        ),
        (
            "longest",
            duration(latency.max_ns() as f64),
            format!("of {}", plural(latency.count(), "commit", "commits")),
        ),
        (
            "commits a second",
            rate(best.measured.commits_per_s()),
            plural(u64::from(ranking.result.plan.threads), "writer", "writers"),
        ),
        ("flushes a commit", best.evidence.flushes(), best.evidence.verdict.to_string()),
        ("CPU wait of slow commits", wait.unwrap_or("-".to_owned()), "share of their time".to_owned()),
    ];
    page.out += "<dl class=\"tiles\">\n";
    for (label, figure, words) in tiles {
        page.add(&format!(
            "<div><dt>{}</dt><dd>{}<small>{}</small></dd></div>\n",
            Text(label),
            Text(&figure),
            Text(&words)
        ));
    }
    page.out += "</dl>\n";
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
    let latency = &row.measured.latency;
    page.add(&format!(
        "<tr{} data-method=\"{}\" data-commits=\"{}\" data-p50-ns=\"{}\" data-max-ns=\"{}\" data-elapsed-ns=\"{}\"><th scope=\"row\" title=\"{}\">{}{}</th>",
        if best { " class=\"best\"" } else { "" },
        Text(row.id()),
        row.measured.commits,
        latency.p50_ns(),
        latency.max_ns(),
        row.measured.elapsed_ns,
        Text(&row.row.calls),
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

fn pictures(page: &mut Page, ranking: &Ranking<'_>) {
    let on = shown_at_first(ranking);
    let is_on = |row: &Ranked<'_>| on.iter().any(|id| id == row.id());
    let curves: Vec<_> =
        ranking.rows.iter().map(|row| (row.id().to_owned(), &row.measured.latency, is_on(row))).collect();
    let id = page.id("picture");
    let looks = looks(ranking);
    page.picture(
        picture::percentiles(id, &curves).looking(&looks),
        &Caption {
            title: "Latency by percentile",
            words: "Each step to the right is ten times rarer. A curve that turns up early has a slow tail; each ends at its longest sample.",
            table: &percentile_table(&curves),
        },
    );
    let rounds: Vec<_> = ranking
        .rows
        .iter()
        .map(|row| (row.id().to_owned(), row.measured.rounds.as_slice(), is_on(row)))
        .collect();
    let id = page.id("picture");
    let table = table(
        "Latency over time",
        &["Method", "Round", "Begun at", "Commits", "p50", "p99", "Longest"],
        ranking.rows.iter().flat_map(|row| {
            row.measured.rounds.iter().map(|round| {
                vec![
                    row.id().to_owned(),
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
        picture::over_time(id, &rounds).looking(&looks),
        &Caption {
            title: "Latency over time",
            words: "Each point is the median of one block; its whisker goes up to the block's longest commit, so that stalls stand out. A rising line is a device that slows down.",
            table: &table,
        },
    );
    split(page, ranking);
}

/// The look of each row: that of its method in every report, different for every published one.
fn looks(ranking: &Ranking<'_>) -> Vec<usize> {
    let mut table: Vec<&Method> = methods::of(lookup::system(ranking.result)).iter().collect();
    table.sort_by_key(|method| method.set != Set::Published);
    let look = |(index, row): (usize, &Ranked<'_>)| {
        let known = table.iter().position(|method| method.id == row.id());
        known.unwrap_or(table.len() + index)
    };
    ranking.rows.iter().enumerate().map(look).collect()
}

/// The table behind latency by percentile.
pub(super) fn percentile_table(curves: &[(String, &crate::latency::Latency, bool)]) -> String {
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

/// All where they are few; else the best of each class, then the published ones.
fn shown_at_first(ranking: &Ranking<'_>) -> Vec<String> {
    let all = || ranking.rows.iter().map(|row| row.id().to_owned());
    if ranking.rows.len() <= SHOWN_AT_FIRST + 1 {
        return all().collect();
    }
    let published = |row: &&Ranked<'_>| {
        lookup::method(ranking.result, row.row).is_some_and(|method| method.set == Set::Published)
    };
    let best = Standing::ALL.into_iter().filter_map(|standing| ranking.of(standing).next());
    let mut ids: Vec<String> = Vec::new();
    for row in best.chain(ranking.rows.iter().filter(published)) {
        if ids.len() < SHOWN_AT_FIRST && !ids.iter().any(|id| id == row.id()) {
            ids.push(row.id().to_owned());
        }
    }
    ids
}

/// A commit's mean time in parts.
struct Parts {
    whole_ns: f64,
    /// Write, sync; `None` where one call does both.
    split: Option<(f64, f64)>,
    wait_ns: f64,
}

/// Waiting for a CPU is known for a commit as a whole, so it is taken off write and sync in proportion.
fn parts(row: &Ranked<'_>) -> Parts {
    let measured = row.measured;
    let whole_ns = measured.latency.mean_ns();
    let wait_ns = measured.wait_share().map_or(0.0, |share| share.clamp(0.0, 1.0) * whole_ns);
    let left = if whole_ns > 0.0 { (whole_ns - wait_ns) / whole_ns } else { 0.0 };
    let split = measured.write.as_ref().zip(measured.sync.as_ref());
    let split = split.map(|(write, sync)| (write.mean_ns() * left, sync.mean_ns() * left));
    Parts { whole_ns, split, wait_ns }
}

fn split(page: &mut Page, ranking: &Ranking<'_>) {
    let most = ranking.rows.iter().map(|row| parts(row).whole_ns).fold(1.0, f64::max);
    page.out += "<figure class=\"split\">\n<figcaption><strong>What a commit spends its time on</strong> <span class=\"soft\">Mean of all commits. \
                 Methods whose write is the commit have one part. Waiting for a CPU is counted for whole commits and taken off \
                 write and sync in proportion.</span></figcaption>\n\
                 <ul class=\"key\"><li><i class=\"p-write\"></i>write</li><li><i class=\"p-sync\"></i>sync</li>\
                 <li><i class=\"p-whole\"></i>write and sync in one call</li><li><i class=\"p-wait\"></i>waiting for a CPU</li></ul>\n\
                 <div class=\"bars\">\n";
    let mut standing = None;
    for row in &ranking.rows {
        if standing != Some(row.standing) {
            standing = Some(row.standing);
            page.add(&format!("<h4>outlives: {}</h4>\n", Text(row.standing.name())));
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
        None if matches!(row.measured.letter, 'K' | 'O') => vec![("p-write", "write", whole_ns - wait_ns)],
        None => vec![("p-whole", "in one call", whole_ns - wait_ns)],
    };
    let pieces: Vec<_> = pieces.into_iter().chain([("p-wait", "CPU wait", wait_ns)]).collect();
    page.add(&format!(
        "<span class=\"name\">{}</span><span class=\"track\" aria-hidden=\"true\">",
        Id(row.id())
    ));
    for (class, _, ns) in &pieces {
        page.add(&format!("<span class=\"{class}\" style=\"width:{:.3}%\"></span>", ns / most * 100.0));
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

pub(super) fn findings_list(page: &mut Page, found: &[findings::Finding]) {
    if found.is_empty() {
        page.out += "<p>None: nothing here says that the figures mean anything else than they seem to.</p>\n";
        return;
    }
    page.out += "<ol class=\"findings\">\n";
    for finding in found {
        let name = finding.severity.name();
        page.add(&format!(
            "<li class=\"{name}\" data-rule=\"{}\"><span class=\"tag\">{name}</span><p>{}</p><p>→ {}</p></li>\n",
            Text(finding.rule),
            Words(&finding.sentence),
            Words(&finding.remedy)
        ));
    }
    page.out += "</ol>\n";
}

fn settings(page: &mut Page, ranking: &Ranking<'_>) {
    let advice = advise::advise(ranking);
    page.add(&format!("<p>{}</p>\n", Words(&advice.sentence)));
    if !advice.settings.is_empty() {
        page.out += "<div class=\"settings\">\n";
    }
    for setting in &advice.settings {
        page.add(&format!(
            "<article><h4>{} <small>{}</small></h4>\n",
            Text(setting.product),
            Text(setting.version)
        ));
        if !setting.lines.is_empty() {
            page.add(&format!("<pre tabindex=\"0\">{}</pre>\n", Text(&setting.lines.join("\n"))));
        }
        let per_s = setting
            .commits_per_s
            .map_or(String::new(), |per_s| format!("At most {} commits/s for one client: ", rate(per_s)));
        page.add(&format!("<p>{}{}.</p>\n", Text(&per_s), Words(setting.why.trim_end_matches('.'))));
        for note in &setting.notes {
            page.add(&format!("<p class=\"soft\">{}</p>\n", Words(note)));
        }
        page.add(&format!("<p class=\"soft\">Source: {}</p>\n</article>\n", Text(setting.source)));
    }
    if !advice.settings.is_empty() {
        page.add(&format!("</div>\n<p class=\"soft\">{}</p>\n", Words(&advice.basis)));
    }
    for words in advice.withheld_words() {
        page.add(&format!("<p class=\"soft\">No setting for {}.</p>\n", Words(&words)));
    }
    let expected = ranges::expected(ranking);
    if !expected.ranges.is_empty() {
        let caveat = expected.caveat.map_or(String::new(), |caveat| format!(" ({caveat})"));
        page.add(&format!(
            "<p class=\"soft\">Expected of such a device, as published for 4–16 KiB: {}{}.</p>\n",
            Text(&expected.words()),
            Text(&caveat)
        ));
    }
}

fn machine(page: &mut Page, ranking: &Ranking<'_>) {
    let facts = facts::facts(ranking);
    page.out += &fact_list(facts.iter().map(|(label, words)| (*label, words.as_str())));
    let environment = &ranking.result.environment;
    let mut rows: Vec<Vec<String>> = Vec::new();
    let pressure = &environment.pressure;
    rows.extend(pressure.load_1m.map(|load| vec!["load over a minute".to_owned(), format!("{load:.2}")]));
    rows.extend(
        pressure
            .waiting_percent_10s
            .map(|share| vec!["time something waited for a CPU".to_owned(), format!("{share:.1} %")]),
    );
    rows.extend(
        pressure
            .stolen_percent
            .map(|share| vec!["time stolen by the hypervisor".to_owned(), format!("{share:.2} %")]),
    );
    rows.push(vec!["reading the clock".to_owned(), duration(environment.clock.read_ns)]);
    rows.extend(environment.writeback.iter().map(|(name, value)| vec![format!("vm.{name}"), value.clone()]));
    page.out += "<details><summary>Load, clock and writeback settings</summary>\n";
    page.out += &table("Load, clock and writeback settings", &["What", "Value"], rows);
    page.out += "</details>\n";
}

fn not_run(page: &mut Page, result: &RunResult) {
    let missing = result.methods.iter().filter_map(|row| match &row.outcome {
        Outcome::NotAvailable { reason } => Some((row.id.as_str(), format!("n/a: {reason}"))),
        Outcome::Failed { error } => Some((row.id.as_str(), format!("failed: {error}"))),
        Outcome::Measured(_) => None,
    });
    let missing: Vec<_> = missing.collect();
    if !missing.is_empty() {
        page.out += "<h3>Not measured</h3>\n";
        page.out += &fact_list(missing.iter().map(|(id, words)| (*id, words.as_str())));
    }
}
