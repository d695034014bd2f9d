//! Tests that `seawall` refuses impossible runs with replicated engines, with a remedy, before it connects.

use std::process::Command;

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
    assert!(printed.contains("--kafka BOOTSTRAP") && printed.contains("docs/replicated.md"), "{printed}");
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
        let (code, printed) = seawall(&["bench", "replicated", "--no-out", &option, "127.0.0.1:1"]);
        assert_eq!(code, Some(2), "{printed}");
        assert!(printed.contains(&format!("--features {engine}")), "{printed}");
    }
}

/// The clients' own words are tried on real clusters by `cargo xtask replicated`.
#[test]
#[cfg(feature = "kafka")]
fn a_kafka_that_is_away_is_named_with_a_remedy() {
    let (code, printed) =
        seawall(&["bench", "replicated", "--no-out", "--time", "5s", "--kafka", "127.0.0.1:1"]);
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("Kafka at 127.0.0.1:1") && printed.contains("docs/replicated.md"), "{printed}");
}
