//! Renders the terminal report, from the headline down to the recommended settings.
//!
//! ```text
//!   title · headline · facts
//!   table, ranked methods:  power loss, best first
//!                           ──── below this line a power cut loses acknowledged commits ────
//!                           not confirmed, system crash, process crash
//!          any other rows:  groups under a heading each
//!   calls, where they are counted · iterations, where they are listed
//!   what did not run · how to read it · findings with remedies
//!   of ranked methods: recommendation and settings · the range to expect
//! ```
//!
//! Invariants: no line is wider than the width; columns that do not fit go, or the table goes on below; the
//! recommendation is never taken from below the line.

use super::calls::{calls, iterations};
use super::columns::{Need, UNKNOWN};
use super::grid::{Grid, Missing, missing};
use super::text::{Page, elided, width_of};
use super::{Role, Style, WIDTH_DEFAULT, WIDTH_MIN, WIDTH_NARROW, WIDTH_WIDE, facts, markdown};
use crate::advise::{self, Advice};
use crate::figures::rate;
use crate::findings::Severity;
use crate::judgement::{Answer, Judgement};
use crate::ranges;
use crate::rank::{EffectiveClass, Ranked, Ranking};
use crate::result::RunResult;
use crate::row::FAILED;

/// The columns of ranked methods that a terminal does without where not all fit, the first to go first: it shows names
/// first, then the median, the rate and p99. A wait for CPUs that matters is the headline.
const DISPENSABLE: [&str; 6] = [
    "Max",
    "CPU wait of slow commits",
    "Against best, 95 % range",
    "p99.9",
    "Write + sync p50",
    "Flushes per commit",
];

/// By so much a row's name is cut at most before the table goes on below.
const NAME_CUT_MAX: usize = 3;

/// The whole report for a terminal of `width` columns.
pub fn terminal(result: &RunResult, width: usize, style: Style) -> String {
    let ranking = Ranking::new(result);
    let judgement = Judgement::of(&ranking);
    let mut page = Page::new(width.max(WIDTH_MIN), style);
    header(&mut page, &ranking, &judgement);
    let grid = Grid::new(&ranking);
    let advice = result.study.ranked.then(|| advise::advise(&ranking));
    if !grid.sections.is_empty() {
        table(&mut page, &ranking, &grid, judgement.recommended.as_deref());
    }
    calls(&mut page, &result.study);
    iterations(&mut page, &result.study);
    not_run(&mut page, result);
    if !result.study.notes.is_empty() {
        page.blank();
    }
    for note in &result.study.notes {
        page.say(Role::Dim, "", note);
    }
    found(&mut page, &judgement);
    if let Some(advice) = advice {
        page.blank();
        verdict(&mut page, "verdict      ", &judgement);
        expected(&mut page, &ranking);
        settings(&mut page, &advice);
    }
    if markdown::is_published_experiment(result) {
        published(&mut page, &ranking);
    }
    page.out
}

fn header(page: &mut Page, ranking: &Ranking<'_>, judgement: &Judgement) {
    page.say(Role::Heading, "", &facts::title(ranking.result));
    if let Some(headline) = judgement.headline() {
        page.say(Role::Bad, "!! ", headline);
    }
    // Whose promise it is stands in the table's heading.
    let facts: Vec<_> = facts::facts(ranking).into_iter().filter(|(label, _)| label != "promise").collect();
    // A label as long as a path stands above its text.
    let is_short = |label: &str| width_of(label) < page.width / 2;
    let labels = facts.iter().map(|(label, _)| label.as_str()).filter(|label| is_short(label));
    let widest = labels.map(width_of).max().unwrap_or(0) + 1;
    for (label, text) in facts {
        if width_of(&label) < page.width / 2 {
            page.say(Role::Plain, &format!("{label:<widest$}"), &text);
        } else {
            page.say(Role::Plain, "", &label);
            page.say(Role::Plain, &" ".repeat(widest), &text);
        }
    }
}

fn table(page: &mut Page, ranking: &Ranking<'_>, grid: &Grid<'_>, recommended: Option<&str>) {
    let layout = Layout::fit(grid, page.width);
    for piece in &layout.pieces {
        page.blank();
        if piece.iter().any(|at| !grid.heads[*at].group.is_empty()) {
            page.line(Role::Dim, &layout.groups(grid, piece));
        }
        let titles = layout.line(grid.row_title, piece, |at| &grid.heads[at].title);
        page.line(Role::Dim, &titles);
        if ranking.result.study.ranked && ranking.best_durable().is_none() {
            page.say(Role::Bad, "", "nothing measured here is shown to outlive POWER LOSS");
        }
        let mut drawn = false;
        for section in &grid.sections {
            if section.class > Some(EffectiveClass::PowerLoss) && !drawn {
                if page.width < WIDTH_NARROW {
                    page.say(Role::Bad, "── ", "below, a power cut loses acknowledged commits");
                } else {
                    let words = "── below this line a power cut loses acknowledged commits ";
                    let width = page.width.min(layout.width(piece));
                    page.line(Role::Bad, &format!("{words:─<width$}"));
                }
                drawn = true;
            }
            if !section.heading.is_empty() {
                page.say(section.class.map_or(Role::Heading, role), "", &section.heading);
            }
            for line in &section.lines {
                let best = recommended == Some(&line.row.id);
                let text = layout.line(&line.row.label, piece, |at| &line.cells[at]);
                page.line(if best { Role::Good } else { Role::Plain }, &text);
            }
        }
    }
    legend(page, ranking, grid, &layout);
}

pub(super) fn role(class: EffectiveClass) -> Role {
    match class {
        EffectiveClass::PowerLoss => Role::Heading,
        EffectiveClass::NotConfirmed => Role::Bad,
        EffectiveClass::SystemCrash | EffectiveClass::ProcessCrash => Role::Caution,
    }
}

/// A class's heading; with the reason why it is not higher, if all its rows share one.
pub(super) fn heading(result: &RunResult, class: EffectiveClass, rows: &[&Ranked<'_>]) -> String {
    let first = rows.first().and_then(|row| row.durability.because.first());
    let shared = first.filter(|first| rows.iter().all(|row| row.durability.because.contains(first)));
    let because = shared.map_or(String::new(), |reason| format!(": {reason}"));
    match class {
        EffectiveClass::PowerLoss => {
            format!("outlives POWER LOSS, {}", facts::condition(&result.environment))
        }
        EffectiveClass::NotConfirmed => {
            "claims power loss, NOT CONFIRMED: the device's counters disagree".to_owned()
        }
        EffectiveClass::SystemCrash => format!("outlives a SYSTEM CRASH only{because}"),
        EffectiveClass::ProcessCrash => format!("outlives a PROCESS CRASH only{because}"),
    }
}

/// What the marks that occur in the table mean.
fn legend(page: &mut Page, ranking: &Ranking<'_>, grid: &Grid<'_>, layout: &Layout) {
    let columns = || layout.pieces.iter().flatten().copied();
    let cell_is =
        |is: &dyn Fn(&str) -> bool| grid.lines().any(|line| columns().any(|at| is(line.cells[at].as_str())));
    let shown = |long: &str| columns().any(|at| grid.heads[at].long == long);
    let ranked = ranking.result.study.ranked;
    let is_essential = |at: &usize| grid.heads[*at].need == Need::Essential;
    let is_cut = (0..grid.heads.len()).filter(is_essential).any(|at| columns().all(|other| other != at));
    let counted =
        ranking.rows.iter().any(|row| row.evidence.per_commit.is_some_and(|each| each.flushes.is_some()));
    let parts = [
        (ranked && counted && shown("Flushes per commit"), "flushes: counted by the device, per commit"),
        (ranked && !counted, "device flushes are not counted here"),
        (cell_is(&|cell| cell.starts_with('~')), "~: fewer than ten samples beyond it"),
        (cell_is(&|cell| cell == UNKNOWN), "-: unknown, or too few samples"),
        (shown("Write + sync p50"), "write+sync: the medians of both, where they are separate calls"),
        (shown("Against best, 95 % range"), "against best: of its class, by p50, the range of 95 %"),
        (cell_is(&|cell| cell == "noisy"), "noisy: from half to twice and more"),
        (cell_is(&|cell| cell.starts_with('≈')), "≈: same within noise"),
        (shown("CPU wait of slow commits"), "CPU wait: of the time of commits above p99"),
        (ranked && is_cut, "more columns on a wider terminal"),
    ];
    let parts: Vec<&str> = parts.into_iter().filter(|(shown, _)| *shown).map(|(_, words)| words).collect();
    if !parts.is_empty() {
        page.say(Role::Dim, "", &parts.join("; "));
    }
}

/// Which columns are shown, in which pieces, and how wide each is.
struct Layout {
    /// Indices of columns, piece by piece.
    pieces: Vec<Vec<usize>>,
    widths: Vec<usize>,
    name_width: usize,
    gap: usize,
}

impl Layout {
    fn fit(grid: &Grid<'_>, width: usize) -> Self {
        let names = grid.lines().map(|line| width_of(&line.row.label)).chain([width_of(grid.row_title)]);
        let name_width = names.max().unwrap_or(0);
        let name_share = width / if width < WIDTH_NARROW { 2 } else { 3 };
        let room = width.saturating_sub(name_width.min(name_share) + 1);
        let own = |at: usize| {
            let cells = grid.lines().map(|line| width_of(&line.cells[at]));
            cells.chain([width_of(&grid.heads[at].title)]).max().unwrap_or(0).min(room)
        };
        let widths = (0..grid.heads.len()).map(own).collect();
        let mut layout = Self { pieces: Vec::new(), widths, name_width, gap: 1 };
        let need = |at: &usize| grid.heads[*at].need;
        let mut columns: Vec<usize> = (0..grid.heads.len()).filter(|at| need(at) <= Need::Wide).collect();
        layout.widen_groups(grid, &columns, room);
        // Columns that are not essential go, the last first, until the rest fits.
        if layout.width(&columns) > width && width < WIDTH_WIDE {
            columns.retain(|at| need(at) == Need::Essential);
        }
        while layout.width(&columns) > width
            && let Some(last) = columns.iter().rposition(|at| need(at) == Need::Wide)
        {
            columns.remove(last);
        }
        let is_ranked = grid.sections.iter().any(|section| section.class.is_some());
        // The first goes before a name is cut, the others after.
        let name_cut = |gone: usize| match gone {
            _ if width < WIDTH_DEFAULT => name_width.saturating_sub(width / 2),
            0 => 0,
            _ => NAME_CUT_MAX,
        };
        for (gone, long) in DISPENSABLE.iter().filter(|_| is_ranked).enumerate() {
            if layout.width(&columns) - name_cut(gone) > width {
                columns.retain(|at| grid.heads[*at].long != *long);
            }
        }
        if layout.width(&columns) > width {
            layout.name_width = name_width.min(name_share);
        }
        let over = layout.width(&columns).saturating_sub(width);
        if over <= NAME_CUT_MAX {
            layout.name_width -= over;
            layout.pieces = vec![columns];
        } else {
            layout.pieces = vec![Vec::new()];
            for column in columns {
                let mut longer = layout.pieces.last().cloned().unwrap_or_default();
                longer.push(column);
                let fits = layout.width(&longer) <= width;
                match layout.pieces.last_mut() {
                    Some(piece) if fits || piece.is_empty() => piece.push(column),
                    _ => layout.pieces.push(vec![column]),
                }
            }
        }
        let columns_max = layout.pieces.iter().map(|piece| layout.width(piece) + piece.len()).max();
        layout.gap = if columns_max.unwrap_or(0) <= width { 2 } else { 1 };
        layout
    }

    /// Widens the last of neighbouring columns where the heading that they share needs it.
    fn widen_groups(&mut self, grid: &Grid<'_>, columns: &[usize], room: usize) {
        for run in columns.chunk_by(|a, b| grid.heads[*a].group == grid.heads[*b].group) {
            let (needed, last) = (width_of(&grid.heads[run[0]].group).min(room), run[run.len() - 1]);
            self.widths[last] += needed.saturating_sub(self.span(run));
        }
    }

    fn span(&self, run: &[usize]) -> usize {
        run.iter().map(|at| self.widths[*at] + self.gap).sum::<usize>() - self.gap
    }

    fn width(&self, piece: &[usize]) -> usize {
        self.name_width + piece.iter().map(|at| self.widths[*at] + self.gap).sum::<usize>()
    }

    fn line<'a>(&self, name: &str, piece: &[usize], cell: impl Fn(usize) -> &'a String) -> String {
        let mut line = format!("{:<width$}", elided(name, self.name_width), width = self.name_width);
        for at in piece {
            let width = self.widths[*at];
            line.extend([" ".repeat(self.gap), format!("{:>width$}", elided(cell(*at), width))]);
        }
        line
    }

    /// The headings that neighbouring columns share, each over its columns.
    fn groups(&self, grid: &Grid<'_>, piece: &[usize]) -> String {
        let mut out = " ".repeat(self.name_width);
        for run in piece.chunk_by(|a, b| grid.heads[*a].group == grid.heads[*b].group) {
            let (group, span) = (grid.heads[run[0]].group.as_str(), self.span(run));
            let text = elided(group, span);
            let space = span - width_of(&text);
            let heading = match run.len() {
                2.. if !group.is_empty() && space >= 4 => {
                    let left = "─".repeat((space / 2).saturating_sub(1));
                    let right = "─".repeat(space - 2 - width_of(&left));
                    format!("{left} {text} {right}")
                }
                _ => format!("{text:>span$}"),
            };
            out.extend([" ".repeat(self.gap), heading]);
        }
        out
    }
}

/// Rows without figures: those of one reason together.
fn not_run(page: &mut Page, result: &RunResult) {
    let missing = missing(&result.study);
    if !missing.is_empty() {
        page.blank();
    }
    for one in missing {
        let role = if one.word == FAILED { Role::Bad } else { Role::Dim };
        let Missing { reason, ids, .. } = &one;
        page.say(role, &format!("{:<7}", one.word), &format!("{}: {reason}", ids.join(", ")));
    }
}

fn found(page: &mut Page, judgement: &Judgement) {
    let found = &judgement.findings;
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

/// The verdict in the colour of its answer, and what it is not.
pub(super) fn verdict(page: &mut Page, label: &str, judgement: &Judgement) {
    let role = match judgement.answer {
        Answer::Costs => Role::Good,
        Answer::Capped | Answer::AtMost => Role::Caution,
        _ => Role::Bad,
    };
    page.say(role, label, &judgement.verdict);
    if let Some(caution) = &judgement.caution {
        page.say(Role::Caution, &" ".repeat(width_of(label)), caution);
    }
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
            &format!("`seawall advise RESULT.json` lists {}", others.join(", ")),
        );
    }
    for words in advice.withheld_words() {
        page.say(Role::Dim, "no setting   ", &words);
    }
    page.say(Role::Dim, "", &advice.basis);
}

fn expected(page: &mut Page, ranking: &Ranking<'_>) {
    let Some(sentence) = ranges::expected(ranking).sentence() else { return };
    page.blank();
    page.say(Role::Plain, "expected     ", &format!("{sentence}."));
}

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
