//! Holds a comparison against conditions that must not come true: `--fail-if 'p99>+20%'`.
//!
//! ```text
//!   gate    = condition { "," condition }
//!   condition = [ method ":" ] figure ( ">" | "<" ) bound
//!   figure  = p50 | p99 | p99.9 | p99.99 | max | min | cost | commits/s | a column of a scenario
//!   bound   = +20% | -10%              against A
//!           | 5ms | 500us | 20000      of the side itself: a time, or a number
//! ```
//!
//! Without a method, all rows that outlive a power cut on both sides are held against the condition (all rows that
//! promise the same, where a scenario's rows promise nothing).
//!
//! Invariants: a difference within noise fails nothing and is stated; a condition that nothing could be held against has
//! not passed; an error names the token and the grammar.

use super::families::Families;
use super::side::Row;
use super::{Cell, Comparison, difference, text};
use crate::rank::EffectiveClass;
use crate::require::{Checked, ConditionOutcome, duration};
use crate::{Error, Result};

pub(crate) const GRAMMAR: &str = "[METHOD:]p50|p99|p99.9|p99.99|max|min|cost|commits/s then > or <, then +20% or -10% (against A), or 5ms, or a number; several separated by commas";

/// One condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    method: Option<String>,
    figure: String,
    /// Whether more than the bound fails; otherwise less.
    above: bool,
    bound: Bound,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    /// Of the base's value, in per cent.
    Percent(f64),
    /// Of the value itself: nanoseconds or a number.
    Itself(f64),
}

/// Reads the conditions of one `--fail-if`.
///
/// # Errors
/// The token that does not fit, what is wrong with it, and the grammar.
pub fn parse(text: &str) -> Result<Vec<Gate>> {
    text.split(',').map(|part| gate(&part.split_whitespace().collect::<String>())).collect()
}

fn wrong(token: &str, what: &str) -> Error {
    Error::token("--fail-if", token, what, GRAMMAR)
}

fn gate(part: &str) -> Result<Gate> {
    let (method, rest) = match part.split_once(':') {
        Some((method, rest)) => (Some(method.to_owned()), rest),
        None => (None, part),
    };
    let at = rest.find(['<', '>']).ok_or_else(|| wrong(part, "no `>` or `<`"))?;
    let (figure, bound) = (&rest[..at], &rest[at + 1..]);
    if figure.is_empty() {
        return Err(wrong(part, "no figure before it"));
    }
    let figure = if figure == "commits/s" { "rate" } else { figure };
    let bound = if let Some(percent) = bound.strip_suffix('%') {
        let signed = percent.starts_with(['+', '-']);
        let percent = percent.parse().ok().filter(|percent: &f64| signed && percent.is_finite());
        Bound::Percent(percent.ok_or_else(|| wrong(bound, "not a percentage with its sign, such as +20%"))?)
    } else {
        let number = bound.parse().ok().filter(|number: &f64| number.is_finite());
        let itself = number.or_else(|| duration(bound));
        Bound::Itself(itself.ok_or_else(|| wrong(bound, "neither a percentage, a time nor a number"))?)
    };
    Ok(Gate {
        method,
        figure: figure.to_owned(),
        above: rest[at..].starts_with('>'),
        bound,
        text: part.to_owned(),
    })
}

/// Holds each of `gates` against all comparisons.
pub fn judge(families: &Families, gates: &[Gate]) -> Vec<Checked> {
    gates.iter().map(|gate| judge_one(families, gate)).collect()
}

/// What one row of one side says to a condition.
enum Held {
    Below,
    Noise(String),
    Beyond(String),
}

fn judge_one(families: &Families, gate: &Gate) -> Checked {
    let checked = |outcome, sentence| Checked { name: gate.text.clone(), outcome, sentence };
    let wrong = families
        .comparisons
        .iter()
        .flat_map(|one| &one.sides)
        .find_map(|side| Some((side, side.wrong.as_ref()?)));
    if let Some((side, why)) = wrong {
        let sentence = format!("cannot tell {}: of {}: {why}", gate.text, side.name);
        return checked(ConditionOutcome::CannotTell, sentence);
    }
    let (mut held, mut beyond, mut noise) = (0, Vec::new(), Vec::new());
    for comparison in &families.comparisons {
        for (letter, base, cell) in pairs(comparison, gate) {
            match hold(gate, comparison, &letter, base, cell) {
                None => {}
                Some(Held::Below) => held += 1,
                Some(Held::Noise(words)) => {
                    held += 1;
                    noise.push(words);
                }
                Some(Held::Beyond(words)) => {
                    held += 1;
                    beyond.push(words);
                }
            }
        }
    }
    let text = &gate.text;
    if !beyond.is_empty() {
        checked(ConditionOutcome::Missed, format!("failed {text}: {}", beyond.join("; ")))
    } else if held == 0 {
        let sentence = format!("cannot tell {text}: no row has that figure on both sides");
        checked(ConditionOutcome::CannotTell, sentence)
    } else {
        let how = match noise.as_slice() {
            [] => format!("{held} held against it"),
            noise => format!("beyond it only within noise: {}", noise.join("; ")),
        };
        checked(ConditionOutcome::Met, format!("passed {text}: {how}"))
    }
}

/// The rows that a condition is about, with the base's.
fn pairs<'a>(comparison: &'a Comparison, gate: &Gate) -> Vec<(String, &'a Row, &'a Cell)> {
    let mut pairs = Vec::new();
    for line in &comparison.rows {
        let Some(base) = line.cells.first().and_then(Option::as_ref) else { continue };
        for (side, cell) in line.cells.iter().enumerate().skip(1) {
            let Some(cell) = cell else { continue };
            let applies = match &gate.method {
                Some(method) => *method == cell.row.id || *method == base.row.id,
                None => {
                    cell.row.class == base.row.class
                        && cell.row.class.is_none_or(|class| class == EffectiveClass::PowerLoss)
                }
            };
            if applies {
                pairs.push((Comparison::letter(side), &base.row, cell));
            }
        }
    }
    pairs
}

fn hold(gate: &Gate, comparison: &Comparison, letter: &str, base: &Row, cell: &Cell) -> Option<Held> {
    let (base_figure, figure) = (base.figure(&gate.figure)?, cell.row.figure(&gate.figure)?);
    let measure = &figure.measure;
    let several = comparison.sides.len() > 2;
    let row = if several { format!("{} of {letter}", cell.row.id) } else { cell.row.id.clone() };
    let is_beyond = |value: f64, bound: f64| if gate.above { value > bound } else { value < bound };
    match gate.bound {
        Bound::Itself(bound) => {
            let words = format!("{row} has {}", measure.cell(figure.value).replace("  ", " "));
            Some(if is_beyond(figure.value, bound) { Held::Beyond(words) } else { Held::Below })
        }
        Bound::Percent(bound) => {
            let difference = difference(base, base_figure, &cell.row, figure)?;
            let words = format!(
                "{row} has {} against {}, {}",
                measure.cell(figure.value),
                measure.cell(base_figure.value),
                text::percent(difference.percent())
            );
            Some(match (is_beyond(difference.percent(), bound), difference.within_noise()) {
                (false, _) => Held::Below,
                (true, Some(true)) => Held::Noise(words),
                (true, _) => Held::Beyond(words),
            })
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::compare::side::Side;
    use crate::latency::Latency;
    use crate::result::RunResult;
    use crate::sample::{latency, measured, volatile};

    /// The same machine, with one method's commits slower by this factor in every round.
    fn slower(id: &str, times: u64) -> RunResult {
        let mut result = volatile(Vec::new());
        let one = measured(&mut result, id);
        let values: Vec<(u64, u64)> = one
            .main()
            .histogram()
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
            .collect();
        *latency(one) = Latency::new();
        for (ns, count) in values {
            (0..count).for_each(|_| latency(one).record(ns * times));
        }
        for round in &mut one.rounds {
            (round.p50_ns, round.p99_ns, round.elapsed_ns) =
                (round.p50_ns * times, round.p99_ns * times, round.elapsed_ns * times);
        }
        one.elapsed_ns *= times;
        result
    }

    fn judged(other: &RunResult, condition: &str) -> Vec<(ConditionOutcome, String)> {
        let sides = vec![Side::own("a", &volatile(Vec::new())), Side::own("b", other)];
        let families = Families::new(sides, None).expect("alike");
        let gates = parse(condition).expect(condition);
        judge(&families, &gates).into_iter().map(|one| (one.outcome, one.sentence)).collect()
    }

    #[test]
    fn a_condition_fails_where_it_came_true_and_names_the_row() {
        let other = slower("dsync", 2);
        let cases = [
            ("p50>+20%", ConditionOutcome::Missed, "dsync has"),
            ("p50 > +150%", ConditionOutcome::Met, "held"),
            ("commits/s<-20%", ConditionOutcome::Missed, "dsync has"),
            ("buffered+fsync:p99>+20%", ConditionOutcome::Met, "held"),
            ("p50>1s", ConditionOutcome::Met, "held"),
            ("dsync:p50>1us", ConditionOutcome::Missed, "dsync has"),
            ("rate<1e9", ConditionOutcome::Missed, "has"),
            ("beauty>+1%", ConditionOutcome::CannotTell, "no row"),
            ("mmap+msync:p99>+20%", ConditionOutcome::CannotTell, "no row"),
        ];
        for (condition, outcome, words) in cases {
            let (found, sentence) = judged(&other, condition).remove(0);
            assert_eq!(found, outcome, "{condition}: {sentence}");
            assert!(sentence.contains(words), "{condition}: {sentence}");
        }
        let several = judged(&other, "p50>+20%, max>10s");
        assert_eq!(
            several.iter().map(|one| one.0).collect::<Vec<_>>(),
            [ConditionOutcome::Missed, ConditionOutcome::Met]
        );
    }

    #[test]
    fn a_method_that_loses_data_fails_nothing_unless_it_is_named() {
        let other = slower("direct", 5);
        assert_eq!(judged(&other, "p50>+20%")[0].0, ConditionOutcome::Met);
        assert_eq!(judged(&other, "direct:p50>+20%")[0].0, ConditionOutcome::Missed);
    }

    #[test]
    fn what_is_within_noise_fails_nothing_and_is_stated() {
        let mut other = slower("dsync", 2);
        for (index, round) in measured(&mut other, "dsync").rounds.iter_mut().enumerate() {
            round.p50_ns = if index % 2 == 0 { round.p50_ns * 20 } else { round.p50_ns / 20 };
        }
        let (outcome, sentence) = judged(&other, "p50>+20%").remove(0);
        assert!(outcome == ConditionOutcome::Met && sentence.contains("within noise"), "{sentence}");
    }

    #[test]
    fn errors_name_the_token_and_the_grammar() {
        for (text, token) in [
            ("p99", "`p99`"),
            ("p99>20%", "`20%`"),
            ("p99>+x%", "`+x%`"),
            (">5ms", "`>5ms`"),
            ("p99>soon", "`soon`"),
            ("", "``"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(token) && error.contains("expected [METHOD:]"), "{text}: {error}");
        }
    }
}
