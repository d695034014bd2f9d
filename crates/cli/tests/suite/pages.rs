//! Tests completions, manual pages, advice and probe through the program.

#[cfg(target_os = "linux")]
use crate::coded;
use crate::{folder, printed};
use std::path::Path;
use std::process::{Command, Output};

fn seawall(arguments: &[&str]) -> Output {
    crate::seawall(Path::new("."), arguments)
}

#[test]
fn each_shell_gets_completions_that_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = printed(&seawall(&["completions", shell]));
        for word in [
            "advise",
            "probe",
            "crash-test",
            "trace",
            "watch",
            "completions",
            "salvage",
            "file-state",
            "published",
            "openshift-heavy",
            "stall",
        ] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
}

#[test]
fn bash_takes_its_completions() {
    let dir = folder();
    let script = dir.path().join("seawall");
    std::fs::write(&script, printed(&seawall(&["completions", "bash"]))).expect("written");
    let Ok(checked) = Command::new("bash").arg("-n").arg(&script).output() else { return };
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn a_page_has_examples_and_exit_codes() {
    let page = printed(&seawall(&["man"]));
    for part in [".TH", "EXAMPLES", "EXIT STATUS", "130", "advise"] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    assert!(printed(&seawall(&["man", "log", "append"])).contains("seawall\\-log\\-append"));
}

fn warnings_of_groff(page: &Path) -> Option<String> {
    let mut groff = Command::new("groff");
    let shown = groff.args(["-K", "utf8", "-ww", "-man", "-Tutf8", "-z"]).arg(page).output().ok()?;
    Some(String::from_utf8_lossy(&shown.stderr).into_owned())
}

#[test]
fn every_page_is_rendered_without_a_warning() {
    let dir = folder();
    printed(&seawall(&["man", "--dir", dir.path().to_str().expect("text")]));
    let pages: Vec<_> = std::fs::read_dir(dir.path()).expect("readable").flatten().collect();
    assert!(pages.len() > 12, "{}", pages.len());
    for page in pages {
        let Some(warnings) = warnings_of_groff(&page.path()) else {
            seawall_sys::skip::skipped("groff is missing");
            return;
        };
        assert_eq!(warnings, "", "{:?}", page.file_name());
    }
}

#[test]
#[cfg(target_os = "linux")]
fn memory_is_fit_for_nothing() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
    let (printed, _) = coded(10, &seawall(&["probe", dir.path().to_str().expect("text")]));
    assert!(printed.contains("process crash") && !printed.contains("nothing against it"), "{printed}");
}
