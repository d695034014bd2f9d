//! Reads the JVM's ways of writing from `rows.tsv`, the file that the jar reads too.

use seawall_gauge::scenario::path::jvm::{JvmRow, Shape};

const TABLE: &str = include_str!("../java/src/main/resources/seawall/path/rows.tsv");

/// All rows; `not_available` gives the reason why an id cannot run.
pub(crate) fn rows(not_available: impl Fn(&str) -> Option<String>) -> Vec<JvmRow> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .filter_map(|line| {
            let [id, like, _, file, zero, what] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
            let shape = match file {
                "growing" => Shape::Growing,
                "aligned" => Shape::Aligned,
                _ => Shape::Fixed,
            };
            Some(JvmRow {
                id: id.to_owned(),
                like: like.to_owned(),
                shape,
                allocates_nothing: zero == "yes",
                what: what.to_owned(),
                not_available: not_available(id),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_sys::method::System;
    use seawall_sys::methods;
    use seawall_sys::write_call::WriteCall;

    #[test]
    fn every_line_is_a_row_with_a_native_one_that_makes_the_same_calls() {
        let rows = rows(|_| None);
        let lines = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(rows.len(), lines, "a line is malformed");
        for (index, row) in rows.iter().enumerate() {
            assert!(rows[..index].iter().all(|other| other.id != row.id), "{} is there twice", row.id);
            assert!(row.id.len() <= 21, "{} does not fit next to its JVM's name", row.id);
            let call = WriteCall::ALL.iter().any(|call| call.id() == row.like);
            let method = methods::of(System::Linux).iter().any(|method| method.id == row.like);
            assert!(call || method, "{} is like {}, which is no row", row.id, row.like);
            assert!(!row.what.is_empty());
        }
    }
}
