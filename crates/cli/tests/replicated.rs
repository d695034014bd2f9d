//! Tests that `seawall` refuses impossible runs with replicated engines, with a remedy, before it connects.

use std::process::Command;

/// The exit code, and what was printed.
fn seawall(arguments: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
    let output = command.args(arguments).current_dir(folder.path()).output().expect("starts");
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("readable").collect();
    assert!(left.is_empty(), "{arguments:?} left {left:?}");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn what_names_no_cluster_is_refused_with_how_to_have_one() {
    let (code, printed) = seawall(&["bench", "replicated", "--no-out"]);
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains("--kafka BOOTSTRAP") && printed.contains("seawall cluster up"), "{printed}");
    for (option, engine) in [("--kafka-config", "--kafka"), ("--nats-monitor", "--nats")] {
        let (code, printed) = seawall(&["bench", "replicated", "--no-out", option, "x"]);
        assert_eq!(code, Some(2), "{printed}");
        assert!(printed.contains(option) && printed.contains(&format!("without {engine}")), "{printed}");
    }
}

#[test]
fn a_build_without_a_client_says_how_to_build_one_with_it() {
    for (engine, built) in [("kafka", cfg!(feature = "kafka")), ("nats", cfg!(feature = "nats"))] {
        if built {
            continue;
        }
        let option = format!("--{engine}");
        let bench = seawall(&["bench", "replicated", "--no-out", &option, "127.0.0.1:1"]);
        let up = seawall(&["cluster", "up", engine]);
        for ((code, printed), expected) in [(bench, 2), (up, 1)] {
            assert_eq!(code, Some(expected), "{printed}");
            assert!(printed.contains(&format!("--features {engine}")), "{printed}");
        }
    }
}

/// The clients' own words are tried on real clusters by `cargo xtask replicated`.
#[test]
#[cfg(feature = "kafka")]
fn a_kafka_that_is_away_is_named_with_a_remedy() {
    let (code, printed) =
        seawall(&["bench", "replicated", "--no-out", "--time", "5s", "--kafka", "127.0.0.1:1"]);
    assert_eq!(code, Some(1), "{printed}");
    assert!(
        printed.contains("Kafka at 127.0.0.1:1") && printed.contains("seawall cluster up kafka"),
        "{printed}"
    );
}

/// A folder with a `cluster.json` that names a running process by its true number and start.
#[cfg(target_os = "linux")]
fn planted(folder: &std::path::Path, pid: u32) {
    let home = folder.join("nats-default");
    std::fs::create_dir(&home).expect("made");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("readable");
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("readable");
    let started =
        stat.rsplit_once(')').expect("a name").1.split_whitespace().nth(19).expect("a start").to_owned();
    let text = format!(
        r#"{{"engine":"nats","sync":"default","address":"nats://127.0.0.1:1","monitors":"127.0.0.1:2","nodes":[
            {{"name":"node-1","process":{{"pid":{pid},"mark":"{}/{started}"}},"port":1,"log":"/dev/null"}}]}}"#,
        boot.trim()
    );
    std::fs::write(home.join("cluster.json"), text).expect("written");
}

#[test]
#[cfg(target_os = "linux")]
fn a_cluster_in_a_folder_that_others_can_write_to_is_neither_shown_nor_ended() {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::Path;
    let above = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let folder = above.path().join("clusters");
    std::fs::create_dir(&folder).expect("made");
    let mut bystander = Command::new("sleep").arg("600").spawn().expect("started");
    planted(&folder, bystander.id());
    let set = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("set");
    };
    let home = folder.join("nats-default");
    let file = home.join("cluster.json");
    let mut refused = |path: &Path, said: &str| {
        for word in ["down", "status"] {
            let (code, printed) = seawall(&["cluster", word, "--dir", path.to_str().expect("is text")]);
            assert_eq!(code, Some(1), "{printed}");
            assert!(printed.contains(said), "{said:?} in {printed}");
        }
        assert!(bystander.try_wait().expect("its status").is_none(), "the bystander goes on");
    };
    for (path, usual) in [(&folder, 0o700), (&home, 0o700), (&file, 0o600)] {
        for mode in [usual | 0o020, usual | 0o002] {
            set(path, mode);
            refused(&folder, "chmod go-w");
        }
        set(path, usual);
    }
    set(above.path(), 0o777);
    refused(&folder, "replace what is in it");
    set(above.path(), 0o700);
    symlink(&folder, above.path().join("link")).expect("linked");
    refused(&above.path().join("link"), "link");
    if chown(&folder, Some(65534), None).is_ok() {
        refused(&folder, "belongs to user 65534");
        chown(&folder, Some(0), None).expect("given back");
        for path in [&home, &file] {
            chown(path, Some(65534), None).expect("given away");
            refused(&folder, "belongs to user 65534");
            chown(path, Some(0), None).expect("given back");
        }
    } else {
        eprintln!("not tried: only root can give a folder to another user");
    }
    // In the caller's own folder it is the process that was written down, and is ended.
    let (code, printed) = seawall(&["cluster", "down", "--dir", folder.to_str().expect("is text")]);
    assert_eq!(code, Some(0), "{printed}");
    bystander.wait().expect("was ended");
}
