//! Lays out a result's table once for all reports: its columns, its sections of rows, and what each cell shows.
//!
//! ```text
//!   ranked methods    sections: what a commit outlives     columns: those of `columns.rs`
//!   any other rows    sections: the rows' groups           columns: the table's own, then class and evidence
//! ```
//!
//! Invariants: a cell shows `-` for an unknown value and never 0; a column in which every cell is `-` is left out; a row
//! that did not run is in no section, and its reason is in [`missing`].

use super::columns::{self, COLUMNS, JUDGED, Need, UNKNOWN};
use super::table::heading;
use crate::rank::{EffectiveClass, Ranked, Ranking};
use crate::row::{FAILED, Row};
use crate::study::{Column, Study};

pub(crate) struct Grid<'a> {
    /// What the first column names.
    pub row_title: &'a str,
    pub heads: Vec<Head<'a>>,
    pub sections: Vec<Section<'a>>,
}

#[derive(Clone)]
pub(crate) struct Head<'a> {
    /// The heading above its title that it may share with its neighbours; empty if none.
    pub group: String,
    pub title: String,
    /// Both in one line, in more words where there is room.
    pub long: String,
    pub need: Need,
    /// Whether its cells are words, not figures.
    pub is_words: bool,
    /// The table's own column, if it is one.
    pub kept: Option<&'a Column>,
}

pub(crate) struct Section<'a> {
    pub heading: String,
    /// What all its rows outlive, where that is what they have in common.
    pub class: Option<EffectiveClass>,
    pub lines: Vec<Line<'a>>,
}

pub(crate) struct Line<'a> {
    pub row: &'a Row,
    /// Its cells, one a head.
    pub cells: Vec<String>,
}

/// Where the cells of a column come from.
enum Source<'a> {
    Judged(&'static columns::Column),
    Kept(&'a Column),
}

impl<'a> Source<'a> {
    fn cell(&self, row: &Row, judged: Option<&Ranked<'_>>) -> String {
        match self {
            Self::Judged(column) => judged.map_or_else(|| UNKNOWN.to_owned(), |row| (column.cell)(row)),
            Self::Kept(column) => cell(row, column),
        }
    }

    fn head(&self) -> Head<'a> {
        match self {
            Self::Judged(column) => Head {
                group: column.head[0].to_owned(),
                title: column.head[1].to_owned(),
                long: column.title.to_owned(),
                need: column.need,
                is_words: column.is_words,
                kept: None,
            },
            Self::Kept(column) => Head {
                group: column.group.clone(),
                title: column.title.clone(),
                long: match column.group.as_str() {
                    "" => column.title.clone(),
                    group => format!("{group}: {}", column.title),
                },
                need: if column.essential { Need::Essential } else { Need::Wide },
                is_words: false,
                kept: Some(column),
            },
        }
    }
}

pub(crate) fn cell(row: &Row, column: &Column) -> String {
    Study::value(row, column).map_or_else(|| UNKNOWN.to_owned(), |value| columns::shown(value, column.unit))
}

impl<'a> Grid<'a> {
    pub(crate) fn new(ranking: &Ranking<'a>) -> Self {
        let study = &ranking.result.study;
        let sources: Vec<Source<'a>> = if study.ranked {
            COLUMNS.iter().map(Source::Judged).collect()
        } else {
            let kept = study.columns.iter().map(Source::Kept);
            kept.chain(JUDGED.iter().map(Source::Judged)).collect()
        };
        let line = |row: &'a Row| {
            let judged = ranking.rows.iter().find(|ranked| std::ptr::eq(ranked.row, row));
            Line { row, cells: sources.iter().map(|source| source.cell(row, judged)).collect() }
        };
        let sections = if study.ranked { by_class(ranking, line) } else { by_group(study, line) };
        let heads = sources.iter().map(Source::head).collect();
        let mut grid = Self { row_title: &study.row_title, heads, sections };
        grid.leave_out_what_says_nothing();
        grid
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = &Line<'a>> {
        self.sections.iter().flat_map(|section| &section.lines)
    }

    fn leave_out_what_says_nothing(&mut self) {
        let says = |at: usize| self.lines().any(|line| line.cells[at] != UNKNOWN);
        let kept: Vec<bool> = (0..self.heads.len()).map(says).collect();
        keep(&mut self.heads, &kept);
        for line in self.sections.iter_mut().flat_map(|section| &mut section.lines) {
            keep(&mut line.cells, &kept);
        }
    }
}

fn keep<T>(all: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    all.retain(|_| kept.next().copied().unwrap_or(false));
}

fn by_class<'a>(ranking: &Ranking<'a>, line: impl Fn(&'a Row) -> Line<'a>) -> Vec<Section<'a>> {
    let section = |class: EffectiveClass| {
        let rows: Vec<&Ranked<'a>> = ranking.of(class).collect();
        let lines: Vec<Line<'a>> = rows.iter().map(|ranked| line(ranked.row)).collect();
        (!lines.is_empty()).then(|| {
            let heading = heading(ranking.result, class, &rows);
            Section { heading, class: Some(class), lines }
        })
    };
    EffectiveClass::ALL.into_iter().filter_map(section).collect()
}

/// The rows of each group, in order of first appearance.
fn by_group<'a>(study: &'a Study, line: impl Fn(&'a Row) -> Line<'a>) -> Vec<Section<'a>> {
    let mut sections: Vec<Section<'a>> = Vec::new();
    let ran = |row: &&Row| row.measured().is_some_and(|measured| !measured.rounds.is_empty());
    for row in study.rows.iter().filter(ran) {
        if let Some(section) = sections.iter_mut().find(|section| section.heading == row.group) {
            section.lines.push(line(row));
        } else {
            let lines = vec![line(row)];
            sections.push(Section { heading: row.group.clone(), class: None, lines });
        }
    }
    sections
}

/// A reason that rows share, and the rows.
pub(crate) struct Missing<'a> {
    /// `n/a`, or [`FAILED`].
    pub word: &'static str,
    pub reason: &'a str,
    pub ids: Vec<&'a str>,
}

/// What did not run, each reason once: failures first, else in order of first appearance.
pub(crate) fn missing(study: &Study) -> Vec<Missing<'_>> {
    let mut found: Vec<Missing<'_>> = Vec::new();
    for row in &study.rows {
        let Some((word, reason)) = row.outcome.missing() else { continue };
        match found.iter_mut().find(|one| one.word == word && one.reason == reason) {
            Some(one) => one.ids.push(&row.id),
            None => found.push(Missing { word, reason, ids: vec![&row.id] }),
        }
    }
    found.sort_by_key(|one| one.word != FAILED);
    found
}
