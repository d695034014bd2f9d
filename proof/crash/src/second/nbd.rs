//! Serves the simulated disk to the emulator by the NBD protocol.
//!
//! It is what the emulator asks of a server of the protocol that the NBD project specifies: fixed newstyle handshake, option `GO`,
//! simple replies; reads, writes, flushes, trims and FUA.
//!
//! Invariants: one export, which is what `disk` is; requests are done one after the other, so that a flush covers the
//! requests answered before it; lengths are checked before anything is allocated; when the peer goes away, the
//! connection ends and the disk stays as it is.

#![expect(clippy::big_endian_bytes, reason = "NBD speaks big-endian")]

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::cache::Disk;
use crate::lock;

const NBD_MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;

/// Fixed newstyle, and no 124 bytes of zeros.
const HANDSHAKE_FLAGS: u16 = 0b11;
/// Flags are sent; flush, FUA and trim are served.
const EXPORT_FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5;

const OPT_GO: u32 = 7;

const REP_ACK: u32 = 1;
const REP_INFO: u32 = 3;
const REP_ERR_UNSUP: u32 = 1 << 31 | 1;

const CMD_READ: u16 = 0;
const CMD_WRITE: u16 = 1;
const CMD_DISC: u16 = 2;
const CMD_FLUSH: u16 = 3;
const CMD_TRIM: u16 = 4;
const FLAG_FUA: u16 = 1;

const OK: u32 = 0;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

/// The longest option and the longest request in bytes.
const OPTION_BYTES_MAX: u32 = 4096;
const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// The disk, shared between the server and the campaign that cuts the power.
pub(crate) type Shared = Arc<Mutex<Disk>>;

/// Listens on a socket at `path` and serves one connection after the other, in a thread that lasts as long as the
/// process.
pub(crate) fn serve(path: &Path, disk: &Shared) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    let disk = Arc::clone(disk);
    std::thread::Builder::new().name("nbd".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            // A peer that was killed in the middle of a request is what a cut looks like.
            let _ = converse(&stream, &disk);
        }
    })?;
    Ok(())
}

fn converse(mut stream: &UnixStream, disk: &Shared) -> io::Result<()> {
    negotiate(&mut stream, lock(disk).len() as u64)?;
    transmit(&mut stream, disk)
}

fn take<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn take_u16(stream: &mut impl Read) -> io::Result<u16> {
    take(stream).map(u16::from_be_bytes)
}

fn take_u32(stream: &mut impl Read) -> io::Result<u32> {
    take(stream).map(u32::from_be_bytes)
}

fn take_u64(stream: &mut impl Read) -> io::Result<u64> {
    take(stream).map(u64::from_be_bytes)
}

/// The peer broke the protocol.
pub(super) fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Negotiates the export, of this many bytes.
fn negotiate(stream: &mut (impl Read + Write), bytes: u64) -> io::Result<()> {
    let magics = [NBD_MAGIC, OPTION_MAGIC].map(u64::to_be_bytes);
    stream.write_all(&[magics.as_flattened(), &HANDSHAKE_FLAGS.to_be_bytes()].concat())?;
    let client = take_u32(stream)?;
    if client & !u32::from(HANDSHAKE_FLAGS) != 0 {
        return Err(odd("unknown flags of the client"));
    }
    loop {
        if take_u64(stream)? != OPTION_MAGIC {
            return Err(odd("no option"));
        }
        let (option, length) = (take_u32(stream)?, take_u32(stream)?);
        if length > OPTION_BYTES_MAX {
            return Err(odd("an option that is too long"));
        }
        let mut data = vec![0; length as usize];
        stream.read_exact(&mut data)?;
        if option == OPT_GO {
            let info = [&0_u16.to_be_bytes()[..], &bytes.to_be_bytes(), &EXPORT_FLAGS.to_be_bytes()];
            answer(stream, option, REP_INFO, &info.concat())?;
            return answer(stream, option, REP_ACK, &[]);
        }
        answer(stream, option, REP_ERR_UNSUP, &[])?;
    }
}

fn answer(stream: &mut impl Write, option: u32, reply: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(reply.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).map_err(io::Error::other)?.to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes)
}

/// Serves requests until the peer has had enough.
fn transmit(stream: &mut (impl Read + Write), disk: &Shared) -> io::Result<()> {
    loop {
        if take_u32(stream)? != REQUEST_MAGIC {
            return Err(odd("no request"));
        }
        let (flags, command) = (take_u16(stream)?, take_u16(stream)?);
        let (cookie, offset, length) = (take_u64(stream)?, take_u64(stream)?, take_u32(stream)?);
        if command == CMD_DISC {
            return Ok(());
        }
        let moves_data = matches!(command, CMD_READ | CMD_WRITE);
        if moves_data && length > REQUEST_BYTES_MAX {
            return Err(odd("a request that is too long"));
        }
        let (at, bytes) = (usize::try_from(offset).unwrap_or(usize::MAX), length as usize);
        let mut data = Vec::new();
        let error = match command {
            CMD_WRITE => {
                // All of it has arrived before any of it is in the cache.
                data.resize(bytes, 0);
                stream.read_exact(&mut data)?;
                let written = lock(disk).write(at, std::mem::take(&mut data), flags & FLAG_FUA != 0);
                if written { OK } else { ENOSPC }
            }
            CMD_READ => match lock(disk).read(at, bytes) {
                Some(shown) => {
                    data.extend_from_slice(shown);
                    OK
                }
                None => EINVAL,
            },
            CMD_FLUSH => {
                lock(disk).flush();
                OK
            }
            CMD_TRIM if lock(disk).trim(at, bytes) => OK,
            _ => EINVAL,
        };
        let mut reply = REPLY_MAGIC.to_be_bytes().to_vec();
        reply.extend(error.to_be_bytes());
        reply.extend(cookie.to_be_bytes());
        reply.extend(data);
        stream.write_all(&reply)?;
    }
}

#[cfg(test)]
mod tests {
    use super::{CMD_READ, CMD_WRITE, REQUEST_MAGIC, Shared, serve, transmit};
    use crate::lock;
    use crate::second::cache::{Disk, Nature};
    use seawall::sim::rng::Rng;
    use std::io::{self, Cursor, Read, Write};
    use std::sync::{Arc, Mutex};

    const BYTES: usize = 1 << 20;

    fn disk() -> Shared {
        Arc::new(Mutex::new(Disk::new(Nature::Honest, vec![0; BYTES])))
    }

    /// A peer that has sent all of its requests, and what it is answered.
    struct Peer(Cursor<Vec<u8>>, Vec<u8>);

    impl Read for Peer {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0.read(into)
        }
    }

    impl Write for Peer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_not_on_the_disk_is_refused_and_half_a_write_never_happened() {
        let disk = disk();
        let request = |command: u16, at: usize, length: u32| {
            let cookie_and_place = [77_u64, at as u64].map(u64::to_be_bytes).concat();
            let head = [&REQUEST_MAGIC.to_be_bytes()[..], &[0; 2], &command.to_be_bytes(), &cookie_and_place];
            [&head.concat()[..], &length.to_be_bytes()].concat()
        };
        let sent = [
            request(CMD_READ, BYTES, 512),
            request(CMD_WRITE, BYTES - 1, 512),
            vec![1; 512],
            request(9, 0, 0),
            request(CMD_WRITE, 0, 1024),
            vec![9; 512],
        ];
        let mut peer = Peer(Cursor::new(sent.concat()), Vec::new());
        assert!(transmit(&mut peer, &disk).is_err(), "it went away");
        let errors: Vec<u8> = peer.1.chunks(16).map(|reply| reply[7]).collect();
        assert_eq!(errors, [22, 28, 22], "behind the end, over the end, no such command");
        assert!(peer.1.chunks(16).all(|reply| reply[8..] == 77_u64.to_be_bytes()));
        assert_eq!(lock(&disk).read(0, BYTES), Some(&vec![0; BYTES][..]));
    }

    #[test]
    fn the_emulator_s_own_client_agrees() {
        let (dir, disk) = (tempfile::tempdir().expect("a folder"), disk());
        let path = dir.path().join("socket");
        serve(&path, &disk).expect("listens");
        let commands =
            ["write -P 7 4k 8k", "write -f -P 8 64k 4k", "flush", "discard 4k 4k", "read -P 7 8k 4k"];
        let mut qemu = std::process::Command::new("qemu-io");
        qemu.args(["-f", "raw", "-t", "writeback", "-d", "unmap"]);
        qemu.args(commands.iter().flat_map(|command| ["-c", command]));
        let Ok(output) = qemu.arg(format!("nbd:unix:{}:exportname=disk", path.display())).output() else {
            seawall_sys::skip::skipped("no qemu-io (package qemu-utils)");
            return;
        };
        let output_text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !output_text.contains("ailed"), "{output_text}");
        let mut disk = lock(&disk);
        assert!(disk.traffic.flushes > 0 && disk.traffic.trims == 1, "{:?}", disk.traffic);
        assert_eq!((disk.traffic.writes, disk.traffic.forced), (2, 1));
        disk.cut(&mut Rng::new(1));
        assert_eq!(disk.read(8192, 4096), Some(&[7; 4096][..]), "flushed");
        assert_eq!(disk.read(65_536, 4096), Some(&[8; 4096][..]), "forced");
    }
}
