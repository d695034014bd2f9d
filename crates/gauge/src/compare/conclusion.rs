//! Sums up a comparison in a sentence a side: how many rows are faster, slower, or the same within noise.
//!
//! Invariant: only rows that promise the same are counted, those that outlive a power cut where there are any; without
//! intervals nothing is called more than lower or higher.

use super::{Comparison, Difference, text};
use crate::figures::plural;
use crate::rank::EffectiveClass;

pub(crate) fn conclusions(comparison: &Comparison) -> Vec<String> {
    (1..comparison.sides.len()).filter_map(|side| conclusion(comparison, side)).collect()
}

fn conclusion(comparison: &Comparison, side: usize) -> Option<String> {
    let all: Vec<(&str, Option<EffectiveClass>, Difference)> = comparison
        .rows
        .iter()
        .filter_map(|line| {
            let cell = line.cells.get(side)?.as_ref()?;
            let difference = cell.difference.filter(|difference| difference.same_promise)?;
            Some((text::name(line), cell.row.class, difference))
        })
        .collect();
    let durable = all.iter().any(|(_, class, _)| *class == Some(EffectiveClass::PowerLoss));
    let counted: Vec<_> =
        all.iter().filter(|(_, class, _)| !durable || *class == Some(EffectiveClass::PowerLoss)).collect();
    if counted.is_empty() {
        return None;
    }
    let same = counted.iter().filter(|(.., difference)| difference.within_noise() == Some(true)).count();
    let differing = || counted.iter().filter(|(.., difference)| difference.within_noise() != Some(true));
    let group = |more: bool| {
        let mut rows: Vec<_> =
            differing().filter(|(.., difference)| (difference.ratio > 1.0) == more).copied().collect();
        rows.sort_by(|a, b| b.2.ratio.ln().abs().total_cmp(&a.2.ratio.ln().abs()));
        rows
    };
    let (more_word, less_word) = comparison.measure.more_and_less();
    let sentence = |rows: Vec<&(&str, Option<EffectiveClass>, Difference)>, word: &str| {
        let (id, _, difference) = rows.first()?;
        let most = if rows.len() > 1 { "most: " } else { "" };
        Some(format!("{} {word} ({most}{id} {})", rows.len(), text::percent(difference.percent())))
    };
    let mut parts: Vec<String> = Vec::new();
    parts.extend(sentence(group(true), more_word));
    parts.extend(sentence(group(false), less_word));
    if same > 0 {
        parts.push(format!("{same} the same within noise"));
    }
    let of = if durable { " that outlive a power cut" } else { "" };
    Some(format!(
        "{} against A, {}{of}: {}.",
        Comparison::letter(side),
        plural(counted.len() as u64, "row", "rows"),
        parts.join(", ")
    ))
}
