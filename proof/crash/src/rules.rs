//! Checks the rules of crash-test against real power cuts: every cut is a state that the rule of its file system allows.
//!
//! A random program of names, writes and syncs runs on a real file system whose disk is recorded; each state in which the cut may
//! leave that disk is mounted, read, and looked up in the model of what the program's calls allow. A state that the rule
//! does not explain would be a promise that the rule makes and the file system does not keep.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Advice, fadvise};
use seawall::sim::rng::{Rng, mix};
use seawall_crash_test::call::{Call, Event, Record};
use seawall_crash_test::check::load;
use seawall_crash_test::membership::allowed;
use seawall_crash_test::rule::Rule;
use seawall_crash_test::tree::{Inode, Kind, Name, ROOT, Tree};

use crate::blocks::campaign::{LOG, record_script};
use crate::blocks::volume::{FileSystem, StateVolume};
use crate::blocks::window::walk;
use crate::scene::Scene;
use crate::victim::VictimKind;

/// Calls of one program.
const CALLS: usize = 24;
/// Bytes of one write at most.
const WRITE_MAX: usize = 9_000;
/// Names that programs use in each folder.
const NAMES: usize = 4;
/// A run that has as many cuts that are not explained ends there.
const UNEXPLAINED_MAX: usize = 2_000;

/// What came of the programs on one file system.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) programs: u64,
    /// Cuts that were mounted and looked up.
    pub(crate) cuts: u64,
    /// States that the rule does not explain, with the program that shows each.
    pub(crate) unexplained: Vec<String>,
}

/// A program under way: its record, and the names as they are.
struct Program<'a> {
    folder: &'a Path,
    rng: Rng,
    events: Vec<Event>,
    names: Vec<(Inode, Name, Inode, bool)>,
    inodes: Inode,
}

impl Program<'_> {
    fn path(&self, parent: Inode, name: &Name) -> std::path::PathBuf {
        let own = String::from_utf8_lossy(name).into_owned();
        match self.names.iter().find(|(.., inode, _)| *inode == parent) {
            Some((above, name, ..)) if parent != ROOT => self.path(*above, name).join(own),
            _ => self.folder.join(own),
        }
    }

    fn place(&mut self) -> (Inode, Name) {
        let folders: Vec<Inode> =
            self.names.iter().filter(|one| one.3).map(|one| one.2).chain([ROOT]).collect();
        let folder = folders[self.rng.index(folders.len())];
        (folder, format!("n{}", self.rng.index(NAMES)).into_bytes().into())
    }

    fn any(&mut self, folder: bool) -> Option<(Inode, Name, Inode)> {
        let all: Vec<_> = self.names.iter().filter(|one| one.3 == folder).cloned().collect();
        (!all.is_empty())
            .then(|| all[self.rng.index(all.len())].clone())
            .map(|(parent, name, inode, _)| (parent, name, inode))
    }

    /// Changes the permission bits of a file, or of a folder.
    fn chmod(&mut self) -> io::Result<Option<Call>> {
        let folder = self.rng.one_in(4);
        let Some((parent, name, inode)) = self.any(folder) else { return Ok(None) };
        let mode = 0o600 | u32::try_from(self.rng.below(0o200)).unwrap_or(0);
        std::fs::set_permissions(self.path(parent, &name), Permissions::from_mode(mode))?;
        Ok(Some(Call::Mode { inode, mode }))
    }

    /// Makes one call by chance; nothing if it does not fit.
    fn call(&mut self) -> io::Result<Option<Call>> {
        let kind = self.rng.below(16);
        let (parent, name) = self.place();
        let there = self.names.iter().any(|one| one.0 == parent && one.1 == name);
        let path = self.path(parent, &name);
        Ok(match kind {
            0..=2 if !there => {
                self.inodes += 1;
                let folder = kind == 2 && parent == ROOT;
                if folder {
                    std::fs::create_dir(&path)?;
                } else {
                    drop(File::create_new(&path)?);
                }
                self.names.push((parent, name.clone(), self.inodes, folder));
                let kind = if folder { Kind::Folder } else { Kind::File };
                let mode = std::fs::metadata(&path)?.permissions().mode() & 0o7777;
                Some(Call::Create { parent, name, inode: self.inodes, kind, mode })
            }
            3..=6 => self
                .any(false)
                .map(|(parent, name, inode)| {
                    let file = File::options().write(true).open(self.path(parent, &name))?;
                    let size = file.metadata()?.len();
                    let offset = if self.rng.coin() { size } else { self.rng.below(size + 1) };
                    let bytes = 1 + self.rng.index(WRITE_MAX);
                    let data = vec![b'a' + u8::try_from(self.events.len() % 26).unwrap_or(0); bytes];
                    file.write_all_at(&data, offset)?;
                    if self.rng.one_in(4) {
                        // Starts to write the file back, and waits for nothing.
                        fadvise(&file, 0, None, Advice::DontNeed)?;
                    }
                    Ok::<_, io::Error>(Call::Write { inode, offset, data: data.into(), mapped: false })
                })
                .transpose()?,
            7 => self
                .any(false)
                .map(|(parent, name, inode)| {
                    let file = File::options().write(true).open(self.path(parent, &name))?;
                    let bytes = self.rng.below(file.metadata()?.len() + 2_000);
                    file.set_len(bytes)?;
                    Ok::<_, io::Error>(Call::Resize { inode, bytes })
                })
                .transpose()?,
            8 | 9 => match self.any(false) {
                Some((above, from, inode)) if (above, &from) != (parent, &name) => {
                    let over = self.names.iter().position(|one| one.0 == parent && one.1 == name);
                    if over.is_some_and(|at| self.names[at].3) {
                        return Ok(None);
                    }
                    std::fs::rename(self.path(above, &from), &path)?;
                    let over = over.map(|at| self.names.remove(at).2);
                    self.names.retain(|one| (one.0, &one.1) != (above, &from));
                    self.names.push((parent, name.clone(), inode, false));
                    Some(Call::Rename {
                        from: (above, from),
                        to: (parent, name),
                        inode,
                        over,
                        exchange: false,
                    })
                }
                _ => None,
            },
            10 => self
                .any(false)
                .map(|(parent, name, inode)| {
                    std::fs::remove_file(self.path(parent, &name))?;
                    self.names.retain(|one| (one.0, &one.1) != (parent, &name));
                    Ok::<_, io::Error>(Call::Remove { parent, name, inode })
                })
                .transpose()?,
            11..=13 => self
                .any(false)
                .map(|(parent, name, inode)| {
                    let (file, data_only) = (File::open(self.path(parent, &name))?, self.rng.coin());
                    if data_only {
                        file.sync_data()?;
                    } else {
                        file.sync_all()?;
                    }
                    Ok::<_, io::Error>(Call::Sync { inode, data_only })
                })
                .transpose()?,
            14 => {
                let inode = self.any(true).filter(|_| self.rng.coin());
                let path = inode
                    .as_ref()
                    .map_or(self.folder.to_owned(), |(parent, name, _)| self.path(*parent, name));
                File::open(path)?.sync_all()?;
                Some(Call::Sync { inode: inode.map_or(ROOT, |one| one.2), data_only: false })
            }
            15 if self.rng.coin() => self.chmod()?,
            15 if self.rng.one_in(2) => {
                rustix::fs::syncfs(File::open(self.folder)?)?;
                Some(Call::SyncAll)
            }
            _ => None,
        })
    }
}

/// A call without the bytes that it wrote.
fn told(call: &Call) -> String {
    match call {
        Call::Write { inode, offset, data, .. } => {
            format!("Write {{ inode: {inode}, offset: {offset}, {} bytes }}", data.len())
        }
        call => format!("{call:?}"),
    }
}

/// Runs `programs` programs on `file_system` and looks every cut up.
///
/// # Errors
/// Whatever keeps them from running or being mounted.
pub(crate) fn check(file_system: &'static FileSystem, seed: u64, programs: u64) -> io::Result<Checked> {
    let rule = Rule::ALL.into_iter().find(|rule| rule.name() == file_system.name);
    let rule = rule.ok_or_else(|| io::Error::other(format!("there is no rule for {}", file_system.name)))?;
    let volume = StateVolume::new(file_system)?;
    let mut checked = Checked::default();
    for number in 0..programs {
        if crate::interrupt::requested() {
            break;
        }
        let seed = mix(seed) ^ number;
        let scene = Scene::honest(VictimKind::Core, "buffered", seed, 0, 0);
        let mut events = Vec::new();
        let recording = record_script(file_system, &scene, |volume, folder| {
            let mut program = Program {
                folder,
                rng: Rng::new(mix(seed)),
                events: Vec::new(),
                names: Vec::new(),
                inodes: 0,
            };
            while program.events.len() < CALLS {
                if let Some(call) = program.call()? {
                    let ended = program.events.len() + 1;
                    program.events.push(Event { call, thread: 0, ended });
                    volume.file().mark(format!("acked {ended}"));
                }
            }
            events = program.events;
            Ok(())
        })?;
        let record = Record { before: Tree::default(), events, notices: Vec::new() };
        let mut failed = None;
        walk(&recording, |state| {
            let looked_up = volume.install(&state).and_then(|()| match volume.mount() {
                Ok(mounted) => {
                    let found = load(&mounted.path().join(LOG)).map_err(io::Error::other)?;
                    mounted.unmount()?;
                    Ok(Some(found))
                }
                Err(_) if state.torn.is_some() => Ok(None),
                Err(error) => Err(error),
            });
            let found = match looked_up {
                Ok(Some(found)) => found,
                Ok(None) => return true,
                Err(error) => {
                    failed = Some(error);
                    return false;
                }
            };
            checked.cuts += 1;
            // The call after the last one that had ended may have been under way.
            let ended = usize::try_from(state.ledger.acknowledged.get())
                .unwrap_or(usize::MAX)
                .min(record.events.len());
            let later = (ended + 1).min(record.events.len());
            let why = [ended, later].map(|cut| allowed(&record, rule, cut, &found).err());
            if let [Some(why), Some(_)] = why {
                let calls = record.events[..later].iter().enumerate();
                let calls: Vec<String> =
                    calls.map(|(at, event)| format!("  {at} {}", told(&event.call))).collect();
                checked.unexplained.push(format!(
                    "program {number}, state {}, {ended} calls ended: {why}; found {found:?}\n{}",
                    state.number,
                    calls.join("\n")
                ));
            }
            !crate::interrupt::requested() && checked.unexplained.len() < UNEXPLAINED_MAX
        })
        .map_err(io::Error::other)?;
        if let Some(error) = failed {
            return Err(error);
        }
        checked.programs += 1;
    }
    Ok(checked)
}
