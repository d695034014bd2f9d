//! Renders a result as terminal table, Markdown, CSV or HTML, always from the same ranking.
//!
//! * [`screen`] is what a run prints: a line a method with its range, the verdict last.
//! * [`table`] is the terminal's whole report (`--verbose`): readable at 80 columns, fewer columns below, more from 110 on.
//! * [`advice`] prints the settings of each product, and the rate to expect.
//! * [`junit`] has judged conditions as tests, for CI.
//! * [`figure`] draws the picture that can be shared, as SVG.
//! * [`markdown`] has every column; [`csv`] has every raw figure; [`html`] has pictures.
//! * [`grid`] lays out the table of any scenario, for all of them.
//! * [`summary`] says of each of several results what it found.
//! * [`preview`] describes what is under a folder before anything is measured.
//! * [`columns`] is the table of columns of ranked methods; [`facts`] the lines above it.
//!
//! Invariants: reports are pure functions of a [`RunResult`](crate::result::RunResult) and print nothing themselves; no line of the terminal's
//! report is wider than the given width; colour adds nothing that the words do not state.

pub mod advice;
mod calls;
pub(crate) mod columns;
pub mod csv;
pub mod facts;
pub mod figure;
pub mod fio;
pub(crate) mod grid;
pub mod html;
pub mod junit;
pub mod markdown;
pub mod preview;
pub mod screen;
pub mod summary;
pub(crate) mod table;
pub mod text;

pub use table::terminal;

use crate::require::{Checked, ConditionOutcome};
use anstyle::{AnsiColor, Effects};

/// Columns assumed when the terminal does not say.
pub const WIDTH_DEFAULT: usize = 80;
/// The narrowest terminal that is laid out for.
pub const WIDTH_MIN: usize = 40;
/// Below this width labels stand above what they label, and small tables are words.
const WIDTH_NARROW: usize = 60;
/// From this width on the terminal's table has more than the essential columns.
pub(crate) const WIDTH_WIDE: usize = 110;

/// Whether and how the terminal's report is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    colour: bool,
}

/// What a piece of text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Heading,
    /// What is recommended.
    Good,
    /// What would lose data.
    Bad,
    Caution,
    /// What can be skipped.
    Dim,
    /// All else.
    Plain,
}

impl Style {
    /// Without colour, for files and pipes.
    pub const PLAIN: Self = Self { colour: false };
    /// With colour.
    pub const COLOURED: Self = Self { colour: true };

    /// `text` as its role demands. Its width on the screen stays the same.
    pub(crate) fn paint(self, role: Role, text: &str) -> String {
        let style = match role {
            Role::Heading => anstyle::Style::new().effects(Effects::BOLD),
            Role::Good => anstyle::Style::new().fg_color(Some(AnsiColor::Green.into())),
            Role::Bad => anstyle::Style::new().fg_color(Some(AnsiColor::Red.into())).effects(Effects::BOLD),
            Role::Caution => anstyle::Style::new().fg_color(Some(AnsiColor::Yellow.into())),
            Role::Dim => anstyle::Style::new().effects(Effects::DIMMED),
            Role::Plain => return text.to_owned(),
        };
        if self.colour && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// The lines about `--require`: each condition, its outcome and the figure.
pub fn requirements(checked: &[Checked], width: usize, style: Style) -> String {
    let mut out = String::new();
    for one in checked {
        let role = if one.outcome == ConditionOutcome::Met { Role::Good } else { Role::Bad };
        let text = format!("{} {}: {}", one.outcome.name(), one.name, one.sentence);
        for line in text::wrapped("require  ", "         ", &text, width) {
            out += &style.paint(role, &line);
            out.push('\n');
        }
    }
    out
}
