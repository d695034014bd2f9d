//! Finds the row of the method table that a result's row names, for results of any system.
//!
//! Invariant: a row that this program does not know (a newer program's) is `None`, and code that would need its calls
//! omits it.

use crate::result::RunResult;
use crate::row::Row;
use seawall_sys::method::{Method, Set, System};
use seawall_sys::methods;

const SYSTEMS: [(System, &[&str]); 4] = [
    (System::Linux, &["Linux"]),
    (System::Windows, &["Windows"]),
    (System::MacOs, &["macOS", "Darwin"]),
    (System::Illumos, &["illumos", "SunOS"]),
];

/// The system that the result was measured on: by its name, else by the table that knows most of its rows.
pub(crate) fn system(result: &RunResult) -> System {
    let name = result.environment.system.as_str();
    let named = SYSTEMS.iter().find(|(_, names)| names.iter().any(|known| name.starts_with(known)));
    let known = |system: System| {
        let knows = |row: &&Row| find_in(system, row).is_some();
        result.study.rows.iter().filter(knows).count()
    };
    named.map_or_else(
        || {
            let mut best = System::Linux;
            for (system, _) in SYSTEMS {
                if known(system) > known(best) {
                    best = system;
                }
            }
            best
        },
        |(system, _)| *system,
    )
}

pub(crate) fn method(result: &RunResult, row: &Row) -> Option<&'static Method> {
    find_in(system(result), row)
}

/// Whether the row's method is one that the published experiments measured.
pub(crate) fn is_published(result: &RunResult, row: &Row) -> bool {
    method(result, row).is_some_and(|method| method.set == Set::Published)
}

fn find_in(system: System, row: &Row) -> Option<&'static Method> {
    let name = row.method.as_ref()?;
    methods::of(system).iter().find(|method| method.id == name.id && method.calls == name.calls)
}

/// The one of `known` that `word` was probably meant to be: a slip or two away, not more.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    let slips_max = (word.chars().count() / 3).clamp(1, 4);
    known
        .map(|name| (strsim::levenshtein(&word, &name.to_ascii_lowercase()), name))
        .filter(|(slips, _)| *slips <= slips_max)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, name)| name)
}

/// Each of `all` once, in the order of first appearance.
pub(crate) fn unique<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut unique = Vec::new();
    for one in all {
        if !unique.contains(&one) {
            unique.push(one);
        }
    }
    unique
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_a_slip_or_two_away() {
        let known = || ["buffered+fdatasync", "fdatasync", "fsync", "dsync"].into_iter();
        assert_eq!(nearest("fdatasnyc", known()), Some("fdatasync"));
        assert_eq!(nearest("Fsync", known()), Some("fsync"));
        assert_eq!(nearest("bufferd+fdatsync", known()), Some("buffered+fdatasync"));
        assert_eq!(nearest("kafka", known()), None);
    }
}
