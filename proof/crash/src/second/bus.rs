//! Defines how the machine reaches its disk: by which device, and what its script does to find it.
//!
//! | bus | the machine sees | FUA of a write | the disk is served by |
//! | --- | --- | --- | --- |
//! | `virtio` | virtio-blk | becomes a flush after the write: the device has no FUA | `nbd` |
//! | `nvme` | an `NVMe` drive over TCP | arrives with the write | `nvme_tcp` |

use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use seawall_sys::clock::unix_seconds;

use super::nbd::{self, Shared};
use super::{nvme, nvme_tcp};

/// How the machine reaches its disk.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bus {
    /// virtio-blk, which has flushes and no FUA.
    #[default]
    Virtio,
    /// An `NVMe` drive of our own over TCP: flushes, and FUA on each write.
    Nvme,
}

/// A disk that is served.
#[derive(Clone, Debug)]
pub(super) enum Served {
    /// On a socket, to a device of the emulator.
    Nbd(PathBuf),
    /// On a port of this host, to the machine itself.
    Port(u16),
}

/// Converses with each connection to a port of this host until the process ends; gives the port.
pub(super) fn serve_tcp(converse: impl Fn(&TcpStream) + Clone + Send + 'static) -> io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let converse = converse.clone();
            // A machine that was killed in the middle of a request is what a cut looks like.
            std::thread::spawn(move || stream.set_nodelay(true).map(|()| converse(&stream)));
        }
    });
    Ok(port)
}

/// On the kernel's command line: the port of the disk.
pub(super) const PORT: &str = "seawall.disk=";

impl Bus {
    /// The kernel's modules for it, but for those that these need.
    pub(super) fn modules(self) -> &'static [&'static str] {
        match self {
            Self::Virtio => &["virtio_pci", "virtio_blk"],
            Self::Nvme => &["virtio_pci", "nvme_tcp"],
        }
    }

    /// The disk's name in the machine.
    pub(super) fn device(self) -> &'static str {
        match self {
            Self::Virtio => "/dev/vda",
            Self::Nvme => "/dev/nvme0n1",
        }
    }

    /// What the script of the machine does to have the disk; `$P` is the port.
    pub(super) fn attach(self) -> String {
        match self {
            Self::Virtio => String::new(),
            Self::Nvme => format!(
                "echo \"transport=tcp,traddr=10.0.2.2,trsvcid=$P,nqn={},keep_alive_tmo=0,nr_io_queues=1,nr_poll_queues=1\" \
                 > /dev/nvme-fabrics\n",
                nvme::SUBSYSTEM
            ),
        }
    }

    /// Serves `disk`; a socket goes into `dir`.
    pub(super) fn serve(self, dir: &Path, disk: &Shared) -> io::Result<Served> {
        if self == Self::Nvme {
            let disk = Shared::clone(disk);
            return serve_tcp(move |stream| drop(nvme_tcp::converse(stream, &disk))).map(Served::Port);
        }
        let mut socket = dir.join(format!("disk-{}", unix_seconds()));
        let mut number = 0;
        while socket.exists() {
            number += 1;
            socket.set_extension(number.to_string());
        }
        nbd::serve(&socket, disk)?;
        Ok(Served::Nbd(socket))
    }

    /// The emulator's arguments for the disk that is served.
    pub(super) fn arguments(served: &Served) -> Vec<String> {
        let Served::Nbd(socket) = served else { return Vec::new() };
        let drive = format!(
            "if=none,id=disk,format=raw,cache=none,aio=threads,discard=unmap,file=nbd:unix:{}:exportname=disk",
            socket.display()
        );
        ["-drive", &drive, "-device", "virtio-blk-pci,drive=disk"].map(str::to_owned).to_vec()
    }

    /// What goes to the kernel's command line for the script.
    pub(super) fn words(served: &Served) -> String {
        match served {
            Served::Nbd(_) => String::new(),
            Served::Port(port) => format!("{PORT}{port} "),
        }
    }
}
