//! Opens a log: lock, recovery, commit method, threads, and draining crash memory.
//!
//! Invariants: nothing is made before what could refuse the opening was checked; nothing is served before what the memory held
//! is durable.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread::{JoinHandle, Thread};

use seawall_sys::crash_memory::{CrashMapping, boot_id};
use seawall_sys::directory::Directory;
use seawall_sys::planted;

use super::Log;
use crate::commit::ending::{HandedOver, Resources};
use crate::commit::group::Group;
use crate::commit::process_crash::{CrashMemory, MemoryPlan};
use crate::commit::segment_writers::SegmentWriters;
use crate::commit::state::{Core, CoreConfig};
use crate::commit::sync::{Mutex, lock};
use crate::commit::{ending, maintenance_thread, stall_watch, writer_thread};
use crate::crash_memory::left::{Left, LeftInMemory};
use crate::crash_memory::{MEMORY_FILE, is_own};
use crate::error::{Error, Result};
use crate::format::LogId;
use crate::lock::{Lock, make_dir, open_dir, refuse_network};
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use crate::method::evidence::Evidence;
use crate::method::select::{MethodOrigin, Selected, permit};
use crate::options::Options;
use crate::read::pin::Pins;
use crate::read::retained::Retained;
use crate::read::rewrite::Rewriter;
use crate::recovery;
use crate::recovery::sector_size::explain;
use crate::recovery::tail::Tail;
use crate::recovery::{Plan, Recovered};
use crate::segment::inventory::SegmentInventory;
use crate::segment::retention::Now;
use crate::storage::os_disk::OsDisk;
use crate::stream::state::Numbering;

/// The most trimmed segments that are kept for reuse, beyond the configured spares.
const KEPT_MAX: usize = 16;

/// What opening found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opened {
    /// How the log had ended.
    pub tail: Tail,
    /// The first LSN that is left.
    pub first: Lsn,
    /// The end of the log.
    pub end: Lsn,
    /// Segments in the log.
    pub segments: usize,
    /// How often the log has been opened, this time included.
    pub epoch: u64,
    /// The row of the method table that commits go through.
    pub method: &'static str,
    /// Where that row comes from: logs of one process on one disk share one probe.
    pub method_origin: MethodOrigin,
    /// The engine that runs it.
    pub engine: &'static str,
    /// Why another engine was refused, if one was and the portable one took over.
    pub engine_refused: Option<String>,
    /// What the devices' counters say to the class: the log does not open where they contradict it.
    pub evidence: Evidence,
    /// Why followers in other processes look at the disk again and again, instead of being woken, if they do: see
    /// [`crate::View::follow`].
    pub channel_refused: Option<String>,
    /// Foreign files in the directory.
    pub foreign_files: Vec<String>,
    /// What commits that are to outlive the process only had left in memory: see [`Log::commit_as`].
    pub left_in_memory: LeftInMemory,
}

/// The identity of a new log.
#[cfg_attr(not(feature = "simulation"), expect(unused_variables, reason = "only tests set it"))]
fn identity(options: &Options) -> LogId {
    #[cfg(feature = "simulation")]
    if let Some(id) = options.log_id {
        return id;
    }
    LogId::random()
}

fn plan(options: &Options) -> Plan {
    Plan {
        new_id: identity(options),
        block_bytes: options.block_bytes,
        segment_bytes: options.segment_bytes,
        read_bytes: 1 << 20,
        dsync: false,
        class: options.durability,
        create: options.create,
        disk_bytes_max: options.disk_bytes_max,
    }
}

impl Log {
    /// See [`Log::open`].
    pub(super) fn open_in(dir: &Path, options: &Options) -> Result<Self> {
        options.check()?;
        let _span = tracing::info_span!("open", dir = %dir.display()).entered();
        make_dir(dir, options)?;
        let held = open_dir(dir)?;
        refuse_network(&held, options)?;
        let lock = Lock::take(&held, options)?;
        let mut disk = OsDisk::new(Arc::clone(&held), options.permissions);
        #[cfg(feature = "simulation")]
        if options.cached_reads {
            disk.access = seawall_sys::store::Access::Cached;
        }
        let plan = plan(options);
        // Before any file is made, so that a refusal leaves nothing after.
        let permitted = permit(dir, options)?;
        let mut left = look_for_memory(&held)?;
        let bind = |log_id, epoch| {
            if let Some(left) = &mut left {
                left.bind(log_id, epoch);
            }
        };
        let recovered =
            tracing::debug_span!("recover").in_scope(|| recovery::recover_with(&mut disk, &plan, bind));
        let recovered = recovered.map_err(|error| error.in_dir(dir));
        let recovered = recovered.map_err(|error| explain(error, dir, Some(options.block_bytes)))?;
        let config =
            recovery::config(&recovered, options.batch_bytes, options.memory_bytes, options.in_flight_max);
        let buffers = Core::take_buffers(&config);
        let buffers = buffers.map_err(|source| Error::io("get memory for", dir, source))?;
        let Selected { engine, origin, rows, refused, evidence } =
            permitted.select(&held, options, recovered.block_bytes, &buffers)?;
        let core = Core::with(config, recovered.resume.clone(), buffers);
        let method = engine.method();
        #[cfg_attr(not(feature = "simulation"), expect(unused_mut, reason = "only tests change it"))]
        let mut writers =
            SegmentWriters::new(Arc::clone(&held), engine, rows, options.in_flight_max, options.batch_bytes);
        #[cfg(feature = "simulation")]
        {
            writers.faults.clone_from(&options.faults);
            disk.faults.clone_from(&options.faults);
        }
        let place = recovered.resume.place;
        writers.open(place.segment, (place.offset, place.data_end + u64::from(recovered.block_bytes)))?;
        for spare in &recovered.resume.spares {
            writers.open(spare.number, (0, spare.bytes))?;
        }
        let memory = CrashMemory::new(memory_plan(&held, &config, options));
        let group = Arc::new(start(config, core, &recovered, writers, options).with_memory(memory));
        group.recorder.evidence(&evidence);
        let shared = lock.share((config.log_id, recovered.epoch), (recovered.resume.end, place.segment));
        let channel_refused = match shared {
            Ok(publisher) => {
                let _ = group.publisher.set(publisher);
                None
            }
            Err(error) => Some(error.to_string()),
        };
        let opened = Opened {
            tail: recovered.tail,
            first: recovered.resume.trim,
            end: recovered.resume.end,
            segments: recovered.segments.len(),
            epoch: recovered.epoch,
            method: method.id,
            method_origin: origin,
            engine: method.engine().name(),
            engine_refused: refused,
            evidence,
            channel_refused,
            foreign_files: recovered.foreign_files.clone(),
            left_in_memory: LeftInMemory::Nothing,
        };
        let pins = Pins::new(group.core().pins.clone());
        if let Err(error) = pins.look(&held) {
            tracing::warn!(%error, "nothing is trimmed");
        }
        let mut log = Self {
            group,
            dir: Arc::clone(&held),
            record_bytes_max: options.record_bytes_max,
            opened,
            resources: Mutex::new(Some(Resources { threads: Vec::new(), lock })),
            staged_memory: Mutex::default(),
            pins,
            index: Arc::default(),
            starts_rewriter: Mutex::default(),
            follow_thread: Arc::default(),
            handed_over: HandedOver::default(),
            closing: Arc::default(),
            held_trims: Mutex::new((OsDisk::new(Arc::clone(&held), options.permissions), 0)),
        };
        log.spawn(disk, options)?;
        if let Some(left) = left {
            log.drain_crash_memory(left)?;
        }
        if log.group.core().tagged.streams_from != 0 {
            log.start_rewriter()?;
        }
        tracing::info!(dir = %dir.display(), opened = ?log.opened, "opened");
        Ok(log)
    }

    /// Drains crash memory, durably, before anything is served.
    pub(super) fn drain_crash_memory(&mut self, mut left: Left<CrashMapping>) -> Result<()> {
        let append = |records: &[u8], count| {
            let mut records = records.to_vec();
            self.accept_encoded(&mut records, (count, Numbering::Kept), &[])
        };
        let end = self.group.core().appended();
        self.group.core().set_draining(true);
        // In full, in a log of any class, as everything that an opening serves.
        let taken = left.drain(end, append, |end| self.group.commit(end, AckLevel::Full))?;
        let mut core = self.group.core();
        core.set_draining(false);
        // Readers of this opening see no cut that is not published.
        if planted!(MemoryCutsUnseen, !core.tagged.cuts.is_empty()) {
            self.group.publish_cuts(&core);
        }
        drop(core);
        let removed = self.dir.remove(MEMORY_FILE);
        removed.map_err(|source| Error::io("remove", self.dir.path().join(MEMORY_FILE), source))?;
        (self.opened.left_in_memory, self.opened.end) = (taken, self.group.durable());
        self.opened.segments = self.group.housekeeping.inventory().segments.len();
        Ok(())
    }

    pub(super) fn spawn(&self, mut disk: OsDisk, options: &Options) -> Result<()> {
        let failed = |source| Error::io("start a thread for", self.dir.path(), source);
        let keep = |thread| self.keep(thread);
        let shared = || (Arc::clone(&self.group), Arc::clone(&self.closing), Arc::clone(&self.handed_over));
        let (group, closing, handed_over) = shared();
        let idle = options.idle_mark;
        let writer = std::thread::Builder::new().name("seawall-writer".to_owned());
        let run = move || writer_thread::run(&group, idle, &closing, &handed_over);
        let _ = self.group.threads.writer.set(keep(writer.spawn(run).map_err(failed)?));
        let (group, closing, handed_over) = shared();
        let maintenance = std::thread::Builder::new().name("seawall-segment".to_owned());
        let full = options.on_full;
        let mut retained = Retained {
            rules: options.retention,
            group: Arc::clone(&self.group),
            dir: Arc::clone(&self.dir),
            pins: self.pins.clone(),
            index: Arc::clone(&self.index),
            oldest: None,
            newest_us: BTreeMap::new(),
            now: Now::default(),
        };
        let run = move || {
            maintenance_thread::run(&group, &mut disk, (|| retained.trim(), full));
            drop(retained);
            drop(disk);
            ending::finish_handed_over(&group, &handed_over, &closing);
        };
        let maintenance = keep(maintenance.spawn(run).map_err(failed)?);
        self.pins.wakes(maintenance.clone());
        let _ = self.group.threads.maintenance.set(maintenance);
        if let Some(threshold) = options.stall_threshold {
            let (group, on_stall) = (Arc::clone(&self.group), options.on_stall.clone());
            let watch = std::thread::Builder::new().name("seawall-watch".to_owned());
            let run = move || stall_watch::watch(&group, threshold, on_stall.as_ref());
            let _ = self.group.stalls.watcher.set(keep(watch.spawn(run).map_err(failed)?));
        }
        Ok(())
    }

    /// Starts the thread that rewrites what streams need, once; where that fails, a later call retries.
    pub(super) fn start_rewriter(&self) -> Result<()> {
        let threads = &self.group.threads;
        if threads.has_rewriter() {
            return Ok(());
        }
        let _starts = lock(&self.starts_rewriter);
        if threads.has_rewriter() {
            return Ok(());
        }
        let failed = |source| Error::io("start a thread for", self.dir.path(), source);
        #[cfg(feature = "simulation")]
        if let Some(faults) = &self.group.writers.faults {
            faults.spawn().map_err(failed)?;
        }
        let (group, dir, index) = self.shared();
        let rewriter = Rewriter { group, dir, index };
        let thread = std::thread::Builder::new().name("seawall-rewrite".to_owned());
        let thread = self.keep(thread.spawn(move || rewriter.run()).map_err(failed)?);
        #[cfg(feature = "simulation")]
        if let Some(faults) = &self.group.writers.faults {
            faults.spawned();
        }
        let _ = threads.rewriter.set(thread);
        // A log that ends meanwhile found no thread to wake, and that may have looked before and sleep.
        threads.wake_rewriter();
        Ok(())
    }

    /// Has the end of the log wait for a thread; returns its handle.
    pub(super) fn keep(&self, thread: JoinHandle<()>) -> Thread {
        let handle = thread.thread().clone();
        if let Some(held) = &mut *lock(&self.resources) {
            held.threads.push(thread);
        }
        handle
    }
}

/// The crash memory that an earlier opening left in the directory; ignores a foreign file of that name.
fn look_for_memory(dir: &Directory) -> Result<Option<Left<CrashMapping>>> {
    let found = match CrashMapping::open_in(dir, MEMORY_FILE) {
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => None,
        found => found.map_err(|source| Error::io("map", dir.path().join(MEMORY_FILE), source))?,
    };
    Ok(found.filter(is_own).map(|memory| Left::look(memory, boot_id().ok())))
}

/// The memory of a log that may have it, or why it has none.
fn memory_plan(
    dir: &Arc<Directory>,
    config: &CoreConfig,
    options: &Options,
) -> std::result::Result<MemoryPlan, &'static str> {
    if options.crash_memory_bytes == 0 {
        return Err("Options::crash_memory_bytes turned it off");
    }
    if options.network_file_system && !matches!(dir.network_file_system(), Ok(None)) {
        return Err("the log is on a network file system");
    }
    Ok(MemoryPlan {
        dir: Arc::clone(dir),
        permissions: options.permissions,
        bytes: options.crash_memory_bytes,
        log_id: config.log_id,
        epoch: config.epoch,
    })
}

fn start(
    config: CoreConfig,
    mut core: Core,
    recovered: &Recovered,
    writers: SegmentWriters,
    options: &Options,
) -> Group {
    let headers = recovered.segments.iter().copied();
    let spares = options.spares..=options.spares + KEPT_MAX;
    let inventory = SegmentInventory::new(headers, recovered.next_number, options.segment_bytes, spares)
        .capped(&recovered.resume.spares, options.disk_bytes_max);
    core.set_rooms(inventory.cap().rooms());
    #[cfg_attr(not(feature = "simulation"), expect(unused_mut, reason = "only tests change it"))]
    let mut chain = recovered.chain;
    #[cfg(feature = "simulation")]
    if options.log_id.is_some() {
        // A log whose identity a test chose has the same bytes whenever it is written.
        chain.at(1 << 62);
    }
    let bounded = options.disk_bytes_max.is_some() || options.retention.is_set();
    Group::new(config, core, chain, writers, inventory).watched(options.stall_threshold).bounded(bounded)
}
