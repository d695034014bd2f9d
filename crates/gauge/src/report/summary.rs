//! Says of each of several results what it found, in a sentence.
//!
//! Invariant: the sentence is the verdict of a ranked run, else the gravest of what the scenario itself finds; nothing is
//! judged here.

use super::text::Page;
use super::{Role, Style, WIDTH_MIN};
use crate::advise;
use crate::findings;
use crate::rank::Ranking;
use crate::result::RunResult;
use crate::scenario;

/// What `result` says, in a sentence.
#[must_use]
pub fn sentence(result: &RunResult) -> String {
    let ranking = Ranking::new(result);
    if result.study.ranked {
        return match findings::grave(&ranking) {
            Some(grave) => grave.sentence.to_owned(),
            None => advise::advise(&ranking).sentence,
        };
    }
    let judged = scenario::find(&result.scenario).map(|of| (of.judge)(&result.study)).unwrap_or_default();
    let gravest = judged.into_iter().min_by_key(|finding| finding.severity);
    gravest.map_or_else(
        || format!("{}: nothing stands out.", crate::figures::capital(&result.study.title)),
        |finding| finding.sentence,
    )
}

/// All of them for a terminal of `width` columns.
#[must_use]
pub fn text(results: &[RunResult], width: usize, style: Style) -> String {
    let mut page = Page::new(width.max(WIDTH_MIN), style);
    page.line(Role::Heading, "summary");
    let label = results.iter().map(|result| result.scenario.len()).max().unwrap_or(0) + 2;
    for result in results {
        page.say(Role::Plain, &format!("{:<label$}", result.scenario), &sentence(result));
    }
    page.out
}
