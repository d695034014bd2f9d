//! Example: a durable key-value store on the log, compacted by one transaction and a trim.
//!
//! Every change is a record; the map in memory is what the records add up to. When the log has grown to twice of what
//! the map needs, the map is written again and everything before it is trimmed.
//!
//! `kv DIR set KEY VALUE | get KEY | del KEY | list`

use std::collections::BTreeMap;

use seawall::{Log, Lsn, Options, Result};

/// A map that survives power cuts: when `set` has returned, the value is there for good.
struct Store {
    log: Log,
    map: BTreeMap<String, String>,
    /// Bytes of log that the map would need if it were written again.
    live_bytes: u64,
}

/// One change: `+key\0value` or `-key`.
fn encode(key: &str, value: Option<&str>) -> Vec<u8> {
    match value {
        Some(value) => format!("+{key}\0{value}").into_bytes(),
        None => format!("-{key}").into_bytes(),
    }
}

/// Bytes of log that one key and its value need.
fn needed(key: &str, value: &str) -> u64 {
    (key.len() + value.len() + 6) as u64
}

impl Store {
    fn open(dir: &str) -> Result<Self> {
        let log = Log::open(dir, Options::default())?;
        let mut store = Self { log, map: BTreeMap::new(), live_bytes: 0 };
        for record in store.log.read(store.log.first_lsn())? {
            store.apply(&String::from_utf8_lossy(&record?.payload));
        }
        Ok(store)
    }

    /// Keeps the sum of what the map needs as it goes: adding it up again for each record of a long log would take hours.
    fn apply(&mut self, change: &str) {
        match change.split_at_checked(1) {
            Some(("+", rest)) => {
                if let Some((key, value)) = rest.split_once('\0') {
                    self.live_bytes += needed(key, value);
                    let before = self.map.insert(key.to_owned(), value.to_owned());
                    self.live_bytes -= before.map_or(0, |before| needed(key, &before));
                }
            }
            Some(("-", key)) => {
                let before = self.map.remove(key);
                self.live_bytes -= before.map_or(0, |before| needed(key, &before));
            }
            _ => {}
        }
    }

    fn change(&mut self, key: &str, value: Option<&str>) -> Result<()> {
        let change = encode(key, value);
        self.log.append_commit(&change)?;
        self.apply(&String::from_utf8_lossy(&change));
        let log_bytes = self.log.durable_lsn().since(self.log.first_lsn());
        if log_bytes > 2 * self.live_bytes + (1 << 20) { self.compact() } else { Ok(()) }
    }

    /// Writes the map again, then trims what came before. A crash in between leaves old and new records, whose sum is the
    /// same map, so no transaction is needed and the map may be larger than one.
    fn compact(&mut self) -> Result<()> {
        let start: Lsn = self.log.appended_lsn();
        for (key, value) in &self.map {
            self.log.append(&encode(key, Some(value)))?;
        }
        self.log.commit(self.log.appended_lsn())?;
        self.log.trim(start).map(drop)
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (dir, command) = words.split_first().ok_or("kv DIR set KEY VALUE | get KEY | del KEY | list")?;
    let mut store = Store::open(dir)?;
    match command {
        ["set", key, value] => store.change(key, Some(value))?,
        ["del", key] => store.change(key, None)?,
        ["get", key] => println!("{}", store.map.get(*key).ok_or("no such key")?),
        ["list"] => store.map.iter().for_each(|(key, value)| println!("{key} = {value}")),
        _ => return Err("kv DIR set KEY VALUE | get KEY | del KEY | list".into()),
    }
    store.log.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Store, needed};

    #[test]
    fn the_running_sum_is_what_the_map_needs() {
        // Next to the test program, because the system's temporary folder may lie in memory.
        let here = std::env::current_exe().expect("is known");
        let dir = tempfile::tempdir_in(here.parent().expect("is in one")).expect("a directory on a disk");
        let dir = dir.path().to_str().expect("is text");
        let mut store = Store::open(dir).expect("opens");
        let changes = [
            ("a", Some("1")),
            ("b", Some("22")),
            ("a", Some("333")),
            ("b", None),
            ("c", None),
            ("b", Some("4")),
        ];
        for (key, value) in changes {
            store.change(key, value).expect("commits");
            let sum: u64 = store.map.iter().map(|(key, value)| needed(key, value)).sum();
            assert_eq!(store.live_bytes, sum, "after {key} = {value:?}");
        }
        let before = store.live_bytes;
        store.log.close().expect("closes");
        assert_eq!(Store::open(dir).expect("opens").live_bytes, before);
    }
}
