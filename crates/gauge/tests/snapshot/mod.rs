//! Compares a text to the byte with a file of `tests/snapshots`.
//!
//! Invariant: a file is rewritten only on purpose, with `UPDATE_SNAPSHOTS=1`.

use std::path::Path;

pub(crate) fn compare(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).expect("snapshot written");
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = kept.lines().zip(text.lines()).position(|(a, b)| a != b);
    assert!(
        kept == text,
        "{name} differs from line {:?} on; look at it, then UPDATE_SNAPSHOTS=1\n{text}",
        differs.map(|line| line + 1)
    );
}
