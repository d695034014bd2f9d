//! Finds the methods that `--methods` names: by id, by group, or by the name that databases use.

use crate::error::{Error, Result};
use crate::lookup::nearest;
use seawall_sys::method::{Method, Set};
use seawall_sys::methods;

/// The methods named by `--methods`: ids, [`ALIASES`], `published`, `durable` or `all`, separated by commas.
///
/// # Errors
/// An id that this system does not have; the message names the nearest that it has.
pub fn choose_methods(names: &str) -> Result<Vec<&'static Method>> {
    let mut wanted = Vec::new();
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match name {
            "all" => {
                wanted.extend(methods::here());
            }
            "published" => {
                wanted.extend(methods::here().iter().filter(|method| method.set == Set::Published));
            }
            "durable" => {
                wanted.extend(methods::here().iter().filter(|method| method.reach().letter() == 'D'));
            }
            id => wanted.push(by_id(id).or_else(|| by_alias(id)).ok_or_else(|| unknown_method(id))?),
        }
    }
    if wanted.is_empty() {
        let reason = "no method is named: give ids, `published`, `durable` or `all`".to_owned();
        return Err(Error::Option { option: "--methods", reason });
    }
    Ok(methods::here().iter().filter(|method| wanted.contains(method)).collect())
}

/// What databases and `pg_test_fsync` call a method, and its ids: the first that this system has is meant.
pub const ALIASES: [(&str, &[&str]); 6] = [
    ("fdatasync", &["buffered+fdatasync", "nt-flush-data-sync"]),
    ("fsync", &["buffered+fsync", "buffered+flush"]),
    ("fsync_writethrough", &["buffered+fullfsync", "buffered+flush"]),
    ("open_datasync", &["dsync", "write-through"]),
    ("open_sync", &["sync"]),
    ("o_dsync", &["dsync"]),
];

fn by_alias(name: &str) -> Option<&'static Method> {
    let (_, ids) = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name))?;
    ids.iter().find_map(|id| methods::find(id))
}

fn by_id(name: &str) -> Option<&'static Method> {
    methods::here().iter().find(|method| method.id.eq_ignore_ascii_case(name))
}

fn unknown_method(id: &str) -> Error {
    let aliases = ALIASES.map(|(alias, _)| alias);
    let known = methods::here().iter().map(|method| method.id);
    let known = known.chain(aliases.into_iter().filter(|alias| by_alias(alias).is_some()));
    let meant = if aliases.iter().any(|alias| alias.eq_ignore_ascii_case(id)) {
        ": databases call a method so on other systems, and none here corresponds to it;".to_owned()
    } else {
        nearest(id, known).map_or(";".to_owned(), |name| format!("; did you mean `{name}`?"))
    };
    let reason = format!(
        "this system has no method `{id}`{meant} `seawall methods` lists them; the groups are published, durable and all"
    );
    Error::Option { option: "--methods", reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_chosen_by_id_and_group_in_table_order() {
        let all = choose_methods("all").expect("all");
        assert_eq!(all.len(), methods::here().len());
        let some = choose_methods("durable, buffered").expect("a mix");
        assert_eq!(some[0].id, "buffered");
        let refusal = choose_methods("fdatasnyc").expect_err("unknown").to_string();
        assert!(refusal.contains("fdatasnyc") && refusal.contains("did you mean `fdatasync`"), "{refusal}");
        assert!(refusal.len() < 200, "{refusal}");
        assert!(choose_methods(" , ").is_err());
        assert_eq!(choose_methods("DSYNC").ok(), choose_methods("dsync").ok());
        assert!(
            choose_methods("qqqqqqqqqqqqqq")
                .expect_err("unknown")
                .to_string()
                .contains("`; `seawall methods`")
        );
        if by_alias("fsync_writethrough").is_none() {
            let refusal = choose_methods("fsync_writethrough").expect_err("not here").to_string();
            assert!(refusal.contains("other systems") && !refusal.contains("did you mean"), "{refusal}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_names_that_databases_use_mean_methods() {
        let id = |name| choose_methods(name).expect("a known name")[0].id;
        assert_eq!(id("fdatasync"), "buffered+fdatasync");
        assert_eq!([id("fsync"), id("open_datasync"), id("O_DSYNC")], ["buffered+fsync", "dsync", "dsync"]);
        assert_eq!(id("open_sync"), "sync");
        for (_, ids) in ALIASES {
            assert!(ids.iter().all(|id| methods::ALL.into_iter().flatten().any(|method| method.id == *id)));
        }
    }
}
