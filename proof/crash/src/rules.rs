//! Checks the rules of crash-test against real power cuts: every cut is a state that the rule of its file system allows.
//!
//! A random program of names, writes and syncs runs on a real file system whose disk is recorded; each state in which the cut may
//! leave that disk is mounted, read, and looked up in the model of what the program's calls allow. A state that the rule
//! does not explain would be a promise that the rule makes and the file system does not keep.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

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
    names: Vec<Named>,
    inodes: Inode,
}

/// What a program has under a name.
#[derive(Clone)]
struct Named {
    parent: Inode,
    name: Name,
    inode: Inode,
    is_folder: bool,
}

impl Program<'_> {
    fn path(&self, parent: Inode, name: &Name) -> PathBuf {
        let own = String::from_utf8_lossy(name).into_owned();
        match self.names.iter().find(|one| one.inode == parent) {
            Some(above) if parent != ROOT => self.path(above.parent, &above.name).join(own),
            _ => self.folder.join(own),
        }
    }

    fn place(&mut self) -> (Inode, Name) {
        let folders = self.names.iter().filter(|one| one.is_folder).map(|one| one.inode);
        let folders: Vec<Inode> = folders.chain([ROOT]).collect();
        let folder = folders[self.rng.index(folders.len())];
        (folder, format!("n{}", self.rng.index(NAMES)).into_bytes().into())
    }

    /// A file by chance, or a folder, and its path.
    fn any(&mut self, folder: bool) -> Option<(Named, PathBuf)> {
        let all: Vec<&Named> = self.names.iter().filter(|one| one.is_folder == folder).collect();
        let one = (!all.is_empty()).then(|| all[self.rng.index(all.len())].clone())?;
        let path = self.path(one.parent, &one.name);
        Some((one, path))
    }

    /// Changes the permission bits of a file, or of a folder.
    fn chmod(&mut self) -> io::Result<Option<Call>> {
        let folder = self.rng.one_in(4);
        let Some((Named { inode, .. }, path)) = self.any(folder) else { return Ok(None) };
        let mode = 0o600 | u32::try_from(self.rng.below(0o200)).unwrap_or(0);
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
        Ok(Some(Call::Mode { inode, mode }))
    }

    /// Makes one call by chance; nothing if it does not fit.
    fn call(&mut self) -> io::Result<Option<Call>> {
        let kind = self.rng.below(16);
        let (parent, name) = self.place();
        let there = self.names.iter().position(|one| one.parent == parent && one.name == name);
        let path = self.path(parent, &name);
        Ok(match kind {
            0..=2 if there.is_none() => {
                self.inodes += 1;
                let (inode, is_folder) = (self.inodes, kind == 2 && parent == ROOT);
                if is_folder {
                    std::fs::create_dir(&path)?;
                } else {
                    drop(File::create_new(&path)?);
                }
                self.names.push(Named { parent, name: name.clone(), inode, is_folder });
                let kind = if is_folder { Kind::Folder } else { Kind::File };
                let mode = std::fs::metadata(&path)?.permissions().mode() & 0o7777;
                Some(Call::Create { parent, name, inode, kind, mode })
            }
            3..=7 | 10..=13 => self.call_on_file(kind)?,
            8 | 9 => {
                let Some((file, from)) = self.any(false) else { return Ok(None) };
                if from == path || there.is_some_and(|at| self.names[at].is_folder) {
                    return Ok(None);
                }
                std::fs::rename(from, path)?;
                let over = there.map(|at| self.names.remove(at).inode);
                self.names.retain(|one| one.inode != file.inode);
                self.names.push(Named { parent, name: name.clone(), ..file });
                let (from, to) = ((file.parent, file.name), (parent, name));
                Some(Call::Rename { from, to, inode: file.inode, over, exchange: false })
            }
            14 => {
                let folder = self.any(true).filter(|_| self.rng.coin());
                let folder = folder.map(|(one, path)| (one.inode, path));
                let (inode, path) = folder.unwrap_or((ROOT, self.folder.to_owned()));
                File::open(path)?.sync_all()?;
                Some(Call::Sync { inode, data_only: false })
            }
            15 if self.rng.coin() => self.chmod()?,
            15 if self.rng.one_in(2) => {
                rustix::fs::syncfs(File::open(self.folder)?)?;
                Some(Call::SyncAll)
            }
            _ => None,
        })
    }

    /// One of the calls on any file that there is.
    fn call_on_file(&mut self, kind: u64) -> io::Result<Option<Call>> {
        let Some((Named { parent, name, inode, .. }, path)) = self.any(false) else { return Ok(None) };
        Ok(Some(match kind {
            3..=6 => {
                let file = File::options().write(true).open(path)?;
                let size = file.metadata()?.len();
                let offset = if self.rng.coin() { size } else { self.rng.below(size + 1) };
                let bytes = 1 + self.rng.index(WRITE_MAX);
                let data = vec![b'a' + u8::try_from(self.events.len() % 26).unwrap_or(0); bytes];
                file.write_all_at(&data, offset)?;
                if self.rng.one_in(4) {
                    // Starts to write the file back, and waits for nothing.
                    fadvise(&file, 0, None, Advice::DontNeed)?;
                }
                Call::Write { inode, offset, data: data.into(), mapped: false }
            }
            7 => {
                let file = File::options().write(true).open(path)?;
                let bytes = self.rng.below(file.metadata()?.len() + 2_000);
                file.set_len(bytes)?;
                Call::Resize { inode, bytes }
            }
            10 => {
                std::fs::remove_file(path)?;
                self.names.retain(|one| one.inode != inode);
                Call::Remove { parent, name, inode }
            }
            _ => {
                let (file, data_only) = (File::open(path)?, self.rng.coin());
                if data_only { file.sync_data() } else { file.sync_all() }?;
                Call::Sync { inode, data_only }
            }
        }))
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
                    volume.file.mark(format!("acked {ended}"));
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
                    let found = load(&mounted.path.join(LOG)).map_err(io::Error::other)?;
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
