//! Tests that a stream of a view is that of the writer, record by record, and that its followers name trims, cuts and removals.

use crate::fixture::{LIMIT, id, new_log, scratch, until};
use crate::follow::options;
use seawall::{Error, Log, Lsn, View, ViewStreamFollower};

/// Which streams hold what, as the writer and as a view has it.
fn agree(log: &Log, ids: u32) {
    let view = View::open(log.dir()).expect("looks");
    for number in 0..ids {
        let (own, seen) = (log.stream(id(number)), view.stream(id(number)).expect("looks"));
        assert_eq!((seen.first_seq(), seen.next_seq()), (own.first_seq(), own.next_seq()), "stream {number}");
        let read = |record: seawall::Result<seawall::Record>| {
            let record = record.expect("is intact");
            (record.stream.expect("has a place").seq, record.payload.to_vec())
        };
        let own: Vec<_> = own.read(own.first_seq()).expect("reads").map(read).collect();
        let seen: Vec<_> = seen.read(seen.first_seq()).expect("reads").map(read).collect();
        assert_eq!(seen, own, "stream {number}");
    }
}

#[test]
fn a_stream_of_a_view_is_that_of_the_writer() {
    let dir = scratch();
    let mut chance = seawall::sim::rng::Rng::new(1);
    for life in 0..3 {
        let log = Log::open(dir.path(), options()).expect("opens");
        agree(&log, 6);
        for step in 0..400_u32 {
            let stream = log.stream(id(u32::try_from(chance.below(5)).expect("small")));
            let (first, held) = (stream.first_seq(), stream.next_seq() - stream.first_seq());
            let end = match chance.below(12) {
                0 => stream.trim(first + chance.below(held + 1)),
                1 => stream.truncate(first + chance.below(held + 1)),
                2 if chance.below(6) == 0 => stream.remove(),
                _ => {
                    let bytes = 200 + usize::try_from(chance.below(3000)).expect("small");
                    let record = vec![u8::try_from(step % 251).expect("small"); bytes];
                    stream.append(&record).map(|appended| appended.end)
                }
            };
            log.commit(end.expect("is accepted")).expect("commits");
            if step % 40 == 0 {
                agree(&log, 6);
            }
        }
        agree(&log, 6);
        assert!(life < 2 || log.stats().rewritten_records > 0, "nothing was rewritten");
        log.close().expect("closes");
    }
}

fn payload(follower: &mut ViewStreamFollower) -> Vec<u8> {
    let record = follower.next_record_timeout(LIMIT).expect("reads");
    record.expect("comes in time").payload.to_vec()
}

#[test]
fn a_follower_of_a_stream_names_trims_cuts_and_removals() {
    let (dir, log) = new_log(options());
    let stream = log.stream(id(7));
    log.append_commit(b"beside").expect("commits");
    let view = View::open(dir.path()).expect("looks");
    let mut follower = view.stream(id(7)).expect("looks").follow(0).expect("follows");
    assert!(follower.try_next_record().expect("reads").is_none());
    for number in 0..60_u8 {
        log.append_commit(&[0; 3000]).expect("commits");
        stream.append_commit(&[number]).expect("commits");
        assert_eq!(payload(&mut follower), [number]);
    }
    // A trim of what it has seen does not concern it; one of what it has not does.
    log.commit(stream.trim(60).expect("trims")).expect("commits");
    stream.append_commit(b"60").expect("commits");
    assert_eq!(payload(&mut follower), b"60");
    stream.append_commit(b"61").expect("commits");
    log.commit(stream.trim(62).expect("trims")).expect("commits");
    let error = follower.try_next_record().expect_err("was trimmed");
    assert!(matches!(error, Error::StreamTrimmed { seq: 61, first: 62, .. }), "{error}");
    // A cut after its place does not concern it; one in front of it does, though the numbers are there again.
    let mut follower =
        View::open(dir.path()).expect("looks").stream(id(7)).expect("looks").follow(62).expect("follows");
    stream.append_commit(b"62").expect("commits");
    stream.append_commit(b"63, cut off").expect("commits");
    log.commit(stream.truncate(63).expect("cuts")).expect("commits");
    stream.append_commit(b"63").expect("commits");
    assert_eq!((payload(&mut follower), payload(&mut follower)), (b"62".to_vec(), b"63".to_vec()));
    log.commit(stream.truncate(63).expect("cuts")).expect("commits");
    for text in ["63 again", "64"] {
        stream.append_commit(text.as_bytes()).expect("commits");
    }
    let error = follower.try_next_record().expect_err("was cut");
    assert!(matches!(error, Error::StreamEnd { seq: 64, next: 63, .. }), "{error}");
    let mut follower =
        View::open(dir.path()).expect("looks").stream(id(7)).expect("looks").follow(65).expect("follows");
    log.commit(stream.remove().expect("removes")).expect("commits");
    let error = follower.try_next_record().expect_err("was removed");
    assert!(matches!(error, Error::StreamEnd { seq: 65, next: 0, .. }), "{error}");
    assert!(view.stream(id(8)).expect("looks").read(1).is_err(), "a stream that nobody wrote to");
    let gone = View::open(dir.path()).expect("looks").stream(id(7)).expect("looks");
    assert_eq!((gone.first_seq(), gone.next_seq()), (0, 0));
}

/// A log whose stream 1 has one record, and a follower of a view that has handed it out.
fn followed() -> (tempfile::TempDir, Log, ViewStreamFollower) {
    let (dir, log) = new_log(options());
    log.stream(id(1)).append_commit(b"0").expect("commits");
    let view = View::open(dir.path()).expect("looks").stream(id(1)).expect("looks");
    let mut follower = view.follow(0).expect("follows");
    assert_eq!(payload(&mut follower), b"0");
    (dir, log, follower)
}

#[test]
fn a_cut_behind_a_follower_of_a_stream_does_not_end_it() {
    let (_dir, log, mut follower) = followed();
    let stream = log.stream(id(1));
    // All of it comes before the follower looks again.
    for text in ["1", "2, cut off"] {
        stream.append_commit(text.as_bytes()).expect("commits");
    }
    log.commit(stream.truncate(2).expect("cuts")).expect("commits");
    stream.append_commit(b"2").expect("commits");
    for text in ["1", "2"] {
        assert_eq!(payload(&mut follower), text.as_bytes());
    }
    for text in ["3", "4"] {
        stream.append_commit(text.as_bytes()).expect("commits");
        assert_eq!(payload(&mut follower), text.as_bytes());
    }
}

#[test]
fn a_reader_of_a_stream_goes_on_when_its_segments_are_trimmed_under_it() {
    let (dir, log) = new_log(options());
    let (kept, noise) = (log.stream(id(1)), log.stream(id(2)));
    for number in 0..20_u8 {
        kept.append_commit(&[number]).expect("commits");
    }
    let stream = View::open(dir.path()).expect("looks").stream(id(1)).expect("looks");
    let mut reader = stream.read(0).expect("reads");
    assert_eq!(reader.next().expect("is there").expect("is intact").payload.to_vec(), [0]);
    // Those segments go, and the records are rewritten.
    let oldest = log.first_lsn();
    while log.first_lsn() == oldest {
        let appended = noise.append_commit(&[0; 7000]).expect("commits");
        log.commit(noise.trim(appended.seq + 1).expect("trims")).expect("commits");
    }
    let rest: Vec<u8> = reader.map(|record| record.expect("is intact").payload[0]).collect();
    assert!(rest.into_iter().eq(1..20));
}

/// The cut went with a segment that the follower never looked at: what the stream holds now is not what followed.
#[test]
fn a_follower_past_whose_place_the_log_was_trimmed_says_so() {
    let (dir, log, mut follower) = followed();
    let stream = log.stream(id(1));
    log.commit(stream.truncate(0).expect("cuts")).expect("commits");
    stream.append_commit(b"another 0").expect("commits");
    for _ in 0..60 {
        log.append_commit(&[0; 3000]).expect("commits");
    }
    let behind = log.durable_lsn();
    stream.append_commit(b"1").expect("commits");
    log.commit(stream.trim(1).expect("trims")).expect("commits");
    log.trim(behind).expect("trims");
    log.append_commit(b"states the trim").expect("commits");
    let first_lsn = || View::open(dir.path()).expect("looks").first_lsn();
    until("the trim is durable", || first_lsn() > Lsn::ZERO);
    for _ in 0..2 {
        let error = follower.try_next_record().map(|record| record.map(|record| record.payload.to_vec()));
        assert!(matches!(error, Err(Error::Trimmed { .. })), "{error:?}");
    }
}

/// Each scene sees the mistake that it is there for.
#[cfg(feature = "mutants")]
#[test]
fn planted_mistakes_are_found() {
    use seawall::mutant::{Mutant, finds};
    let scenes: [(Mutant, fn()); 3] = [
        (Mutant::ViewStreamSkipsTrimmed, a_follower_past_whose_place_the_log_was_trimmed_says_so),
        (Mutant::ViewStreamGoesOnBehindCut, a_follower_of_a_stream_names_trims_cuts_and_removals),
        (Mutant::ViewStreamKeepsCut, a_cut_behind_a_follower_of_a_stream_does_not_end_it),
    ];
    for (mutant, scene) in scenes {
        assert!(finds(mutant, scene), "{mutant:?}");
    }
}
