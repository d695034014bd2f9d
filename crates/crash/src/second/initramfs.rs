//! Builds the initramfs of the emulated machine: busybox, the release binary, modules and a script.
//!
//! It holds busybox, the release binary, the kernel's modules for disk and network, a token, and a script that judges
//! the run before the last cut and begins the next. [`super::machine`] waits for these lines on the console:
//!
//! ```text
//!   SEAWALL unmountable          the file system did not survive
//!   SEAWALL verdict CODE JSON    check's exit code and what it wrote, in one line
//!   run ID writes in FOLDER      printed by the run: from here on the power may go
//!   SEAWALL ended                the run ended, which it should not
//! ```
//!
//! The archive has the "newc" form of cpio that the kernel unpacks: 110 bytes of header in hexadecimal digits, the name
//! and the data, both padded to multiples of four.

use std::io;
use std::path::{Path, PathBuf};

/// Modules in the order in which they need each other; one that is built in is left out.
const MODULES: [&str; 9] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
    "failover",
    "net_failover",
    "virtio_net",
];

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
    /// The kernel.
    pub(super) image: PathBuf,
    /// Its release.
    pub(super) release: String,
    modules: Vec<PathBuf>,
}

fn missing(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, what.to_string())
}

impl Kernel {
    /// The kernel in the folder that a package was unpacked to.
    ///
    /// # Errors
    /// What is missing.
    pub(super) fn find(root: &Path) -> io::Result<Self> {
        let boot = root.join("boot");
        let entries =
            std::fs::read_dir(&boot).map_err(|error| missing(format!("{}: {error}", boot.display())))?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let release = names.filter_map(|name| name.strip_prefix("vmlinuz-").map(str::to_owned)).max();
        let release = release.ok_or_else(|| missing(format!("no vmlinuz-* in {}", boot.display())))?;
        let mut found = Vec::new();
        walk(&root.join("lib/modules").join(&release).join("kernel"), &mut found)?;
        let path_of = |module: &str| {
            let file = format!("{module}.ko");
            found.iter().find(|path| path.file_name().is_some_and(|name| *name == *file)).cloned()
        };
        let modules = MODULES.iter().filter_map(|module| path_of(module)).collect();
        Ok(Self { image: boot.join(format!("vmlinuz-{release}")), release, modules })
    }
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
pub(super) struct Orders {
    /// The port of the witness on this host.
    pub(super) port: u16,
    /// Further options of `run`.
    pub(super) run: String,
}

fn script(kernel: &Kernel, orders: &Orders) -> String {
    let mut load = String::new();
    for name in kernel.modules.iter().filter_map(|path| path.file_name()) {
        let name = name.to_string_lossy();
        load += "insmod /modules/";
        load += &name;
        load += " || echo SEAWALL no module ";
        load += &name;
        load += "\n";
    }
    let Orders { port, run } = orders;
    // The emulator's user network has the host at 10.0.2.2.
    format!(
        "#!/bin/sh\n\
         mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev\n\
         exec </dev/console >/dev/console 2>&1\n\
         {load}\
         ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0\n\
         if ! mount -t ext4 /dev/vda /disk; then echo SEAWALL unmountable; sleep 3600; fi\n\
         W='--witness 10.0.2.2:{port} --token-file /token'\n\
         if ! grep -q {FRESH} /proc/cmdline; then\n\
         /seawall powercut check /disk $W --mounted --json /verdict >/dev/null\n\
         code=$?; set -f; echo SEAWALL verdict $code $(cat /verdict); set +f; rm -rf /disk/powercut-*\n\
         fi; sync\n\
         for word in $(cat /proc/cmdline); do case $word in {METHODS}*) M=${{word#{METHODS}}};; esac; done\n\
         /seawall powercut run /disk $W --method $M {run}\n\
         echo SEAWALL ended $?; sleep 3600\n"
    )
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

/// The archive, with the programs at these paths.
///
/// # Errors
/// What cannot be read.
pub(super) fn build(
    kernel: &Kernel,
    busybox: &Path,
    seawall: &Path,
    token: &str,
    orders: &Orders,
) -> io::Result<Vec<u8>> {
    let read =
        |path: &Path| std::fs::read(path).map_err(|error| missing(format!("{}: {error}", path.display())));
    let mut files: Vec<(String, u32, Vec<u8>)> = Vec::new();
    for name in ["bin", "proc", "sys", "dev", "disk", "modules"] {
        files.push((name.to_owned(), DIRECTORY, Vec::new()));
    }
    files.push(("init".to_owned(), PROGRAM, script(kernel, orders).into_bytes()));
    files.push(("token".to_owned(), PROGRAM, token.as_bytes().to_vec()));
    files.push(("seawall".to_owned(), PROGRAM, read(seawall)?));
    files.push(("bin/busybox".to_owned(), PROGRAM, read(busybox)?));
    for applet in ["sh", "mount", "insmod", "ip", "sleep", "cat", "rm", "sync", "grep"] {
        files.push((format!("bin/{applet}"), 0o120_777, b"busybox".to_vec()));
    }
    for module in &kernel.modules {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        files.push((format!("modules/{name}"), PROGRAM, read(module)?));
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
    use super::{DIRECTORY, PROGRAM, TRAILER, entry};

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
