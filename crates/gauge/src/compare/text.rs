//! Formats a comparison for the terminal: sides, one table per pair, caveats and errors of the sources.
//!
//! Invariant: no line is wider than the width; a difference appears under the durability class that both sides share,
//! or under a heading that states that they share none.

use super::families::Families;
use super::{Cell, Comparison, Difference, Line, caveats, conclusion, published};
use crate::lookup::unique;
use crate::rank::EffectiveClass;
use crate::report::markdown::add;
use crate::report::text::{Page, elided, width_of, wrapped};
use crate::report::{Role, Style, WIDTH_MIN};

/// Columns that a name in a pair's table must have; with fewer it stands on a line of its own.
const NAME_MIN: usize = 12;

/// All comparisons for a terminal of `width` columns, one after the other.
pub fn all(families: &Families, width: usize, style: Style) -> String {
    let tables: Vec<String> =
        families.comparisons.iter().map(|comparison| text(comparison, width, style)).collect();
    let mut page = Page::new(width.max(WIDTH_MIN), style);
    for words in families.left_out() {
        page.blank();
        page.say(Role::Caution, "", &words);
    }
    tables.join("\n") + &page.out
}

/// One comparison for a terminal of `width` columns.
pub(crate) fn text(comparison: &Comparison, width: usize, style: Style) -> String {
    let mut page = Page::new(width.max(WIDTH_MIN), style);
    head(&mut page, comparison);
    if comparison.sides.len() > 2 {
        overview(&mut page, comparison);
    }
    for side in 1..comparison.sides.len() {
        pair(&mut page, comparison, side);
    }
    legend(&mut page, comparison);
    conclusions(&mut page, comparison);
    notes(&mut page, comparison);
    page.out
}

/// All published tables, for `--list`.
pub fn list(width: usize) -> String {
    let mut out = String::new();
    for file in published::all() {
        let source = &file.source;
        for line in
            wrapped("", "  ", &format!("{}: {} ({})", source.author, source.title, source.published), width)
        {
            out += &(line + "\n");
        }
        for table in &file.tables {
            add(&mut out, &format!("  {}{}\n", published::PREFIX, table.id));
            for line in wrapped("      ", "      ", &format!("{} · {}", table.scenario, table.title), width)
            {
                out += &(line + "\n");
            }
        }
    }
    out
}

/// `-8.7 %`, `+140 %`, `13.0×`; a typographic minus, so that columns read well.
pub(crate) fn percent(difference: f64) -> String {
    let sign = if difference < 0.0 { "−" } else { "+" };
    let size = difference.abs();
    if size < 0.05 {
        "0.0 %".to_owned()
    } else if size < 99.95 {
        format!("{sign}{size:.1} %")
    } else if size < 999.5 {
        format!("{sign}{size:.0} %")
    } else {
        format!("{}×", crate::figures::significant(difference / 100.0 + 1.0))
    }
}

/// `≈` before a difference within noise.
pub(crate) fn marked(difference: &Difference) -> String {
    let mark = if difference.within_noise() == Some(true) { "≈" } else { "" };
    format!("{mark}{}", percent(difference.percent()))
}

/// The interval in per cent, or that there is none.
pub(crate) fn interval(difference: &Difference) -> String {
    difference.interval.map_or("not stated".to_owned(), |interval| {
        let bare = |ratio: f64| percent((ratio - 1.0) * 100.0).replace(" %", "");
        format!("{} … {}", bare(interval.low), bare(interval.high))
    })
}

fn head(page: &mut Page, comparison: &Comparison) {
    page.say(
        Role::Heading,
        "",
        &format!("seawall compare · {} · {}", comparison.scenario(), comparison.measure.title),
    );
    for (index, side) in comparison.sides.iter().enumerate() {
        let lead = format!("{:<3}", Comparison::letter(index));
        page.say(Role::Heading, &lead, &side.name);
        let about = side.about.iter().map(|(_, words)| words.as_str());
        let settings = side.settings.iter().map(|(label, words)| format!("{label} {words}"));
        page.say(Role::Plain, "   ", &about.collect::<Vec<_>>().join(" · "));
        let settings: Vec<String> = settings.collect();
        if !settings.is_empty() {
            page.say(Role::Dim, "   ", &settings.join(" · "));
        }
    }
}

/// Every side's value, as many sides to a table as fit.
fn overview(page: &mut Page, comparison: &Comparison) {
    let names: Vec<&str> = comparison.rows.iter().map(name).collect();
    let name_width = names.iter().map(|name| width_of(name)).max().unwrap_or(6).clamp(6, 28);
    let fit = ((page.width - name_width) / 10).max(1);
    let sides: Vec<usize> = (0..comparison.sides.len()).collect();
    for chunk in sides.chunks(fit) {
        page.blank();
        let heads = chunk
            .iter()
            .map(|side| format!("{:>10}", Comparison::letter(*side)))
            .collect::<Vec<_>>()
            .concat();
        page.line(Role::Dim, &format!("{:<name_width$}{heads}", ""));
        for line in &comparison.rows {
            let cells = chunk
                .iter()
                .map(|side| format!("{:>10}", shown(comparison, line, *side)))
                .collect::<Vec<_>>()
                .concat();
            page.line(Role::Plain, &format!("{:<name_width$}{cells}", elided(name(line), name_width)));
        }
    }
}

pub(crate) fn name(line: &Line) -> &str {
    line.cells.iter().flatten().next().map_or("", |cell| cell.row.id.as_str())
}

/// The ids of a row on all sides, each once.
pub(crate) fn ids(line: &Line) -> Vec<&str> {
    unique(line.cells.iter().flatten().map(|cell| cell.row.id.as_str()))
}

/// A side's value in a row, or `-`.
pub(crate) fn shown(comparison: &Comparison, line: &Line, side: usize) -> String {
    let figure = line.cells[side].as_ref().and_then(|cell| cell.figure.as_ref());
    figure.map_or("-".to_owned(), |figure| comparison.measure.cell(figure.value))
}

/// A row of a pair's table, before it is laid out.
struct PairRow {
    names: Vec<String>,
    cells: Vec<String>,
    group: Group,
}

/// Under which heading a pair's row stands, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    Outlives(EffectiveClass),
    NotTheSame,
    NoCommits,
}

impl Group {
    /// That of a row of side `side`.
    pub(crate) fn of(line: &Line, side: usize) -> Option<Self> {
        let (base, other) = (line.cells[0].as_ref()?, line.cells[side].as_ref()?);
        let difference = other.difference?;
        Some(match base.row.class.filter(|_| difference.same_promise) {
            Some(class) => Self::Outlives(class),
            None if difference.same_promise => Self::NoCommits,
            None => Self::NotTheSame,
        })
    }

    pub(crate) fn heading(self) -> Option<(Role, String)> {
        match self {
            Self::Outlives(EffectiveClass::PowerLoss) => {
                Some((Role::Heading, "both outlive POWER LOSS".to_owned()))
            }
            Self::Outlives(class) => {
                Some((Role::Caution, format!("both outlive a {} at most", class.name().to_uppercase())))
            }
            Self::NotTheSame => Some((Role::Bad, "NOT THE SAME PROMISE: see the caveats".to_owned())),
            Self::NoCommits => None,
        }
    }
}

fn pair(page: &mut Page, comparison: &Comparison, side: usize) {
    let printed = printed(comparison, side);
    let mut rows: Vec<PairRow> =
        comparison.rows.iter().filter_map(|line| pair_row(comparison, line, side, printed)).collect();
    page.blank();
    if rows.is_empty() {
        page.say(Role::Caution, "", &format!("{} has no row in common with A", Comparison::letter(side)));
        return;
    }
    rows.sort_by_key(|row| row.group);
    let mut heads =
        vec!["A".to_owned(), Comparison::letter(side), "difference".to_owned(), "95 %".to_owned()];
    if printed.is_some() {
        heads.extend(["of rounded", "printed"].map(str::to_owned));
    }
    let widths: Vec<usize> = (0..heads.len())
        .map(|column| {
            rows.iter()
                .map(|row| width_of(&row.cells[column]))
                .max()
                .unwrap_or(0)
                .max(width_of(&heads[column]))
        })
        .collect();
    let gap = 2;
    let total = |count: usize| widths[..count].iter().map(|width| width + gap).sum::<usize>();
    let longest = rows.iter().map(|row| width_of(&row.names[0])).max().unwrap_or(0);
    let room = page.width.saturating_sub(total(widths.len()));
    let are_apart = room < longest.min(NAME_MIN);
    // As many figures as fit, the difference among them.
    let shown = (3..=widths.len()).rev().find(|count| total(*count) <= page.width).unwrap_or(3);
    let name_width = if are_apart { 0 } else { longest.min(room) };
    let laid = |name: &str, cells: &[String]| {
        let cells =
            cells.iter().zip(&widths).take(shown).map(|(cell, width)| format!("{:gap$}{cell:>width$}", ""));
        format!("{:<name_width$}{}", elided(name, name_width), cells.collect::<Vec<_>>().concat())
    };
    page.line(Role::Dim, &laid("", &heads));
    let mut group = None;
    for row in &rows {
        if group != Some(row.group) {
            group = Some(row.group);
            if let Some((role, heading)) = row.group.heading() {
                page.say(role, "", &heading);
            }
        }
        for (index, name) in row.names.iter().enumerate() {
            // The other side's name has a line of its own, and all of it.
            let is_beside = index == 0 && !are_apart;
            let line = if is_beside { laid(name, &row.cells) } else { elided(name, page.width) };
            page.line(Role::Plain, &line);
        }
        if are_apart {
            page.line(Role::Plain, &laid("", &row.cells));
        }
    }
}

/// What a source printed of this very pair, by this measure.
pub(crate) fn printed(comparison: &Comparison, side: usize) -> Option<&'static published::Printed> {
    let bare = |index: usize| comparison.sides[index].name.strip_prefix(published::PREFIX);
    published::comparison(bare(side)?, bare(0)?).filter(|printed| printed.column == comparison.measure.id)
}

/// What the source printed of this very row: the difference of its rounded costs, and its own; empty where it says nothing.
pub(crate) fn as_printed(printed: &published::Printed, cell: Option<&Cell>) -> [String; 2] {
    let row = cell.and_then(|cell| printed.rows.iter().find(|row| row.method == cell.row.id));
    let rounded = row.and_then(published::PrintedRow::percent_of_rounded);
    [
        rounded.map_or(String::new(), |less| percent(-less)),
        row.map_or(String::new(), |row| format!("{} % win", row.percent)),
    ]
}

fn pair_row(
    comparison: &Comparison,
    line: &Line,
    side: usize,
    printed: Option<&published::Printed>,
) -> Option<PairRow> {
    let (base, other) = (line.cells[0].as_ref()?, line.cells[side].as_ref()?);
    let measure = &comparison.measure;
    let difference = other.difference?;
    let mut cells = vec![
        measure.cell(base.figure.as_ref()?.value),
        measure.cell(other.figure.as_ref()?.value),
        marked(&difference),
        interval(&difference),
    ];
    if let Some(printed) = printed {
        cells.extend(as_printed(printed, Some(other)));
    }
    let mut names = vec![base.row.id.clone()];
    if base.row.id != other.row.id {
        names.push(format!("  {}: {}", Comparison::letter(side), other.row.id));
    }
    Some(PairRow { names, cells, group: Group::of(line, side)? })
}

fn legend(page: &mut Page, comparison: &Comparison) {
    let (more, less) = comparison.measure.more_and_less();
    let mut parts = vec![
        "difference: against A, from unrounded values".to_owned(),
        format!("−: {less}, +: {more}"),
        "95 %: its interval, from the rounds of both".to_owned(),
    ];
    let any = |what: fn(&Difference) -> bool| {
        let cells = comparison.rows.iter().flat_map(|line| line.cells.iter().flatten());
        cells.filter_map(|cell| cell.difference).any(|difference| what(&difference))
    };
    if any(|difference| difference.within_noise() == Some(true)) {
        parts.push("≈: same within noise".to_owned());
    }
    if (1..comparison.sides.len()).any(|side| printed(comparison, side).is_some()) {
        parts.push(
            "of rounded: from the source's own rounded costs; printed: as the source has it".to_owned(),
        );
    }
    page.say(Role::Dim, "", &parts.join("; "));
}

fn conclusions(page: &mut Page, comparison: &Comparison) {
    let conclusions = conclusion::conclusions(comparison);
    if !conclusions.is_empty() {
        page.blank();
    }
    for words in conclusions {
        page.say(Role::Heading, "conclusion  ", &words);
    }
}

fn notes(page: &mut Page, comparison: &Comparison) {
    let lonely = lonely(comparison);
    if !lonely.is_empty() {
        page.blank();
        for words in lonely {
            page.say(Role::Dim, "", &words);
        }
    }
    let caveats = caveats::caveats(comparison);
    let remarks: Vec<(String, &String)> = comparison
        .sides
        .iter()
        .enumerate()
        .flat_map(|(index, side)| side.remarks.iter().map(move |remark| (Comparison::letter(index), remark)))
        .collect();
    if !caveats.is_empty() || !remarks.is_empty() {
        page.blank();
        page.line(Role::Heading, "caveats");
    }
    for caveat in caveats {
        page.say(Role::Caution, " ! ", &caveat);
    }
    for (letter, remark) in remarks {
        page.say(Role::Plain, " · ", &format!("{letter}: {remark}"));
    }
    if !comparison.others.is_empty() {
        let others: Vec<&str> = comparison.others.iter().map(|measure| measure.id.as_str()).collect();
        page.blank();
        page.say(
            Role::Dim,
            "",
            &format!("other figures that all sides have, for --by: {}", others.join(", ")),
        );
    }
}

pub(crate) fn lonely(comparison: &Comparison) -> Vec<String> {
    let only = |side: usize| {
        let alone = comparison
            .rows
            .iter()
            .filter(|line| line.cells[side].is_some() && line.cells.iter().flatten().count() == 1);
        alone.map(|line| name(line).to_owned()).collect::<Vec<_>>()
    };
    (0..comparison.sides.len())
        .map(|side| (Comparison::letter(side), only(side)))
        .filter(|(_, names)| !names.is_empty())
        .map(|(letter, names)| format!("only in {letter}: {}", names.join(", ")))
        .collect()
}
