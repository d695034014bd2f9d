//! Does the log keep its word whatever the disk does?
//!
//! A campaign runs lives on the simulated disk, replays the trace of each one step by step, draws legal images at
//! every step, recovers each distinct image with the real code and lets the oracle judge. Some images become the
//! start of another life, so that crashes nest; some are damaged on purpose. Everything follows from one seed, and a
//! failure names the seed and the number of the state, which repeat it alone.

use std::collections::HashSet;

use super::disk::{FaultKind, FaultPlan, SimDisk};
use super::life::{End, Habits, Step, live, plan};
use super::media::{DRAWS, Draw, Media, SECTOR};
use super::rng::{Rng, mix};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::format::{Records, SegmentHeader, segment_name};
use crate::lsn::Lsn;
use crate::oracle::{Judge, Ledger, Violation, judge_refusal};
use crate::recovery::{Recovered, recover};
use crate::scan::{Scan, Source};

/// What a campaign is to do.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Where chance begins.
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

/// What a campaign has seen.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Distinct crash states judged.
    pub states: u64,
    /// Images that had been judged before, with the same acknowledgements, and were skipped.
    pub repeated: u64,
    /// Lives lived, nested ones included.
    pub lives: u64,
    /// Operations that were made to fail.
    pub faults: u64,
    /// States in which something durable had been damaged.
    pub damaged: u64,
    /// Of these, how many were refused with the place named.
    pub refused: u64,
    /// Of these, how many lost records that had no witness yet: the undecidable tail.
    pub undecidable: u64,
}

/// A broken promise, with what repeats it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the life.
    pub seed: u64,
    /// The number of the state in that life.
    pub state: u64,
    /// What was broken.
    pub violation: Violation,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (--seed {} --state {})", self.violation, self.seed, self.state)
    }
}

impl std::error::Error for Failure {}

/// Reads a simulated log back.
struct SimSource<'a> {
    disk: &'a mut SimDisk,
    segments: &'a [SegmentHeader],
}

impl Source for SimSource<'_> {
    fn read(&mut self, number: u64, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let name = segment_name(number);
        let file = self.disk.open(&name).map_err(|source| Error::io("open", &name, source))?;
        self.disk.read_direct(file, offset, buf).map_err(|source| Error::io("read", &name, source))
    }

    fn successor(&mut self, number: u64) -> Option<SegmentHeader> {
        let at = self.segments.iter().position(|header| header.number == number)?;
        self.segments.get(at + 1).copied()
    }
}

/// Reads everything that `recovered` hands out.
pub(super) fn read_all(
    disk: &mut SimDisk,
    recovered: &Recovered,
    mut see: impl FnMut(Lsn, &[u8]) -> Verdict,
) -> Result<Verdict> {
    let segments: Vec<SegmentHeader> = recovered.segments.iter().map(|segment| segment.header).collect();
    let Some(first) = segments.first().copied() else { return Ok(Ok(())) };
    let mut source = SimSource { disk, segments: &segments };
    let mut scan = Scan::new(first, 8192);
    while let Some(batch) = scan.next_batch(&mut source, recovered.beginning.end)? {
        let mut lsn = batch.header.lsn;
        for record in Records::new(&batch.buf.bytes()[batch.start..batch.end]) {
            if let Err(violation) = see(lsn, record.payload) {
                return Ok(Err(violation));
            }
            lsn = lsn.saturating_add((record.payload.len() + crate::format::RECORD_HEADER_BYTES) as u64);
        }
    }
    Ok(Ok(()))
}

type Verdict = std::result::Result<(), Violation>;

/// How one state is judged.
#[derive(Clone, Copy, Debug)]
struct Terms {
    must_have: Lsn,
    damaged: bool,
    twice: bool,
    dsync: bool,
}

/// Where the judged log ended, `None` if it was refused with good reason.
fn judge(image: Media, ledger: &Ledger, terms: Terms) -> std::result::Result<Option<Lsn>, Violation> {
    let mut disk = SimDisk::settled(image, 0, None);
    let recovered = match recover(&mut disk, &plan(terms.dsync)) {
        Ok(recovered) => recovered,
        Err(error) => return judge_refusal(&error, terms.damaged).map(|()| None),
    };
    let mut judge = Judge::lenient(ledger, terms.must_have);
    match read_all(&mut disk, &recovered, |lsn, payload| judge.record(lsn, payload)) {
        Ok(verdict) => verdict?,
        Err(error) => return judge_refusal(&error, terms.damaged).map(|()| None),
    }
    let end = recovered.beginning.end;
    judge.finish(end)?;
    if terms.twice {
        let again = recover(&mut disk, &plan(terms.dsync));
        if again.is_err() || again.is_ok_and(|again| again.beginning.end != end) {
            return Err(Violation::NotIdempotent);
        }
    }
    Ok(Some(end))
}

/// One campaign under way.
#[derive(Debug)]
struct Run<'a> {
    campaign: &'a Campaign,
    tally: Tally,
    seen: HashSet<u64>,
    /// States of the current outermost life.
    state: u64,
    seed: u64,
}

/// Runs a campaign to its end or to the first broken promise.
///
/// # Errors
/// The first broken promise.
pub fn run(campaign: &Campaign) -> std::result::Result<Tally, Failure> {
    let mut run =
        Run { campaign, tally: Tally::default(), seen: HashSet::new(), state: 0, seed: campaign.seed };
    let mut seed = campaign.seed;
    while run.tally.states < campaign.states {
        run.seed = seed;
        run.state = 0;
        run.seen.clear();
        let outcome = run.life(Media::default(), &Ledger::default(), seed, campaign.depth);
        outcome.map_err(|violation| Failure { seed, state: run.state.saturating_sub(1), violation })?;
        if campaign.only.is_some() {
            break;
        }
        seed = seed.wrapping_add(1);
    }
    Ok(run.tally)
}

impl Run<'_> {
    fn spent(&self) -> bool {
        self.tally.states >= self.campaign.states && self.campaign.only.is_none()
    }

    /// One life on `media`, and every crash in it.
    fn life(&mut self, media: Media, before: &Ledger, seed: u64, depth: u32) -> Verdict {
        let mut rng = Rng::new(mix(seed ^ 0x11FE));
        let habits = Habits {
            dsync: rng.coin(),
            depth: 1 + rng.index(3),
            actions: if depth == self.campaign.depth { 160 } else { 60 },
            number: seed,
            closes: rng.one_in(3),
            weak: rng.coin(),
        };
        let plan = (self.campaign.faults && rng.one_in(3)).then(|| FaultPlan {
            operation: rng.below(160),
            kind: [FaultKind::Io, FaultKind::Full, FaultKind::Short][rng.index(3)],
            sticky: rng.coin(),
        });
        let end = live(media.clone(), seed, habits, plan);
        self.tally.lives += 1;
        self.tally.faults += end.faults;
        if let Some(lsn) = end.acknowledged_after_failure {
            return Err(Violation::AcknowledgedAfterFailure { lsn });
        }
        if let Some(error) = &end.refused
            && end.faults == 0
        {
            return Err(Violation::Refused { error: error.to_string() });
        }
        self.replay(media, before, &end, (&mut rng, habits.dsync, depth))
    }

    fn replay(
        &mut self,
        mut media: Media,
        before: &Ledger,
        end: &End,
        (rng, dsync, depth): (&mut Rng, bool, u32),
    ) -> Verdict {
        // What is only in the page cache may be lost to a failed write-back, of which everyone is told.
        let mut ledger = if end.faults > 0 { before.after_power_loss() } else { before.clone() };
        for step in &end.trace {
            if let Step::Exposed(exposed) = step
                && *exposed < ledger.written
            {
                return Err(Violation::Lost { acknowledged: ledger.written, end: *exposed });
            }
            if end.faults > 0 && matches!(step, Step::Written(_)) {
                continue;
            }
            step.enter(&mut ledger);
            if let Step::Disk(event) = step {
                event.apply(&mut media);
                self.cut(&media, &ledger, (rng, dsync, depth))?;
                if self.spent() {
                    return Ok(());
                }
            }
        }
        // After the last step everything that was acknowledged is due.
        self.cut(&media, &ledger, (rng, dsync, depth))?;
        if end.faults > 0 && depth > 0 {
            // Without the power going: the page cache still shows what a failed sync has lost.
            self.life(media.killed(rng), &ledger, rng.next_u64(), depth - 1)?;
        }
        if end.closed && depth > 0 {
            let ledger = ledger.after_power_loss();
            return self.life(media.image(Draw::None, Draw::None, rng), &ledger, rng.next_u64(), depth - 1);
        }
        Ok(())
    }

    /// Every crash that is tried at one step.
    fn cut(&mut self, media: &Media, ledger: &Ledger, (rng, dsync, depth): (&mut Rng, bool, u32)) -> Verdict {
        let images = if media.is_settled() { 1 } else { self.campaign.images_per_step };
        for i in 0..images {
            // Nothing and everything first, then by chance, contents and names independently.
            let first = [Draw::None, Draw::All].get(i).copied();
            let draw = first.unwrap_or_else(|| DRAWS[rng.index(DRAWS.len())]);
            let names = first.unwrap_or_else(|| DRAWS[rng.index(DRAWS.len())]);
            let image = media.image(draw, names, rng);
            let terms =
                Terms { must_have: ledger.acknowledged, damaged: false, twice: rng.one_in(16), dsync };
            self.state(&image, ledger, terms)?;
            if self.campaign.damage && rng.one_in(4) {
                self.damaged_state(&image, ledger, (rng, dsync))?;
            }
            if depth > 0 && rng.one_in(40 * self.campaign.images_per_step as u64) {
                self.life(image, &ledger.after_power_loss(), rng.next_u64(), depth - 1)?;
            }
        }
        if ledger.due_after_kill() > ledger.acknowledged && rng.one_in(4) {
            self.killed_state(media, ledger, (rng, dsync))?;
        }
        if depth > 0 && rng.one_in(60) {
            self.life(media.killed(rng), ledger, rng.next_u64(), depth - 1)?;
        }
        Ok(())
    }

    /// Ends the process but not the machine: the page cache is what the next opening sees.
    fn killed_state(&mut self, media: &Media, ledger: &Ledger, (rng, dsync): (&mut Rng, bool)) -> Verdict {
        let seen = media.killed(rng).image(Draw::All, Draw::All, rng);
        let terms = Terms { must_have: ledger.due_after_kill(), damaged: false, twice: false, dsync };
        self.state(&seen, ledger, terms)
    }

    /// Judges one state unless it was judged before.
    fn state(&mut self, image: &Media, ledger: &Ledger, terms: Terms) -> Verdict {
        let key = mix(image.hash() ^ mix(terms.must_have.get()) ^ mix(ledger.issued.len() as u64 + 7));
        if !self.seen.insert(key) {
            self.tally.repeated += 1;
            return Ok(());
        }
        let number = self.state;
        self.state += 1;
        if self.campaign.only.is_some_and(|only| only != number) {
            return Ok(());
        }
        self.tally.states += 1;
        let end = judge(image.clone(), ledger, terms).inspect_err(|violation| {
            if self.campaign.only.is_some() {
                eprintln!("{violation}; {terms:?}; {:?}", ledger.witnesses);
                image.describe();
            }
        })?;
        if terms.damaged {
            match end {
                None => self.tally.refused += 1,
                Some(end) if end < ledger.acknowledged => self.tally.undecidable += 1,
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Damages one durable sector of `image` and judges that.
    fn damaged_state(&mut self, image: &Media, ledger: &Ledger, (rng, dsync): (&mut Rng, bool)) -> Verdict {
        let whole = image;
        let mut image = image.clone();
        let Some((segment, from, to)) = damage(&mut image, rng) else { return Ok(()) };
        self.tally.damaged += 1;
        let bytes: &[u8] =
            whole.names.get(&segment_name(segment)).map_or(&[], |inode| &whole.inodes[*inode].bytes);
        let (first, second) = (bytes.first_chunk::<SECTOR>(), bytes.last_chunk::<SECTOR>());
        let sound = |copy, sector: Option<&[u8; SECTOR]>| {
            let length = bytes.len() as u64;
            sector.is_some_and(|sector| SegmentHeader::decode(sector, copy, segment, length).is_ok())
        };
        let of_header = to == SECTOR || (to > SECTOR && to == bytes.len());
        if of_header && sound(0, first) && sound(1, second) {
            // One copy of a segment header: the other one will do, so nothing may be lost and nothing refused.
            let terms = Terms { must_have: ledger.acknowledged, damaged: false, twice: false, dsync };
            return self.state(&image, ledger, terms);
        }
        let must_have = ledger.without_witnesses_in(segment, from as u64, to as u64);
        self.state(&image, ledger, Terms { must_have, damaged: true, twice: false, dsync })
    }
}

/// Flips a bit, writes garbage, or writes a sector of another place over one that holds something. Says where.
fn damage(image: &mut Media, rng: &mut Rng) -> Option<(u64, usize, usize)> {
    let names: Vec<(String, usize)> =
        image.names.iter().map(|(name, inode)| (name.clone(), *inode)).collect();
    let (name, inode) = names.get(rng.index(names.len()))?.clone();
    let crate::format::FileRole::Segment(number) = crate::format::file_role(&name)? else { return None };
    let bytes = &image.inodes[inode].bytes;
    if rng.one_in(6) && bytes.len() > 2 * SECTOR {
        // Both copies of the segment header at once.
        let (length, garbage) = (bytes.len(), vec![0xA5; SECTOR]);
        image.damage(inode, 0, &garbage);
        image.damage(inode, length - SECTOR, &garbage);
        return Some((number, 0, 0));
    }
    let used: Vec<usize> =
        bytes.chunks(SECTOR).enumerate().filter(|(_, s)| s.iter().any(|b| *b != 0)).map(|(i, _)| i).collect();
    let sector = *used.get(rng.index(used.len()))?;
    let offset = sector * SECTOR;
    let mut data = bytes.get(offset..offset + SECTOR)?.to_vec();
    match rng.below(4) {
        0 => data[rng.index(SECTOR)] ^= 1 << rng.below(8),
        1 => data.fill_with(|| u8::try_from(rng.below(256)).unwrap_or(0)),
        2 => data.fill(0),
        _ => {
            let (_, other) = names.get(rng.index(names.len()))?;
            let other = &image.inodes[*other].bytes;
            let from = SECTOR * rng.index(other.len() / SECTOR);
            data.copy_from_slice(other.get(from..from + SECTOR)?);
        }
    }
    image.damage(inode, offset, &data);
    Some((number, offset, offset + SECTOR))
}

/// Fails every operation of one life in turn, once and for good, in each way, and judges what is left. Returns the
/// number of operations that the sweep covered.
///
/// # Errors
/// The first broken promise.
pub fn sweep(seed: u64) -> std::result::Result<Tally, Failure> {
    let mut tally = Tally::default();
    for (dsync, weak) in [(false, false), (true, false), (false, true), (true, true)] {
        let habits = Habits { dsync, depth: 2, actions: 500, number: seed, closes: true, weak };
        let operations = live(Media::default(), seed, habits, None).operations;
        for kind in [FaultKind::Io, FaultKind::Full, FaultKind::Short] {
            for sticky in [false, true] {
                for operation in 0..operations {
                    let fault = FaultPlan { operation, kind, sticky };
                    sweep_one(seed, habits, fault, &mut tally).map_err(|violation| Failure {
                        seed,
                        state: operation,
                        violation,
                    })?;
                }
            }
        }
    }
    Ok(tally)
}

fn sweep_one(seed: u64, habits: Habits, fault: FaultPlan, tally: &mut Tally) -> Verdict {
    let end = live(Media::default(), seed, habits, Some(fault));
    tally.lives += 1;
    tally.faults += end.faults;
    if let Some(lsn) = end.acknowledged_after_failure {
        return Err(Violation::AcknowledgedAfterFailure { lsn });
    }
    let mut ledger = Ledger::default();
    end.trace.iter().for_each(|step| step.enter(&mut ledger));
    let mut rng = Rng::new(mix(seed ^ fault.operation));
    for draw in DRAWS {
        let image = end.media.image(draw, draw, &mut rng);
        let terms =
            Terms { must_have: ledger.acknowledged, damaged: false, twice: true, dsync: habits.dsync };
        tally.states += 1;
        judge(image, &ledger, terms)?;
    }
    Ok(())
}
