//! Judges a state: by a command on a directory, or in this process.

use crate::content::Content;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::recorder::mount::ready;
use crate::recorder::{command, owner};
use crate::tree::{Inode, Kind, Node, ROOT, Tree};
use rustix::fs::{FileType, Mode, mknodat};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use seawall_host::isolation::{self, Apart, Over, signal_group};
use seawall_host::text::printable;
use seawall_sys::clock::{monotonic_ns, nanoseconds};
use seawall_sys::scratch::{Scratch, sweep};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt as _, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A check of a user's that takes longer has failed.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);
/// How often it is looked whether a check is to be ended, in milliseconds.
const LOOK_MS: u32 = 100;
/// What is kept of what a check printed, in bytes.
const MESSAGE_BYTES: usize = 500;

/// What a check printed, in one line that no terminal obeys.
#[must_use]
pub fn one_line(message: &str) -> String {
    printable(&message.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

/// What a check said of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Everything acknowledged is there.
    Kept,
    /// Something is not: what the check printed, or how it ended.
    Broken(String),
}

/// Judges states; several threads ask it at once.
pub trait Check: Sync {
    /// Whether `state` holds what `acknowledged` says.
    ///
    /// # Errors
    /// The check could not be run at all.
    fn judge(&self, state: &Tree, acknowledged: &[Arc<[u8]>]) -> Result<Answer>;
}

/// A command: `CMD DIRECTORY FILE`, with the lines that were acknowledged in the file; exit code 0: kept.
///
/// The state lies over the recorded directory, in a namespace of the check's own, so that absolute paths stay right; where
/// namespaces are refused it lies in a folder of its own. It is a copy: the check may write to it.
#[derive(Debug)]
pub struct CommandCheck<'a> {
    /// The recorded directory.
    directory: PathBuf,
    /// The command, for `sh -c`.
    command: String,
    /// A check that takes longer has failed.
    limit: Duration,
    /// What can end a check before that, and one that is under way.
    pub(crate) progress: Option<&'a Progress>,
    /// To whom the files belong.
    owner: (u32, u32),
    base: Scratch,
    /// Folders that no check uses now, and how many there are.
    idle: Mutex<(Vec<PathBuf>, usize)>,
    namespaces: AtomicBool,
}

impl CommandCheck<'_> {
    /// Prepares a check.
    ///
    /// # Errors
    /// No folder can be made for the states.
    pub fn new(directory: &Path, command: &str, limit: Duration) -> Result<Self> {
        let directory = directory.canonicalize().map_err(Error::file("opening", directory))?;
        let owner = owner(&directory)?;
        let base = folder_in_memory()?;
        let command = command.to_owned();
        Ok(Self {
            directory,
            command,
            limit,
            progress: None,
            owner,
            base,
            idle: Mutex::default(),
            namespaces: AtomicBool::new(true),
        })
    }

    fn is_over(&self) -> bool {
        self.progress.is_some_and(Progress::is_over)
    }

    fn take(&self) -> Result<PathBuf> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = idle.0.pop() {
            return Ok(folder);
        }
        idle.1 += 1;
        let folder = self.base.name().join(idle.1.to_string());
        fs::create_dir(&folder).map_err(Error::file("making", &folder))?;
        Ok(folder)
    }

    /// Starts the check; notes it if namespaces turn out to be refused.
    fn start(&self, folder: &Path, state: &Path) -> Result<Child> {
        loop {
            // Without namespaces the check gets another path.
            let in_place = self.namespaces.load(Ordering::Relaxed);
            let seen = if in_place { self.directory.as_path() } else { state };
            let printed = folder.join("printed");
            let output = File::create(&printed).map_err(Error::file("making", &printed))?;
            let again = output.try_clone().map_err(Error::file("opening", &printed))?;
            let mut command = command(&format!("{} \"$@\"", self.command));
            command.arg("check").arg(seen).arg(folder.join("acks")).stdout(output).stderr(again);
            let over = if in_place { Over::Folder(state) } else { Over::Itself };
            let directory = &self.directory;
            let apart = Apart { directory, over, listened: None, namespaces: in_place, beside: None };
            match isolation::spawn(command, &apart) {
                Ok(child) => return Ok(child),
                Err(error) if in_place && error.raw_os_error() != Some(2) => {
                    self.namespaces.store(false, Ordering::Relaxed);
                }
                Err(error) => {
                    return Err(Error::refused(format!("running the check {:?}", self.command))(error));
                }
            }
        }
    }

    /// Waits for the check; nothing: it was ended.
    fn wait(&self, child: &mut Child) -> io::Result<Option<ExitStatus>> {
        let pid = Pid::from_child(child);
        let ended = pidfd_open(pid, PidfdFlags::empty())?;
        let until_ns = monotonic_ns().saturating_add(nanoseconds(self.limit));
        let mut in_time = false;
        while !in_time && monotonic_ns() < until_ns && !self.is_over() {
            in_time = ready(&[ended.as_fd()], LOOK_MS)?[0];
        }
        if !in_time {
            let _ = signal_group(child.id(), isolation::KILL);
            let _ = child.kill();
        }
        let status = child.wait()?;
        Ok(in_time.then_some(status))
    }
}

impl Check for CommandCheck<'_> {
    fn judge(&self, state: &Tree, acknowledged: &[Arc<[u8]>]) -> Result<Answer> {
        let folder = self.take()?;
        let laid = folder.join("state");
        remove(&laid)?;
        lay_out(state, &laid)?;
        if self.owner.0 != rustix::process::geteuid().as_raw() {
            let (user, group) = self.owner;
            each_below(&laid, |path, _| {
                lchown(path, Some(user), Some(group)).map_err(Error::file("changing the owner of", path))
            })?;
        }
        let acks = folder.join("acks");
        fs::write(&acks, lines(acknowledged)).map_err(Error::file("writing", &acks))?;
        let mut child = self.start(&folder, &laid)?;
        let status = self.wait(&mut child).map_err(Error::refused("waiting for the check"))?;
        let printed = fs::read(folder.join("printed")).unwrap_or_default();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).0.push(folder);
        let printed = String::from_utf8_lossy(&printed[printed.len().saturating_sub(MESSAGE_BYTES)..])
            .trim()
            .to_owned();
        Ok(match status.map(|status| status.code().unwrap_or(-1)) {
            Some(0) => Answer::Kept,
            Some(126 | 127) => {
                return Err(Error::Untestable(format!(
                    "the check {:?} cannot be run: {}",
                    self.command,
                    one_line(&printed)
                )));
            }
            Some(code) if let Some(signal) = isolation::signal_of(code) => {
                Answer::Broken(format!("the check ended by signal {signal}: {printed}"))
            }
            Some(code) if printed.is_empty() => {
                Answer::Broken(format!("the check ended with exit code {code}"))
            }
            Some(_) => Answer::Broken(printed),
            None if self.is_over() => return Err(Error::OutOfTime),
            None => Answer::Broken(format!("the check did not end within {} s", self.limit.as_secs())),
        })
    }
}

/// The lines of a file of acknowledgements.
pub(crate) fn lines(acknowledged: &[Arc<[u8]>]) -> Vec<u8> {
    acknowledged.iter().flat_map(|line| line.iter().copied().chain([b'\n'])).collect()
}

impl Drop for CommandCheck<'_> {
    fn drop(&mut self) {
        if let Err(error) = remove(self.base.name()) {
            eprintln!("could not remove the states: {error}");
        }
    }
}

/// Does `what` to a folder and to everything below it, to a folder before what is in it.
fn each_below(folder: &Path, what: impl Fn(&Path, bool) -> Result<()>) -> Result<()> {
    let mut due = vec![folder.to_owned()];
    while let Some(path) = due.pop() {
        let is_folder = path.symlink_metadata().is_ok_and(|about| about.is_dir());
        what(&path, is_folder)?;
        if is_folder {
            let entries = fs::read_dir(&path).map_err(Error::file("reading", &path))?;
            due.extend(entries.flatten().map(|entry| entry.path()));
        }
    }
    Ok(())
}

/// Removes a folder, whatever modes the state or the check gave to what is in it.
fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            each_below(folder, |path, is_folder| {
                if is_folder {
                    // What then cannot be removed is said.
                    let _ = fs::set_permissions(path, Permissions::from_mode(0o700));
                }
                Ok(())
            })?;
            fs::remove_dir_all(folder).map_err(Error::file("removing", folder))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.map_err(Error::file("removing", folder)),
    }
}

/// A folder for states, in memory if there is room; those of tests that were killed are removed.
fn folder_in_memory() -> Result<Scratch> {
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let _ = sweep(&root);
    Scratch::new_in(&root).map_err(|error| Error::file("making a folder in", &root)(error.into_source()))
}

/// Makes the directory `into` hold what `tree` has.
///
/// # Errors
/// It is there already, or a file cannot be made.
pub fn lay_out(tree: &Tree, into: &Path) -> Result<()> {
    fs::create_dir(into).map_err(Error::file("making", into))?;
    let mut made: BTreeMap<Inode, PathBuf> = BTreeMap::new();
    let mut folders = vec![(ROOT, into.to_owned())];
    let mut next = 0;
    while let Some((inode, path)) = folders.get(next).cloned() {
        next += 1;
        let Some(folder) = tree.nodes.get(&inode) else { continue };
        for (name, inode) in &folder.names {
            let path = path.join(OsStr::from_bytes(name));
            let Some(node) = tree.nodes.get(inode) else { continue };
            let failed = Error::file("making", &path);
            let result = match (&node.kind, made.get(inode)) {
                (Kind::Folder, _) => {
                    // A folder that a lost rename left in two places ends here.
                    if folders.iter().any(|(known, _)| known == inode) {
                        continue;
                    }
                    folders.push((*inode, path.clone()));
                    fs::create_dir(&path)
                }
                (_, Some(other)) => fs::hard_link(other, &path),
                (Kind::File, None) => write(&path, &node.content),
                (Kind::Symlink(target), None) => symlink(OsStr::from_bytes(target), &path),
                (Kind::Special(_), None) => {
                    mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::from(0o600), 0).map_err(Into::into)
                }
            };
            result.map_err(failed)?;
            if let (Kind::File | Kind::Special(_), Some(mode)) = (&node.kind, node.mode) {
                fs::set_permissions(&path, Permissions::from_mode(mode))
                    .map_err(Error::file("changing", &path))?;
            }
            made.insert(*inode, path);
        }
    }
    // Last, because a folder may refuse to be written to.
    for (inode, path) in folders.iter().rev() {
        if let Some(mode) = tree.nodes.get(inode).and_then(|node| node.mode) {
            fs::set_permissions(path, Permissions::from_mode(mode)).map_err(Error::file("changing", path))?;
        }
    }
    Ok(())
}

/// Makes a file; its holes stay holes.
fn write(path: &Path, content: &Content) -> io::Result<()> {
    let file = File::create_new(path)?;
    for (offset, bytes) in content.pieces() {
        file.write_all_at(bytes, offset)?;
    }
    file.set_len(content.len() as u64)
}

/// The directory as it is on the disk.
///
/// # Errors
/// A file cannot be read.
pub fn load(directory: &Path) -> Result<Tree> {
    let mut tree = Tree::default();
    let mut known = BTreeMap::new();
    let mut due = vec![(ROOT, directory.to_owned())];
    let mode = |about: &fs::Metadata| about.permissions().mode() & 0o7777;
    tree.node(ROOT).mode = Some(mode(&fs::metadata(directory).map_err(Error::file("reading", directory))?));
    let mut next = ROOT;
    while let Some((folder, path)) = due.pop() {
        for entry in fs::read_dir(&path).map_err(Error::file("reading", &path))? {
            let entry = entry.map_err(Error::file("reading", &path))?;
            let path = entry.path();
            let about = entry.metadata().map_err(Error::file("reading", &path))?;
            let inode = *known.entry((about.dev(), about.ino())).or_insert_with(|| {
                next += 1;
                next
            });
            let kind = match about.file_type() {
                kind if kind.is_dir() => Kind::Folder,
                kind if kind.is_file() => Kind::File,
                kind if kind.is_symlink() => Kind::Symlink(
                    fs::read_link(&path)
                        .map_err(Error::file("reading", &path))?
                        .into_os_string()
                        .into_vec()
                        .into(),
                ),
                _ => Kind::Special(about.mode()),
            };
            let mut node = Node::new(kind, Some(mode(&about)));
            match node.kind {
                Kind::Folder => due.push((inode, path.clone())),
                Kind::File => {
                    let bytes = fs::read(&path).map_err(Error::file("reading", &path))?;
                    node.content = Arc::new(bytes[..].into());
                }
                _ => {}
            }
            tree.nodes.insert(inode, Arc::new(node));
            tree.node(folder).names.insert(entry.file_name().into_vec().into(), inode);
        }
    }
    Ok(tree)
}
