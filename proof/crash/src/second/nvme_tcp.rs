//! Transports `NVMe` commands over TCP, so that the machine's own `NVMe` driver reaches the simulated disk with FUA on each write.
//!
//! The emulator's own `NVMe` drive drops the FUA bit before it reaches the drive behind it; this one does not. It is the
//! controller's side of `NVMe`/TCP: no digests, all data of a command in its capsule, one connection a queue.
//!
//! ```text
//!   host                      drive
//!   ICReq (128 bytes)    ->
//!                        <-   ICResp (128 bytes)
//!   CapsuleCmd + data    ->                          72 bytes and what is written
//!                        <-   C2HData                24 bytes and what is read
//!                        <-   CapsuleResp            24 bytes
//! ```
//!
//! Commands that have arrived together are all in flight at the same time; they are executed in the order in which
//! they came, and then answered.
//!
//! Invariants: lengths are checked before anything is allocated; when the host goes away, the connection ends and the
//! disk stays as it is.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;

use super::nbd::{Shared, odd};
use super::nvme::{COMMAND_BYTES, Command, Completion, Queue, TRANSFER_BYTES_MAX};

const IC_REQUEST: u8 = 0;
const IC_RESPONSE: u8 = 1;
const CAPSULE_COMMAND: u8 = 4;
const CAPSULE_RESPONSE: u8 = 5;
const C2H_DATA: u8 = 7;
/// The flag of the last data of a command.
const LAST: u8 = 1 << 2;

const HEADER_BYTES: usize = 8;
const IC_BYTES: usize = 128;
const ANSWER_BYTES: u8 = 24;
/// The longest PDU of a host: a command, its data and what may lie between.
const PDU_BYTES_MAX: usize = 256 + COMMAND_BYTES + TRANSFER_BYTES_MAX;
/// Commands that are taken together at most.
const BURST_MAX: usize = 64;

/// Serves one queue of the drive.
pub(super) fn converse(stream: &TcpStream, disk: &Shared) -> io::Result<()> {
    talk(&mut BufReader::with_capacity(1 << 20, stream), &mut &*stream, disk)
}

fn talk(from: &mut BufReader<impl Read>, to: &mut impl Write, disk: &Shared) -> io::Result<()> {
    let (kind, request) = pdu(from)?;
    if kind != IC_REQUEST || request.len() != IC_BYTES || request[8..12] != [0; 4] {
        return Err(odd("no plain request for a connection"));
    }
    let mut response = vec![0; IC_BYTES];
    response[..8].copy_from_slice(&header(IC_RESPONSE, 0, IC_BYTES, IC_BYTES));
    let longest = u32::try_from(TRANSFER_BYTES_MAX).map_err(io::Error::other)?;
    response[12..16].copy_from_slice(&longest.to_le_bytes());
    to.write_all(&response)?;
    let mut queue = Queue::new(disk);
    loop {
        let mut burst = Vec::new();
        loop {
            let command = command(from)?;
            let number = queue.arrive(&command);
            burst.push((command, number));
            if from.buffer().len() < HEADER_BYTES || burst.len() == BURST_MAX {
                break;
            }
        }
        for (mut command, number) in burst {
            if let Some(completion) = queue.execute(&mut command, number) {
                answer(to, &queue, command.id(), &completion)?;
            }
        }
        to.flush()?;
    }
}

/// The next PDU: its kind and all of its bytes.
fn pdu(from: &mut impl Read) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; HEADER_BYTES];
    from.read_exact(&mut head)?;
    let bytes = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    if !(HEADER_BYTES..=PDU_BYTES_MAX).contains(&bytes) {
        return Err(odd("a PDU of an impossible length"));
    }
    let mut all = vec![0; bytes];
    all[..HEADER_BYTES].copy_from_slice(&head);
    from.read_exact(&mut all[HEADER_BYTES..])?;
    Ok((head[0], all))
}

fn command(from: &mut impl Read) -> io::Result<Command> {
    let (kind, bytes) = pdu(from)?;
    let end = HEADER_BYTES + COMMAND_BYTES;
    let Some(entry) = bytes.get(HEADER_BYTES..end).filter(|_| kind == CAPSULE_COMMAND) else {
        return Err(odd("no command"));
    };
    let entry = entry.try_into().map_err(io::Error::other)?;
    let data = if bytes[3] == 0 { bytes.len() } else { usize::from(bytes[3]) };
    let data = bytes.get(data..).ok_or_else(|| odd("data behind its PDU"))?.to_vec();
    Ok(Command { entry, data })
}

fn header(kind: u8, flags: u8, header: usize, all: usize) -> [u8; HEADER_BYTES] {
    let all = u32::try_from(all).unwrap_or(u32::MAX).to_le_bytes();
    let length = u8::try_from(header).unwrap_or(u8::MAX);
    // Data, if there are any, follow the header.
    let data = if kind == C2H_DATA { length } else { 0 };
    [kind, flags, length, data, all[0], all[1], all[2], all[3]]
}

fn answer(to: &mut impl Write, queue: &Queue, id: u16, completion: &Completion) -> io::Result<()> {
    let Completion { result, status, data } = completion;
    let head = usize::from(ANSWER_BYTES);
    let mut bytes = Vec::with_capacity(2 * head + data.len());
    if !data.is_empty() {
        bytes.extend(header(C2H_DATA, LAST, head, head + data.len()));
        bytes.extend(id.to_le_bytes());
        bytes.extend([0; 6]);
        bytes.extend(u32::try_from(data.len()).map_err(io::Error::other)?.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(data);
    }
    bytes.extend(header(CAPSULE_RESPONSE, 0, head, head));
    bytes.extend(result.to_le_bytes());
    bytes.extend([0; 2]);
    bytes.extend(queue.id.to_le_bytes());
    bytes.extend(id.to_le_bytes());
    bytes.extend((status << 1).to_le_bytes());
    to.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use super::{BufReader, HEADER_BYTES, IC_BYTES};
    use crate::blocks::event::Event;
    use crate::lock;
    use crate::second::bus::{Bus, Served};
    use crate::second::cache::{Disk, Nature};
    use crate::second::nbd::Shared;
    use seawall::sim::rng::Rng;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::sync::{Arc, Mutex};

    const BYTES: usize = 1 << 20;
    const FUA: u32 = 1 << 30;

    /// A host of our own, from the specification alone.
    struct Host(BufReader<TcpStream>);

    impl Host {
        fn connect(port: u16, queue: u16) -> Self {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connects");
            let mut hello = vec![0; IC_BYTES];
            hello[..HEADER_BYTES].copy_from_slice(&[0, 0, 128, 0, 128, 0, 0, 0]);
            stream.write_all(&hello).expect("a request");
            stream.read_exact(&mut hello).expect("a response");
            assert_eq!(hello[..3], [1, 0, 128]);
            let mut host = Self(BufReader::new(stream));
            let mut connect = Self::entry(0x7f, 0, 0, 0);
            connect[4] = 1;
            connect[42..44].copy_from_slice(&queue.to_le_bytes());
            host.send(&connect, &[0; 1024]);
            assert_eq!(host.ended(0), (0, 1));
            host
        }

        fn entry(opcode: u8, id: u16, block: u64, word: u32) -> [u8; 64] {
            let mut entry = [0; 64];
            entry[0] = opcode;
            entry[2..4].copy_from_slice(&id.to_le_bytes());
            entry[40..48].copy_from_slice(&block.to_le_bytes());
            entry[48..52].copy_from_slice(&word.to_le_bytes());
            entry
        }

        fn send(&mut self, entry: &[u8; 64], data: &[u8]) {
            let all = u32::try_from(72 + data.len()).expect("is short").to_le_bytes();
            let head = [4, 0, 72, if data.is_empty() { 0 } else { 72 }, all[0], all[1], all[2], all[3]];
            self.0.get_mut().write_all(&[&head[..], entry, data].concat()).expect("a command");
        }

        fn data(&mut self, bytes: usize) -> Vec<u8> {
            let mut head = [0; 24];
            self.0.read_exact(&mut head).expect("data");
            assert_eq!((head[0], head[3]), (7, 24));
            let mut data = vec![0; bytes];
            self.0.read_exact(&mut data).expect("all of it");
            data
        }

        /// Status and result of the command that ends next, which is `id`.
        fn ended(&mut self, id: u16) -> (u16, u64) {
            let mut pdu = [0; 24];
            self.0.read_exact(&mut pdu).expect("a response");
            assert_eq!(pdu[0], 5);
            assert_eq!(pdu[20..22], id.to_le_bytes());
            let result = u64::from_le_bytes(pdu[8..16].try_into().expect("eight bytes"));
            (u16::from_le_bytes([pdu[22], pdu[23]]) >> 1, result)
        }
    }

    fn served() -> (Shared, u16) {
        let disk: Shared = Arc::new(Mutex::new(Disk::new(Nature::Honest, vec![0; BYTES])));
        let served = Bus::Nvme.serve(std::path::Path::new(""), &disk).expect("listens");
        let Served::Port(port) = served else { panic!("{served:?}") };
        (disk, port)
    }

    #[test]
    fn what_is_forced_is_durable_and_what_is_not_is_lost() {
        let (disk, port) = served();
        lock(&disk).record.start();
        let mut host = Host::connect(port, 1);
        host.send(&Host::entry(1, 1, 8, 0), &[5; 512]);
        host.send(&Host::entry(1, 2, 16, FUA), &[6; 512]);
        host.send(&Host::entry(2, 3, 8, 0), &[]);
        assert_eq!((host.ended(1).0, host.ended(2).0), (0, 0));
        assert_eq!((host.data(512), host.ended(3).0), (vec![5; 512], 0));
        host.send(&Host::entry(0, 4, 0, 0), &[]);
        host.send(&Host::entry(1, 5, 24, 0), &[7; 512]);
        assert_eq!((host.ended(4).0, host.ended(5).0), (0, 0));
        for (id, refused) in [(6, Host::entry(2, 6, 1 << 40, 0)), (7, Host::entry(0x55, 7, 0, 0))] {
            host.send(&refused, &[]);
            assert_ne!(host.ended(id).0, 0);
        }
        let traffic = lock(&disk).traffic;
        assert_eq!((traffic.writes, traffic.forced, traffic.flushes), (3, 1, 1));
        let events = lock(&disk).record.take();
        let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
        assert_eq!(count(|event| matches!(event, Event::Write { .. })), 3);
        assert_eq!(count(|event| matches!(event, Event::Forced { .. })), 1);
        assert_eq!(count(|event| matches!(event, Event::Done { .. })), 4);
        drop(host);
        let mut lost = false;
        for seed in 0..64 {
            lock(&disk).write(24 * 512, vec![7; 512], false);
            lock(&disk).cut(&mut Rng::new(seed));
            let shown = |block: usize| lock(&disk).read(block * 512, 1).expect("on the disk")[0];
            assert_eq!((shown(8), shown(16)), (5, 6), "flushed, and forced");
            lost |= shown(24) == 0;
            lock(&disk).write(24 * 512, vec![0; 512], true);
        }
        assert!(lost, "what was neither is lost at times");
    }

    #[test]
    fn the_controller_says_that_it_has_a_volatile_cache() {
        let (_disk, port) = served();
        let mut host = Host::connect(port, 0);
        host.send(&Host::entry(6, 1, 1, 0), &[]);
        let page = host.data(4096);
        assert_eq!((page[525], host.ended(1).0), (1, 0));
        host.send(&Host::entry(6, 2, 0, 0), &[]);
        assert_eq!(host.data(4096)[..8], (BYTES as u64 / 512).to_le_bytes());
        assert_eq!(host.ended(2).0, 0);
        // Requests for events are never answered, whatever else is.
        host.send(&Host::entry(0x0c, 3, 0, 0), &[]);
        host.send(&Host::entry(0x18, 4, 0, 0), &[]);
        assert_eq!(host.ended(4).0, 0);
    }
}
