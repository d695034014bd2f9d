//! Tests compressed messages: shorter, and the same log comes back, from objects and from parts of a stream.

use crate::common::{LIMIT, Memory, copy, drill, options, records, scratch};
use seawall::{Log, RebuildTo};
use seawall_ship::archive::{Archive, ArchiveSettings};
use seawall_ship::destination::Destination;
use seawall_ship::destination::Keep;
use seawall_ship::folder::Folder;
use seawall_ship::message::{Chain, HEADER_BYTES, Header, Kind};
use seawall_ship::shipping::{Settings, Shipping};

fn shipped(from: &std::path::Path, to: Box<dyn Destination>, compresses: bool) {
    let settings = Settings { compresses, ..Settings::default() };
    Shipping::start(from, to, settings).expect("starts").finish(LIMIT).expect("ships");
}

fn archive(kept: &std::path::Path) -> Archive<Folder> {
    let settings = ArchiveSettings { object_bytes: 32 << 10, ..ArchiveSettings::default() };
    Archive::new(Folder::open(kept).expect("opens"), settings)
}

#[test]
fn compressed_messages_are_shorter_and_hold_the_same() {
    let dir = scratch();
    let path = |name: &str| dir.path().join(name);
    let log = Log::open(path("log"), options()).expect("opens");
    for i in 0..200 {
        log.append_commit(format!("record {i} of a log of text. ").repeat(60).as_bytes()).expect("commits");
    }
    let memory = Memory::new("a");
    shipped(&path("log"), Box::new(archive(&path("plain"))), false);
    shipped(&path("log"), Box::new(archive(&path("packed"))), true);
    shipped(&path("log"), Box::new(memory.clone()), true);
    let mut bytes = [0; 2];
    for (name, bytes) in ["plain", "packed"].iter().zip(&mut bytes) {
        let drilled = drill(&mut archive(&path(name)), Some(&path("log"))).expect("is sound");
        *bytes = drilled.read.bytes;
        assert_eq!(drilled.records, 200);
        assert!(drilled.manifests.sound > 2 && drilled.manifests.lacking == 0, "{drilled:?}");
    }
    assert!(bytes[1] * 3 < bytes[0], "{bytes:?}");
    let sources: [(&str, Box<dyn Destination>); 2] =
        [("again", Box::new(archive(&path("packed")))), ("memory", Box::new(memory))];
    for (name, mut from) in sources {
        copy(from.as_mut(), path(name), RebuildTo::default()).expect("copies");
        assert_eq!(records(&path(name)), records(&path("log")), "{name}");
    }
    // A retention reads them too, and a compaction copies them as they are.
    log.trim(log.appended_lsn()).expect("trims");
    log.append_commit(b"behind").expect("commits");
    shipped(&path("log"), Box::new(archive(&path("packed"))), true);
    let removed = archive(&path("packed")).retain(&Keep::default(), false).expect("removes");
    assert!(removed.objects > 0 && !removed.all_read, "{removed:?}");
    drill(&mut archive(&path("packed")), Some(&path("log"))).expect("the chain holds");
}

/// An earlier reader refuses the version; each changed byte is found; a payload that does not become shorter stays as it is.
#[test]
fn a_compressed_message_says_so_and_each_changed_byte_is_found() {
    let chain = Chain::default();
    let header = chain.next_header(Kind::Batches, seawall::LogId([7; 16]), (1, [5; 16]));
    let payload = b"the same words again and again. ".repeat(40);
    let (packed, bytes) = header.clone().seal_compressed(&payload);
    assert!(bytes.len() < HEADER_BYTES + payload.len() / 4);
    assert_eq!((bytes[4], packed.raw_bytes), (2, Some(u32::try_from(payload.len()).expect("short"))));
    let (opened, inner) = Header::open(&bytes).expect("sound");
    assert_eq!(opened.unpack(inner).expect("unpacks").into_owned(), payload);
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x10;
        assert!(Header::open(&bad).is_err(), "byte {at}");
    }
    // Sound by its checksum, and of another length than it states.
    let wrong = Header { raw_bytes: Some(7), ..packed };
    let bytes = wrong.seal(inner);
    let (opened, inner) = Header::open(&bytes).expect("its checksum is right");
    assert!(opened.unpack(inner).is_err());
    let mut due = Chain::default();
    (due.epoch, due.owner) = (1, [5; 16]);
    assert!(due.take(&bytes).is_err());
    let mut noise = vec![0; 2000];
    fastrand::Rng::with_seed(7).fill(&mut noise);
    let (plain, bytes) = header.seal_compressed(&noise);
    assert!(plain.raw_bytes.is_none() && bytes[4] == 1 && bytes[HEADER_BYTES..] == noise);
}
