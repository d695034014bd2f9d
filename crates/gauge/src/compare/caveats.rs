//! Lists the caveats of a comparison: differing promises, conditions and unstated facts.
//!
//! Invariant: pure; each caveat names the sides it concerns.

use super::side::{Row, Side};
use super::{Comparison, Line};
use seawall_sys::method::Depth;

pub(crate) fn caveats(comparison: &Comparison) -> Vec<String> {
    let mut caveats = promises(comparison);
    caveats.extend(conditions(comparison));
    caveats.extend(unstated(comparison));
    caveats
}

/// What a row requests of the device, in words.
pub(crate) fn asks(depth: Depth) -> &'static str {
    match depth {
        Depth::Kernel => "asks the device for nothing",
        Depth::Device => "hands the data to the device and asks for no flush",
        Depth::DeviceOrdered => "asks the device for an order, not for a flush",
        Depth::DeviceForced => "asks the device for FUA, which drivers may ignore, not for a flush",
        Depth::Stable => "asks the device for a flush",
    }
}

/// Rows that are no rivals: each kind of difference once, with the rows that it concerns.
fn promises(comparison: &Comparison) -> Vec<String> {
    let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
    for line in &comparison.rows {
        for (index, kind) in differing(line) {
            let Some((base, other)) = base_and(line, index) else { continue };
            let names = if base.id == other.id {
                base.id.clone()
            } else {
                format!("{} against {}", other.id, base.id)
            };
            let kind = format!("{} {kind}", Comparison::letter(index));
            match kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, rows)) => rows.push(names),
                None => kinds.push((kind, vec![names])),
            }
        }
    }
    kinds
        .into_iter()
        .map(|(kind, rows)| format!("not the same promise: {} ({})", kind, rows.join("; ")))
        .collect()
}

fn base_and(line: &Line, index: usize) -> Option<(&Row, &Row)> {
    let base = line.cells.first()?.as_ref()?;
    Some((&base.row, &line.cells.get(index)?.as_ref()?.row))
}

/// The sides of `line` whose promise is not the base's, and in what.
fn differing(line: &Line) -> Vec<(usize, String)> {
    let differs = |index: usize| {
        let (base, other) = base_and(line, index)?;
        if base.class == other.class && base.depth == other.depth {
            return None;
        }
        if let Some((base, other)) = base.depth.zip(other.depth).filter(|(base, other)| base != other) {
            return Some((index, format!("{}, A {}", asks(other), asks(base))));
        }
        let name = |row: &Row| row.class.map_or("unknown", crate::rank::EffectiveClass::name);
        Some((index, format!("outlives: {}, A outlives: {}", name(other), name(base))))
    };
    (1..line.cells.len()).filter_map(differs).collect()
}

/// Sides with other settings, or that did other things.
fn conditions(comparison: &Comparison) -> Vec<String> {
    let mut out = Vec::new();
    let Some((base, rest)) = comparison.sides.split_first() else { return out };
    for (index, side) in rest.iter().enumerate() {
        let letter = Comparison::letter(index + 1);
        if let Some((of_base, own)) = base.cpu.as_ref().zip(side.cpu.as_ref()).filter(|(a, b)| a != b) {
            out.push(format!("not the same machine: {own} in {letter}, {of_base} in A"));
        }
        if side.scenario != base.scenario {
            out.push(format!("{letter} is of scenario `{}`, A of `{}`", side.scenario, base.scenario));
        }
        for (label, words) in &side.settings {
            let of_base = base.settings.iter().find(|(known, _)| known == label);
            if let Some((_, base_words)) = of_base.filter(|(_, base_words)| base_words != words) {
                out.push(format!("{label}: {words} in {letter}, {base_words} in A"));
            }
        }
    }
    out
}

fn unstated(comparison: &Comparison) -> Option<String> {
    let letters = |filter: &dyn Fn(&Side) -> bool| -> Vec<String> {
        let chosen = comparison.sides.iter().enumerate().filter(|(_, side)| filter(side));
        chosen.map(|(index, _)| Comparison::letter(index)).collect()
    };
    let published = letters(&|side| side.published);
    let methods = letters(&|side| side.published && side.system.is_some());
    if published.is_empty() {
        return None;
    }
    let classes = if methods.is_empty() {
        String::new()
    } else {
        format!(
            "; the classes of {} are by their calls alone, their devices are not known",
            methods.join(", ")
        )
    };
    Some(format!(
        "{}: published, one run each, so that no confidence is stated{classes}",
        published.join(", ")
    ))
}
