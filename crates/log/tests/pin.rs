//! Tests that a trim stops at the lowest pin, and goes on when that is moved or dropped.

mod scratch;

use scratch::scratch;
use seawall::{Error, Log, Lsn, Options};

#[test]
fn a_trim_stops_at_the_lowest_pin_until_it_is_moved_or_dropped() {
    let dir = scratch();
    let log = Log::open(dir.path(), Options::default().segment_bytes(64 << 10)).expect("opens");
    let ends: Vec<Lsn> = (0..40).map(|i| log.append_commit(&vec![i; 10_000]).expect("commits")).collect();
    assert_eq!(log.stats().pinned, None);
    let mut low = log.pin(ends[5]).expect("pins");
    let (high, twin) = (log.pin(ends[20]).expect("pins"), log.pin(ends[20]).expect("pins"));
    assert_eq!((low.lsn(), log.stats().pinned), (ends[5], Some(ends[5])));
    assert_eq!(log.trim(ends[3]).expect("trims"), ends[3], "below any pin");
    assert_eq!(log.trim(ends[30]).expect("trims"), ends[5]);
    low.advance(ends[2]);
    assert_eq!(low.lsn(), ends[5], "never back");
    low.advance(ends[10]);
    assert_eq!(log.trim(ends[30]).expect("trims"), ends[10]);
    drop(low);
    drop(twin);
    assert_eq!(log.trim(ends[30]).expect("trims"), ends[20], "one of two is left there");
    assert_eq!(log.read(high.lsn()).expect("is held").count(), 19);
    drop(high);
    assert_eq!((log.stats().pinned, log.trim(ends[30]).expect("trims")), (None, ends[30]));
    assert!(matches!(log.pin(ends[29]), Err(Error::Trimmed { .. })));
    assert!(matches!(log.pin(Lsn::MAX), Err(Error::BeyondEnd { .. })));
    // It may outlive the log.
    let pin = log.pin(ends[35]).expect("pins");
    log.close().expect("closes");
    drop(pin);
}
