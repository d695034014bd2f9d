//! Says of each of several results what it found, in a sentence.
//!
//! Invariant: the sentence is the verdict of [`crate::judgement`]; nothing is judged here.

use super::text::Page;
use super::{Role, Style, WIDTH_MIN};
use crate::judgement::Judgement;
use crate::result::RunResult;

/// What `result` says, in a sentence.
pub fn sentence(result: &RunResult) -> String {
    Judgement::of_result(result).verdict
}

/// All of them for a terminal of `width` columns.
pub fn text(results: &[RunResult], width: usize, style: Style) -> String {
    let mut page = Page::new(width.max(WIDTH_MIN), style);
    page.line(Role::Heading, "summary");
    let label = results.iter().map(|result| result.scenario.len()).max().unwrap_or(0) + 2;
    for result in results {
        page.say(Role::Plain, &format!("{:<label$}", result.scenario), &sentence(result));
    }
    page.out
}
