//! Tests that crash-test's model of a directory and the log's simulated disk agree on what a power cut may leave.
//!
//! They are compared on programs in which each name changes at most once between two syncs of the directory: the
//! simulated disk lets changes of one name arrive in any order, which is weaker than any rule of a file system.
#![cfg(target_os = "linux")]

use seawall::sim::images::{Image, Step, images};
use seawall::sim::rng::Rng;
use seawall_crash_test::call::{Call, Event, Record};
use seawall_crash_test::check::{Answer, Check};
use seawall_crash_test::membership::allowed;
use seawall_crash_test::progress::Progress;
use seawall_crash_test::rule::Rule;
use seawall_crash_test::search::{Search, search};
use seawall_crash_test::tree::{Inode, Kind, ROOT, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PROGRAMS: u64 = 100;
const SECTOR: usize = 512;
/// Sectors and names that one program leaves uncertain; so few that random images are all there are.
const UNCERTAIN_MAX: usize = 7;

/// A program, as steps of the simulated disk.
fn program(seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let (mut steps, mut there, mut changed) = (Vec::new(), BTreeSet::<String>::new(), BTreeSet::new());
    let (mut dirty, mut made) = (BTreeMap::<String, usize>::new(), 0);
    while steps.len() < 14 {
        let open = changed.len() + dirty.values().sum::<usize>();
        let file = there.iter().nth(rng.index(there.len())).cloned();
        match (rng.index(7), file) {
            (0, Some(name)) => {
                dirty.remove(&name);
                steps.push(Step::Sync(name));
            }
            (1, _) => {
                changed.clear();
                steps.push(Step::SyncDir);
            }
            _ if open + 3 > UNCERTAIN_MAX => {}
            (2 | 3, Some(name)) => {
                let (first, sectors) = (rng.index(3), 1 + rng.index(2));
                *dirty.entry(name.clone()).or_default() += sectors;
                steps.push(Step::Fill(name, first, sectors, b'a' + u8::try_from(steps.len()).expect("few")));
            }
            (4, Some(name)) if !changed.contains(&name) => {
                there.remove(&name);
                dirty.remove(&name);
                changed.insert(name.clone());
                steps.push(Step::Remove(name));
            }
            (5, Some(name)) if !changed.contains(&name) => {
                let over = there.iter().find(|other| **other != name && !changed.contains(*other)).cloned();
                made += 1;
                let to = over.filter(|_| rng.coin()).unwrap_or(format!("n{made}"));
                there.remove(&name);
                there.insert(to.clone());
                let open = dirty.remove(&name).unwrap_or_default();
                dirty.insert(to.clone(), open);
                changed.extend([name.clone(), to.clone()]);
                steps.push(Step::Rename(name, to));
            }
            (6, _) => {
                made += 1;
                let name = format!("n{made}");
                there.insert(name.clone());
                changed.insert(name.clone());
                steps.push(Step::Create(name));
            }
            _ => {}
        }
    }
    steps
}

/// The same program as a record of crash-test.
fn record(steps: &[Step]) -> Record {
    let (mut names, mut next) = (BTreeMap::<String, Inode>::new(), ROOT);
    let place = |name: &str| (ROOT, name.as_bytes().into());
    let call = |step: &Step| match step {
        Step::Create(name) => {
            next += 1;
            names.insert(name.clone(), next);
            Call::Create { parent: ROOT, name: place(name).1, inode: next, kind: Kind::File, mode: 0o644 }
        }
        Step::Fill(name, first, sectors, byte) => {
            let data = vec![*byte; sectors * SECTOR].into();
            Call::Write { inode: names[name], offset: (first * SECTOR) as u64, data, mapped: false }
        }
        Step::Sync(name) => Call::Sync { inode: names[name], data_only: false },
        Step::SyncDir => Call::Sync { inode: ROOT, data_only: false },
        Step::Rename(from, to) => {
            let inode = names.remove(from).expect("is there");
            let over = names.insert(to.clone(), inode);
            Call::Rename { from: place(from), to: place(to), inode, over, exchange: false }
        }
        Step::Remove(name) => {
            Call::Remove { parent: ROOT, name: place(name).1, inode: names.remove(name).expect("is there") }
        }
    };
    let event = |(number, call)| Event { call, thread: 0, ended: number };
    let events = (1..).zip(steps.iter().map(call)).map(event).collect();
    Record { before: Tree::default(), events, notices: Vec::new() }
}

fn tree(image: &Image) -> Tree {
    let mut tree = Tree::default();
    for (inode, (name, content)) in (1..).zip(image) {
        tree.node(inode).content = Arc::new(content[..].into());
        tree.node(ROOT).names.insert(name.as_bytes().into(), inode);
    }
    tree
}

/// A check that keeps what it is shown.
#[derive(Default)]
struct Shown(Mutex<BTreeSet<Image>>);

impl Check for Shown {
    fn judge(&self, state: &Tree, _: &[Arc<[u8]>]) -> seawall_crash_test::Result<Answer> {
        let file = |(name, inode): (&Arc<[u8]>, &Inode)| {
            (String::from_utf8_lossy(name).into_owned(), state.nodes[inode].content.to_vec())
        };
        let image = state.nodes[&ROOT].names.iter().map(file).collect();
        self.0.lock().expect("no test panics").insert(image);
        Ok(Answer::Kept)
    }
}

#[test]
fn both_models_draw_the_same_disks() {
    let (mut drawn, mut shown) = (0, 0);
    for seed in 0..PROGRAMS {
        let steps = program(seed);
        let record = record(&steps);
        let images = images(&steps, seed, 20_000);
        for image in &images {
            let explained = allowed(&record, Rule::Posix, record.events.len(), &tree(image));
            assert_eq!(explained, Ok(()), "program {seed}: {steps:?}: {:?}", image.keys());
        }
        drawn += images.len();
        // Sizes without data are of posix alone, which the simulated disk has not; every rule's states are posix' too.
        for rule in [Rule::Ext4, Rule::Xfs] {
            let how = Search {
                rules: vec![rule],
                budget: Duration::from_mins(1),
                workers: 1,
                seed,
                first_cut: record.events.len(),
            };
            let check = Shown::default();
            search(&record, &how, &check, &Progress::default()).expect("runs");
            for image in check.0.into_inner().expect("no test panics") {
                // A sync of a file keeps names under these rules: such a state is one of fewer open names.
                assert!(images.contains(&image), "program {seed}, {rule:?}: {steps:?}: {:?}", image.keys());
                shown += 1;
            }
        }
    }
    assert!(drawn > 1_000 && shown > 300, "{drawn} images, {shown} states");
}
