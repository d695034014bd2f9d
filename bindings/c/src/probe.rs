//! What a durable commit costs on a disk, measured within a second.

use std::ffi::c_char;
use std::time::Duration;

use seawall::{Promiser, Tried as InnerTried};
use seawall_sys::clock::nanoseconds;

use crate::error::{c_path, c_text};
use crate::options::class_number;
use crate::pointers::{Kept, Texts, free, made, path};

/// What one commit method showed.
#[repr(C)]
#[derive(Debug)]
pub struct Tried {
    /// Its id in the table of commit methods.
    pub method: *const c_char,
    /// Its calls in words.
    pub calls: *const c_char,
    /// Commits that were timed.
    pub commits: u64,
    /// The median of write and sync together, nanoseconds.
    pub p50_ns: u64,
    /// The slowest, nanoseconds.
    pub max_ns: u64,
}

/// What a probe found.
#[repr(C)]
#[derive(Debug)]
pub struct Probe {
    /// The fastest of the methods that outlive the most here; NULL if none could be tried.
    pub fastest: *const Tried,
    /// All that were tried, the fastest among them.
    pub tried: *const Tried,
    /// Entries of `tried`.
    pub tries: u64,
    /// How long the probe took, nanoseconds.
    pub elapsed_ns: u64,
    /// What an acknowledged commit of these methods outlives here; 0 if that is unknown.
    pub durability: i32,
    /// Whose word that is: 1 the device's, 2 the hypervisor's, 3 the server's behind the file system, 4 Wine's, 0 unknown.
    pub promised_by: i32,
    /// Why the class is not higher, or what it rests on: lines of text. Never NULL.
    pub because: *const c_char,
    /// What went wrong, NULL if nothing did; what was found until then is there.
    pub problem: *const c_char,
    /// A file that could not be removed yet, because the device does not answer; NULL if there is none.
    pub left_behind: *const c_char,
}

/// A probe with what it points to. The probe comes first, so that a pointer to it is one to all of this.
#[repr(C)]
struct Whole {
    probe: Probe,
    _tried: Kept<Tried>,
    _fastest: Kept<Tried>,
    _texts: Texts,
}

fn shown(found: &seawall::Probe) -> Whole {
    let mut texts = Texts::default();
    let mut row = |tried: &InnerTried| Tried {
        method: texts.keep(c_text(tried.method)),
        calls: texts.keep(c_text(tried.calls)),
        commits: tried.commits as u64,
        p50_ns: nanoseconds(tried.p50),
        max_ns: nanoseconds(tried.max),
    };
    let tried = Kept::new(found.tried.iter().map(&mut row).collect());
    let fastest = Kept::new(found.fastest.iter().map(&mut row).collect());
    let probe = Probe {
        fastest: if fastest.len() > 0 { fastest.as_ptr() } else { std::ptr::null() },
        tried: tried.as_ptr(),
        tries: tried.len(),
        elapsed_ns: nanoseconds(found.elapsed),
        durability: found.class.map_or(0, class_number),
        promised_by: match found.promised_by {
            Some(Promiser::Device) => 1,
            Some(Promiser::Hypervisor) => 2,
            Some(Promiser::Server) => 3,
            Some(Promiser::Wine) => 4,
            Some(Promiser::Unknown) | None => 0,
        },
        because: texts.keep(c_text(&found.because.join("\n"))),
        problem: texts.keep_some(found.problem.as_deref()),
        left_behind: found.left_behind.as_deref().map_or(std::ptr::null(), |path| texts.keep(c_path(path))),
    };
    Whole { probe, _tried: tried, _fastest: fastest, _texts: texts }
}

/// Tries the widely supported commit methods on a small file of its own in the directory `dir`, a few commits of 4 KiB each, and
/// removes it. Takes `budget_ns` nanoseconds at most, and a second whatever the budget, even if the device does not answer. `*probe` is
/// to be freed by `seawall_probe_free`.
///
/// Whatever goes wrong on the disk is no error of the call: see `problem`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_probe_run(
    dir: *const c_char,
    budget_ns: u64,
    probe: *mut *const Probe,
) -> i32 {
    let run = || {
        // SAFETY: as the header asks.
        let dir = unsafe { path(dir) }?;
        Ok(shown(&seawall::probe(&dir, Duration::from_nanos(budget_ns))))
    };
    // SAFETY: as the header asks; the probe comes first in what is made.
    unsafe { made(probe.cast(), "probe is NULL", run) }
}

/// Frees what a probe found; NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_probe_free(probe: *const Probe) {
    // SAFETY: as the header asks; it is the first field of what `shown` made.
    unsafe { free(probe.cast_mut().cast::<Whole>()) }
}
