//! Checks that the log as others depend on it holds no planted bug, by searching what was built for their names.
//!
//! The names are those of the table in `crates/sys/src/planted.rs`; each ends up in a build with the feature `mutants`.

use crate::error::{Error, Result};
use crate::shell::root;
use crate::{files, runner};
use serde_json::Value;
use std::path::PathBuf;

const TABLE: &str = "crates/sys/src/planted.rs";
/// The libraries that bugs are planted in, and a name that each of them must hold: what is searched is what was meant.
const LIBRARIES: [(&str, &str); 2] = [("seawall_sys", "StoreFile"), ("seawall", "SegmentHeader")];

/// Builds the log without features and searches it.
pub(crate) fn check() -> Result {
    let text = files::read(&root().join(TABLE))?;
    let names = names(&text);
    ensure!(!names.is_empty(), "{TABLE} lists no bug");
    let built = runner::messages(&["build", "--package=seawall", "--lib"])?;
    for (name, held) in LIBRARIES {
        let file = built.iter().find_map(|message| library(message, name));
        let file = file.ok_or_else(|| Error::check(format!("cargo built no library {name}")))?;
        let bytes = std::fs::read(&file).map_err(Error::at(file.display()))?;
        ensure!(holds(&bytes, held), "{} does not hold even {held}", file.display());
        let found: Vec<&str> = names.iter().copied().filter(|name| holds(&bytes, name)).collect();
        if !found.is_empty() {
            let found = found.join(", ");
            fail!("{} holds planted bugs: {found}", file.display());
        }
    }
    println!("{} planted bugs, none in the libraries as they ship", names.len());
    Ok(())
}

fn names(text: &str) -> Vec<&str> {
    let rows = text.lines().map(str::trim).skip_while(|line| *line != "table! {").skip(1);
    let names = rows.map(|row| row.split(" = ").next().unwrap_or(row));
    // A semicolon separates two kinds of them.
    names.take_while(|line| *line != "}").filter(|line| *line != ";").collect()
}

fn library(message: &Value, name: &str) -> Option<PathBuf> {
    let files = message["filenames"].as_array().filter(|_| message["target"]["name"] == name)?;
    let mut files = files.iter().filter_map(Value::as_str).map(PathBuf::from);
    files.find(|file| file.extension().is_some_and(|extension| extension == "rlib"))
}

fn holds(bytes: &[u8], name: &str) -> bool {
    bytes.windows(name.len()).any(|window| window == name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{TABLE, holds, names};
    use crate::shell::root;

    #[test]
    fn the_table_is_read_and_a_name_is_found_where_it_stands() {
        let text = std::fs::read_to_string(root().join(TABLE)).expect("the table");
        let names = names(&text);
        assert!(names.len() >= 72 && names.contains(&"SkipSync"), "{names:?}");
        assert!(names.iter().all(|name| name.chars().all(char::is_alphanumeric)), "{names:?}");
        assert!(holds(b"..SkipSync17h", "SkipSync") && !holds(b"SkipSyn", "SkipSync"));
    }
}
