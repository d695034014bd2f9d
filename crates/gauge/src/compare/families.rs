//! Groups the sides of a comparison by scenario, shared figure and shared rows: [`Families`].
//!
//! Invariants: every side belongs to exactly one comparison, or stands alone with the reason; the order is the
//! requested one.

use super::side::Side;
use super::{Comparison, Incomparable, scenarios};
use crate::advise::by_reason;
use crate::figures::plural;

/// Sides in comparisons, one a scenario and figure.
#[derive(Debug, Clone)]
pub struct Families {
    /// Sides that can be compared, of two and more each.
    pub(crate) comparisons: Vec<Comparison>,
    pub(crate) alone: Vec<Alone>,
}

/// A side that nothing here can be compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Alone {
    pub name: String,
    pub scenario: String,
    pub why: String,
}

impl Families {
    /// Puts `sides` into comparisons; each is made by `by`, or by the first measure that its sides share.
    ///
    /// # Errors
    /// There are fewer than two sides, or no two of them can be compared, or none by that figure.
    pub fn new(sides: Vec<Side>, by: Option<&str>) -> Result<Self, Incomparable> {
        let mut families: Vec<Vec<Side>> = Vec::new();
        for side in &sides {
            let fits = |family: &&mut Vec<Side>| {
                let joined = family.iter().chain([side]).cloned().collect();
                family[0].scenario == side.scenario && Comparison::new(joined, None).is_ok()
            };
            match families.iter_mut().find(fits) {
                Some(family) => family.push(side.clone()),
                None => families.push(vec![side.clone()]),
            }
        }
        let mut made = Self { comparisons: Vec::new(), alone: Vec::new() };
        let mut refusals = Vec::new();
        for family in families {
            if let [side] = family.as_slice() {
                made.alone.push(alone(side, &sides));
                continue;
            }
            match Comparison::new(family.clone(), by) {
                Ok(comparison) => made.comparisons.push(comparison),
                Err(why) => {
                    made.alone.extend(family.iter().map(|side| Alone {
                        name: side.name.clone(),
                        scenario: side.scenario.clone(),
                        why: why.to_string(),
                    }));
                    refusals.push(why);
                }
            }
        }
        if made.comparisons.is_empty() {
            return Err(refused(sides, by, refusals));
        }
        Ok(made)
    }

    /// The sides that stand alone, in sentences: those of one reason together.
    pub fn left_out(&self) -> Vec<String> {
        by_reason(self.alone.iter().map(|side| (side.name.as_str(), &side.why)))
            .into_iter()
            .map(|(why, names)| format!("not compared: {names} ({why})"))
            .collect()
    }
}

fn alone(side: &Side, sides: &[Side]) -> Alone {
    let mut fellows =
        sides.iter().filter(|other| *other != side && other.scenario == side.scenario).peekable();
    let has_fellows = fellows.peek().is_some();
    let why = if has_fellows && fellows.all(|other| other.writes != side.writes) {
        format!("no other has {} a commit", plural(side.writes.into(), "write", "writes"))
    } else if has_fellows {
        format!("it shares no figure with the others of `{}`", side.scenario)
    } else {
        format!("the only one of `{}`", side.scenario)
    };
    Alone { name: side.name.clone(), scenario: side.scenario.clone(), why }
}

fn refused(sides: Vec<Side>, by: Option<&str>, refusals: Vec<Incomparable>) -> Incomparable {
    if !refusals.is_empty() {
        return Incomparable::Each(refusals);
    }
    let scenario = Incomparable::Scenario { scenarios: scenarios(&sides) };
    if sides.iter().all(|side| side.scenario == sides[0].scenario) {
        return Comparison::new(sides, by).err().unwrap_or(scenario);
    }
    scenario
}
