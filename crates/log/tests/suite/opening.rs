//! Tests that opening probes once for all logs of a process on one disk, and never for a log that remembers its method.

use std::collections::BTreeMap;

use crate::fixture::{scratch, tiny};
use seawall::{Durability, Log, MethodChoice, MethodOrigin, Options};

fn options() -> Options {
    tiny().durability(Durability::SystemCrash)
}

/// One test, because what is probed is shared by all of a process; for a class that no other test here probes.
#[test]
fn sixteen_logs_on_one_disk_make_one_probe() {
    let dir = scratch();
    let place = |i: usize| dir.path().join(i.to_string());
    let open = |i: usize, options: Options| Log::open(place(i), options).expect("opens");
    // All at the same time.
    let origins: Vec<_> = std::thread::scope(|scope| {
        let opening = |i| scope.spawn(move || open(i, options()).opened().clone());
        let opening: Vec<_> = (0..16).map(opening).collect();
        opening.into_iter().map(|opening| opening.join().expect("no panic")).collect()
    });
    let mut by_origin = BTreeMap::new();
    for opened in &origins {
        *by_origin.entry(format!("{:?}", opened.method_origin)).or_insert(0) += 1;
        assert_eq!(opened.method, origins[0].method, "all take what the probe found");
    }
    let expected = BTreeMap::from([("Probed".to_owned(), 1), ("Shared".to_owned(), 15)]);
    assert_eq!(by_origin, expected);
    let origin = |log: &Log| log.opened().method_origin;
    // A later opening, and so a later process, needs what lies in the directory alone.
    for i in 0..16 {
        assert_eq!(origin(&open(i, options())), MethodOrigin::Remembered);
    }
    let named = MethodChoice::Named(origins[0].method.to_owned());
    assert_eq!(origin(&open(0, options().method(named))), MethodOrigin::Named);
    // Blocks of another size may be written at another speed.
    let half = |i: usize| {
        options()
            .block_bytes(2048)
            .durability(seawall::Durability::ProcessCrash)
            .segment_bytes((i as u64 + 1) << 16)
    };
    let first = origin(&open(16, half(1)));
    assert_eq!((first, origin(&open(17, half(2)))), (MethodOrigin::Probed, MethodOrigin::Shared));
    // Anew, when that is requested, for this log and those that are made from now on.
    let again = open(18, options().method(MethodChoice::ProbeAgain));
    assert_eq!(origin(&again), MethodOrigin::Probed);
    let after = open(19, options());
    assert_eq!((origin(&after), after.opened().method), (MethodOrigin::Shared, again.opened().method));
}
