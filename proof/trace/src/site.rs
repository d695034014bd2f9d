//! Finds the source line of a call: the innermost frame outside the C library and a language's runtime.
//!
//! Frames are walked by frame pointers, which Go always has and C by `-fno-omit-frame-pointer`; where there are none, the
//! direct caller is found, or nothing. A line needs debug information, a name a symbol table.

use addr2line::Loader;
use seawall_host::ptrace::{Call, Thread, Tracer, read_memory};
use seawall_host::text::printable;
use std::collections::HashMap;
use std::io::Read as _;
use std::ops::Range;

const FRAMES_MAX: usize = 24;

/// A piece of a file in memory.
pub(crate) struct Piece {
    range: Range<u64>,
    /// Where the file's first byte would lie.
    base: u64,
    /// Whether it is code.
    runs: bool,
    pub(crate) path: String,
}

#[derive(Default)]
pub(crate) struct Sites {
    pieces: HashMap<Thread, Vec<Piece>>,
    loaders: HashMap<String, Option<(Loader, bool)>>,
    found: HashMap<(String, u64), Option<String>>,
}

/// What a process has mapped of files.
fn pieces(thread: Thread) -> Vec<Piece> {
    let text = std::fs::read_to_string(format!("/proc/{thread}/maps")).unwrap_or_default();
    let mut first: HashMap<&str, u64> = HashMap::new();
    let piece = |line| {
        let (range, rest) = str::split_once(line, ' ')?;
        let path = &rest[rest.find('/')?..];
        let (from, to) = range.split_once('-')?;
        let number = |word| u64::from_str_radix(word, 16).ok();
        let range = number(from)?..number(to)?;
        let base = *first.entry(path).or_insert(range.start);
        let runs = rest.split(' ').next().is_some_and(|rights| rights.contains('x'));
        Some(Piece { range, base, runs, path: path.to_owned() })
    };
    text.lines().filter_map(piece).collect()
}

/// The piece at an address of a process.
pub(crate) fn piece_at(thread: Thread, address: u64) -> Option<Piece> {
    pieces(thread).into_iter().find(|piece| piece.range.contains(&address))
}

/// The 64 bits at an address of a process.
pub(crate) fn word(thread: Thread, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    let read = read_memory(thread, address, &mut bytes).ok()?;
    (read == 8).then(|| u64::from_le_bytes(bytes))
}

/// Whether calls are made through this file for others.
fn is_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    ["libc.", "libc-", "libpthread", "ld-", "ld.", "liburing", "libjvm", "libnio"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Whether a function passes calls on for others.
fn is_runtime(name: &str) -> bool {
    const STARTS: [&str; 9] =
        ["syscall.", "internal/", "runtime.", "runtime/", "os.", "std::", "<std::", "rustix::", "__"];
    const NAMES: [&str; 6] = ["fsync", "fdatasync", "msync", "sync", "syncfs", "syscall"];
    STARTS.iter().any(|start| name.starts_with(start)) || NAMES.contains(&name)
}

impl Sites {
    /// The process became another program.
    pub(crate) fn forget(&mut self, thread: Thread) {
        self.pieces.remove(&thread);
    }

    /// Where `call` comes from.
    pub(crate) fn find(&mut self, tracer: &Tracer, thread: Thread, call: &Call) -> Option<String> {
        let (mut pointer, link) = tracer.frame(thread)?;
        let mut addresses = vec![call.instruction];
        addresses.extend(link.or_else(|| word(thread, call.stack)));
        for _ in 0..FRAMES_MAX {
            let (Some(next), Some(address)) = (word(thread, pointer), word(thread, pointer.wrapping_add(8)))
            else {
                break;
            };
            addresses.push(address);
            // Frames of callers lie above.
            if next <= pointer {
                break;
            }
            pointer = next;
        }
        if !self.knows(thread, call.instruction) {
            self.pieces.insert(thread, pieces(thread).into_iter().filter(|piece| piece.runs).collect());
        }
        for address in addresses {
            let all = self.pieces.get(&thread)?;
            let Some(piece) = all.iter().find(|piece| piece.range.contains(&address)) else {
                continue;
            };
            if is_library(&piece.path) {
                continue;
            }
            // The address is behind the call.
            let key = (piece.path.clone(), address - 1);
            let base = piece.base;
            if !self.found.contains_key(&key) {
                let site = self.resolve(&key.0, key.1, base);
                self.found.insert(key.clone(), site);
            }
            if let Some(Some(site)) = self.found.get(&key) {
                return Some(site.clone());
            }
        }
        None
    }

    fn knows(&self, thread: Thread, address: u64) -> bool {
        let pieces = self.pieces.get(&thread);
        pieces.is_some_and(|all| all.iter().any(|piece| piece.range.contains(&address)))
    }

    fn resolve(&mut self, path: &str, address: u64, base: u64) -> Option<String> {
        let load = || {
            let mut head = [0; 18];
            std::fs::File::open(path).ok()?.read_exact(&mut head).ok()?;
            // `ET_EXEC`: its addresses are those in memory.
            Some((Loader::new(path).ok()?, head[16] == 2))
        };
        let (loader, fixed) = self.loaders.entry(path.to_owned()).or_insert_with(load).as_ref()?;
        let address = if *fixed { address } else { address.checked_sub(base)? };
        let name = loader.find_symbol(address)?;
        if is_runtime(name) {
            return None;
        }
        let line = loader.find_location(address).ok().flatten();
        let line = line.and_then(|found| Some((found.file?.rsplit('/').next()?.to_owned(), found.line?)));
        let text = line.map_or_else(|| name.to_owned(), |(file, line)| format!("{name} {file}:{line}"));
        Some(printable(&text).into_owned())
    }
}
