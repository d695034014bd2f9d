//! Decides whether a directory is one that a rule allows: what checks the rules against real power cuts.
//!
//! Names are tried one by one: every end of the journal; under posix every choice of a few, and under btrfs too, because what
//! it logs of one file says nothing of another. Contents are then judged sector by sector. Both allow a little more than the
//! states that are drawn: those of btrfs have a prefix of all names and what was logged, and only the last write is torn. A
//! rename of btrfs may also arrive in two steps: a name is free before its new file comes, or a file has both names.

use crate::call::{Call, Record};
use crate::content::at;
use crate::model::{Arrival, DataChange, Model, Part, SECTOR};
use crate::rule::Rule;
use crate::search::played;
use crate::tree::{Inode, Kind, Name, ROOT, Tree};
use std::collections::BTreeSet;

/// Changes of names that are tried in every combination, under posix and btrfs.
const NAMES_MAX: usize = 14;

/// Whether `found` can be there when the power goes after `cut` events of `record`; else the nearest reason why not.
///
/// # Errors
/// In words, what no choice of what arrived explains.
pub fn allowed(record: &Record, rule: Rule, cut: usize, found: &Tree) -> Result<(), String> {
    let mut model = played(Model::new(record, rule).in_steps(), record, cut);
    model.split_replacements();
    let mut reason = String::new();
    for arrival in ends(&model)? {
        match explained(&model, &arrival, found) {
            Ok(()) => return Ok(()),
            // The deepest one says most.
            Err(why) if why.len() > reason.len() => reason = why,
            Err(_) => {}
        }
    }
    Err(reason)
}

/// Every choice of names, with all data that can come with it.
fn ends(model: &Model) -> Result<Vec<Arrival>, String> {
    let mut ends = Vec::new();
    if matches!(model.rule, Rule::Posix | Rule::Btrfs) {
        let open: Vec<usize> = (0..model.names.len()).filter(|index| !model.names[*index].durable).collect();
        if open.len() > NAMES_MAX {
            return Err(format!("{} changes of names are too many to try", open.len()));
        }
        for chosen in 0_u32..1 << open.len() {
            let mut arrival = model.all_or_nothing(true);
            for (bit, index) in open.iter().enumerate() {
                arrival.names[*index] = chosen >> bit & 1 == 1;
            }
            model.close_names(&mut arrival);
            ends.push(arrival);
        }
        return Ok(ends);
    }
    let mut add = |mut arrival: Arrival| {
        model.close(&mut arrival);
        ends.push(arrival);
    };
    // The journal ends after any event that it has.
    let cuts = model.files.values().flatten().filter(|change| !change.is_write()).map(|change| change.event);
    let all: BTreeSet<usize> = model.names.iter().map(|change| change.event).chain(cuts).collect();
    for end in std::iter::once(None).chain(all.into_iter().map(Some)) {
        let mut arrival = model.all_or_nothing(true);
        let arrived = |event: usize| end.is_some_and(|end| event <= end);
        for (change, name) in model.names.iter().zip(&mut arrival.names) {
            *name = arrived(change.event);
        }
        for (_, change, part) in model.data_of(&mut arrival) {
            if !change.is_write() && !arrived(change.event) {
                *part = Part::Nothing;
            }
        }
        add(arrival);
    }
    Ok(ends)
}

/// Whether `found` has the names of `arrival`, and contents that can come with it.
fn explained(model: &Model, arrival: &Arrival, found: &Tree) -> Result<(), String> {
    let drawn = model.state(arrival);
    same_names(model, arrival, (&drawn, ROOT), (found, ROOT), &mut Vec::new())
}

fn same_names(
    model: &Model,
    arrival: &Arrival,
    (drawn, one): (&Tree, Inode),
    (found, other): (&Tree, Inode),
    path: &mut Vec<Name>,
) -> Result<(), String> {
    // A name can be there in this choice, and what it stands for not.
    let Some(one_node) = drawn.nodes.get(&one) else { return Err(format!("file {one}: not made")) };
    let other_node = &found.nodes[&other];
    let here =
        |path: &[Name]| path.iter().map(|name| String::from_utf8_lossy(name)).collect::<Vec<_>>().join("/");
    if std::mem::discriminant(&one_node.kind) != std::mem::discriminant(&other_node.kind) {
        return Err(format!("{}: a {:?} in place of a {:?}", here(path), other_node.kind, one_node.kind));
    }
    if one != ROOT && other_node.mode.is_some_and(|mode| !modes(model, one_node.mode, one).contains(&mode)) {
        return Err(format!("{}: mode {:?} in place of {:?}", here(path), other_node.mode, one_node.mode));
    }
    if one_node.kind == Kind::File {
        return content(model, arrival, one, &other_node.content.to_vec())
            .map_err(|why| format!("{}: {why}", here(path)));
    }
    let names = |node: &crate::tree::Node| node.names.keys().cloned().collect::<Vec<Name>>();
    if names(one_node) != names(other_node) {
        return Err(format!("{:?}: names differ", here(path)));
    }
    for (name, inode) in &one_node.names {
        path.push(name.clone());
        same_names(model, arrival, (drawn, *inode), (found, other_node.names[name]), path)?;
        path.pop();
    }
    Ok(())
}

/// The permission bits that a file or folder can have: those drawn, and where no journal orders them every one since the last sync.
fn modes(model: &Model, drawn: Option<u32>, inode: Inode) -> BTreeSet<u32> {
    let mut all: BTreeSet<u32> = drawn.into_iter().collect();
    if matches!(model.rule, Rule::Posix | Rule::Btrfs) {
        all.extend(model.first_modes(inode));
        all.extend(model.files.get(&inode).into_iter().flatten().filter_map(DataChange::mode));
    }
    all
}

/// Whether the writes that `arrival` leaves possible, each arrived or not, sector by sector, can make `found`.
fn content(model: &Model, arrival: &Arrival, inode: Inode, found: &[u8]) -> Result<(), String> {
    let certain = model.certain_content(inode);
    let nothing = Vec::new();
    let changes = model.files.get(&inode).unwrap_or(&nothing);
    let parts = arrival.data.get(&inode).map_or(&[][..], |parts| &parts[..]);
    // Under posix a resize is lost with the ones after it, and in the log of btrfs, which can have a name of the file without
    // its size; elsewhere the end of the journal says which are.
    let resizes = |change: &DataChange| !change.is_write() && change.mode().is_none();
    let cuts = changes.iter().enumerate().filter(|(_, change)| resizes(change));
    let ends: Vec<usize> = if matches!(model.rule, Rule::Posix | Rule::Btrfs) {
        cuts.filter(|(_, change)| !change.durable).map(|(index, _)| index).chain([changes.len()]).collect()
    } else {
        let lost =
            parts.iter().zip(changes).position(|(part, change)| resizes(change) && *part == Part::Nothing);
        vec![lost.unwrap_or(changes.len())]
    };
    let mut reason = String::new();
    for end in ends {
        match sectors(model.rule, (&certain, changes, end), found) {
            Ok(()) => return Ok(()),
            Err(why) => reason = why,
        }
    }
    Err(reason)
}

/// A file: what it certainly holds, its changes, and the first of them that is a resize which did not arrive; writes behind
/// that one may have, in pages that stayed.
type File<'a> = (&'a [u8], &'a [DataChange], usize);

fn sectors(rule: Rule, (certain, changes, lost): File<'_>, found: &[u8]) -> Result<(), String> {
    let mut sizes = BTreeSet::from([certain.len() as u64]);
    for change in &changes[..lost] {
        match &change.call {
            Call::Write { .. } => {
                let (from, to) = change.span();
                let mut grown: BTreeSet<u64> = BTreeSet::new();
                for size in &sizes {
                    if !change.durable {
                        grown.insert(*size);
                        let cuts = (from / SECTOR + 1..to.div_ceil(SECTOR)).map(|cut| cut * SECTOR);
                        grown.extend(cuts.map(|cut| cut.max(*size)));
                    }
                    grown.insert(to.max(*size));
                }
                sizes = grown;
            }
            Call::Resize { bytes, .. } => sizes = BTreeSet::from([*bytes]),
            _ => {}
        }
    }
    if !sizes.contains(&(found.len() as u64)) {
        return Err(format!("{} bytes long, not one of {sizes:?}", found.len()));
    }
    for first in (0..found.len()).step_by(at(SECTOR)) {
        let end = found.len().min(first + at(SECTOR));
        let possible = sector(rule, (certain, changes, lost), first);
        if !possible.iter().any(|sector| sector[..end - first] == found[first..end]) {
            return Err(format!("byte {first} to {end} is none of {} possible contents", possible.len()));
        }
    }
    Ok(())
}

/// What the sector at byte `first` can hold.
fn sector(rule: Rule, (certain, changes, lost): File<'_>, first: usize) -> BTreeSet<Vec<u8>> {
    let (first, end) = (first as u64, first as u64 + SECTOR);
    let before = certain.get(at(first)..certain.len().min(at(end))).unwrap_or_default();
    let mut start = before.to_vec();
    start.resize(at(SECTOR), 0);
    let mut possible = BTreeSet::from([start]);
    for (number, change) in changes.iter().enumerate() {
        let mut after = BTreeSet::new();
        for sector in possible {
            let mut after_it = sector.clone();
            let mut fill = |from: u64, to: u64, byte: &dyn Fn(u64) -> u8| {
                for place in from.max(first)..to.min(end) {
                    after_it[at(place - first)] = byte(place);
                }
            };
            match &change.call {
                Call::Write { offset, data, .. } => {
                    fill(*offset, offset + data.len() as u64, &|place| data[at(place - offset)]);
                }
                Call::Zero { offset, bytes, .. } => fill(*offset, offset + bytes, &|_| 0),
                Call::Resize { bytes, .. } => fill(*bytes, end, &|_| 0),
                _ => {}
            }
            after.insert(after_it);
            // The log of btrfs can have the size of a file that was cut and not its bytes.
            let apart = change.is_write() || rule == Rule::Btrfs;
            if number >= lost || apart && !change.durable {
                after.insert(sector);
            }
        }
        possible = after;
    }
    possible
}
