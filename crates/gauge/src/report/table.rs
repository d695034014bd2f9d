//! Renders the terminal report, from the headline down to the recommended settings.
//!
//! ```text
//!   title · headline · facts
//!   table:   power loss, best first
//!            ──── below this line a power cut loses acknowledged commits ────
//!            not confirmed, system crash, process crash
//!   what did not run · findings with remedies · recommendation and settings · the range to expect
//! ```
//!
//! Invariants: no line is wider than the width; the recommendation is never taken from below the line.

use super::columns::{COLUMNS, Column, Need};
use super::text::{Page, elided, width_of};
use super::{Role, Style, WIDTH_DEFAULT, WIDTH_MIN, WIDTH_WIDE, facts, markdown};
use crate::advise::{self, Advice};
use crate::figures::rate;
use crate::findings::{self, Severity};
use crate::ranges;
use crate::rank::{Ranked, Ranking, Standing};
use crate::result::{Outcome, RunResult};

/// Below this width labels stand above what they label, and tables are words.
const WIDTH_NARROW: usize = 60;

/// The columns that a narrow terminal does without, the first to go first.
const DISPENSABLE: [&str; 5] =
    ["CPU wait of slow commits", "Max", "Against best, 95 % range", "p99.9", "Flushes per commit"];

/// The whole report.
#[must_use]
pub fn report(result: &RunResult, width: usize, style: Style) -> String {
    let ranking = Ranking::new(result);
    let mut page = Page::new(width.max(WIDTH_MIN), style);
    let advice = advise::advise(&ranking);
    header(&mut page, &ranking);
    if !ranking.rows.is_empty() {
        page.blank();
        grid(&mut page, &ranking, advice.method.as_deref());
    }
    not_run(&mut page, result);
    found(&mut page, &ranking);
    recommended(&mut page, &advice);
    expected(&mut page, &ranking);
    settings(&mut page, &advice);
    if markdown::is_published_experiment(result) {
        published(&mut page, &ranking);
    }
    page.out
}

/// What is being written, and into which width.
fn header(page: &mut Page, ranking: &Ranking<'_>) {
    page.say(Role::Heading, "", &facts::title(ranking.result));
    if let Some(headline) = findings::headline(ranking) {
        page.say(Role::Bad, "!! ", &headline);
    }
    // Whose promise it is stands in the table's heading.
    for (label, text) in facts::facts(ranking).into_iter().filter(|(label, _)| *label != "promise") {
        page.say(Role::Plain, &format!("{label:<9}"), &text);
    }
}

/// The table with its headings, the line, and the legend.
fn grid(page: &mut Page, ranking: &Ranking<'_>, recommended: Option<&str>) {
    let layout = Layout::fit(ranking, page.width);
    for line in 0..2 {
        let head = if line == 1 { "method" } else { "" };
        let text = layout.line(head, &mut |column| column.head[line].to_owned());
        page.line(Role::Dim, &text);
    }
    if ranking.best_durable().is_none() {
        page.say(Role::Bad, "", "nothing measured here is shown to outlive POWER LOSS");
    }
    let mut drawn = false;
    for standing in Standing::ALL {
        let rows: Vec<&Ranked<'_>> = ranking.of(standing).collect();
        if rows.is_empty() {
            continue;
        }
        if standing > Standing::PowerLoss && !drawn {
            let words = "── below this line a power cut loses acknowledged commits ";
            if page.width < WIDTH_NARROW {
                page.say(Role::Bad, "── ", "below, a power cut loses acknowledged commits");
            } else {
                page.line(Role::Bad, &format!("{words:─<width$}", width = page.width.min(layout.width())));
            }
            drawn = true;
        }
        page.say(role(standing), "", &heading(ranking.result, standing, &rows));
        for row in rows {
            let role = if recommended == Some(row.id()) { Role::Good } else { Role::Plain };
            page.line(role, &layout.line(row.id(), &mut |column| (column.cell)(row)));
        }
    }
    legend(page, ranking, &layout);
}

fn role(standing: Standing) -> Role {
    match standing {
        Standing::PowerLoss => Role::Heading,
        Standing::NotConfirmed => Role::Bad,
        Standing::SystemCrash | Standing::ProcessCrash => Role::Caution,
    }
}

/// A standing's heading; with the reason why it is not higher, if all its rows share one.
pub(super) fn heading(result: &RunResult, standing: Standing, rows: &[&Ranked<'_>]) -> String {
    let first = rows.first().and_then(|row| row.measured.durability.because.first());
    let shared = first.filter(|first| rows.iter().all(|row| row.measured.durability.because.contains(first)));
    let because = shared.map_or(String::new(), |reason| format!(": {reason}"));
    match standing {
        Standing::PowerLoss => format!("outlives POWER LOSS, {}", facts::condition(result)),
        Standing::NotConfirmed => {
            "claims power loss, NOT CONFIRMED: the device's counters disagree".to_owned()
        }
        Standing::SystemCrash => format!("outlives a SYSTEM CRASH only{because}"),
        Standing::ProcessCrash => format!("outlives a PROCESS CRASH only{because}"),
    }
}

/// What the marks that occur in the table mean.
fn legend(page: &mut Page, ranking: &Ranking<'_>, layout: &Layout) {
    let cells =
        ranking.rows.iter().flat_map(|row| layout.columns.iter().map(|(column, _)| (column.cell)(row)));
    let cells: Vec<String> = cells.collect();
    let shown = |title: &str| layout.columns.iter().any(|(column, _)| column.title == title);
    let mut parts = Vec::new();
    if shown("Flushes per commit") {
        parts.push("flushes: counted by the device, per commit");
    } else if ranking.rows.iter().all(|row| row.evidence.per_commit.is_none()) {
        parts.push("device flushes are not counted on this system");
    }
    if cells.iter().any(|cell| cell.starts_with('~')) {
        parts.push("~: fewer than ten samples beyond it");
    }
    if cells.iter().any(|cell| cell == "-") {
        parts.push("-: unknown, or too few samples");
    }
    if shown("Against best, 95 % range") {
        parts.push("against best: of its class, by p50, the range of 95 %");
    }
    if cells.iter().any(|cell| cell == "noisy") {
        parts.push("noisy: from half to twice and more");
    }
    if cells.iter().any(|cell| cell.starts_with('≈')) {
        parts.push("≈: same within noise");
    }
    if shown("CPU wait of slow commits") {
        parts.push("CPU wait: of the time of commits above p99");
    }
    if page.width < WIDTH_DEFAULT {
        parts.push("more columns on a wider terminal");
    }
    page.say(Role::Dim, "", &parts.join("; "));
}

/// Which columns fit, and how wide each is.
struct Layout {
    columns: Vec<(&'static Column, usize)>,
    name_width: usize,
    gap: usize,
}

impl Layout {
    fn fit(ranking: &Ranking<'_>, width: usize) -> Self {
        let wide = |column: &Column| {
            let cells = ranking.rows.iter().map(|row| width_of(&(column.cell)(row)));
            cells.chain(column.head.map(width_of)).max().unwrap_or(0)
        };
        let names = ranking.rows.iter().map(|row| width_of(row.id())).max().unwrap_or(0).max(6);
        let total = |columns: &[(&Column, usize)], gap: usize| {
            names + columns.iter().map(|(_, width)| width + gap).sum::<usize>()
        };
        let sized = |need: Need| COLUMNS.iter().filter(move |c| c.need <= need).map(|c| (c, wide(c)));
        let mut columns: Vec<(&'static Column, usize)> = sized(Need::Wide).collect();
        // Columns that are not essential go, the last first, until the rest fits.
        while let Some(last) = columns.iter().rposition(|(column, _)| column.need == Need::Wide)
            && (width < WIDTH_WIDE || total(&columns, 1) > width)
        {
            columns.remove(last);
        }
        // Where names are long, a column that knows nothing goes before a name is cut.
        let says_nothing = |column: &Column| ranking.rows.iter().all(|row| (column.cell)(row) == "-");
        while total(&columns, 1) > width
            && let Some(last) = columns.iter().rposition(|(column, _)| says_nothing(column))
        {
            columns.remove(last);
        }
        // A narrow terminal shows names first, then the median, the rate and p99.
        let beside_names = |columns: &[(&Column, usize)]| total(columns, 1) - names + names.min(width / 2);
        let mut dispensable = DISPENSABLE.iter();
        while width < WIDTH_DEFAULT
            && beside_names(&columns) > width
            && let Some(title) = dispensable.next()
        {
            columns.retain(|(column, _)| column.title != *title);
        }
        let gap = if total(&columns, 2) <= width { 2 } else { 1 };
        let over = total(&columns, gap).saturating_sub(width);
        Self { columns, name_width: names.saturating_sub(over), gap }
    }

    fn width(&self) -> usize {
        self.name_width + self.columns.iter().map(|(_, width)| width + self.gap).sum::<usize>()
    }

    fn line(&self, name: &str, cell: &mut dyn FnMut(&Column) -> String) -> String {
        let mut line = format!("{:<width$}", elided(name, self.name_width), width = self.name_width);
        for (column, width) in &self.columns {
            line.extend([" ".repeat(self.gap), format!("{:>width$}", cell(column))]);
        }
        line
    }
}

/// Methods without figures: those of one reason together.
fn not_run(page: &mut Page, result: &RunResult) {
    let mut missing: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut failed = Vec::new();
    for row in &result.methods {
        match &row.outcome {
            Outcome::NotAvailable { reason } => {
                match missing.iter_mut().find(|(known, _)| *known == reason.as_str()) {
                    Some((_, ids)) => ids.push(&row.id),
                    None => missing.push((reason, vec![&row.id])),
                }
            }
            Outcome::Failed { error } => failed.push((&row.id, error)),
            Outcome::Measured(_) => {}
        }
    }
    if !missing.is_empty() || !failed.is_empty() {
        page.blank();
    }
    for (id, error) in failed {
        page.say(Role::Bad, "failed ", &format!("{id}: {error}"));
    }
    for (reason, ids) in missing {
        page.say(Role::Dim, "n/a    ", &format!("{}: {reason}", ids.join(", ")));
    }
}

fn found(page: &mut Page, ranking: &Ranking<'_>) {
    let found = findings::find(ranking);
    page.blank();
    if found.is_empty() {
        page.line(Role::Heading, "findings: none");
        return;
    }
    page.line(Role::Heading, "findings");
    for finding in found {
        let (mark, role) = match finding.severity {
            Severity::Wrong => ("!! ", Role::Bad),
            Severity::Caution => (" ! ", Role::Caution),
            Severity::Note => (" · ", Role::Plain),
        };
        page.say(role, mark, &finding.sentence);
        page.say(Role::Plain, "   → ", &finding.remedy);
    }
}

fn recommended(page: &mut Page, advice: &Advice) {
    page.blank();
    let role = if advice.method.is_some() { Role::Good } else { Role::Bad };
    page.say(role, "recommended  ", &advice.sentence);
}

/// The products whose setting the figures chose, with lines to copy, and the names of the others. The notes are in
/// Markdown only.
fn settings(page: &mut Page, advice: &Advice) {
    if advice.settings.is_empty() {
        return;
    }
    page.blank();
    page.say(Role::Heading, "settings     ", "(rates: one client, by the row of the same calls)");
    for setting in advice.settings.iter().filter(|setting| setting.chosen) {
        let why = match setting.commits_per_s {
            Some(per_s) => format!("{} commits/s at most: {}", rate(per_s), setting.why),
            None => setting.why.clone(),
        };
        let mut label = setting.product;
        if page.width < WIDTH_NARROW {
            page.say(Role::Plain, "", label);
            setting.lines.iter().for_each(|line| page.say(Role::Plain, "  ", line));
            page.say(Role::Dim, "    ", &why);
            continue;
        }
        for line in &setting.lines {
            page.say(Role::Plain, &format!("{label:<13}"), line);
            label = "";
        }
        let lead = if label.is_empty() { " ".repeat(15) } else { format!("{label:<13}") };
        page.say(Role::Dim, &lead, &why);
    }
    let others: Vec<&str> =
        advice.settings.iter().filter(|setting| !setting.chosen).map(|setting| setting.product).collect();
    if !others.is_empty() {
        page.say(
            Role::Plain,
            "also         ",
            &format!("`seawall advise RESULT.json` tells of {}", others.join(", ")),
        );
    }
    for words in advice.withheld_words() {
        page.say(Role::Dim, "no setting   ", &words);
    }
    page.say(Role::Dim, "", &advice.basis);
}

fn expected(page: &mut Page, ranking: &Ranking<'_>) {
    let expected = ranges::expected(ranking);
    if expected.ranges.is_empty() {
        return;
    }
    let verdict = match expected.verdict {
        ranges::Verdict::Within => "; this one is within",
        ranges::Verdict::Below => "; this one is FASTER",
        ranges::Verdict::Above => "; this one is SLOWER",
        ranges::Verdict::Memory => "; this one is MEMORY",
        ranges::Verdict::None => "",
    };
    let caveat = expected.caveat.map_or(String::new(), |caveat| format!(" ({caveat})"));
    page.blank();
    page.say(
        Role::Plain,
        "expected     ",
        &format!("of such a device, as published for 4–16 KiB: {}{caveat}{verdict}.", expected.words()),
    );
}

/// The two columns of the published tables.
fn published(page: &mut Page, ranking: &Ranking<'_>) {
    page.blank();
    page.line(Role::Heading, "as the published tables show it");
    let rows = markdown::published_rows(ranking);
    if page.width < WIDTH_NARROW {
        for (id, elapsed, cost) in rows {
            page.say(Role::Plain, "  ", &format!("{id}: elapsed {elapsed} ms, write cost {cost} ms"));
        }
        return;
    }
    let names = rows.iter().map(|(id, ..)| width_of(id)).max().unwrap_or(0).max(6);
    page.line(
        Role::Dim,
        &format!("  {:<names$}  {:>12}  {:>15}", "method", "elapsed (ms)", "write cost (ms)"),
    );
    for (id, elapsed, cost) in rows {
        page.line(Role::Plain, &format!("  {id:<names$}  {elapsed:>12}  {cost:>15}"));
    }
}
