//! Tests that `{:?}` shows nothing of what users wrote: a log message with a record in it must not contain their secrets.

use seawall::format::Records;
use seawall::{Error, Log, Lsn, Options, View};

const SECRET: &[u8] = b"a secret of users";
/// So much is shown at most, in bytes, apart from the name of the directory.
const SHOWN_MAX: usize = 300;

#[test]
fn nothing_public_shows_what_records_hold() {
    let dir = crate::fixture::scratch();
    let log = Log::open(dir.path(), Options::default().memory_bytes(8 << 20)).expect("opens");
    for _ in 0..100 {
        log.append_commit(SECRET).expect("commits");
    }
    let mut shown = Vec::new();
    let mut reader = log.read(Lsn::ZERO).expect("reads");
    let record = reader.next_record().expect("is sound").expect("is there");
    let mut follower = log.follow(Lsn::ZERO).expect("follows");
    follower.next_record().expect("is sound");
    shown.extend([format!("{record:?}"), format!("{:?}", record.payload), format!("{reader:?}")]);
    shown.extend([format!("{follower:?}"), format!("{log:?}"), format!("{:?}", log.opened())]);
    let staged = log.transaction::<Error>(|transaction| {
        (0..9000).try_for_each(|_| transaction.append(SECRET))?;
        shown.push(format!("{transaction:?}"));
        Ok(())
    });
    shown.push(format!("{:?}", log.commit_async(staged.expect("appends"))));
    log.append(SECRET).expect("appends");
    shown.push(format!("{log:?}"));
    let view = View::open(dir.path()).expect("can be looked at");
    let mut read = view.read(Lsn::ZERO).expect("reads");
    let seen = read.next().expect("is there");
    shown.extend([format!("{seen:?}"), format!("{view:?}"), format!("{read:?}")]);
    let body = [&17_u32.to_le_bytes()[..], SECRET].concat();
    let mut walk = Records::new(&body);
    shown.push(format!("{walk:?}"));
    shown.push(format!("{:?}", walk.next().expect("is there")));
    let as_numbers = format!("{SECRET:?}");
    let as_numbers = as_numbers.trim_matches(['[', ']']).split(", ").take(4).collect::<Vec<_>>().join(", ");
    for text in shown {
        let path = dir.path().as_os_str().len() + 2;
        assert!(text.len() < SHOWN_MAX + path, "{} bytes: {text:.400}", text.len());
        assert!(!text.contains("secret") && !text.contains(&as_numbers), "{text}");
        println!("{text}");
    }
}
