//! Finds the row of the method table that a result's row names, for results of any system.
//!
//! Invariant: a row that this program does not know (a newer program's) is `None`, and code that would need its calls
//! omits it.

use crate::result::{MethodResult, RunResult};
use seawall_sys::method::{Method, System};
use seawall_sys::methods;

const SYSTEMS: [(System, &[&str]); 4] = [
    (System::Linux, &["Linux"]),
    (System::Windows, &["Windows"]),
    (System::MacOs, &["macOS", "Darwin"]),
    (System::Illumos, &["illumos", "SunOS"]),
];

/// The system that the result was measured on: by its name, else by the table that knows most of its rows.
#[must_use]
pub fn system(result: &RunResult) -> System {
    let name = result.environment.system.as_str();
    let named = SYSTEMS.iter().find(|(_, names)| names.iter().any(|known| name.starts_with(known)));
    let known = |system: System| {
        let knows = |row: &&MethodResult| find_in(system, row).is_some();
        result.methods.iter().filter(knows).count()
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

/// The method that `row` of `result` names.
#[must_use]
pub fn method(result: &RunResult, row: &MethodResult) -> Option<&'static Method> {
    find_in(system(result), row)
}

fn find_in(system: System, row: &MethodResult) -> Option<&'static Method> {
    methods::of(system).iter().find(|method| method.id == row.id && method.calls == row.calls)
}
