//! The program `seawall` with other write-ahead logs in `bench peers`; built by `cargo xtask peers`.
//!
//! Each is configured for speed with full durability. Invariant: [`Contestant::calls`] names the calls of a commit, so that
//! the device's counters are held against them.

mod nodedb_wal;
mod okaywal;
mod raft_engine;
mod sqlite;
mod wal_db;

use seawall_gauge::scenario::log::contest::Contestant;

/// What all of them call after writing.
const SYNC: Option<&str> = Some("buffered+fdatasync");

fn main() -> std::process::ExitCode {
    seawall_cli::run(Vec::leak(peers()))
}

/// All of them, a row each.
fn peers() -> Vec<Contestant> {
    vec![
        Contestant {
            name: "okaywal",
            version: version("okaywal"),
            set_up: "segments of 32 MiB, a buffer of 64 KiB; checkpoints itself at three quarters of a segment",
            calls: SYNC,
            shares: true,
            grows: false,
            has_streams: false,
            open: okaywal::open,
        },
        Contestant {
            name: "raft-engine",
            version: version("raft-engine"),
            set_up: "a raft group for each thread, or its own of as many as there are streams, files of 32 MiB, filled and recycled, no compression; compacted and purged after each 8 MiB, untimed",
            calls: SYNC,
            shares: true,
            grows: false,
            has_streams: true,
            open: raft_engine::open,
        },
        Contestant {
            name: "sqlite",
            version: version("rusqlite"),
            set_up: "the SQLite that comes with that version of rusqlite: journal_mode=WAL, synchronous=FULL, an INSERT each; emptied and checkpointed after each 8 MiB, untimed",
            calls: SYNC,
            shares: false,
            grows: false,
            has_streams: false,
            open: sqlite::open,
        },
        Contestant {
            name: "wal-db",
            version: version("wal-db"),
            set_up: "segments of 32 MiB, which grow; those before the last record are removed after each 8 MiB, untimed",
            calls: SYNC,
            shares: true,
            grows: false,
            has_streams: false,
            open: wal_db::open,
        },
        Contestant {
            name: "nodedb-wal",
            version: version("nodedb-wal"),
            set_up: "segments of 32 MiB, which grow, each with a double-write buffer that is synced before each commit; those before the last record are removed after each 8 MiB, untimed",
            calls: Some("direct+fsync"),
            shares: false,
            grows: false,
            has_streams: false,
            open: nodedb_wal::open,
        },
    ]
}

/// The version of a package, as this program was built with it.
fn version(package: &str) -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let mut lines = lock.lines().skip_while(|line| *line != format!("name = \"{package}\""));
    let version = lines.nth(1).and_then(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    version.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::peers;

    #[test]
    fn rows_are_unique_and_their_versions_are_known() {
        let peers = peers();
        for (index, peer) in peers.iter().enumerate() {
            assert!(peers[..index].iter().all(|other| other.name != peer.name), "{}", peer.name);
            assert!(peer.version.contains('.'), "{}", peer.name);
        }
    }
}
