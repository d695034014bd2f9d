//! Finds the methods that `--methods` names: by id, by group, or by the name that databases use.

use crate::error::{Error, Result};
use crate::lookup::nearest;
use seawall_sys::method::{Cache, Method, OpenSync, Set, Sync, System, Write, WriteFlag};
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

/// The languages in which calls are spelled out.
pub const LANGUAGES: [&str; 5] = ["C", "Go", "Java", "Python", "Rust"];

/// A part of a method: its name, whether a method has it, and the call in each of [`LANGUAGES`]; empty where the language has
/// none of its own.
type Part = (&'static str, fn(&Method) -> bool, [&'static str; 5]);

#[rustfmt::skip]
const PARTS: [Part; 13] = [
    ("O_DIRECT",      |m| m.cache == Cache::Direct && m.system != System::Windows, ["open(…, O_DIRECT)", "unix.O_DIRECT", "ExtendedOpenOption.DIRECT", "os.O_DIRECT", ".custom_flags(libc::O_DIRECT)"]),
    ("O_DSYNC",       |m| m.open_sync == OpenSync::Data,           ["open(…, O_DSYNC)", "unix.O_DSYNC", "StandardOpenOption.DSYNC", "os.O_DSYNC", ".custom_flags(libc::O_DSYNC)"]),
    ("O_SYNC",        |m| m.open_sync == OpenSync::Full,           ["open(…, O_SYNC)", "os.O_SYNC", "StandardOpenOption.SYNC", "os.O_SYNC", ".custom_flags(libc::O_SYNC)"]),
    ("WRITE_THROUGH", |m| m.open_sync == OpenSync::WriteThrough,   ["CreateFile(…, FILE_FLAG_WRITE_THROUGH)", "windows.FILE_FLAG_WRITE_THROUGH", "StandardOpenOption.DSYNC", "", ".custom_flags(FILE_FLAG_WRITE_THROUGH)"]),
    ("NO_BUFFERING",  |m| m.cache == Cache::Direct && m.system == System::Windows, ["CreateFile(…, FILE_FLAG_NO_BUFFERING)", "windows.FILE_FLAG_NO_BUFFERING", "ExtendedOpenOption.DIRECT", "", ".custom_flags(FILE_FLAG_NO_BUFFERING)"]),
    ("RWF_DSYNC",     |m| matches!(m.write, Write::Flagged(WriteFlag::Dsync)), ["pwritev2(…, RWF_DSYNC)", "", "", "os.pwritev(…, os.RWF_DSYNC)", "libc::pwritev2(…, RWF_DSYNC)"]),
    ("RWF_SYNC",      |m| matches!(m.write, Write::Flagged(WriteFlag::Sync)),  ["pwritev2(…, RWF_SYNC)", "", "", "os.pwritev(…, os.RWF_SYNC)", "libc::pwritev2(…, RWF_SYNC)"]),
    ("fdatasync",     |m| matches!(m.sync, Sync::Fdatasync | Sync::FdatasyncOtherThread | Sync::FdatasyncOtherDescriptor), ["fdatasync(fd)", "unix.Fdatasync(fd), not f.Sync()", "channel.force(false)", "os.fdatasync(fd)", "file.sync_data()"]),
    ("fsync",         |m| m.sync == Sync::Fsync && m.system != System::MacOs, ["fsync(fd)", "f.Sync()", "channel.force(true)", "os.fsync(fd)", "file.sync_all()"]),
    ("F_FULLFSYNC",   |m| m.calls.contains("F_FULLFSYNC"),         ["fcntl(fd, F_FULLFSYNC)", "f.Sync()", "channel.force(true)", "fcntl.fcntl(fd, fcntl.F_FULLFSYNC)", "file.sync_all()"]),
    ("FlushFileBuffers", |m| m.sync == Sync::FlushFileBuffers,     ["FlushFileBuffers(h)", "f.Sync()", "channel.force(true)", "os.fsync(fd)", "file.sync_all()"]),
    ("syncfs",        |m| m.sync == Sync::Syncfs,                  ["syncfs(fd)", "unix.Syncfs(fd)", "", "", "libc::syncfs(fd)"]),
    ("msync",         |m| m.sync == Sync::Msync,                   ["msync(…, MS_SYNC)", "unix.Msync(b, unix.MS_SYNC)", "mappedByteBuffer.force()", "mmap.flush()", "memmap2: map.flush()"]),
];

/// The parts that methods of this system have, with their calls in each of [`LANGUAGES`].
pub fn spellings() -> Vec<(&'static str, [&'static str; 5])> {
    let has = |is: fn(&Method) -> bool| methods::here().iter().any(is);
    PARTS.into_iter().filter(|(_, is, _)| has(*is)).map(|(name, _, calls)| (name, calls)).collect()
}

/// The calls of `method` in each of [`LANGUAGES`], besides the write itself; `None` where one of them has no call for it.
pub fn spelled(method: &Method) -> [Option<Vec<&'static str>>; 5] {
    let known = |part: &Part| (part.1)(method);
    let of = |language: usize| {
        let calls: Vec<&str> = PARTS.iter().filter(|part| known(part)).map(|part| part.2[language]).collect();
        let ring = matches!(method.write, Write::Ring { .. } | Write::Overlapped);
        (!ring && calls.iter().all(|call| !call.is_empty())).then_some(calls)
    };
    [of(0), of(1), of(2), of(3), of(4)]
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

    #[test]
    fn the_calls_of_a_method_are_named_in_each_language() {
        use super::spelled;
        let linux = seawall_sys::methods::of(seawall_sys::method::System::Linux);
        let find = |id: &str| linux.iter().find(|method| method.id == id).expect("a row");
        let go = |id: &str| spelled(find(id))[1].clone();
        assert_eq!(go("buffered+fsync"), Some(vec!["f.Sync()"]));
        assert_eq!(go("buffered+fdatasync"), Some(vec!["unix.Fdatasync(fd), not f.Sync()"]));
        assert_eq!(go("direct+dsync"), Some(vec!["unix.O_DIRECT", "unix.O_DSYNC"]));
        assert_eq!(go("rwf-dsync"), None, "Go has no pwritev2 of its own");
        assert_eq!(spelled(find("buffered+fdatasync"))[2], Some(vec!["channel.force(false)"]));
    }
}
