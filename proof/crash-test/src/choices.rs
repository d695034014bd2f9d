//! Lists the choices of what arrived at one power cut: the likeliest faults first.

use crate::model::{Arrival, DataChange, Model, PAGE, Part, SECTOR};
use crate::rule::Rule;
use crate::tree::Inode;
use seawall_sys::chance::SplitMix64;
use std::mem::{Discriminant, discriminant};

/// Choices of one kind at one cut.
const EACH_MAX: usize = 64;
/// Choices by chance at one cut.
const BY_CHANCE: u16 = 8;

/// One choice; its meaning needs the model at its cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Nothing that is not certain arrived.
    Nothing,
    /// Everything arrived.
    Everything,
    /// Names and sizes without data.
    NamesOnly,
    /// Data without names.
    DataOnly,
    /// Everything up to this event, nothing behind it.
    UpTo(usize),
    /// Names up to this change, with all data or with none.
    Names(usize, bool),
    /// Everything but this change of names.
    NameLost(usize),
    /// Everything but the data of this file.
    FileLost(Inode),
    /// All names, and the data of this file only.
    FileOnly(Inode),
    /// Everything but this change of a content.
    WriteLost(Inode, usize),
    /// Everything, and of this write the bytes of this range only.
    Torn(Inode, usize, u64, u64),
    /// Everything, and of this write all but the bytes of this range.
    Hole(Inode, usize, u64, u64),
    /// Everything, and of each write that is open this many quarters.
    AllTorn(u8),
    /// Everything, and of this write the size only.
    SizeOnly(Inode, usize),
    /// By chance.
    Chance(u16),
}

/// What kind of choice it is, and of one of names whether with data.
pub(crate) type ChoiceKind = (Discriminant<Choice>, bool);

impl Choice {
    /// Its kind, for groups.
    pub(crate) fn kind(self) -> ChoiceKind {
        (discriminant(&self), matches!(self, Self::Names(_, true)))
    }
}

/// At most [`EACH_MAX`] of `all`, spread over them, the last one among them.
fn spread<T: Copy>(all: &[T]) -> Vec<T> {
    let count = all.len().min(EACH_MAX);
    (1..=count).map(|at| all[at * all.len() / count - 1]).collect()
}

/// The ranges of a write that can arrive alone: by pages, and of the last write of its file by sectors.
fn ranges(change: &DataChange, last: bool) -> Vec<(u64, u64)> {
    let (from, to) = change.span();
    let mut cuts: Vec<u64> = Vec::new();
    let mut cut_by = |unit: u64, most: usize| {
        let all: Vec<u64> = (from / unit + 1..to.div_ceil(unit)).map(|number| number * unit).collect();
        // The first and the last, and some between.
        let step = all.len().div_ceil(most).max(1);
        cuts.extend(all.iter().step_by(step));
        cuts.extend(all.last());
    };
    cut_by(PAGE, 8);
    if last {
        cut_by(SECTOR, 8);
    }
    cuts.sort_unstable();
    cuts.dedup();
    let first = cuts.iter().map(|cut| (from, *cut));
    let rest = cuts.iter().map(|cut| (*cut, to));
    first.chain(rest).collect()
}

/// What can be missing in the middle of a write: all but its first and last page, or sector if it is the last write.
fn hole(change: &DataChange, last: bool) -> Option<(u64, u64)> {
    let (from, to) = change.span();
    let inner = |unit: u64| ((from / unit + 1) * unit, (to.saturating_sub(1)) / unit * unit);
    let units = if last { &[PAGE, SECTOR][..] } else { &[PAGE] };
    units.iter().map(|unit| inner(*unit)).find(|(from, to)| from < to)
}

/// The choices for `model`.
pub(crate) fn choices(model: &Model) -> Vec<Choice> {
    if model.is_certain() {
        return vec![Choice::Everything];
    }
    let posix = model.rule == Rule::Posix;
    let mut all = vec![Choice::Nothing, Choice::Everything, Choice::NamesOnly, Choice::DataOnly];
    let names: Vec<usize> = (0..model.names.len()).collect();
    for index in spread(&names) {
        if posix {
            all.push(Choice::NameLost(index));
        } else {
            all.extend([Choice::Names(index, true), Choice::Names(index, false)]);
        }
    }
    let files: Vec<Inode> = model.files.keys().copied().collect();
    all.extend(spread(&files).into_iter().map(Choice::FileLost));
    if files.len() > 1 {
        all.extend(spread(&files).into_iter().map(Choice::FileOnly));
    }
    let changes: Vec<(Inode, usize)> =
        model.files.iter().flat_map(|(inode, all)| (0..all.len()).map(|index| (*inode, index))).collect();
    all.extend(spread(&changes).into_iter().map(|(inode, index)| Choice::WriteLost(inode, index)));
    let (mut torn, mut short) = (Vec::new(), Vec::new());
    for (inode, index) in spread(&changes) {
        let file = &model.files[&inode];
        if !file[index].is_write() {
            continue;
        }
        let last = file[index + 1..].iter().all(|change| !change.is_write());
        all.extend(hole(&file[index], last).map(|(from, to)| Choice::Hole(inode, index, from, to)));
        torn.extend(
            ranges(&file[index], last).into_iter().map(|(from, to)| Choice::Torn(inode, index, from, to)),
        );
        if posix {
            all.push(Choice::SizeOnly(inode, index));
            // The size of the whole write with its beginning.
            let end = file[index].span().1;
            let cuts = ranges(&file[index], last).into_iter().filter(|(_, to)| *to < end);
            short.extend(cuts.map(|(_, to)| Choice::Hole(inode, index, to, end)));
        }
    }
    all.extend(spread(&torn));
    all.extend(spread(&short));
    if changes.len() > 1 {
        all.extend([1, 2, 3].map(Choice::AllTorn));
    }
    let mut events: Vec<usize> = model.names.iter().map(|change| change.event).collect();
    events.extend(model.files.values().flatten().map(|change| change.event));
    events.sort_unstable();
    all.extend(spread(&events).into_iter().map(Choice::UpTo));
    if events.len() > 2 {
        all.extend((0..BY_CHANCE).map(Choice::Chance));
    }
    all
}

/// What arrived by `choice`: one that the rule allows.
pub(crate) fn arrival(model: &Model, choice: Choice, seed: u64) -> Arrival {
    let mut chosen = model.all_or_nothing(choice != Choice::Nothing);
    match choice {
        Choice::Nothing | Choice::Everything => {}
        Choice::NamesOnly => each(model, &mut chosen, |_, change| !change.is_write()),
        Choice::DataOnly => {
            chosen.names.fill(false);
            each(model, &mut chosen, |_, change| change.is_write());
        }
        Choice::UpTo(last) => {
            for (change, arrived) in model.names.iter().zip(&mut chosen.names) {
                *arrived = change.event <= last;
            }
            each(model, &mut chosen, |_, change| change.event <= last);
        }
        Choice::Names(last, data) => {
            for (index, arrived) in chosen.names.iter_mut().enumerate() {
                *arrived = index < last;
            }
            if !data {
                each(model, &mut chosen, |_, change| !change.is_write());
            }
        }
        Choice::NameLost(index) => chosen.names[index] = false,
        Choice::FileLost(lost) => {
            each(model, &mut chosen, |inode, change| inode != lost || !change.is_write());
        }
        Choice::FileOnly(only) => {
            each(model, &mut chosen, |inode, change| inode == only || !change.is_write());
        }
        Choice::WriteLost(inode, index) => set(&mut chosen, inode, index, Part::Nothing),
        Choice::Torn(inode, index, from, to) => set(&mut chosen, inode, index, Part::Range(from, to)),
        Choice::Hole(inode, index, from, to) => set(&mut chosen, inode, index, Part::Without(from, to)),
        Choice::AllTorn(quarters) => {
            for (_, change, part) in model.data_of(&mut chosen) {
                let (from, to) = change.span();
                let end = (from + (to - from) * u64::from(quarters) / 4).next_multiple_of(SECTOR);
                if change.is_write() && end < to {
                    *part = Part::Range(from, end);
                }
            }
        }
        Choice::SizeOnly(inode, index) => set(&mut chosen, inode, index, Part::Size),
        Choice::Chance(number) => by_chance(model, &mut chosen, seed ^ (u64::from(number) << 32)),
    }
    model.close(&mut chosen);
    chosen
}

fn set(chosen: &mut Arrival, inode: Inode, index: usize, part: Part) {
    if let Some(one) = chosen.data.get_mut(&inode).and_then(|parts| parts.get_mut(index)) {
        *one = part;
    }
}

/// Takes away what `stays` does not name.
fn each(model: &Model, chosen: &mut Arrival, stays: impl Fn(Inode, &DataChange) -> bool) {
    for (inode, change, part) in model.data_of(chosen) {
        if !stays(inode, change) {
            *part = Part::Nothing;
        }
    }
}

fn by_chance(model: &Model, chosen: &mut Arrival, seed: u64) {
    let mut chance = SplitMix64::new(seed);
    let posix = model.rule == Rule::Posix;
    if posix {
        chosen.names.iter_mut().for_each(|arrived| *arrived = chance.next_u64() & 1 == 0);
    } else {
        let count = chosen.names.len() as u64 + 1;
        let end = chance.next_u64() % count;
        (0..).zip(&mut chosen.names).for_each(|(index, arrived)| *arrived = index < end);
    }
    for (inode, parts) in &mut chosen.data {
        let changes = &model.files[inode];
        for (index, (change, part)) in changes.iter().zip(parts).enumerate() {
            let (from, to) = change.span();
            let unit = if index + 1 == changes.len() { SECTOR } else { PAGE };
            let end = (from + chance.next_u64() % (to - from).max(1)) / unit * unit;
            *part = match chance.next_u64() % 4 {
                0 if change.is_write() && end > from && posix && chance.next_u64() & 1 == 0 => {
                    Part::Without(end, to)
                }
                0 if change.is_write() && end > from => Part::Range(from, end),
                0 | 1 if change.is_write() => Part::Nothing,
                _ => Part::Whole,
            };
        }
    }
}
