//! Maps each commit method to its counterpart on other systems.
//!
//! The counterpart is what a programmer would write there instead; whether it promises the same is computed, never
//! assumed.
//!
//! Invariants (tested below): every id is one of its system's table; no id occurs twice.

use seawall_sys::method::System;

/// Methods that stand in for each other: on Linux and illumos, on Windows, on macOS. Empty: none does.
const KIN: [[&str; 3]; 8] = [
    //  Linux, illumos      Windows                       macOS
    ["buffered", "buffered", "buffered"],
    ["buffered+fsync", "buffered+flush", "buffered+fullfsync"],
    ["buffered+fdatasync", "nt-flush-data-sync", ""],
    ["dsync", "write-through", ""],
    ["direct", "no-buffering", "nocache"],
    ["direct+dsync", "no-buffering+write-through", ""],
    ["direct+fsync", "no-buffering+flush", "nocache+fullfsync"],
    ["mmap+msync", "mapped+flush", ""],
];

fn column(system: System) -> usize {
    match system {
        System::Linux | System::Illumos => 0,
        System::Windows => 1,
        System::MacOs => 2,
    }
}

/// The method of `to` that answers to `id` of `from`. Rows that are no methods answer to their own name only.
pub(crate) fn kin(id: &str, from: Option<System>, to: Option<System>) -> Option<&str> {
    let (Some(from), Some(to)) = (from, to) else { return (from == to).then_some(id) };
    if column(from) == column(to) {
        return Some(id);
    }
    let row = KIN.iter().find(|row| row[column(from)] == id)?;
    Some(row[column(to)]).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_sys::methods;
    use std::collections::HashSet;

    #[test]
    fn every_kin_is_a_row_of_its_system_and_stands_once() {
        for system in [System::Linux, System::Windows, System::MacOs] {
            let ids: Vec<&str> =
                KIN.iter().map(|row| row[column(system)]).filter(|id| !id.is_empty()).collect();
            assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
            for id in ids {
                assert!(methods::of(system).iter().any(|method| method.id == id), "{system:?} {id}");
            }
        }
    }

    #[test]
    fn kin_goes_both_ways_and_never_by_guess() {
        let (linux, windows) = (Some(System::Linux), Some(System::Windows));
        assert_eq!(kin("dsync", linux, windows), Some("write-through"));
        assert_eq!(kin("write-through", windows, linux), Some("dsync"));
        assert_eq!(kin("uring-linked", linux, linux), Some("uring-linked"));
        assert_eq!(kin("uring-linked", linux, windows), None);
        assert_eq!(kin("dsync", linux, Some(System::MacOs)), None);
        assert_eq!(kin("pwrite", None, None), Some("pwrite"));
        assert_eq!(kin("buffered", linux, None), None);
    }
}
