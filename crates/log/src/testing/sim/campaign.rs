//! Crash campaign: runs the log on a simulated disk, draws crash images at every step, recovers and judges them.
//!
//! A campaign runs lives on the simulated disk, replays the trace of each one step by step, draws legal images at
//! every step, recovers each distinct image with the real recovery and has the oracle judge the result. Some images
//! become the start of another life, so that crashes nest; some are damaged on purpose. Everything follows from one
//! seed, and a failure names the seed and the number of the state, which repeat it alone.

mod memory;

use std::ops::Range;

use super::crew::{BySeed, Sum};
use super::damage::{damage, spares_a_header, wipe};
use super::disk::{Cache, FaultKind, FaultPlan};
use super::draw::{DRAWS, Draw};
use super::judge::{Terms, judge, judge_rest};
use super::life::{End, Ending, Habits, SEGMENT_BYTES, Step, live_with};
use super::media::Media;
use super::memory::Remains;
use super::rng::{Rng, mix};
use super::sketch::{Seen, Sketch};
use crate::error::Error;
use crate::lsn::Lsn;
use crate::segment::cap::{SEGMENTS_LEAST, is_counted};
use crate::segment::retention::Retention;
use crate::testing::oracle::{Ledger, Violation};
use seawall_sys::durability::Durability;

/// What a campaign is to do.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The seed.
    pub seed: u64,
    /// Distinct crash states to judge.
    pub states: u64,
    /// Images drawn at each step.
    pub images_per_step: usize,
    /// Crashes nest this deep.
    pub depth: u32,
    /// Whether operations are made to fail.
    pub faults: bool,
    /// Whether durable sectors are damaged.
    pub damage: bool,
    /// Judge only this state, counted from 0, of the first life.
    pub only: Option<u64>,
}

impl Default for Campaign {
    fn default() -> Self {
        Self {
            seed: 1,
            states: 100_000,
            images_per_step: 6,
            depth: 3,
            faults: true,
            damage: true,
            only: None,
        }
    }
}

/// What lives differ in, apart from their operations: each is counted by name.
pub const DIMENSIONS: [&str; 14] = [
    "log-of-class-process-crash",
    "log-of-class-system-crash",
    "relaxed-commits",
    "commits-to-memory",
    "segments-of-half-the-size",
    "segments-of-twice-the-size",
    "disk-drops-cached-pages",
    "disk-keeps-cached-pages",
    "ends-idle",
    "ends-closed",
    "has-a-cap",
    "trims-itself",
    "held-from-outside",
    "streams-alone",
];

/// Which of [`DIMENSIONS`] a life has.
fn dimensions(habits: &Habits) -> [bool; DIMENSIONS.len()] {
    let Habits {
        class,
        relaxed,
        memory,
        segment_bytes,
        cache,
        ending,
        cap,
        retention,
        holds,
        streams_alone,
        ..
    } = habits;
    [
        *class == Durability::ProcessCrash,
        *class == Durability::SystemCrash,
        *relaxed,
        *memory,
        *segment_bytes < SEGMENT_BYTES,
        *segment_bytes > SEGMENT_BYTES,
        *cache == Cache::Dropped,
        *cache == Cache::Kept,
        *ending == Ending::Idle,
        *ending == Ending::Close,
        cap.is_some(),
        retention.is_set(),
        *holds,
        *streams_alone,
    ]
}

/// What a campaign has seen.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Distinct crash states judged.
    pub states: u64,
    /// Images that had been judged before, with the same acknowledgements, and were skipped.
    pub repeated: u64,
    /// Lives lived, nested ones included.
    pub lives: u64,
    /// Of these, how many had each of [`DIMENSIONS`].
    pub dimensions: [u64; DIMENSIONS.len()],
    /// Operations that were made to fail.
    pub faults: u64,
    /// States in which something durable had been damaged.
    pub damaged: u64,
    /// Of these, how many were refused with the place named.
    pub refused: u64,
    /// Of these, how many lost records that had no witness yet: the undecidable tail.
    pub undecidable: u64,
    /// What distinct means over all lives: contents of the disk together with what is due.
    pub sketch: Sketch,
}

impl Sum for Tally {
    fn numbers(&mut self) -> Vec<(String, &mut u64)> {
        let Self { states, repeated, lives, dimensions, faults, damaged, refused, undecidable, .. } = self;
        let counts = [
            ("states", states),
            ("repeated", repeated),
            ("lives", lives),
            ("faults", faults),
            ("damaged", damaged),
            ("refused", refused),
            ("undecidable", undecidable),
        ];
        let all = counts.into_iter().chain(DIMENSIONS.into_iter().zip(dimensions));
        all.map(|(name, count)| (name.to_owned(), count)).collect()
    }

    fn sketch(&mut self) -> Option<&mut Sketch> {
        Some(&mut self.sketch)
    }
}

impl BySeed for Campaign {
    type Sum = Tally;
    const TITLE: &'static str = "seawall crash campaign 1";

    fn shape(&self) -> String {
        let Self { images_per_step, depth, faults, damage, .. } = self;
        format!("images_per_step {images_per_step} depth {depth} faults {faults} damage {damage}")
    }

    fn end(&self, _: u64) -> u64 {
        u64::MAX
    }

    fn is_enough(&self, tally: &Tally) -> bool {
        tally.states >= self.states
    }

    /// Lives the whole life of every seed, however many states that are.
    fn run(&self, seeds: Range<u64>) -> Result<Tally, Failure> {
        let campaign = Self { states: u64::MAX, only: None, ..self.clone() };
        let mut run = Run::new(&campaign);
        for seed in seeds {
            run.outermost(seed)?;
        }
        Ok(run.tally)
    }
}

/// A broken promise, with what repeats it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the life.
    pub seed: u64,
    /// The number of the state in that life.
    pub state: u64,
    /// States judged until then, this one included.
    pub judged: u64,
    /// What was broken.
    pub violation: Violation,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (--seed {} --state {})", self.violation, self.seed, self.state)
    }
}

impl std::error::Error for Failure {}

/// What the log of one life promises: in one life of four less than to outlive a power cut. Drawn apart from everything
/// else, so that the other three are what they would be without.
fn class_of(seed: u64) -> Durability {
    match mix(seed ^ 0xC1A5) % 8 {
        0 => Durability::ProcessCrash,
        1 => Durability::SystemCrash,
        _ => Durability::PowerLoss,
    }
}

/// What a life may take of the disk, in one life of eight: that of the life before it, whatever is left of that, or little
/// more than an opening needs. Drawn apart, as the class is.
fn cap_of(media: &Media, before: &Past, seed: u64, segment_bytes: u64) -> Option<u64> {
    let word = mix(seed ^ 0xCAB);
    // Less than that is no cap that an opening takes: see `Options::disk_bytes_max`.
    let inherited = before.cap.filter(|cap| *cap >= SEGMENTS_LEAST * segment_bytes);
    if inherited.is_some() && word.is_multiple_of(2) {
        return inherited;
    }
    let files = media.bytes_of(is_counted);
    let (taken, largest) = (files.iter().sum::<u64>(), files.into_iter().max().unwrap_or(0));
    let needs = taken + largest.max(segment_bytes) + (2 + word / 8 % 2) * segment_bytes;
    word.is_multiple_of(8).then(|| needs.max(SEGMENTS_LEAST * segment_bytes))
}

/// The rules by which a life trims itself, in one life of four.
fn retention_of(seed: u64, segment_bytes: u64) -> Retention {
    let word = mix(seed ^ 0x2E7);
    let rules = Retention::default();
    if word % 8 < 2 { rules.bytes((1 + word / 8 % 4) * segment_bytes) } else { rules }
}

/// Whether a life of relaxed commits stores those that are to outlive the process only in memory: one of three. Drawn apart,
/// as the class is.
fn memory_of(seed: u64) -> bool {
    mix(seed ^ 0x3E30).is_multiple_of(3)
}

/// How a life writes, and what it promises.
#[derive(Clone, Copy, Debug)]
struct CommitRules {
    dsync: bool,
    class: Durability,
    cap: Option<u64>,
}

impl CommitRules {
    fn of(habits: &Habits) -> Self {
        Self { dsync: habits.dsync, class: habits.class, cap: habits.cap }
    }

    /// Everything before `must_have` must be there.
    fn terms(self, must_have: Lsn) -> Terms {
        let Self { dsync, class, .. } = self;
        Terms { must_have, damaged: false, twice: false, dsync, class }
    }
}

/// What came before a moment.
#[derive(Clone, Debug, Default)]
struct Past {
    ledger: Ledger,
    /// A copy of the memory that an earlier process left for this one.
    old: Remains,
    /// What there is of the memory now.
    remains: Remains,
    /// Whether this life has opened the log, so that memory of an earlier one is not to be believed.
    opened: bool,
    /// Changes when an opening finds records gone whose LSNs will be issued again: the same disk is judged by another
    /// history then. Records that are merely added make no difference to a disk that does not hold them.
    timeline: u64,
    /// What the last life might take of the disk, in bytes.
    cap: Option<u64>,
}

impl Past {
    fn enter(&mut self, step: &Step) {
        if let Step::Exposed(_, end) = step
            && self.ledger.issued.last().is_some_and(|record| record.end > *end)
        {
            self.timeline = mix(self.timeline ^ mix(end.get() + 1) ^ self.ledger.issued.len() as u64);
        }
        self.opened |= matches!(step, Step::Exposed(..));
        step.enter(&mut self.ledger);
    }

    /// The past as it counts when the power went; the memory is gone, or is still there, wrongly.
    fn after_power_loss(&self, rng: &mut Rng) -> Self {
        let there = self.remains.is_there() && rng.coin();
        let remains = if there { self.remains.after_system_crash() } else { self.remains.gone() };
        Self { ledger: self.ledger.after_power_loss(), remains, ..self.clone() }
    }

    /// The same without the power going: what was not synced may be lost to a failed write-back.
    fn after_failed_sync(&self) -> Self {
        Self { ledger: self.ledger.after_power_loss(), ..self.clone() }
    }
}

#[derive(Debug)]
struct Run<'a> {
    campaign: &'a Campaign,
    tally: Tally,
    seen: Seen,
    /// States of the current outermost life.
    state: u64,
    seed: u64,
}

/// Runs a campaign to its end or to the first broken promise.
///
/// # Errors
/// The first broken promise.
pub fn run(campaign: &Campaign) -> Result<Tally, Failure> {
    let mut run = Run::new(campaign);
    let mut seed = campaign.seed;
    while run.tally.states < campaign.states {
        run.outermost(seed)?;
        if campaign.only.is_some() {
            break;
        }
        seed = seed.wrapping_add(1);
    }
    Ok(run.tally)
}

impl<'a> Run<'a> {
    fn new(campaign: &'a Campaign) -> Self {
        Self { campaign, tally: Tally::default(), seen: Seen::default(), state: 0, seed: campaign.seed }
    }

    /// The life of one seed on an empty disk, with everything that follows from it.
    fn outermost(&mut self, seed: u64) -> Result<(), Failure> {
        self.seed = seed;
        self.state = 0;
        self.seen.clear();
        let outcome = self.life(Media::default(), &Past::default(), seed, self.campaign.depth);
        let (state, judged) = (self.state.saturating_sub(1), self.tally.states);
        outcome.map_err(|violation| Failure { seed, state, judged, violation })
    }

    /// One life on `media`, and every crash in it.
    fn life(&mut self, media: Media, before: &Past, seed: u64, depth: u32) -> Result<(), Violation> {
        let mut rng = Rng::new(mix(seed ^ 0x11FE));
        let mut habits = Habits {
            tagged: rng.coin(),
            dsync: rng.coin(),
            depth: 1 + rng.index(3),
            actions: if depth == self.campaign.depth { 160 } else { 60 },
            ending: [Ending::Close, Ending::Idle, Ending::Cut, Ending::Cut][rng.index(4)],
            relaxed: rng.coin(),
            memory: memory_of(seed),
            segment_bytes: [SEGMENT_BYTES / 2, SEGMENT_BYTES, 2 * SEGMENT_BYTES][rng.index(3)],
            cache: [Cache::Bypassed, Cache::Dropped, Cache::Kept][rng.index(3)],
            class: class_of(seed),
            holds: mix(seed ^ 0x401D).is_multiple_of(2),
            ..Habits::plain(seed, false, 1)
        };
        // Drawn apart, as the class is.
        habits.streams_alone = habits.tagged && mix(seed ^ 0xA10E).is_multiple_of(2);
        habits.cap = cap_of(&media, before, seed, SEGMENT_BYTES / 2);
        if habits.cap.is_some() {
            // It is full sooner.
            habits.segment_bytes = SEGMENT_BYTES / 2;
        }
        habits.retention = retention_of(seed, habits.segment_bytes);
        habits.memory &= habits.relaxed && habits.cap.is_none();
        let plan = (self.campaign.faults && rng.one_in(3)).then(|| FaultPlan {
            operation: rng.below(160),
            kind: [FaultKind::Io, FaultKind::Full, FaultKind::Short][rng.index(3)],
            sticky: rng.coin(),
        });
        let before = &Past { old: before.remains.kept(), opened: false, ..before.clone() };
        let end = live_with((media.clone(), &before.remains), seed, habits, plan);
        self.tally.lives += 1;
        let counts = self.tally.dimensions.iter_mut().zip(dimensions(&habits));
        counts.for_each(|(count, has)| *count += u64::from(has));
        self.tally.faults += end.faults;
        if let Some(lsn) = end.acknowledged_after_failure {
            return Err(Violation::AcknowledgedAfterFailure { lsn });
        }
        if let Some(bytes) = end.stuck {
            return Err(Violation::Stuck { bytes });
        }
        if let Some(violation) = end.broken {
            return Err(violation);
        }
        // Lives that grow from crash to crash come to a cap that leaves no more for a trim; a cap of their own never does.
        let full = matches!(end.refused, Some(Error::DiskCap { .. })) && habits.cap == before.cap;
        if let Some(error) = end.refused.as_ref().filter(|_| !full)
            && end.faults == 0
        {
            return Err(Violation::refused(error));
        }
        self.replay(media, before, &end, (&mut rng, CommitRules::of(&habits), depth))
    }

    fn replay(
        &mut self,
        mut media: Media,
        before: &Past,
        end: &End,
        (rng, way, depth): (&mut Rng, CommitRules, u32),
    ) -> Result<(), Violation> {
        // What is only in the page cache may be lost to a failed write-back, which every commit reports.
        let mut past = if end.faults > 0 { before.after_failed_sync() } else { before.clone() };
        past.cap = way.cap;
        for step in &end.trace {
            if let Step::Exposed(_, exposed) = step
                && *exposed < past.ledger.written
            {
                return Err(Violation::Lost { acknowledged: past.ledger.written, end: *exposed });
            }
            if end.faults > 0 && matches!(step, Step::Written(_) | Step::CrashProof(_)) {
                continue;
            }
            past.enter(step);
            if let Step::Memory(event) = step {
                self.stored(&media, &mut past, event, (rng, way))?;
            }
            if let Step::Disk(event) = step {
                event.apply(&mut media);
                self.cut(&media, &past, (rng, way, depth))?;
                if self.tally.states >= self.campaign.states && self.campaign.only.is_none() {
                    return Ok(());
                }
            }
        }
        // After the last step everything that was acknowledged is due.
        self.cut(&media, &past, (rng, way, depth))?;
        if end.faults > 0 && depth > 0 {
            // Without the power going: the page cache still shows what a failed sync has lost.
            self.life(media.killed(rng), &past, rng.next_u64(), depth - 1)?;
        }
        if end.ending != Ending::Cut {
            let image = media.image(Draw::None, Draw::None, rng);
            let closed = end.ending == Ending::Close;
            judge_rest(image.clone(), &past.ledger, (way.dsync, way.class), (closed, end.trim))?;
            if end.ending == Ending::Idle
                && way.class == Durability::PowerLoss
                && past.ledger.written > past.ledger.acknowledged
            {
                let Ledger { written, acknowledged, .. } = past.ledger;
                return Err(Violation::Unmarked { acknowledged: written, witnessed: acknowledged });
            }
            if depth > 0 {
                let past = past.after_power_loss(&mut Rng::new(mix(past.remains.hash())));
                return self.life(image, &past, rng.next_u64(), depth - 1);
            }
        }
        Ok(())
    }

    /// Every crash that is tried at one step.
    fn cut(
        &mut self,
        media: &Media,
        past: &Past,
        (rng, way, depth): (&mut Rng, CommitRules, u32),
    ) -> Result<(), Violation> {
        let images = if media.is_idle() { 1 } else { self.campaign.images_per_step };
        for i in 0..images {
            // Nothing and everything first, then by chance, contents and names independently.
            let first = [Draw::None, Draw::All].get(i).copied();
            let draw = first.unwrap_or_else(|| DRAWS[rng.index(DRAWS.len())]);
            let names = first.unwrap_or_else(|| DRAWS[rng.index(DRAWS.len())]);
            let image = media.image(draw, names, rng);
            let terms = Terms { twice: rng.one_in(16), ..way.terms(past.ledger.acknowledged) };
            let damaged = self.campaign.damage && rng.one_in(4);
            let nested = depth > 0 && rng.one_in(40 * self.campaign.images_per_step as u64);
            if !damaged && !nested {
                self.state(image, past, terms)?;
                continue;
            }
            self.state(image.clone(), past, terms)?;
            if damaged {
                self.damaged_state(&image, past, (rng, way))?;
            }
            if nested {
                let past = past.after_power_loss(&mut Rng::new(mix(past.remains.hash())));
                self.life(image, &past, rng.next_u64(), depth - 1)?;
            }
        }
        if past.ledger.due_after_kill() > past.ledger.acknowledged && rng.one_in(4) {
            self.killed_state(media, past, (rng, way))?;
        }
        if past.ledger.due_after_crash() > past.ledger.acknowledged && rng.one_in(4) {
            self.crashed_state(media, past, (rng, way))?;
        }
        if depth > 0 && rng.one_in(60) {
            self.life(media.killed(rng), past, rng.next_u64(), depth - 1)?;
        }
        Ok(())
    }

    /// Ends the process but not the machine: the page cache is what the next opening sees.
    fn killed_state(
        &mut self,
        media: &Media,
        past: &Past,
        (rng, way): (&mut Rng, CommitRules),
    ) -> Result<(), Violation> {
        if past.remains.is_there() {
            return self.remembered(media, past, &past.remains, (rng, way));
        }
        let seen = media.killed(rng).image(Draw::All, Draw::All, rng);
        self.state(seen, past, way.terms(past.ledger.due_after_kill()))
    }

    /// Crashes the system while the power stays on: what was handed to the disk is there, names may be lost.
    fn crashed_state(
        &mut self,
        media: &Media,
        past: &Past,
        (rng, way): (&mut Rng, CommitRules),
    ) -> Result<(), Violation> {
        let names = DRAWS[rng.index(DRAWS.len())];
        let seen = media.killed(rng).image(Draw::All, names, rng);
        self.state(seen, past, way.terms(past.ledger.due_after_crash()))
    }

    /// Counts a state; whether it is to be judged, because it was not judged before.
    fn is_next(&mut self, content: u64, past: &Past) -> bool {
        if !self.seen.insert(mix(content ^ mix(past.timeline))) {
            self.tally.repeated += 1;
            return false;
        }
        let number = self.state;
        self.state += 1;
        if self.campaign.only.is_some_and(|only| only != number) {
            return false;
        }
        self.tally.states += 1;
        self.tally.sketch.put(content);
        true
    }

    /// Judges one state unless it was judged before.
    fn state(&mut self, image: Media, past: &Past, terms: Terms) -> Result<(), Violation> {
        let content = mix(image.hash() ^ mix(terms.must_have.get()));
        if !self.is_next(content, past) {
            return Ok(());
        }
        // A repeated state is printed.
        let shown = self.campaign.only.is_some().then(|| image.clone());
        let end = judge(image, &past.ledger, terms).inspect_err(|violation| {
            if let Some(image) = &shown {
                eprintln!("{violation}; {terms:?}; {:?}", past.ledger.witnesses);
                image.describe();
            }
        })?;
        if terms.damaged {
            match end {
                None => self.tally.refused += 1,
                Some(end) if end < past.ledger.acknowledged => self.tally.undecidable += 1,
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Damages one durable sector of `image` and judges that.
    fn damaged_state(
        &mut self,
        image: &Media,
        past: &Past,
        (rng, way): (&mut Rng, CommitRules),
    ) -> Result<(), Violation> {
        let whole = image;
        let mut image = image.clone();
        if rng.one_in(24) {
            let shown = wipe(&mut image);
            self.tally.damaged += 1;
            let must_have = if shown { past.ledger.acknowledged } else { Lsn::ZERO };
            return self.state(image, past, Terms { damaged: true, ..way.terms(must_have) });
        }
        let Some((segment, from, to)) = damage(&mut image, rng) else { return Ok(()) };
        self.tally.damaged += 1;
        if spares_a_header(whole, segment, to) {
            // One copy of a segment header: the other one will do, so nothing may be lost and nothing refused.
            return self.state(image, past, way.terms(past.ledger.acknowledged));
        }
        let must_have = past.ledger.without_witnesses(&[(segment, from as u64, to as u64)]);
        self.state(image, past, Terms { damaged: true, ..way.terms(must_have) })
    }
}
