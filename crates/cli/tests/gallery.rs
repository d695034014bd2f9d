//! Tests `seawall gallery` on folders that hold something already, and with results that are none.
//!
//! Invariant: what is no page of a gallery is never replaced, whatever stands at its name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn committed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results").join(name)
}

/// A folder with two results of commits, one of another scenario, and one that is none.
fn furnished() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    for (name, of) in [
        ("a.json", "2026-11-25-firecracker-ext4/commit.json"),
        ("b.json", "2026-11-22-firecracker-ext4/published.json"),
        ("stall.json", "2026-11-22-firecracker-ext4/stall.json"),
    ] {
        std::fs::copy(committed(of), folder.path().join(name)).expect("copied");
    }
    std::fs::write(folder.path().join("bad.json"), "{\"format\": \"<script>\"}").expect("written");
    folder
}

fn gallery(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
    command.arg("gallery").args(arguments.split(' ')).current_dir(folder);
    command.output().expect("started")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let file = |entry: std::fs::DirEntry| {
        let content = std::fs::read(entry.path()).unwrap_or_default();
        (entry.file_name().to_string_lossy().into_owned(), content)
    };
    entries.map(file).collect()
}

#[test]
fn a_gallery_is_made_and_made_again_and_other_files_stay() {
    let folder = furnished();
    let made = gallery(folder.path(), "a.json a.json stall.json --out site");
    assert_eq!(made.status.code(), Some(0), "{}", said(&made));
    for words in ["left out", "is the same as one before it", "`stall`", "not shown", "6 pages"] {
        assert!(said(&made).contains(words), "{words}: {}", said(&made));
    }
    let site = folder.path().join("site");
    let first = files(&site);
    assert_eq!(first.len(), 6);
    std::fs::write(site.join("own.html"), "own").expect("written");
    let again = gallery(folder.path(), "b.json --out site");
    assert_eq!(again.status.code(), Some(0), "{}", said(&again));
    assert!(said(&again).contains("of an earlier gallery"), "{}", said(&again));
    let second = files(&site);
    assert_eq!(second.len(), 8, "the page of a.json stays, so that links to it do");
    assert_eq!(second["own.html"], b"own");
    assert_ne!(second["index.html"], first["index.html"]);
}

#[test]
fn one_bad_result_is_named_and_nothing_is_written() {
    let folder = furnished();
    for (arguments, code, words) in [
        ("a.json bad.json --out site", 1, &["bad.json", "nothing was written", "leave"][..]),
        ("a.json bad.json no-such.json --out site", 1, &["bad.json", "no-such.json", "2 of 3 results"]),
        ("stall.json --out site", 1, &["`stall`", "none of these results has commits"]),
        ("a.json", 2, &["--out"]),
        ("a.json --dry-run", 0, &["left out", "dry run"]),
        ("a.json --dry-run --out site", 0, &["left out", "dry run"]),
        ("a.json --out bad.json", 1, &["bad.json", "is not a folder"]),
    ] {
        let ended = gallery(folder.path(), arguments);
        assert_eq!(ended.status.code(), Some(code), "{arguments}: {}", said(&ended));
        for words in words {
            assert!(said(&ended).contains(words), "{arguments}: {}", said(&ended));
        }
        assert!(!folder.path().join("site").exists(), "{arguments}");
    }
}

#[test]
fn what_is_no_page_of_a_gallery_is_not_replaced() {
    let folder = furnished();
    let site = folder.path().join("site");
    std::fs::create_dir(&site).expect("made");
    std::fs::write(site.join("index.html"), "precious").expect("written");
    let refused = gallery(folder.path(), "a.json --out site");
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(
        said(&refused).contains("move it away") && said(&refused).contains("index.html"),
        "{}",
        said(&refused)
    );
    assert_eq!(files(&site).len(), 1);
    assert_eq!(files(&site)["index.html"], b"precious");
}

#[cfg(unix)]
#[test]
fn a_link_at_a_pages_name_is_refused_and_not_followed() {
    let folder = furnished();
    let made = gallery(folder.path(), "a.json --out site");
    assert_eq!(made.status.code(), Some(0), "{}", said(&made));
    let index = folder.path().join("site/index.html");
    // A page of a gallery lies behind the link: it is the link that is refused.
    std::fs::rename(&index, folder.path().join("victim.html")).expect("moved");
    std::os::unix::fs::symlink("../victim.html", &index).expect("linked");
    let before = files(folder.path());
    let refused = gallery(folder.path(), "a.json b.json --out site");
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(said(&refused).contains("index.html"), "{}", said(&refused));
    assert_eq!(files(folder.path()), before);
}
