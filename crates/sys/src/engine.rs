//! Lists the I/O engines, probes which of them this process may use, and sets one up for a log.
//!
//! | engine | what it is | what it needs |
//! | --- | --- | --- |
//! | `portable` | one call for one write or sync | nothing |
//! | `io_uring` | requests on a ring, a whole batch in one system call, from registered memory to a registered file | Linux 5.6 that allows it |
//! | `overlapped` | requests on an overlapped handle | Windows |
//!
//! A row of the method table belongs to one engine ([`Method::engine`]). [`Engine::probe`] checks that the system has
//! an engine and that this process may use it, which is not the same: containers often forbid `io_uring`.
//!
//! [`EngineContext`] is the state that an engine shares between the segments of a log: many files, written one after the
//! other, by several writers, from the same memory. What it opens are [`CommitHandle`]s like any others.
//!
//! Invariant: an engine that is refused is [`Unavailable`] with its reason; another one takes over only where the caller
//! says so.

use crate::commit::{CommitHandle, NumberedBuffer, OpenError, Target, Unavailable};
use crate::directory::Directory;
use crate::method::{Method, System, Write};
use crate::os::rings::{self, Rings};

/// How the requests of a log or of a block reach the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Engine {
    /// One call for one write or sync.
    Portable,
    /// Linux' `io_uring`.
    IoUring,
    /// Windows' overlapped I/O.
    Overlapped,
}

/// What an engine is called, where it is to be found, and what it needs in words.
struct Row(Engine, &'static str, Option<System>, &'static str);

const ENGINES: [Row; 3] = [
    Row(Engine::Portable, "portable", None, "any system"),
    Row(Engine::IoUring, "io_uring", Some(System::Linux), "Linux 5.6, io_uring allowed"),
    Row(Engine::Overlapped, "overlapped", Some(System::Windows), "Windows"),
];

impl Engine {
    /// Every engine.
    pub const ALL: [Self; ENGINES.len()] = [ENGINES[0].0, ENGINES[1].0, ENGINES[2].0];

    fn row(self) -> &'static Row {
        match self {
            Self::Portable => &ENGINES[0],
            Self::IoUring => &ENGINES[1],
            Self::Overlapped => &ENGINES[2],
        }
    }

    /// What it is called, in options and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// What it needs, for people.
    #[must_use]
    pub fn needs(self) -> &'static str {
        self.row().3
    }

    /// The engine of that name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|engine| engine.name() == name)
    }

    /// Whether this system has it at all, allowed or not.
    #[must_use]
    pub fn is_known_here(self) -> bool {
        self.row().2.is_none_or(|system| system == crate::os::SYSTEM)
    }

    /// Whether this process may use it now: tried, not guessed.
    ///
    /// # Errors
    /// Why not, and what would help.
    pub fn probe(self) -> Result<(), Unavailable> {
        if !self.is_known_here() {
            return Err(Unavailable(format!("the {} engine needs {}", self.name(), self.needs())));
        }
        if self == Self::IoUring { rings::probe() } else { Ok(()) }
    }
}

impl Method {
    /// The engine that runs this row.
    #[must_use]
    pub fn engine(&self) -> Engine {
        match self.write {
            Write::Ring { .. } => Engine::IoUring,
            Write::Overlapped => Engine::Overlapped,
            Write::Positional | Write::Flagged(_) | Write::Mapped => Engine::Portable,
        }
    }
}

/// What the writers of one log share, in all its segments.
pub struct EngineContext {
    method: &'static Method,
    /// One for each writer; none where the writers share nothing.
    rings: Option<Rings>,
}

impl EngineContext {
    /// Sets up the engine of `method` for `writers` writers, each of which writes one batch at a time. A row with
    /// registered memory has places for `count` buffers, which it registers when they are written for the first time; the
    /// ones in `first` at once.
    ///
    /// # Errors
    /// As [`crate::open`]. Too little locked memory for the first buffers is [`OpenError::Unavailable`].
    pub fn start(
        method: &'static Method,
        writers: usize,
        count: usize,
        first: &[NumberedBuffer<'_>],
    ) -> Result<Self, OpenError> {
        let rings = match method.engine() {
            Engine::IoUring => Some(Rings::start(method, writers, count, first)?),
            Engine::Portable | Engine::Overlapped => None,
        };
        Ok(Self { method, rings })
    }

    /// Opens a file in `directory`, as [`crate::open`] does, for `writer`, counted from 0. Only one file of a writer is written at a
    /// time: another one waits.
    ///
    /// # Errors
    /// As [`crate::open`].
    pub fn open(
        &self,
        directory: &Directory,
        writer: usize,
        target: &Target,
    ) -> Result<Box<dyn CommitHandle>, OpenError> {
        match &self.rings {
            Some(rings) => rings.open(directory, writer, target),
            None => crate::open(self.method, target, Some(directory)),
        }
    }

    /// Gives up what is registered of the buffer with this number, which no write is using; returns whether nothing of it is
    /// registered any more. Its memory may change then, and be given back to the system.
    #[must_use]
    pub fn forget(&self, number: u16) -> bool {
        self.rings.as_ref().is_none_or(|rings| rings.forget(number))
    }

    /// The row that it runs.
    #[must_use]
    pub fn method(&self) -> &'static Method {
        self.method
    }
}

impl std::fmt::Debug for EngineContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineContext").field("method", &self.method.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{ENGINES, Engine};
    use crate::methods;

    #[test]
    fn rows_and_engines_agree() {
        for (row, engine) in ENGINES.iter().zip(Engine::ALL) {
            assert_eq!(row.0, engine);
            assert_eq!((engine.row().0, Engine::find(engine.name())), (engine, Some(engine)));
        }
        assert!(Engine::Portable.probe().is_ok());
        assert_eq!(Engine::find("none"), None);
    }

    #[test]
    fn every_row_belongs_to_an_engine_that_its_system_knows() {
        for method in methods::ALL.into_iter().flatten() {
            let at_home = method.engine().row().2;
            assert!(at_home.is_none_or(|system| system == method.system), "{}", method.id);
        }
        for engine in Engine::ALL {
            let rows = methods::here().iter().filter(|method| method.engine() == engine).count();
            assert_eq!(rows > 0, engine.is_known_here(), "{}", engine.name());
        }
    }

    #[test]
    fn an_engine_of_another_system_says_what_it_needs() {
        for engine in Engine::ALL.into_iter().filter(|engine| !engine.is_known_here()) {
            let refused = engine.probe().expect_err("is not here").to_string();
            assert!(refused.contains(engine.needs()), "{refused}");
        }
    }
}
