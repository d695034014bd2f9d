//! Simulates a disk with exact costs and a virtual clock.
//!
//! ```text
//!   a commit costs   copy 2 µs  +  transfer 20 µs if the calls reach the device  +  flush 25 µs if stable
//!                    + a jitter of 0 to 4 µs drawn from the seed
//!   it counts        1 write and its sectors if it reaches the device, 1 flush if stable
//!   of N writes      N times copy and transfer; the flush once, or N times where each write is stable by itself
//! ```
//!
//! A [`Plant`] adds the faults of a real machine: stalls, waiting for a CPU, a device that counts no flushes, a row that is
//! missing, a call that fails. Tests check the findings against what was planted.
//!
//! Invariant: the same seed and the same plants give the same nanoseconds, so results can be compared to the byte.

use super::writers::{self, Crew};
use super::{Block, BlockError, Lane, MadeJournal, Testbed};
use crate::block::Slice;
use seawall_host::journal::Recipe;
use seawall_host::thread::Times;
use seawall_sys::buffer::Aligned;
use seawall_sys::clock::Resolution;
use seawall_sys::counters::{Counts, Watched};
use seawall_sys::durability::{DeviceCache, FileState, Medium, WeakCalls};
use seawall_sys::inspect::{Device, Environment, FileSystem, Pressure};
use seawall_sys::layout::Layout;
use seawall_sys::method::{Depth, Method};
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
    /// Every `every`-th commit by the method takes `ns` longer, in the device.
    Stall {
        /// The method's id.
        method: &'static str,
        /// Commits from one to the next.
        every: u64,
        /// Nanoseconds.
        ns: u64,
    },
    /// Every `every`-th commit by the method waits `ns` for a CPU.
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
    /// A neighbour writes this many requests a second to the same device.
    Neighbour {
        /// Requests a second.
        writes_per_s: u64,
    },
    /// The method is not available.
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
    /// The device is capped at this many writes a second, in steps of a tenth of one, as volumes and cgroups are.
    Held {
        /// Writes a second.
        per_s: u64,
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
    /// Commits so far, method by method.
    done: Vec<(String, u64)>,
    plants: Vec<Plant>,
    /// The current step of [`Plant::Held`], and the writes in it.
    step: (u64, u64),
}

struct Extra {
    device_ns: u64,
    wait_ns: u64,
}

/// A simulated machine with one disk and one CPU.
pub struct SimTestbed {
    environments: Vec<Environment>,
    journal: Option<Recipe>,
    state: Arc<Mutex<State>>,
}

impl SimTestbed {
    /// A machine with an honest disk and a volatile write cache, plus `plants`.
    pub fn new(seed: u64, plants: Vec<Plant>) -> Self {
        let state = State {
            now_ns: 0,
            random: fastrand::Rng::with_seed(seed),
            counts: Counts::default(),
            wait_ns: 0,
            cpu_ns: 0,
            neighbours_begun: 0,
            done: Vec::new(),
            plants,
            step: (0, 0),
        };
        Self { environments: vec![environment()], journal: None, state: Arc::new(Mutex::new(state)) }
    }

    /// The folders' descriptions, to be changed or added to before a run (a lie, another write cache).
    pub fn environments_mut(&mut self) -> &mut Vec<Environment> {
        &mut self.environments
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the simulated machine says of itself.
fn environment() -> Environment {
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
            weak_calls: WeakCalls::default(),
            synchronous: false,
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
            counting: None,
        }],
        lies: Vec::new(),
        writeback: vec![
            ("dirty_expire_centisecs".to_owned(), "3000".to_owned()),
            ("dirty_writeback_centisecs".to_owned(), "500".to_owned()),
        ],
        limits: Vec::new(),
    }
}

impl Testbed for SimTestbed {
    fn places(&self) -> usize {
        self.environments.len()
    }

    fn environment(&self, place: usize) -> &Environment {
        &self.environments[place]
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

    fn counts(&self) -> Option<Counts> {
        Some(self.state().counts)
    }

    fn available_memory_bytes(&self) -> Option<u64> {
        Some(4 << 30)
    }

    fn prove(
        &mut self,
        method: &'static Method,
        _: &Recipe,
        _: usize,
    ) -> Result<Option<Watched>, BlockError> {
        self.state().missing(method.id)?;
        Ok(None)
    }

    fn make_journal(
        &mut self,
        recipe: &Recipe,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<MadeJournal, BlockError> {
        let filled = match recipe.state {
            FileState::ZeroFilled | FileState::Recycled => recipe.bytes,
            FileState::Appending | FileState::Unwritten | FileState::WriteZeroes => 0,
        };
        if !progress(filled) {
            return Err(Error::new("write", "journal", io::ErrorKind::Interrupted.into()).into());
        }
        let elapsed_ns = 1_000_000 + filled / 2;
        self.state().now_ns += elapsed_ns;
        self.journal = Some(*recipe);
        Ok(MadeJournal { elapsed_ns, layout: self.layout()? })
    }

    fn commit(
        &mut self,
        method: &'static Method,
        crew: &Crew<'_>,
        slices: &[Slice],
    ) -> Result<Block, BlockError> {
        let lane = || SimLane { state: Arc::clone(&self.state), method, bytes: 0 };
        let lanes = slices.iter().map(|slice| (lane(), *slice)).collect();
        writers::run(crew, lanes, &|| self.counts())
    }

    fn quiesce(&mut self) -> Result<(), Error> {
        self.state().now_ns += 100_000;
        Ok(())
    }

    fn layout(&self) -> Result<Option<Layout>, Error> {
        Ok(self.journal.map(|Recipe { state, bytes, .. }| match state {
            FileState::Appending => Layout::default(),
            FileState::Unwritten => Layout { extents: 1, unwritten_bytes: bytes, ..Layout::default() },
            FileState::ZeroFilled | FileState::WriteZeroes | FileState::Recycled => {
                Layout { extents: 1, written_bytes: bytes, ..Layout::default() }
            }
        }))
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

    /// A write begins, when the step it falls into has room for it.
    fn begin_write(&mut self) {
        const STEP_NS: u64 = 100_000_000;
        let held = self.plants.iter().find_map(|plant| match plant {
            Plant::Held { per_s } => Some(per_s / 10),
            _ => None,
        });
        let Some(most) = held else { return };
        let (step, writes) = self.step;
        let now = self.now_ns / STEP_NS;
        if now != step {
            self.step = (now, 1);
        } else if writes < most {
            self.step.1 += 1;
        } else {
            self.pass(STEP_NS - self.now_ns % STEP_NS);
            self.step = (now + 1, 1);
        }
    }

    /// Whether method `id` is not available.
    fn missing(&self, id: &str) -> Result<(), OpenError> {
        let reason = self.plants.iter().find_map(|plant| match plant {
            Plant::Missing { method, reason } if *method == id => Some(*reason),
            _ => None,
        });
        reason.map_or(Ok(()), |reason| Err(OpenError::Unavailable(Unavailable(reason.to_owned()))))
    }

    /// What the plants do to the next commit by method `id`.
    fn planted(&mut self, id: &str) -> Result<Extra, Error> {
        let at = self.done.iter().position(|(known, _)| known == id).unwrap_or_else(|| {
            self.done.push((id.to_owned(), 0));
            self.done.len() - 1
        });
        self.done[at].1 += 1;
        let nth = self.done[at].1;
        let mut extra = Extra { device_ns: 0, wait_ns: 0 };
        for plant in &self.plants {
            match *plant {
                Plant::Stall { method, every, ns } if method == id && nth.is_multiple_of(every) => {
                    extra.device_ns += ns;
                }
                Plant::CpuWait { method, every, ns } if method == id && nth.is_multiple_of(every) => {
                    extra.wait_ns += ns;
                }
                Plant::Fails { method, after } if method == id && nth > after => {
                    return Err(Error::new("fdatasync", "journal", io::Error::other("planted failure")));
                }
                _ => {}
            }
        }
        Ok(extra)
    }

    /// Counts a flush, unless the plants hide it; how long it takes, nanoseconds.
    fn flush(&mut self) -> u64 {
        self.counts.flushes += u64::from(!self.plants.contains(&Plant::NoFlushes));
        FLUSH_NS
    }

    fn commit(&mut self, method: &'static Method) -> Result<(), Error> {
        let jitter_ns = self.random.u64(0..=JITTER_NS);
        let Extra { mut device_ns, wait_ns } = self.planted(method.id)?;
        if method.reach().data == Depth::Stable && !method.flushes_each_write() {
            device_ns += self.flush();
        }
        self.wait_ns += wait_ns;
        self.pass(device_ns + wait_ns + jitter_ns);
        Ok(())
    }
}

/// The writer on the simulated machine. The write moves the bytes, the sync pays the flush, unless each write has its
/// own, and the plants.
struct SimLane {
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

    fn resize(&mut self, bytes: usize) {
        self.bytes = bytes as u64;
    }

    fn write(&mut self, _offset: u64, _stamp: u64) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.cpu_ns += COPY_NS;
        state.pass(COPY_NS);
        if self.method.reach().data != Depth::Kernel {
            state.begin_write();
            state.counts.writes += 1;
            state.counts.sectors += self.bytes.div_ceil(512);
            state.pass(TRANSFER_NS);
        }
        if self.method.flushes_each_write() {
            let flush_ns = state.flush();
            state.pass(flush_ns);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.state().commit(self.method)
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
