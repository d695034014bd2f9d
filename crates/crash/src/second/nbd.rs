//! Serves the simulated disk to the emulator by the NBD protocol.
//!
//! It is the server's side of the protocol as the NBD project specifies it: fixed newstyle handshake, options `GO`,
//! `INFO`, `EXPORT_NAME`, `LIST` and ABORT, simple replies; reads, writes, flushes, trims and FUA.
//!
//! Invariants: one export, which is what `disk` is; requests are done one after the other, so that a flush covers the
//! requests answered before it; lengths are checked before anything is allocated; when the peer goes away, the
//! connection ends and the disk stays as it is.

#![expect(clippy::big_endian_bytes, reason = "NBD speaks big-endian")]

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::cache::Disk;

const NBD_MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;

/// Fixed newstyle, and no 124 bytes of zeros.
const HANDSHAKE_FLAGS: u16 = 0b11;
const NO_ZEROES: u32 = 0b10;
/// Flags are sent; flush, FUA and trim are served.
const EXPORT_FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5;

const OPT_EXPORT_NAME: u32 = 1;
const OPT_ABORT: u32 = 2;
const OPT_LIST: u32 = 3;
const OPT_INFO: u32 = 6;
const OPT_GO: u32 = 7;

const REP_ACK: u32 = 1;
const REP_SERVER: u32 = 2;
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

pub(crate) fn lock(disk: &Shared) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens on a socket at `path` and serves one connection after the other, in a thread that lasts as long as the
/// process.
///
/// # Errors
/// The socket cannot be made.
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
    if negotiate(&mut stream, lock(disk).len() as u64)? {
        transmit(&mut stream, disk)?;
    }
    Ok(())
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

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Negotiates the export; whether the peer goes on.
fn negotiate(stream: &mut (impl Read + Write), bytes: u64) -> io::Result<bool> {
    let mut hello = Vec::new();
    hello.extend(NBD_MAGIC.to_be_bytes());
    hello.extend(OPTION_MAGIC.to_be_bytes());
    hello.extend(HANDSHAKE_FLAGS.to_be_bytes());
    stream.write_all(&hello)?;
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
        match option {
            OPT_EXPORT_NAME => {
                let mut reply = [&bytes.to_be_bytes()[..], &EXPORT_FLAGS.to_be_bytes()].concat();
                reply.resize(reply.len() + if client & NO_ZEROES == 0 { 124 } else { 0 }, 0);
                stream.write_all(&reply)?;
                return Ok(true);
            }
            OPT_GO | OPT_INFO => {
                let info = [&0_u16.to_be_bytes()[..], &bytes.to_be_bytes(), &EXPORT_FLAGS.to_be_bytes()];
                answer(stream, option, REP_INFO, &info.concat())?;
                answer(stream, option, REP_ACK, &[])?;
                if option == OPT_GO {
                    return Ok(true);
                }
            }
            OPT_LIST => {
                let name = b"disk";
                answer(stream, option, REP_SERVER, &[&4_u32.to_be_bytes()[..], name].concat())?;
                answer(stream, option, REP_ACK, &[])?;
            }
            OPT_ABORT => {
                answer(stream, option, REP_ACK, &[])?;
                return Ok(false);
            }
            _ => answer(stream, option, REP_ERR_UNSUP, &[])?,
        }
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
    use super::{
        CMD_DISC, CMD_FLUSH, CMD_READ, CMD_TRIM, CMD_WRITE, FLAG_FUA, REQUEST_MAGIC, Shared, lock, serve,
    };
    use crate::second::cache::{Disk, Nature};
    use seawall::sim::rng::Rng;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};

    const BYTES: usize = 1 << 20;

    fn served(nature: Nature) -> (tempfile::TempDir, PathBuf, Shared) {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("socket");
        let disk: Shared = Arc::new(Mutex::new(Disk::new(nature, vec![0; BYTES])));
        serve(&path, &disk).expect("listens");
        (dir, path, disk)
    }

    /// A client of our own, from the specification alone.
    struct Client(UnixStream);

    impl Client {
        fn connect(path: &PathBuf) -> Self {
            let mut stream = UnixStream::connect(path).expect("connects");
            let mut hello = [0; 18];
            stream.read_exact(&mut hello).expect("a greeting");
            assert_eq!(&hello[..16], b"NBDMAGICIHAVEOPT");
            stream.write_all(&3_u32.to_be_bytes()).expect("flags");
            // An unknown option is refused and changes nothing.
            let (reply, _) = Self::option(&mut stream, 99);
            assert_eq!(reply, 1 << 31 | 1);
            let (reply, info) = Self::option(&mut stream, 7);
            assert_eq!((reply, &info[..2]), (3, &[0, 0][..]));
            assert_eq!(info[2..10], (BYTES as u64).to_be_bytes());
            assert_eq!(info[10..], 0b10_1101_u16.to_be_bytes(), "flush, FUA and trim are offered");
            assert_eq!(Self::reply(&mut stream).0, 1);
            Self(stream)
        }

        fn option(stream: &mut UnixStream, option: u32) -> (u32, Vec<u8>) {
            let bytes = [&b"IHAVEOPT"[..], &option.to_be_bytes(), &6_u32.to_be_bytes(), &[0; 6]].concat();
            stream.write_all(&bytes).expect("an option");
            Self::reply(stream)
        }

        fn reply(stream: &mut UnixStream) -> (u32, Vec<u8>) {
            let mut head = [0; 20];
            stream.read_exact(&mut head).expect("an answer");
            let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
            let mut data = vec![0; word(16) as usize];
            stream.read_exact(&mut data).expect("its data");
            (word(12), data)
        }

        fn ask(&mut self, command: u16, flags: u16, at: u64, length: u32, data: &[u8]) {
            let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
            bytes.extend(flags.to_be_bytes());
            bytes.extend(command.to_be_bytes());
            bytes.extend(77_u64.to_be_bytes());
            bytes.extend(at.to_be_bytes());
            bytes.extend(length.to_be_bytes());
            bytes.extend(data);
            self.0.write_all(&bytes).expect("a request");
        }

        fn call(&mut self, command: u16, flags: u16, at: u64, length: u32, data: &[u8]) -> (u32, Vec<u8>) {
            self.ask(command, flags, at, length, data);
            let mut head = [0; 16];
            self.0.read_exact(&mut head).expect("a reply");
            assert_eq!(head[8..], 77_u64.to_be_bytes());
            let error = u32::from_be_bytes(head[4..8].try_into().expect("four bytes"));
            let mut read = vec![0; if command == CMD_READ && error == 0 { length as usize } else { 0 }];
            self.0.read_exact(&mut read).expect("data");
            (error, read)
        }
    }

    #[test]
    fn what_is_written_is_read_flushed_and_forced_as_the_protocol_says() {
        let (_dir, path, disk) = served(Nature::Honest);
        let mut client = Client::connect(&path);
        assert_eq!(client.call(CMD_WRITE, 0, 4096, 512, &[5; 512]), (0, Vec::new()));
        assert_eq!(client.call(CMD_READ, 0, 4096, 512, &[]), (0, vec![5; 512]));
        assert_eq!(client.call(CMD_WRITE, FLAG_FUA, 8192, 512, &[6; 512]).0, 0);
        assert_eq!(client.call(CMD_FLUSH, 0, 0, 0, &[]).0, 0);
        assert_eq!(client.call(CMD_TRIM, 0, 4096, 512, &[]).0, 0);
        assert_eq!(client.call(CMD_READ, 0, 4096, 512, &[]).1, vec![0; 512]);
        assert_eq!(client.call(CMD_READ, 0, BYTES as u64, 512, &[]).0, 22, "behind the end");
        assert_eq!(client.call(CMD_WRITE, 0, BYTES as u64 - 1, 512, &[1; 512]).0, 28, "over the end");
        assert_eq!(client.call(9, 0, 0, 0, &[]).0, 22, "no such command");
        let traffic = lock(&disk).traffic;
        assert_eq!((traffic.writes, traffic.forced, traffic.flushes, traffic.trims), (2, 1, 1, 1));
        // Half a write, and the peer is gone: it never happened, and the next one is served.
        client.ask(CMD_WRITE, 0, 0, 1024, &[9; 512]);
        drop(client);
        let mut again = Client::connect(&path);
        assert_eq!(again.call(CMD_READ, 0, 0, 512, &[]).1, vec![0; 512]);
        again.ask(CMD_DISC, 0, 0, 0, &[]);
        lock(&disk).cut(&mut Rng::new(1));
        let mut last = Client::connect(&path);
        assert_eq!(last.call(CMD_READ, 0, 8192, 512, &[]).1, vec![6; 512], "forced before the cut");
    }

    #[test]
    fn the_emulator_s_own_client_agrees() {
        let (_dir, path, disk) = served(Nature::Honest);
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
        let disk = lock(&disk);
        assert_eq!(disk.read(8192, 4096), Some(&[7; 4096][..]));
        assert_eq!(disk.read(65_536, 4096), Some(&[8; 4096][..]));
        assert!(disk.traffic.flushes > 0 && disk.traffic.trims == 1, "{:?}", disk.traffic);
    }
}
