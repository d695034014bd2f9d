//! The options of a log, set by their names.
//!
//! Invariant: each name is a row of one of the two tables, and the header's text lists the same.

use std::ffi::{CStr, c_char};
use std::sync::Mutex;
use std::time::Duration;

use seawall::{Durability, EngineChoice, Error, MethodChoice, OnFull, Permissions, Retention};

use crate::error::{Failure, Result, call, quiet};
use crate::pointers::{free, handle, into_handle, text};

/// The process may end.
pub const SEAWALL_PROCESS_CRASH: i32 = 1;
/// The system may crash.
pub const SEAWALL_SYSTEM_CRASH: i32 = 2;
/// The power may fail.
pub const SEAWALL_POWER_LOSS: i32 = 3;

/// The class of a number; `None` for 0, the log's own.
pub(crate) fn class(number: i32) -> Result<Option<Durability>> {
    match number {
        0 => Ok(None),
        SEAWALL_PROCESS_CRASH => Ok(Some(Durability::ProcessCrash)),
        SEAWALL_SYSTEM_CRASH => Ok(Some(Durability::SystemCrash)),
        SEAWALL_POWER_LOSS => Ok(Some(Durability::PowerLoss)),
        _ => Err(Failure::Argument("the durability class is none of 0 to 3")),
    }
}

/// The number of a class.
pub(crate) fn class_number(class: Durability) -> i32 {
    match class {
        Durability::ProcessCrash => SEAWALL_PROCESS_CRASH,
        Durability::SystemCrash => SEAWALL_SYSTEM_CRASH,
        Durability::PowerLoss => SEAWALL_POWER_LOSS,
    }
}

/// Options under construction. Of them `Retention` is made from two settings.
#[derive(Clone, Debug, Default)]
struct Settings {
    options: seawall::Options,
    retention: Retention,
}

/// The options of a log.
pub struct Options(Mutex<Settings>);

/// Sets a number or a word; `None` if the option takes no such value.
type SetNumber = fn(Settings, u64) -> Option<Settings>;
type SetWord = fn(Settings, &str) -> Option<Settings>;

/// The settings that are numbers.
const NUMBERS: [(&str, SetNumber); 18] = [
    ("segment_bytes", |settings, value| number(settings, value, seawall::Options::segment_bytes)),
    ("block_bytes", |settings, value| number(settings, value, seawall::Options::block_bytes)),
    ("batch_bytes", |settings, value| number(settings, value, seawall::Options::batch_bytes)),
    ("memory_bytes", |settings, value| number(settings, value, seawall::Options::memory_bytes)),
    ("crash_memory_bytes", |settings, value| number(settings, value, seawall::Options::crash_memory_bytes)),
    ("record_bytes_max", |settings, value| number(settings, value, seawall::Options::record_bytes_max)),
    ("in_flight_max", |settings, value| number(settings, value, seawall::Options::in_flight_max)),
    ("spares", |settings, value| number(settings, value, seawall::Options::spares)),
    ("idle_mark_ns", |settings, value| {
        settings.with(|options| options.idle_mark(Duration::from_nanos(value)))
    }),
    ("retention_bytes", |settings, value| {
        Some(Settings { retention: settings.retention.bytes(value), ..settings })
    }),
    ("retention_age_ns", |settings, value| {
        let age = Duration::from_nanos(value);
        Some(Settings { retention: settings.retention.age(age), ..settings })
    }),
    ("disk_bytes_max", |settings, value| number(settings, value, seawall::Options::disk_bytes_max)),
    ("full_is_error", |settings, value| {
        let choice = if flag(value)? { OnFull::Error } else { OnFull::Wait };
        settings.with(|options| options.on_full(choice))
    }),
    ("durability", |settings, value| {
        let class = class(i32::try_from(value).ok()?).ok()??;
        settings.with(|options| options.durability(class))
    }),
    ("create", |settings, value| switch(settings, value, seawall::Options::create)),
    ("permissions", |settings, value| {
        let permissions = match value {
            0 => Permissions::OwnerOnly,
            1 => Permissions::Group,
            2 => Permissions::Umask,
            _ => return None,
        };
        settings.with(|options| options.permissions(permissions))
    }),
    ("network_file_system", |settings, value| switch(settings, value, seawall::Options::network_file_system)),
    ("stall_threshold_ns", |settings, value| {
        settings.with(|options| options.stall_threshold(Duration::from_nanos(value)))
    }),
];

/// The settings that are words.
const WORDS: [(&str, SetWord); 2] = [
    ("method", |settings, word| {
        let choice = match word {
            "fastest" => MethodChoice::Fastest,
            "probe again" => MethodChoice::ProbeAgain,
            id => MethodChoice::Named(id.to_owned()),
        };
        settings.with(|options| options.method(choice))
    }),
    ("engine", |settings, word| {
        let choice = if word == "automatic" {
            EngineChoice::Automatic
        } else {
            EngineChoice::Only(*seawall::Engine::ALL.iter().find(|engine| engine.name() == word)?)
        };
        settings.with(|options| options.engine(choice))
    }),
];

/// Sets an option that is a number of its own type.
fn number<T: TryFrom<u64>>(
    settings: Settings,
    value: u64,
    set: fn(seawall::Options, T) -> seawall::Options,
) -> Option<Settings> {
    let value = T::try_from(value).ok()?;
    settings.with(|options| set(options, value))
}

/// Sets an option that is on or off.
fn switch(
    settings: Settings,
    value: u64,
    set: fn(seawall::Options, bool) -> seawall::Options,
) -> Option<Settings> {
    let on = flag(value)?;
    settings.with(|options| set(options, on))
}

fn flag(value: u64) -> Option<bool> {
    match value {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

impl Settings {
    #[expect(clippy::unnecessary_wraps, reason = "the rows of a table have one form")]
    fn with(self, set: impl FnOnce(seawall::Options) -> seawall::Options) -> Option<Self> {
        Some(Self { options: set(self.options), ..self })
    }
}

/// The option that a caller may not set so.
fn invalid(name: &CStr, reason: &str) -> Failure {
    // Names that no option has are shown, but never kept: an error holds names of options alone.
    let rows = NUMBERS.iter().map(|(name, _)| *name).chain(WORDS.iter().map(|(name, _)| *name));
    let known = rows.into_iter().find(|known| known.as_bytes() == name.to_bytes());
    match known {
        Some(option) => Error::InvalidOption { option, reason: reason.to_owned() },
        None => Error::InvalidOption {
            option: "name",
            reason: format!("no option {:?} of this kind", name.to_string_lossy()),
        },
    }
    .into()
}

impl Options {
    /// The options as the log takes them.
    pub(crate) fn get(&self) -> seawall::Options {
        let settings = self.settings().clone();
        settings.options.retention(settings.retention)
    }

    fn settings(&self) -> std::sync::MutexGuard<'_, Settings> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Changes them as the row `set` of the option says, if there is such a row.
    fn change(&self, name: &CStr, set: Option<impl FnOnce(Settings) -> Option<Settings>>) -> Result<i32> {
        let kind = if row(&NUMBERS, name).is_some() { "it takes a number" } else { "it takes a word" };
        let set = set.ok_or_else(|| invalid(name, kind))?;
        let mut settings = self.settings();
        let changed = set(settings.clone());
        *settings =
            changed.ok_or_else(|| invalid(name, "this value is none that it takes: see the header"))?;
        Ok(0)
    }
}

/// The row of an option.
fn row<S: Copy>(rows: &[(&'static str, S)], name: &CStr) -> Option<S> {
    rows.iter().find(|(known, _)| known.as_bytes() == name.to_bytes()).map(|(_, set)| *set)
}

/// Makes options with their defaults. To be freed by `seawall_options_free`.
///
/// NULL only by a mistake in Seawall: see `SEAWALL_PANICKED`.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_new() -> *mut Options {
    quiet(std::ptr::null_mut(), || into_handle(Options(Mutex::default())))
}

/// Sets an option that is a number. Bounds are checked when a log is opened.
///
/// | name | what |
/// | --- | --- |
/// | `segment_bytes` | size of one segment: 64 KiB to 64 GiB, a multiple of 4096; default 32 MiB |
/// | `block_bytes` | 512, 1024, 2048 or 4096; fixed when the log is made; default 4096 |
/// | `batch_bytes` | the longest ordinary batch: 4 KiB to 64 MiB, a multiple of 4096; default 2 MiB |
/// | `memory_bytes` | memory for records that are not yet written: two batches or more; default 32 MiB |
/// | `crash_memory_bytes` | memory for commits that outlive the process only: 0, or 64 KiB to 4 GiB; default 16 MiB |
/// | `record_bytes_max` | the longest record and transaction: 1 to 1 GiB; default 64 MiB |
/// | `in_flight_max` | batches in flight at once: 1 to 16; default 2 |
/// | `spares` | segments prepared ahead: 1 to 16; default 1 |
/// | `idle_mark_ns` | nanoseconds without a commit until a durable mark: 1 ms to 1 h; default 5 ms |
/// | `retention_bytes` | the log is trimmed to this many bytes, whole segments; default: not |
/// | `retention_age_ns` | segments go whose newest record is older; default: not |
/// | `disk_bytes_max` | the most that the log takes of the disk: six segments or more; default: no bound |
/// | `full_is_error` | 1: appends under a full `disk_bytes_max` fail with `SEAWALL_DISK_CAP`; 0: they wait; default 0 |
/// | `durability` | what an acknowledged record outlives: `SEAWALL_PROCESS_CRASH`, `SEAWALL_SYSTEM_CRASH` or `SEAWALL_POWER_LOSS`; default power loss |
/// | `create` | 1: make a log where there is none; default 1 |
/// | `permissions` | of files that are made: 0 the owner alone, 1 the group reads, 2 by umask; default 0 |
/// | `network_file_system` | 1: the log may lie on one; default 0 |
/// | `stall_threshold_ns` | the disk counts as stalled after this long, see `seawall_stats`: 1 ms to 1 h; default: not watched |
///
/// Returns 0, `SEAWALL_INVALID_OPTION` for a name or value that there is not, `SEAWALL_INVALID_ARGUMENT` for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_options_set(options: *mut Options, name: *const c_char, value: u64) -> i32 {
    call(|| {
        // SAFETY: as the header asks.
        let options = unsafe { handle(options.cast_const(), "options is NULL") }?;
        // SAFETY: as the header asks.
        let name = unsafe { text(name, "name is NULL") }?;
        options.change(name, row(&NUMBERS, name).map(|set| move |settings| set(settings, value)))
    })
}

/// Sets an option that is a word.
///
/// | name | what |
/// | --- | --- |
/// | `method` | `fastest` (default: by a probe, once for a log), `probe again`, or the id of a commit method (`seawall methods` lists them) |
/// | `engine` | `automatic` (default), `portable`, `io_uring`, `overlapped` |
///
/// Returns as `seawall_options_set`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_options_set_text(
    options: *mut Options,
    name: *const c_char,
    value: *const c_char,
) -> i32 {
    call(|| {
        // SAFETY: as the header asks.
        let options = unsafe { handle(options.cast_const(), "options is NULL") }?;
        // SAFETY: as the header asks.
        let name = unsafe { text(name, "name is NULL") }?;
        // SAFETY: as the header asks.
        let value = unsafe { text(value, "value is NULL") }?;
        let word = value.to_str().map_err(|_| Failure::Argument("value is not UTF-8"))?;
        options.change(name, row(&WORDS, name).map(|set| move |settings| set(settings, word)))
    })
}

/// Frees options; NULL is fine. A log that was opened with them keeps its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_options_free(options: *mut Options) {
    // SAFETY: as the header asks.
    unsafe { free(options) }
}

#[cfg(test)]
mod tests {
    use super::{NUMBERS, WORDS};

    #[test]
    fn the_header_lists_every_option() {
        let source = include_str!("options.rs");
        for name in NUMBERS.iter().map(|(name, _)| *name).chain(WORDS.iter().map(|(name, _)| *name)) {
            assert!(source.contains(&format!("/// | `{name}` |")), "{name}");
        }
        let listed = source.lines().filter(|line| line.starts_with("/// | `")).count();
        assert_eq!(listed, NUMBERS.len() + WORDS.len());
    }
}
