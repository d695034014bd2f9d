//! Shrinks a finding to the least that was lost, and names the call that is missing.
//!
//! A call is missing if the record with it, at every place of its role, has no state that breaks so: that is tried, not
//! guessed. Nothing lost means that the acknowledgement came before the call that it was for.

use crate::call::{Call, Event, Record};
use crate::error::Result;
use crate::model::{Arrival, Model, Part};
use crate::roles::Roles;
use crate::rule::Rule;
use crate::search::{Broken, Finding, Judge, Missing, Search, hunt, model_at};
use crate::tree::{Inode, Kind, ROOT};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A record with calls added, and where each event is in it.
pub(crate) type Mended = (Record, Vec<usize>);

/// Checks that shrinking may take.
const SHRINK_CHECKS: usize = 200;
/// Later moments at which an early acknowledgement is looked at.
const LATER_MAX: usize = 200;
/// Events before a power cut that every story has.
const LAST: usize = 2;
/// Events of a story that are kept at its beginning, and at its end.
const STORY: (usize, usize) = (4, 12);

/// The least that was lost, the missing call, and the record with that call if faults can be left in it.
pub(crate) fn explain(
    record: &Record,
    search: &Search,
    judge: &Judge<'_>,
    broken: &Broken,
) -> Result<(Finding, Option<Mended>)> {
    let mut model = model_at(record, broken.rule, broken.cut);
    let mut cut = broken.cut;
    let mut acknowledged = record.acknowledged(cut);
    let (mut arrival, mut message) = shrink(&model, broken, &acknowledged, judge)?;
    let lost = model.lost(&arrival);
    if let Some(earlier) = earliest(record, broken.rule, cut, &lost, judge)? {
        (cut, model, arrival, message) = earlier;
        acknowledged = record.acknowledged(cut);
    }
    let roles = Roles::of(record);
    let mut shown_by = vec![broken.rule];
    for rule in search.rules.iter().filter(|rule| **rule != broken.rule) {
        if !judge.left().is_zero() && breaks_without(record, *rule, cut, &lost, judge)?.is_some() {
            shown_by.push(*rule);
        }
    }
    shown_by.sort_unstable();
    let (missing, mended) = if lost.is_empty() {
        (early(record, &roles, broken.rule, cut, &acknowledged, judge)?, None)
    } else {
        missing(record, &roles, search, judge, broken.rule, cut, &lost)?
    };
    let torn = lost.iter().any(|(_, part)| matches!(part, Part::Range(..) | Part::Without(..)));
    let lost: Vec<usize> = lost.into_iter().map(|(event, _)| event).collect();
    let story = story(record, &roles, cut, &lost);
    let state = model.state(&arrival);
    let untried = missing.is_none() && judge.left().is_zero();
    Ok((Finding { message, rules: shown_by, cut, lost, torn, story, missing, untried, state }, mended))
}

/// Something that may arrive: a change of names, or of a content.
#[derive(Clone, Copy, Debug)]
enum Open {
    Name(usize),
    Data(Inode, usize),
}

fn open(model: &Model, arrival: &Arrival) -> Vec<Open> {
    let names = arrival.names.iter().enumerate().filter(|(_, arrived)| !**arrived);
    let names = names.map(|(index, _)| (model.names[index].event, Open::Name(index)));
    let data = arrival.data.iter().flat_map(|(inode, parts)| {
        let lost = parts.iter().enumerate().filter(|(_, part)| **part != Part::Whole);
        lost.map(|(index, _)| (model.files[inode][index].event, Open::Data(*inode, index)))
    });
    let mut all: Vec<(usize, Open)> = names.chain(data).collect();
    all.sort_by_key(|(event, _)| *event);
    all.into_iter().map(|(_, open)| open).collect()
}

/// Lets everything arrive that the fault does not need to be lost.
fn shrink(
    model: &Model,
    broken: &Broken,
    acknowledged: &[Arc<[u8]>],
    judge: &Judge<'_>,
) -> Result<(Arrival, String)> {
    let (mut least, mut message) = (broken.arrival.clone(), broken.message.clone());
    let mut checks = 0;
    let mut size = open(model, &least).len();
    while size > 0 && checks < SHRINK_CHECKS && !judge.left().is_zero() {
        let mut at = 0;
        loop {
            let lost = open(model, &least);
            let Some(chunk) = lost.get(at..lost.len().min(at + size)).filter(|chunk| !chunk.is_empty())
            else {
                break;
            };
            let mut more = least.clone();
            for one in chunk {
                match *one {
                    Open::Name(index) => model.let_name_arrive(&mut more, index),
                    Open::Data(inode, index) => model.let_data_arrive(&mut more, inode, index),
                }
            }
            model.close(&mut more);
            checks += 1;
            let fewer = open(model, &more).len() < lost.len();
            match judge.breaks(&model.state(&more), acknowledged)? {
                Some(still) if fewer => (least, message) = (more, still),
                _ => at += size,
            }
            if checks >= SHRINK_CHECKS || judge.left().is_zero() {
                break;
            }
        }
        size /= 2;
    }
    Ok((least, message))
}

/// The same loss at another moment, or by another rule: the state, if it is allowed and breaks.
fn breaks_without(
    record: &Record,
    rule: Rule,
    cut: usize,
    lost: &[(usize, Part)],
    judge: &Judge<'_>,
) -> Result<Option<(Model, Arrival, String)>> {
    let model = model_at(record, rule, cut);
    let Some(arrival) = model.without(lost) else { return Ok(None) };
    let message = judge.breaks(&model.state(&arrival), &record.acknowledged(cut))?;
    Ok(message.map(|message| (model, arrival, message)))
}

/// The first moment before `cut` at which the same loss breaks.
#[allow(clippy::type_complexity, reason = "what a finding is made of")]
fn earliest(
    record: &Record,
    rule: Rule,
    cut: usize,
    lost: &[(usize, Part)],
    judge: &Judge<'_>,
) -> Result<Option<(usize, Model, Arrival, String)>> {
    let Some((newest, _)) = lost.last() else { return Ok(None) };
    let is_cut = |place: &usize| match &record.events[place - 1].call {
        Call::Acknowledge { .. } => true,
        _ => record
            .events
            .get(*place)
            .is_some_and(|next| matches!(next.call, Call::Sync { .. } | Call::Rename { .. })),
    };
    for earlier in (newest + 1..cut).filter(is_cut).take(20) {
        if judge.left().is_zero() {
            break;
        }
        if let Some((model, arrival, message)) = breaks_without(record, rule, earlier, lost, judge)? {
            return Ok(Some((earlier, model, arrival, message)));
        }
    }
    Ok(None)
}

/// A call to try, and how a report names it.
#[derive(Clone, Debug)]
struct Remedy {
    call: String,
    place: String,
    /// The calls that it adds, each after the event of this place.
    added: Vec<(usize, Call)>,
}

impl Remedy {
    /// Whether it adds the same calls at the same places.
    fn adds_as(&self, other: &Self) -> bool {
        let places = |remedy: &Self| remedy.added.iter().map(|(at, _)| *at).collect::<Vec<usize>>();
        self.call == other.call && places(self) == places(other)
    }

    /// The record with it, and where each event is then.
    fn applied(&self, record: &Record) -> (Record, Vec<usize>) {
        let after = |place: usize, _: &Event| {
            let first = self.added.partition_point(|(at, _)| *at < place);
            self.added[first..]
                .iter()
                .take_while(|(at, _)| *at == place)
                .map(|(_, call)| call.clone())
                .collect()
        };
        record.edited(|_, _| true, after)
    }

    /// All of them at once.
    fn together(all: &[Self]) -> Self {
        let words: Vec<String> = all.iter().map(|one| format!("{} {}", one.call, one.place)).collect();
        let mut added: Vec<(usize, Call)> = all.iter().flat_map(|one| one.added.clone()).collect();
        added.sort_by_key(|(at, _)| *at);
        Self { call: words.join(", and "), place: String::new(), added }
    }
}

/// Tries the syncs that could have kept what was lost.
fn missing(
    record: &Record,
    roles: &Roles,
    search: &Search,
    judge: &Judge<'_>,
    rule: Rule,
    cut: usize,
    lost: &[(usize, Part)],
) -> Result<(Option<Missing>, Option<Mended>)> {
    let mut due: Vec<Remedy> = Vec::new();
    let add = |due: &mut Vec<Remedy>, remedy: Remedy| {
        if !due.iter().any(|known| known.adds_as(&remedy)) {
            due.push(remedy);
        }
    };
    for remedy in lost.iter().flat_map(|(event, _)| remedies(record, roles, *event)) {
        add(&mut due, remedy);
    }
    // Everything at once, if no single call is enough.
    if (2..=4).contains(&due.len()) {
        due.push(Remedy::together(&due));
    }
    // What must not be apart may lie in one row of writes.
    for (event, _) in lost.iter().filter(|(event, _)| writes(&record.events[*event])) {
        add(&mut due, sync_of_file(record, roles, *event, true));
    }
    let mut next_best: Option<(Missing, Mended)> = None;
    for (number, remedy) in due.iter().enumerate() {
        if judge.left().is_zero() {
            break;
        }
        let (mended, places) = remedy.applied(record);
        // The same loss at the same moment, among the events that the remedy moved.
        let same: Vec<(usize, Part)> =
            lost.iter().map(|(event, part)| (places[*event], part.clone())).collect();
        let moment = cut.checked_sub(1).map_or(0, |last| places[last] + 1);
        if breaks_without(&mended, rule, moment, &same, judge)?.is_some() {
            continue;
        }
        if judge.left().is_zero() {
            break;
        }
        let share = judge.left() / u32::try_from(due.len() - number + 1).unwrap_or(1);
        let hunt = hunt(&mended, search, judge, judge.now() + share)?;
        let whole = hunt.whole && hunt.broken.is_none();
        let missing =
            Missing { call: remedy.call.clone(), place: remedy.place.clone(), states: hunt.different, whole };
        if hunt.broken.is_none() {
            return Ok((Some(missing), None));
        }
        next_best = next_best.or(Some((missing, (mended, places))));
    }
    // This loss is gone with it, and another one is left.
    Ok(next_best.map_or((None, None), |(missing, mended)| (Some(missing), Some(mended))))
}

/// The syncs that would make the event `lost` certain, each at every place of its role.
fn remedies(record: &Record, roles: &Roles, lost: usize) -> Vec<Remedy> {
    match &record.events[lost].call {
        Call::Write { .. } | Call::Zero { .. } | Call::Resize { .. } => {
            vec![sync_of_file(record, roles, lost, false)]
        }
        Call::Mode { .. } => vec![sync_of_mode(record, roles, lost)],
        Call::Create { .. } | Call::Link { .. } | Call::Remove { .. } | Call::Rename { .. } => {
            sync_of_folder(record, roles, lost)
        }
        _ => Vec::new(),
    }
}

/// The calls that `after` adds, over the whole record.
fn added(record: &Record, after: impl Fn(usize, &Event) -> Option<Inode>) -> Vec<(usize, Call)> {
    let sync = |(place, event)| Some((place, Call::Sync { inode: after(place, event)?, data_only: false }));
    record.events.iter().enumerate().filter_map(sync).collect()
}

/// Whether it changes a content.
fn writes(event: &Event) -> bool {
    matches!(event.call, Call::Write { .. } | Call::Zero { .. } | Call::Resize { .. })
}

/// `fsync` of a file after each row of writes, or after `each` write, to a file of the same role.
fn sync_of_file(record: &Record, roles: &Roles, lost: usize, each: bool) -> Remedy {
    let role = &roles.of[lost];
    let added = added(record, |place, event| {
        let inode = roles.inodes[place];
        let next = record.events.get(place + 1);
        let ends_row = !next.is_some_and(|next| writes(next) && roles.inodes[place + 1] == inode);
        (writes(event) && roles.of[place] == *role && (each || ends_row)).then_some(inode)
    });
    let mapped = matches!(record.events[lost].call, Call::Write { mapped: true, .. });
    let call = if mapped { format!("msync or fsync of {role}") } else { Roles::sync_of(role, false) };
    let place = if each { "after each of its writes" } else { "after its last write" }.to_owned();
    Remedy { call, place, added }
}

/// `fsync` of a file or folder after each change of its permission bits.
fn sync_of_mode(record: &Record, roles: &Roles, lost: usize) -> Remedy {
    let role = &roles.of[lost];
    let added = added(record, |place, event| match event.call {
        Call::Mode { inode, .. } if roles.of[place] == *role => Some(inode),
        _ => None,
    });
    Remedy { call: roles.sync_at(lost), place: "after its chmod".to_owned(), added }
}

/// The verb of a change of names, and the folders that it changes.
fn name_call(call: &Call) -> Option<(&'static str, Vec<Inode>)> {
    Some(match call {
        Call::Create { parent, kind: Kind::Folder, .. } => ("mkdir of", vec![*parent]),
        Call::Create { parent, kind: Kind::Symlink(_), .. } => ("symlink", vec![*parent]),
        Call::Create { parent, .. } => ("create of", vec![*parent]),
        Call::Link { parent, .. } => ("link to", vec![*parent]),
        Call::Remove { parent, .. } => ("unlink of", vec![*parent]),
        Call::Rename { from, to, .. } if from.0 == to.0 => ("rename to", vec![to.0]),
        Call::Rename { from, to, .. } => ("rename to", vec![to.0, from.0]),
        _ => return None,
    })
}

/// `fsync` of the folder after each call of the same kind on a name of the same role.
fn sync_of_folder(record: &Record, roles: &Roles, lost: usize) -> Vec<Remedy> {
    let role = &roles.of[lost];
    let Some((verb, folders)) = name_call(&record.events[lost].call) else { return Vec::new() };
    let remedy = |number: usize| {
        let added = added(record, |place, event| {
            let (other, folders) = name_call(&event.call)?;
            if other == verb && roles.of[place] == *role { folders.get(number).copied() } else { None }
        });
        let folder = match number {
            0 => Roles::folder_of(&roles.paths[lost]),
            _ => "that it came from".to_owned(),
        };
        let folder = if folders[number] == ROOT { "." } else { &folder };
        Remedy { call: Roles::sync_of(folder, true), place: format!("after {verb} {role}"), added }
    };
    (0..folders.len()).map(remedy).collect()
}

/// The first call after `cut` with which everything would have been there: it was acknowledged too early.
fn early(
    record: &Record,
    roles: &Roles,
    rule: Rule,
    cut: usize,
    acknowledged: &[Arc<[u8]>],
    judge: &Judge<'_>,
) -> Result<Option<Missing>> {
    let mut model = model_at(record, rule, cut);
    let changes = |event: &Event| {
        !matches!(
            event.call,
            Call::Acknowledge { .. } | Call::Sync { .. } | Call::SyncFailed { .. } | Call::SyncAll
        )
    };
    for (place, event) in record.events.iter().enumerate().skip(cut).take(LATER_MAX) {
        if judge.left().is_zero() {
            break;
        }
        model.take(event);
        if !changes(event) {
            continue;
        }
        let state = model.state(&model.all_or_nothing(true));
        if judge.breaks(&state, acknowledged)?.is_none() && !judge.left().is_zero() {
            let name = &roles.of[place];
            let call = match &event.call {
                Call::Write { mapped: true, .. } => format!("msync of {name}"),
                Call::Write { .. } => format!("write of {name}"),
                call => name_call(call)
                    .map_or_else(|| format!("change of {name}"), |(verb, _)| format!("{verb} {name}")),
            };
            let synced = |event: &Event| match event.call {
                Call::Sync { inode, .. } => inode == roles.inodes[place],
                Call::SyncAll => true,
                _ => false,
            };
            let mapped = matches!(event.call, Call::Write { mapped: true, .. });
            let came = if mapped && !record.events[place..].iter().any(synced) {
                "the kernel wrote the page back after it"
            } else {
                "it came after"
            };
            let place = format!("before the acknowledgement: {came}");
            return Ok(Some(Missing { call, place, states: 0, whole: false }));
        }
    }
    Ok(None)
}

/// The events that a reader needs: those on the files that lost something, and the last acknowledgements.
fn story(record: &Record, roles: &Roles, cut: usize, lost: &[usize]) -> Vec<usize> {
    let mut about: BTreeSet<Inode> = lost.iter().map(|event| roles.inodes[*event]).collect();
    for event in lost {
        if let Some((_, folders)) = name_call(&record.events[*event].call) {
            about.extend(folders);
        }
    }
    let last_acks: Vec<usize> = (0..cut)
        .rev()
        .filter(|place| matches!(record.events[*place].call, Call::Acknowledge { .. }))
        .take(2)
        .collect();
    let told = |place: &usize| match &record.events[*place].call {
        Call::Acknowledge { .. } => last_acks.contains(place),
        Call::SyncAll => true,
        // What came last can be what made the loss matter.
        _ if *place + LAST >= cut => true,
        _ => about.contains(&roles.inodes[*place]) || lost.is_empty(),
    };
    let all: Vec<usize> = (0..cut).filter(told).collect();
    if all.len() <= STORY.0 + STORY.1 {
        return all;
    }
    let mut kept: BTreeSet<usize> =
        all[..STORY.0].iter().chain(&all[all.len() - STORY.1..]).copied().collect();
    kept.extend(lost.iter().filter(|event| **event < cut).take(8));
    kept.into_iter().collect()
}
