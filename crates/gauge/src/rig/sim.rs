//! Simulates a disk with exact costs and a virtual clock.
//!
//! ```text
//!   a commit costs   copy 2 µs  +  transfer 20 µs if the calls reach the device  +  flush 25 µs if stable
//!                    + a jitter of 0 to 4 µs drawn from the seed
//!   it counts        1 write and its sectors if it reaches the device, 1 flush if stable
//! ```
//!
//! A [`Plant`] adds the faults of a real machine: stalls, waiting for a CPU, a device that counts no flushes, a
//! method that is missing, a call that fails. Tests check the findings against what was planted.
//!
//! Invariant: the same seed gives the same nanoseconds, so results can be compared to the byte.

use super::{Lane, MadeJournal, Rig};
use seawall_sys::buffer::Aligned;
use seawall_sys::clock::Resolution;
use seawall_sys::counters::Counts;
use seawall_sys::durability::{DeviceCache, FileState, Medium};
use seawall_sys::inspect::{Device, Environment, FileSystem, Pressure};
use seawall_sys::journal::{Layout, Recipe};
use seawall_sys::method::{Depth, Method};
use seawall_sys::thread::Times;
use seawall_sys::{Error, OpenError, Unavailable};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const COPY_NS: u64 = 2_000;
const TRANSFER_NS: u64 = 20_000;
const FLUSH_NS: u64 = 25_000;
const JITTER_NS: u64 = 4_000;

/// What the simulated machine does beyond its rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plant {
    /// Every `every`-th commit of the method takes `ns` longer, in the device.
    Stall {
        /// The method's id.
        method: &'static str,
        /// Commits from one to the next.
        every: u64,
        /// Nanoseconds.
        ns: u64,
    },
    /// Every `every`-th commit of the method waits `ns` for a CPU.
    CpuWait {
        /// The method's id.
        method: &'static str,
        /// Commits from one to the next.
        every: u64,
        /// Nanoseconds.
        ns: u64,
    },
    /// The device counts no flush requests although the file system should send them.
    NoFlushes,
    /// A neighbour writes so many requests a second to the same device.
    Neighbour {
        /// Requests a second.
        writes_per_s: u64,
    },
    /// The method is not to be had.
    Missing {
        /// The method's id.
        method: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// The method's sync fails at its n-th commit.
    Fails {
        /// The method's id.
        method: &'static str,
        /// Commits before it.
        after: u64,
    },
}

#[derive(Debug)]
struct State {
    now_ns: u64,
    random: fastrand::Rng,
    counts: Counts,
    wait_ns: u64,
    cpu_ns: u64,
    /// What neighbours have begun to write, in requests times nanoseconds: carried, so that short steps count.
    neighbours_begun: u64,
    commits: Vec<(&'static str, u64)>,
    plants: Vec<Plant>,
}

/// A simulated machine with one disk and one CPU.
pub struct SimRig {
    environment: Environment,
    recipe: Recipe,
    state: Arc<Mutex<State>>,
}

impl SimRig {
    /// A machine with an honest disk and a volatile write cache, plus `plants`.
    #[must_use]
    pub fn new(recipe: Recipe, seed: u64, plants: Vec<Plant>) -> Self {
        let state = State {
            now_ns: 0,
            random: fastrand::Rng::with_seed(seed),
            counts: Counts::default(),
            wait_ns: 0,
            cpu_ns: 0,
            neighbours_begun: 0,
            commits: Vec::new(),
            plants,
        };
        Self { environment: environment(), recipe, state: Arc::new(Mutex::new(state)) }
    }

    /// The machine's description, to be changed before a run (a lie, another write cache).
    pub fn environment_mut(&mut self) -> &mut Environment {
        &mut self.environment
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the simulated machine says of itself.
pub(crate) fn environment() -> Environment {
    Environment {
        system: "Simulated 1.0".to_owned(),
        cpus: 1,
        cpu_model: None,
        memory_bytes: Some(8 << 30),
        hypervisor: None,
        container: None,
        wine: None,
        pressure: Pressure { load_1m: Some(0.0), waiting_percent_10s: Some(0.0), stolen_percent: Some(0.0) },
        clock: Resolution { read_ns: 0.0, tick_ns: 1 },
        file_system: FileSystem {
            kind: "simfs".to_owned(),
            source: "/dev/sim0".to_owned(),
            options: vec!["rw".to_owned()],
            medium: Medium::Block,
            copy_on_write: false,
            shares_extents: false,
            read_only: false,
            block_bytes: 4096,
            free_bytes: 64 << 30,
            total_bytes: 128 << 30,
        },
        devices: vec![Device {
            name: "sim0".to_owned(),
            kind: "disk".to_owned(),
            stands_on: Vec::new(),
            model: Some("Simulated disk".to_owned()),
            transport: Some("nvme".to_owned()),
            bytes: Some(128 << 30),
            write_cache: DeviceCache::WriteBack,
            fua: Some(false),
            rotational: Some(false),
            logical_block_bytes: Some(512),
            physical_block_bytes: Some(4096),
            atomic_write_bytes: Some(0),
            polls: Some(false),
            scheduler: Some("none".to_owned()),
            direct_io: None,
        }],
        lies: Vec::new(),
        writeback: Vec::new(),
    }
}

impl Rig for SimRig {
    type Lane = SimLane;

    fn environment(&self) -> &Environment {
        &self.environment
    }

    fn now_ns(&self) -> u64 {
        self.state().now_ns
    }

    fn unix_seconds(&self) -> u64 {
        1_700_000_000
    }

    fn idle(&mut self, ns: u64) {
        self.state().pass(ns);
    }

    fn make_journal(&mut self, progress: &mut dyn FnMut(u64) -> bool) -> Result<MadeJournal, OpenError> {
        let filled = match self.recipe.state {
            FileState::ZeroFilled | FileState::Recycled => self.recipe.bytes,
            FileState::Appending | FileState::Unwritten | FileState::WriteZeroes => 0,
        };
        if !progress(filled) {
            return Err(Error::new("write", "journal", io::ErrorKind::Interrupted.into()).into());
        }
        let elapsed_ns = 1_000_000 + filled / 2;
        let mut state = self.state();
        state.now_ns += elapsed_ns;
        drop(state);
        Ok(MadeJournal { elapsed_ns, layout: self.layout()? })
    }

    fn prove(&mut self, method: &'static Method) -> Result<(), OpenError> {
        for plant in &self.state().plants {
            if let Plant::Missing { method: id, reason } = plant
                && *id == method.id
            {
                return Err(OpenError::Unavailable(Unavailable((*reason).to_owned())));
            }
        }
        Ok(())
    }

    fn lane(&mut self, method: &'static Method) -> Result<SimLane, OpenError> {
        Ok(SimLane { state: Arc::clone(&self.state), method, bytes: 0 })
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.state().now_ns += 100_000;
        Ok(())
    }

    fn layout(&self) -> Result<Option<Layout>, Error> {
        let bytes = self.recipe.bytes;
        Ok(Some(match self.recipe.state {
            FileState::Appending => Layout::default(),
            FileState::Unwritten => Layout { extents: 1, unwritten_bytes: bytes, ..Layout::default() },
            FileState::ZeroFilled | FileState::WriteZeroes | FileState::Recycled => {
                Layout { extents: 1, written_bytes: bytes, ..Layout::default() }
            }
        }))
    }

    fn counts(&self) -> Option<Counts> {
        Some(self.state().counts)
    }
}

impl State {
    /// Lets time pass, in which neighbours work too.
    fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
        for plant in &self.plants {
            if let Plant::Neighbour { writes_per_s } = plant {
                self.neighbours_begun += ns * writes_per_s;
                let writes = self.neighbours_begun / 1_000_000_000;
                self.neighbours_begun %= 1_000_000_000;
                self.counts = self.counts.plus(&Counts { writes, sectors: writes * 8, flushes: 0 });
            }
        }
    }

    /// The number of this commit among the method's, from 1.
    fn next_commit(&mut self, id: &'static str) -> u64 {
        if let Some((_, commits)) = self.commits.iter_mut().find(|(known, _)| *known == id) {
            *commits += 1;
            return *commits;
        }
        self.commits.push((id, 1));
        1
    }

    fn commit(&mut self, method: &'static Method) -> io::Result<()> {
        let commit = self.next_commit(method.id);
        let jitter_ns = self.random.u64(0..=JITTER_NS);
        let (mut device_ns, mut wait_ns, mut no_flushes) = (0, 0, false);
        for plant in &self.plants {
            match *plant {
                Plant::Stall { method: id, every, ns } if id == method.id && commit.is_multiple_of(every) => {
                    device_ns += ns;
                }
                Plant::CpuWait { method: id, every, ns }
                    if id == method.id && commit.is_multiple_of(every) =>
                {
                    wait_ns += ns;
                }
                Plant::Fails { method: id, after } if id == method.id && commit > after => {
                    return Err(io::Error::other("planted failure"));
                }
                Plant::NoFlushes => no_flushes = true,
                _ => {}
            }
        }
        if method.reach().data == Depth::Stable {
            device_ns += FLUSH_NS;
            self.counts.flushes += u64::from(!no_flushes);
        }
        self.wait_ns += wait_ns;
        self.pass(device_ns + wait_ns + jitter_ns);
        Ok(())
    }
}

/// The writer on the simulated machine. The write moves the bytes, the sync pays the flush and the plants.
pub struct SimLane {
    state: Arc<Mutex<State>>,
    method: &'static Method,
    bytes: u64,
}

impl SimLane {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane for SimLane {
    fn enter(&mut self, _cpu: Option<usize>) -> Result<(), Error> {
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.state().now_ns
    }

    fn sleep_until(&mut self, deadline_ns: u64) {
        let mut state = self.state();
        let ns = deadline_ns.saturating_sub(state.now_ns);
        state.pass(ns);
    }

    fn load(&mut self, bytes: Aligned) {
        self.bytes = bytes.as_slice().len() as u64;
    }

    fn write(&mut self, _offset: u64, _stamp: u64) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.cpu_ns += COPY_NS;
        state.pass(COPY_NS);
        if self.method.reach().data != Depth::Kernel {
            state.counts.writes += 1;
            state.counts.sectors += self.bytes.div_ceil(512);
            state.pass(TRANSFER_NS);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.state().commit(self.method).map_err(|error| Error::new("fdatasync", "journal", error))
    }

    fn warm(&mut self, _range: Range<u64>) -> Result<(), Error> {
        Ok(())
    }

    fn times(&self) -> Times {
        let state = self.state();
        Times { user_ns: 0, system_ns: state.cpu_ns, wait_ns: Some(state.wait_ns), ..Times::default() }
    }

    fn wait_ns(&self) -> Option<u64> {
        Some(self.state().wait_ns)
    }
}
