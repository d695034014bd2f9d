//! Builds the initramfs of the emulated machine: busybox, the release binary, modules and a script.
//!
//! It holds busybox, the release binary, the kernel's modules for disk and network, and a script that judges
//! the run before the last cut and begins the next. [`super::machine`] waits for these lines on the console:
//!
//! ```text
//!   SEAWALL unmountable          the file system did not survive
//!   SEAWALL verdict CODE JSON    check's exit code and what it wrote, in one line
//!   run ID writes in FOLDER      printed by the run: from here on the power may go
//!   SEAWALL ready                what is recorded may begin
//!   SEAWALL ended                the run ended, which it should not, or what is recorded did
//! ```
//!
//! The archive has the "newc" form of cpio that the kernel unpacks: 110 bytes of header in hexadecimal digits, the name
//! and the data, both padded to multiples of four.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::bus::{Bus, PORT};

/// On the kernel's command line: the disk is new, there is no run to judge.
pub(super) const FRESH: &str = "seawall.fresh";

/// On the kernel's command line: the methods that write.
pub(super) const METHODS: &str = "seawall.methods=";

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const TRAILER: &str = "TRAILER!!!";

/// An unpacked kernel package.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub(super) image: PathBuf,
    pub(super) release: String,
    /// Every module, by path.
    modules: Vec<PathBuf>,
}

/// A module that is to be loaded.
struct Module {
    file: String,
    bytes: Vec<u8>,
}

fn missing(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, what.to_string())
}

impl Kernel {
    /// The kernel in the folder that a package was unpacked to.
    pub(super) fn find(root: &Path) -> io::Result<Self> {
        let boot = root.join("boot");
        let entries =
            std::fs::read_dir(&boot).map_err(|error| missing(format!("{}: {error}", boot.display())))?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let release = names.filter_map(|name| name.strip_prefix("vmlinuz-").map(str::to_owned)).max();
        let release = release.ok_or_else(|| missing(format!("no vmlinuz-* in {}", boot.display())))?;
        let mut found = Vec::new();
        walk(&root.join("lib/modules").join(&release).join("kernel"), &mut found)?;
        Ok(Self { image: boot.join(format!("vmlinuz-{release}")), release, modules: found })
    }

    /// The release without what the distribution adds: two numbers.
    pub(super) fn version(&self) -> String {
        self.release.split('.').take(2).collect::<Vec<_>>().join(".")
    }

    /// Adds this module and those that it needs, in the order in which they are to be loaded; what is built into the kernel
    /// is left out.
    fn require(&self, name: &str, ordered: &mut Vec<Module>) -> io::Result<()> {
        let file = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.split('.').next().unwrap_or_default().replace('-', "_")
        };
        let name = name.replace('-', "_");
        let Some(path) = self.modules.iter().find(|path| file(path) == name) else { return Ok(()) };
        let name = format!("{name}.ko");
        if ordered.iter().any(|module| module.file == name) {
            return Ok(());
        }
        let bytes = module(path)?;
        for needed in depends(&bytes).split(',').filter(|needed| !needed.is_empty()) {
            self.require(needed, ordered)?;
        }
        ordered.push(Module { file: name, bytes });
        Ok(())
    }
}

/// A module as the kernel takes it.
fn module(path: &Path) -> io::Result<Vec<u8>> {
    if path.extension().is_none_or(|extension| extension != "xz") {
        return read(path);
    }
    let output = Command::new("xz").arg("-dc").arg(path).output();
    let output = output.map_err(|error| missing(format!("xz, to unpack {}: {error}", path.display())))?;
    if !output.status.success() {
        return Err(io::Error::other(format!("xz cannot unpack {}", path.display())));
    }
    Ok(output.stdout)
}

/// What a module says that it needs.
fn depends(module: &[u8]) -> String {
    let key = b"\0depends=";
    let Some(at) = module.windows(key.len()).position(|bytes| bytes == key) else { return String::new() };
    let rest = &module[at + key.len()..];
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    String::from_utf8_lossy(&rest[..end]).into_owned()
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| missing(format!("{}: {error}", path.display())))
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(dir).map_err(|error| missing(format!("{}: {error}", dir.display())))? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

/// What the machine is to do.
#[derive(Clone, Debug)]
pub(super) struct MachineSpec {
    pub(super) bus: Bus,
    pub(super) file_system: &'static str,
    pub(super) task: Task,
}

/// What runs in the machine.
#[derive(Clone, Debug)]
pub(super) enum Task {
    /// Judges the run before, and begins the next.
    Powercut {
        /// The port of the witness on this host.
        port: u16,
        /// Further options of `run`.
        run: String,
    },
    /// Waits for a word, then appends this to a log and says each LSN on the virtual serial port.
    Record {
        /// Records, in the pieces in which they are given.
        input: Vec<Vec<u8>>,
    },
    /// Waits for a word, then runs this harness's program as the victim with these words and the method, which says what it
    /// commits on the virtual serial port.
    Victim {
        /// The program, built static.
        program: PathBuf,
        /// Its words, but for the method and the place of what it says.
        words: String,
    },
    /// Waits for a word, then runs these commands, whose lines go to the virtual serial port, `$V`.
    Script {
        /// The commands.
        script: String,
        /// Programs of this system that they start, by name or path.
        programs: Vec<PathBuf>,
        /// The kernel's modules that they need; what the kernel does not have is left out.
        modules: &'static [&'static str],
    },
}

/// Loads the modules, brings up the network and finds the disk; `$M` are the methods, `$P` is the port of the disk.
fn set_up(modules: &[Module], spec: &MachineSpec) -> String {
    let mut load = String::new();
    for Module { file, .. } in modules {
        // Writing to a string cannot fail.
        let _ = writeln!(load, "insmod /modules/{file} || echo SEAWALL no module {file}");
    }
    let (attach, device) = (spec.bus.attach(), spec.bus.device());
    format!(
        "#!/bin/sh\n\
         mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev\n\
         exec </dev/console >/dev/console 2>&1\n\
         {load}\
         ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0\n\
         for word in $(cat /proc/cmdline); do case $word in\n\
         {METHODS}*) M=${{word#{METHODS}}};; {PORT}*) P=${{word#{PORT}}};;\n\
         esac; done\n\
         {attach}\
         n=0; while [ ! -b {device} ] && [ $n -lt 300 ]; do sleep 0.1; n=$((n+1)); done\n"
    )
}

fn script(modules: &[Module], spec: &MachineSpec) -> String {
    let MachineSpec { bus, file_system, task } = spec;
    let device = bus.device();
    let mount = format!(
        "if ! mount -t {file_system} {device} /disk; then echo SEAWALL unmountable; sleep 3600; fi\n"
    );
    let task = match task {
        // The emulator's user network has the host at 10.0.2.2.
        Task::Powercut { port, run } => format!(
            "W='/bin/busybox nc 10.0.2.2 {port}'\n\
             if ! grep -q {FRESH} /proc/cmdline; then\n\
             /seawall powercut check /disk --witness-command \"$W\" --mounted --json /verdict >/dev/null\n\
             code=$?; set -f; echo SEAWALL verdict $code $(cat /verdict); set +f; rm -rf /disk/powercut-*\n\
             fi; sync\n\
             /seawall powercut run /disk --witness-command \"$W\" --method $M {run}\n"
        ),
        Task::Record { .. } => {
            let segment = crate::victim::LAYOUT.segment_bytes;
            format!(
                "mkdir /disk/log; sync; echo SEAWALL ready; read -r word\n\
                 (for piece in /input/*; do cat $piece; sleep 0.01; done) | /seawall log append --format raw \
                 --segment-bytes {segment} --method $M /disk/log >$(echo /dev/vport*p1)\n"
            )
        }
        Task::Victim { words, .. } => format!(
            "mkdir /disk/log; sync; echo SEAWALL ready; read -r word\n\
             /victim victim --dir /disk/log --method $M {words} >$(echo /dev/vport*p1)\n"
        ),
        Task::Script { script, .. } => {
            format!("sync; D={device}; V=$(echo /dev/vport*p1); echo SEAWALL ready; read -r word\n{script}")
        }
    };
    set_up(modules, spec) + &mount + &task + "echo SEAWALL ended $?; sleep 3600\n"
}

/// One entry of a cpio archive.
fn entry(out: &mut Vec<u8>, number: u32, name: &str, mode: u32, data: &[u8]) -> io::Result<()> {
    let length = |bytes: usize| u32::try_from(bytes).map_err(io::Error::other);
    let fields = [number, mode, 0, 0, 1, 0, length(data.len())?, 0, 0, 0, 0, length(name.len() + 1)?, 0];
    out.extend(b"070701");
    for field in fields {
        out.extend(format!("{field:08x}").bytes());
    }
    out.extend(name.bytes().chain([0]));
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend(data);
    out.resize(out.len().next_multiple_of(4), 0);
    Ok(())
}

/// A file of the archive: its name, its mode and what it holds.
type File = (String, u32, Vec<u8>);

/// A program of this system at the top of the archive, with the libraries that it names and their folders.
fn with_libraries(program: &Path) -> io::Result<Vec<File>> {
    let found = |path: &Path| path.join(program).is_file().then(|| path.join(program));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::split_paths(&path).find_map(|path| found(&path));
    let path =
        path.ok_or_else(|| missing(format!("{}, to run in the machine: install it", program.display())))?;
    let listed = Command::new("ldd").arg(&path).output()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut files = vec![(name, PROGRAM, read(&path)?)];
    for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
        let name = library.trim_start_matches('/').to_owned();
        let mut above: Vec<&Path> = Path::new(&name).ancestors().skip(1).collect();
        above.retain(|folder| !folder.as_os_str().is_empty());
        for folder in above.into_iter().rev() {
            let folder = folder.to_string_lossy().into_owned();
            if files.iter().all(|(known, ..)| *known != folder) {
                files.push((folder, DIRECTORY, Vec::new()));
            }
        }
        files.push((name, PROGRAM, read(Path::new(library))?));
    }
    Ok(files)
}

/// The archive, with the programs at these paths.
pub(super) fn build(
    kernel: &Kernel,
    busybox: &Path,
    seawall: &Path,
    spec: &MachineSpec,
) -> io::Result<Vec<u8>> {
    let more = if let Task::Script { modules, .. } = &spec.task { *modules } else { &[] };
    let wanted = [spec.bus.modules(), &["virtio_net", "virtio_console", spec.file_system], more].concat();
    let mut modules = Vec::new();
    wanted.iter().try_for_each(|name| kernel.require(name, &mut modules))?;
    let mut files: Vec<File> = Vec::new();
    for name in ["bin", "proc", "sys", "dev", "disk", "modules", "input"] {
        files.push((name.to_owned(), DIRECTORY, Vec::new()));
    }
    files.push(("init".to_owned(), PROGRAM, script(&modules, spec).into_bytes()));
    files.push(("seawall".to_owned(), PROGRAM, read(seawall)?));
    files.push(("bin/busybox".to_owned(), PROGRAM, read(busybox)?));
    for applet in [
        "sh", "mount", "umount", "insmod", "ip", "sleep", "cat", "rm", "sync", "grep", "mkdir", "tr", "tee",
        "rmmod", "blockdev", "mkdosfs", "chmod",
    ] {
        files.push((format!("bin/{applet}"), 0o120_777, b"busybox".to_vec()));
    }
    for Module { file, bytes } in modules {
        files.push((format!("modules/{file}"), PROGRAM, bytes));
    }
    match &spec.task {
        Task::Powercut { .. } => {}
        Task::Record { input } => {
            let pieces = (0..).zip(input);
            files
                .extend(pieces.map(|(number, piece)| (format!("input/{number:06}"), PROGRAM, piece.clone())));
        }
        Task::Victim { program, .. } => files.push(("victim".to_owned(), PROGRAM, read(program)?)),
        Task::Script { programs, .. } => {
            for program in programs {
                files.extend(with_libraries(program)?);
            }
            let mut known = HashSet::new();
            files.retain(|(name, ..)| known.insert(name.clone()));
        }
    }
    let mut archive = Vec::new();
    for (number, (name, mode, data)) in (1..).zip(&files) {
        entry(&mut archive, number, name, *mode, data)?;
    }
    entry(&mut archive, 0, TRAILER, 0, &[])?;
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use super::{DIRECTORY, PROGRAM, TRAILER, depends, entry};

    #[test]
    fn a_module_names_what_it_needs() {
        assert_eq!(depends(b"\x7fELF...\0license=GPL\0depends=xor,raid6_pq\0name=btrfs\0"), "xor,raid6_pq");
        assert_eq!(depends(b"\0depends=\0name=x\0") + &depends(b"nothing"), "");
    }

    #[test]
    fn an_archive_is_what_cpio_reads() {
        let mut archive = Vec::new();
        entry(&mut archive, 1, "dir", DIRECTORY, b"").expect("fits");
        entry(&mut archive, 2, "dir/file", PROGRAM, b"hello").expect("fits");
        entry(&mut archive, 0, TRAILER, 0, b"").expect("fits");
        assert!(archive.len().is_multiple_of(4) && archive.starts_with(b"070701"));
        assert_eq!(&archive[110..114], b"dir\0");
        let text = String::from_utf8_lossy(&archive);
        assert!(text.contains("00000005") && text.contains("dir/file\0\0hello\x00\x00\x00070701"), "{text}");
    }
}
