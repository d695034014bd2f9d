//! Groups the sides of a comparison by scenario, shared figure and shared rows: [`Families`].
//!
//! Invariants: every side belongs to exactly one comparison, or stands alone with the reason; the order is the
//! requested one.

use super::Comparison;
use super::side::Side;
use crate::figures::listing;

/// Sides in comparisons, one a scenario and figure.
#[derive(Debug, Clone)]
pub struct Families {
    /// Sides that can be compared, of two and more each.
    pub comparisons: Vec<Comparison>,
    /// Sides that stand alone.
    pub alone: Vec<Alone>,
}

/// A side that nothing here can be compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alone {
    /// What it is called.
    pub name: String,
    /// Its scenario.
    pub scenario: String,
    /// Why, in words.
    pub why: String,
}

impl Families {
    /// Puts `sides` into comparisons; each is made by `by`, or by the first measure that its sides share.
    ///
    /// # Errors
    /// In words: there are fewer than two sides, or no two of them can be compared, or none by that figure.
    pub fn new(sides: Vec<Side>, by: Option<&str>) -> Result<Self, String> {
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
                        why: why.clone(),
                    }));
                    refusals.push(why);
                }
            }
        }
        if made.comparisons.is_empty() {
            return Err(refused(sides, by, &refusals));
        }
        Ok(made)
    }

    /// Who stands alone, in sentences: those of one reason together.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for side in &self.alone {
            match reasons.iter_mut().find(|(why, _)| *why == side.why) {
                Some((_, names)) => names.push(&side.name),
                None => reasons.push((&side.why, vec![&side.name])),
            }
        }
        reasons
            .into_iter()
            .map(|(why, names)| format!("not compared: {} ({why})", listing(&names, names.len())))
            .collect()
    }
}

fn alone(side: &Side, sides: &[Side]) -> Alone {
    let fellows = sides.iter().any(|other| other != side && other.scenario == side.scenario);
    let why = if fellows {
        format!("it shares no figure with the others of `{}`", side.scenario)
    } else {
        format!("the only one of `{}`", side.scenario)
    };
    Alone { name: side.name.clone(), scenario: side.scenario.clone(), why }
}

/// Why nothing at all can be compared.
fn refused(sides: Vec<Side>, by: Option<&str>, refusals: &[String]) -> String {
    if !refusals.is_empty() {
        return refusals.join("; ");
    }
    if sides.iter().all(|side| side.scenario == sides[0].scenario) {
        return Comparison::new(sides, by).err().unwrap_or_default();
    }
    let each: Vec<String> =
        sides.iter().map(|side| format!("{} is of `{}`", side.name, side.scenario)).collect();
    format!(
        "no two of these can be compared: {}: name two results of one scenario, or see them one by one in `seawall report`",
        each.join("; ")
    )
}
