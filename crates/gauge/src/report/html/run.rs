//! Renders a result as HTML: the picture to share, what it recommends, time, cost, evidence, findings, then all figures.
//!
//! Invariant: the figures, ranks and words are those of the terminal's report.

use super::escape::{Text, Words};
use super::{Page, charts, facts as fact_list, rows, table};
use crate::advise::{self, Advice};
use crate::figures::{capital, duration, plural, rate};
use crate::findings;
use crate::judgement::{Answer, Judgement};
use crate::ranges;
use crate::rank::Ranking;
use crate::report::facts;
use crate::report::figure;
use crate::report::grid::missing;
use crate::result::RunResult;
use seawall_sys::inspect::Environment;

/// What the page is about, in a sentence.
pub(super) fn heading(result: &RunResult) -> String {
    if !result.study.ranked {
        return capital(&result.study.title);
    }
    let files = &result.environment.file_system;
    format!(
        "What a durable commit of {} costs on {} ({})",
        result.plan.transaction(),
        files.source,
        files.kind
    )
}

fn stamp(page: &mut Page, result: &RunResult) {
    let cpus = plural(result.environment.cpus as u64, "CPU", "CPUs");
    page.add(&format!("<p class=\"soft\">{} · {}</p>\n", Text(&figure::stamp(result)), Text(&cpus)));
}

pub(super) fn section(
    page: &mut Page,
    result: &RunResult,
    several: bool,
    contents: &mut Vec<(String, String)>,
) {
    let ranking = Ranking::new(result);
    let study = &result.study;
    let nav = !several;
    stamp(page, result);
    if result.measured().next().is_none() || !study.ranked {
        page.add(&format!("<p class=\"soft\">{}</p>\n", Text(&facts::title(result))));
    }
    if !study.reproduces.is_empty() {
        page.add(&format!("<p class=\"soft\">Reproduces: {}</p>\n", Text(&study.reproduces)));
    }
    page.out += &fact_list(study.settings.iter().map(|fact| (fact.title.as_str(), fact.value.as_str())));
    let advice = study.ranked.then(|| advise::advise(&ranking));
    let has_figures = result.measured().next().is_some();
    if has_figures {
        page.share(|form| figure::scene(result, form));
    }
    if let Some(advice) = &advice {
        recommendation(page, &ranking, &advice.judgement);
    }
    if has_figures && study.ranked {
        page.heading(contents, nav, "Over time");
        charts::over_time(page, &ranking);
        page.heading(contents, nav, "What a commit spends its time on");
        charts::split(page, &ranking);
        page.heading(contents, nav, "Evidence");
        rows::evidence(page, &ranking);
    }
    page.heading(contents, nav, "Findings");
    findings_list(page, &findings::find(&ranking));
    if has_figures {
        let words = if study.ranked { "Methods by what a commit outlives" } else { "Figures" };
        page.heading(contents, nav, words);
        rows::rows(page, &ranking);
        study.notes.iter().for_each(|note| page.add(&format!("<p class=\"soft\">{}</p>\n", Words(note))));
        page.heading(contents, nav, if study.ranked { "Distributions" } else { "Pictures" });
        if study.ranked {
            charts::percentiles(page, &ranking);
        } else {
            charts::charts(page, &ranking);
        }
        rows::calls(page, study, contents, nav);
    }
    if let Some(advice) = &advice {
        page.heading(contents, nav, "Settings");
        settings(page, &ranking, advice);
    }
    page.heading(contents, nav, "The machine");
    machine(page, &ranking);
    not_run(page, result);
}

fn recommendation(page: &mut Page, ranking: &Ranking<'_>, judgement: &Judgement) {
    let class = match judgement.answer {
        Answer::Costs => "advice",
        Answer::Capped | Answer::AtMost => "advice caution",
        _ => "advice bad",
    };
    page.add(&format!("<div class=\"{class}\" role=\"note\"><p>{}</p></div>\n", Words(&judgement.verdict)));
    if let Some(caution) = &judgement.caution {
        page.add(&format!("<div class=\"advice caution\" role=\"note\"><p>{}</p></div>\n", Words(caution)));
    }
    let Some(best) = ranking.recommended().filter(|_| judgement.recommended.is_some()) else { return };
    let latency = best.measured.main();
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
        ("flushes a commit", best.evidence.flushes(), best.evidence.outcome.to_string()),
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

fn findings_list(page: &mut Page, found: &[findings::Finding]) {
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

fn settings(page: &mut Page, ranking: &Ranking<'_>, advice: &Advice) {
    page.add(&format!("<p>{}</p>\n", Words(&advice.judgement.verdict)));
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
    if let Some(sentence) = ranges::expected(ranking).sentence() {
        page.add(&format!("<p class=\"soft\">Expected {}.</p>\n", Text(&sentence)));
    }
}

fn machine(page: &mut Page, ranking: &Ranking<'_>) {
    let result = ranking.result;
    let facts = facts::facts(ranking);
    let places = &result.study.places;
    // A place's line of the terminal stands in full below its own heading here.
    let facts = facts
        .iter()
        .filter(|(label, _)| label != "original" && places.iter().all(|place| place.label != *label));
    page.out += &fact_list(facts.map(|(label, words)| (label.as_str(), words.as_str())));
    let own = places.is_empty().then_some(("", &result.environment));
    for (label, environment) in
        places.iter().map(|place| (place.label.as_str(), &place.environment)).chain(own)
    {
        if !label.is_empty() {
            page.add(&format!("<h4>{}</h4>\n", Text(label)));
            let known = facts::place(environment, &result.plan.pinned_to);
            page.out += &fact_list(known.iter().map(|(label, words)| (*label, words.as_str())));
        }
        details(page, label, environment);
    }
}

/// What is known of a machine beyond its description.
fn details(page: &mut Page, label: &str, environment: &Environment) {
    let pressure = &environment.pressure;
    let known = [
        ("load over a minute", pressure.load_1m.map(|load| format!("{load:.2}"))),
        (
            "time something waited for a CPU",
            pressure.waiting_percent_10s.map(|share| format!("{share:.1} %")),
        ),
        ("time stolen by the hypervisor", pressure.stolen_percent.map(|share| format!("{share:.2} %"))),
        ("reading the clock", Some(duration(environment.clock.read_ns))),
    ];
    let known = known.into_iter().filter_map(|(what, value)| Some(vec![what.to_owned(), value?]));
    let writeback =
        environment.writeback.iter().map(|(name, value)| vec![format!("vm.{name}"), value.clone()]);
    let words = ["Load, clock and writeback settings", label].join(" ");
    let words = words.trim_end();
    page.add(&format!("<details><summary>{}</summary>\n", Text(words)));
    page.out += &table(words, &["What", "Value"], known.chain(writeback));
    page.out += "</details>\n";
}

fn not_run(page: &mut Page, result: &RunResult) {
    let missing: Vec<(String, String)> = missing(&result.study)
        .into_iter()
        .map(|one| (one.ids.join(", "), format!("{}: {}", one.word, one.reason)))
        .collect();
    if !missing.is_empty() {
        page.out += "<h3>Not measured</h3>\n";
        page.out += &fact_list(missing.iter().map(|(ids, words)| (ids.as_str(), words.as_str())));
    }
}
