//! Renders a result as Markdown with every column.
//!
//! Invariant: the published experiment's two figures, elapsed time and cost of a write, are computed from
//! unrounded values: rounding first once made 0.008 ms read as 0.03.

use super::calls::{CALL_HEADS, ITERATION_HEAD, call_rows};
use super::facts;
use super::grid::{Grid, Missing, missing};
use crate::advise;
use crate::figures::{capital, count, rate};
use crate::findings;
use crate::judgement::Judgement;
use crate::ranges;
use crate::rank::{EffectiveClass, Ranked, Ranking};
use crate::result::RunResult;
use crate::row::Measured;
use crate::scenario::commit::{PUBLISHED_TRANSACTION_BYTES, PUBLISHED_TRANSACTIONS};
use crate::study::Study;

/// The whole document.
pub fn markdown(result: &RunResult) -> String {
    let ranking = Ranking::new(result);
    let mut out = format!("# {}\n\n", facts::title(result));
    let judgement = Judgement::of(&ranking);
    if let Some(headline) = judgement.headline() {
        add(&mut out, &format!("**{}**\n\n", escaped(headline)));
    }
    for (label, text) in facts::facts(&ranking) {
        add(&mut out, &format!("- {label}: {}\n", escaped(&text)));
    }
    out += &table(&ranking);
    out += &calls_and_iterations(&result.study);
    out += &not_run(&result.study);
    out += &found(&judgement.findings);
    if result.study.ranked {
        out += &advice(&ranking);
        out += &published(&ranking);
    }
    out
}

/// `text` where Markdown would take some of it for markup.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('|', "\\|")
        .replace('<', "&lt;")
        .replace('*', "\\*")
        .replace('_', "\\_")
}

pub(crate) fn add(out: &mut String, text: &str) {
    out.push_str(text);
}

pub(super) fn row(cells: impl IntoIterator<Item = String>) -> String {
    format!("| {} |\n", cells.into_iter().collect::<Vec<_>>().join(" | "))
}

fn table(ranking: &Ranking<'_>) -> String {
    let grid = Grid::new(ranking);
    let mut out = String::new();
    for section in &grid.sections {
        let heading = match section.heading.as_str() {
            "" => "\n".to_owned(),
            words => format!("\n## {}\n\n", escaped(&capital(words))),
        };
        out += &heading;
        let heads = grid.heads.iter().map(|head| head.long.clone());
        out += &row([grid.row_title.to_owned()].into_iter().chain(heads));
        out += &row(["---".to_owned()].into_iter().chain(grid.heads.iter().map(|_| "---:".to_owned())));
        for line in &section.lines {
            out += &row([escaped(&line.row.label)].into_iter().chain(line.cells.iter().cloned()));
        }
    }
    let study = &ranking.result.study;
    if study.ranked && !grid.sections.is_empty() {
        let promise = ranking.best_durable().map(|_| facts::promise(ranking.result));
        let promise = promise.map_or(String::new(), |promise| format!(" Power loss: {promise}."));
        add(
            &mut out,
            &format!(
                "\nOnly methods that outlive a power loss may commit; the others are baselines.{promise} `~`: fewer than ten samples beyond it; `-`: unknown, or too few samples; `≈`: same within noise. Slow commits are those above the method's p99.\n"
            ),
        );
    }
    if !study.notes.is_empty() {
        out += "\n";
    }
    for note in &study.notes {
        add(&mut out, &format!("{}\n", escaped(note)));
    }
    out
}

fn calls_and_iterations(study: &Study) -> String {
    let mut out = String::new();
    let calls = call_rows(study);
    if !calls.is_empty() {
        out += "\n## Calls\n\n";
        out += &row([study.row_title.as_str()].into_iter().chain(CALL_HEADS).map(str::to_owned));
        out += &row(["---"; 2].into_iter().chain(["---:"; 4]).map(str::to_owned));
        for (name, cells) in calls {
            out += &row([escaped(&name)].into_iter().chain(cells));
        }
    }
    for (row, measured) in study.measured().filter(|(_, measured)| !measured.iterations.is_empty()) {
        add(&mut out, &format!("\n## {}: iterations, ns\n\n```\n{ITERATION_HEAD}\n", escaped(&row.id)));
        for iteration in &measured.iterations {
            add(&mut out, &format!("{}\n", iteration.line()));
        }
        out += "```\n";
    }
    out
}

fn not_run(study: &Study) -> String {
    let line =
        |one: Missing<'_>| format!("- `{}`: {}: {}\n", one.ids.join("`, `"), one.word, escaped(one.reason));
    let lines: Vec<String> = missing(study).into_iter().map(line).collect();
    if lines.is_empty() { String::new() } else { format!("\n## Not measured\n\n{}", lines.concat()) }
}

fn found(found: &[findings::Finding]) -> String {
    if found.is_empty() {
        return "\n## Findings\n\nNone.\n".to_owned();
    }
    let line = |finding: &findings::Finding| {
        format!(
            "- **{}** {} → {}\n",
            finding.severity.name(),
            escaped(&finding.sentence),
            escaped(&finding.remedy)
        )
    };
    format!("\n## Findings\n\n{}", found.iter().map(line).collect::<String>())
}

fn advice(ranking: &Ranking<'_>) -> String {
    let advice = advise::advise(ranking);
    let mut out = format!("\n## Verdict\n\n{}\n", escaped(&advice.judgement.verdict));
    for setting in &advice.settings {
        let per_s = setting
            .commits_per_s
            .map_or(String::new(), |per_s| format!(", at most {} commits/s for one client", rate(per_s)));
        add(
            &mut out,
            &format!("\n**{}** ({}){per_s}: {}.", setting.product, setting.version, escaped(&setting.why)),
        );
        for note in &setting.notes {
            add(&mut out, &format!(" {}", escaped(note)));
        }
        add(&mut out, &format!(" Source: {}\n", escaped(setting.source)));
        if !setting.lines.is_empty() {
            add(&mut out, &format!("\n```\n{}\n```\n", setting.lines.join("\n")));
        }
    }
    for words in advice.withheld_words() {
        add(&mut out, &format!("\nNo setting for {}.\n", escaped(&words)));
    }
    if !advice.basis.is_empty() {
        add(&mut out, &format!("\n{}\n", advice.basis));
    }
    if let Some(sentence) = ranges::expected(ranking).sentence() {
        add(&mut out, &format!("\nExpected {sentence}.\n"));
    }
    out
}

pub(crate) fn is_published_experiment(result: &RunResult) -> bool {
    result.plan.transactions == Some(PUBLISHED_TRANSACTIONS)
        && result.plan.transaction_bytes == PUBLISHED_TRANSACTION_BYTES as u64
        && result.plan.writes == 1
}

/// Method, elapsed milliseconds, and milliseconds a write, in table order.
pub(crate) fn published_rows(ranking: &Ranking<'_>) -> Vec<(String, String, String)> {
    let row = |id: &str, measured: &Measured| {
        let elapsed_ms = measured.elapsed_ns as f64 / 1e6;
        let cost_ms = elapsed_ms / measured.commits.max(1) as f64;
        let whole = format!("{elapsed_ms:.0}").parse().map_or_else(|_| format!("{elapsed_ms:.0}"), count);
        (id.to_owned(), whole, format!("{cost_ms:.4}"))
    };
    ranking.result.measured().map(|(method, measured)| row(&method.id, measured)).collect()
}

fn published(ranking: &Ranking<'_>) -> String {
    if ranking.rows.is_empty() {
        return String::new();
    }
    let mut out = "\n## As the published tables show it\n\n".to_owned();
    out += &row(["Method", "Transactions", "Time (ms)", "Write cost (ms)"].map(str::to_owned));
    out += &row(["---", "---:", "---:", "---:"].map(str::to_owned));
    for (id, elapsed, cost) in published_rows(ranking) {
        let commits = ranking.find(&id).map_or(0, |row: &Ranked<'_>| row.measured.commits);
        out += &row([format!("`{id}`"), count(commits), elapsed, cost]);
    }
    let unsafe_ids: Vec<String> = ranking
        .rows
        .iter()
        .filter(|row| row.class > EffectiveClass::PowerLoss)
        .map(|row| format!("`{}`", row.id()))
        .collect();
    if !unsafe_ids.is_empty() {
        add(&mut out, &format!("\nNot safe for a journal: {}.\n", unsafe_ids.join(", ")));
    }
    out
}
