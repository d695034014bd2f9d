//! Resolves the words of `seawall bench WORD …` to a scenario, all scenarios or a folder.
//!
//! ```text
//!   bench                    commit, here
//!   bench DIR                commit, in DIR
//!   bench SCENARIO           the scenario, here; refused if a folder has that name, because both could be meant
//!   bench SCENARIO DIR …     the scenario, in DIR
//!   bench all [DIR]          every scenario
//! ```
//!
//! Invariants: a folder is never silently taken for a scenario or the other way round; an option that a scenario does
//! not have is refused, not ignored.

use crate::args::{Bench, nanoseconds};
use seawall_gauge::plan::choose_methods;
use seawall_gauge::scenario::path::jvm;
use seawall_gauge::scenario::settings::Settings;
use seawall_gauge::scenario::{self, SCENARIOS, Scenario, StudyOf};
use std::path::{Path, PathBuf};

/// The word for every scenario.
const ALL: &str = "all";

/// What was asked for.
#[derive(Debug)]
pub(crate) enum Selection {
    /// One scenario, in these folders: at least one.
    One(&'static Scenario, Vec<PathBuf>),
    /// Every scenario, in this folder.
    All(PathBuf),
}

/// Reads the words.
///
/// # Errors
/// What they could mean, and how to say it.
pub(crate) fn select(words: &[PathBuf], is_folder: impl Fn(&Path) -> bool) -> Result<Selection, String> {
    let first = words.first().and_then(|word| word.to_str());
    let named = first.and_then(scenario::find);
    let (name, folders) = match first {
        Some(name) if named.is_some() || name == ALL => (Some(name), &words[1..]),
        _ => (None, words),
    };
    if let (Some(name), []) = (name, folders)
        && is_folder(Path::new(name))
    {
        return Err(format!(
            "`{name}` is a scenario and a folder here: write ./{name} to measure the folder, or `{name} .` to run the scenario here"
        ));
    }
    let folders = if folders.is_empty() { vec![PathBuf::from(".")] } else { folders.to_vec() };
    if name == Some(ALL) {
        return match folders.as_slice() {
            [folder] => Ok(Selection::All(folder.clone())),
            _ => Err("`all` takes one folder: only `cached` compares several".to_owned()),
        };
    }
    let scenario = named.unwrap_or(&SCENARIOS[0]);
    let several = scenario.study.is_some_and(|study| study.several_places);
    if folders.len() > 1 && !several {
        let hint = if name.is_none() {
            format!("; `{}` is no scenario: those are {}", folders[0].display(), names())
        } else {
            String::new()
        };
        return Err(format!("`{}` takes one folder: only `cached` compares several{hint}", scenario.name));
    }
    Ok(Selection::One(scenario, folders))
}

/// The words that name scenarios.
pub(crate) fn names() -> String {
    let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).chain([ALL]).collect();
    names.join(", ")
}

/// Options that decide what is measured, and whether each was given.
fn given(options: &Bench) -> [(&'static str, bool); 28] {
    let own = &options.scenario;
    [
        ("--full", options.full),
        ("--size", options.size.is_some()),
        ("--journal", options.journal.is_some()),
        ("--transactions", options.transactions.is_some()),
        ("--rounds", options.rounds.is_some()),
        ("--methods", options.methods.is_some()),
        ("--file-state", options.file_state.is_some()),
        ("--fill-size", options.fill_size.is_some()),
        ("--keep-cached", options.keep_cached),
        ("--threads", options.threads.is_some()),
        ("--rate", options.rate.is_some()),
        ("--require", !options.require.is_empty()),
        ("--raw-device-overwrite", options.raw_device_overwrite.is_some()),
        ("--write-sleep", own.write_sleep.is_some()),
        ("--sync-sleep", own.sync_sleep.is_some()),
        ("--writers", own.writers.is_some()),
        ("--file", own.file.is_some()),
        ("--rewrites", own.rewrites.is_some()),
        ("--warm-up", own.warm_up.is_some()),
        ("--jvm", own.jvm),
        ("--jdk", !own.jdk.is_empty()),
        ("--jar", own.jar.is_some()),
        ("--kafka", !own.kafka.is_empty()),
        ("--kafka-config", own.kafka_config.is_some()),
        ("--nats", !own.nats.is_empty()),
        ("--nats-monitor", !own.nats_monitor.is_empty()),
        ("--nats-plain-password", own.nats_plain_password),
        ("--ack-timeout", own.ack_timeout.is_some()),
    ]
}

/// Options that `commit` has.
const COMMIT_OPTIONS: [&str; 13] = [
    "--full",
    "--size",
    "--journal",
    "--transactions",
    "--rounds",
    "--methods",
    "--file-state",
    "--fill-size",
    "--keep-cached",
    "--threads",
    "--rate",
    "--require",
    "--raw-device-overwrite",
];

/// Options that go to one file each, which several scenarios cannot share.
fn files(options: &Bench) -> [(&'static str, bool); 3] {
    [
        ("--json", options.files.json.is_some()),
        ("--csv", options.files.csv.is_some()),
        ("--markdown", options.files.markdown.is_some()),
    ]
}

/// Refuses options that the selection does not have.
///
/// # Errors
/// The option, and what there is instead.
pub(crate) fn check_options(selection: &Selection, options: &Bench) -> Result<(), String> {
    let (name, known): (&str, &[&str]) = match selection {
        Selection::All(_) => (ALL, &[]),
        Selection::One(scenario, _) => {
            (scenario.name, scenario.study.map_or(&COMMIT_OPTIONS[..], |study| study.options))
        }
    };
    if let Selection::One(Scenario { study: Some(study), name, .. }, _) = selection
        && options.time.is_some()
        && !(study.settings)().timed
    {
        return Err(format!(
            "--time is no option of `{name}`, which ends by its count: it has {}, --seed and --pin",
            study.options.join(", ")
        ));
    }
    let mut given = given(options).to_vec();
    if let Selection::All(_) = selection {
        given.extend(files(options));
    }
    let Some((option, _)) = given.iter().find(|(option, given)| *given && !known.contains(option)) else {
        return Ok(());
    };
    Err(if name == ALL {
        format!(
            "{option} does not go with `all`: every scenario runs with its own parameters, and its results are kept in a folder of their own below --out; it takes --time, --seed and --pin"
        )
    } else {
        format!("{option} is no option of `{name}`, which has {}, --time, --seed and --pin", known.join(", "))
    })
}

/// The parameters that the options describe, unchecked; what is not given is the scenario's default.
///
/// # Errors
/// A method that this system does not have.
pub(crate) fn settings(study: &StudyOf, options: &Bench) -> Result<Settings, String> {
    let own = &options.scenario;
    let mut defaults = (study.settings)();
    if own.jvm {
        // More rows: more time, shared among fewer rounds.
        defaults = Settings { time_ns: jvm::TIME_NS, rounds: jvm::ROUNDS, warm_up: jvm::WARM_UP, ..defaults };
    }
    let micros = |given: Option<u64>, default: u64| given.map_or(default, |us| us.saturating_mul(1000));
    Ok(Settings {
        time_ns: options.time.map_or(defaults.time_ns, nanoseconds),
        timed: defaults.timed,
        rounds: options.rounds.unwrap_or(defaults.rounds),
        warm_up: own.warm_up.unwrap_or(defaults.warm_up),
        seed: options.seed,
        pin_to: options.pin.clone(),
        bytes: options
            .size
            .map_or(defaults.bytes, |size| usize::try_from(size.as_u64()).unwrap_or(usize::MAX)),
        methods: options.methods.as_deref().map_or(Ok(defaults.methods), choose_methods)?,
        write_sleep_ns: micros(own.write_sleep, defaults.write_sleep_ns),
        sync_sleep_ns: micros(own.sync_sleep, defaults.sync_sleep_ns),
        writers: own.writers.clone().unwrap_or(defaults.writers),
        file_bytes: own.file.map(|size| size.as_u64()).or(defaults.file_bytes),
        rewrites: own.rewrites.unwrap_or(defaults.rewrites),
        fill_bytes: options.fill_size.map_or(defaults.fill_bytes, |size| size.as_u64()),
        jvms: own.jvm.then(Vec::new),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser as _;

    fn selected(words: &[&str], folders: &[&str]) -> Result<(String, Vec<String>), String> {
        let words: Vec<PathBuf> = words.iter().map(PathBuf::from).collect();
        let told = |path: &Path| path.display().to_string();
        select(&words, |path| folders.contains(&told(path).as_str())).map(|selection| match selection {
            Selection::One(scenario, places) => {
                (scenario.name.to_owned(), places.iter().map(|place| told(place)).collect())
            }
            Selection::All(place) => (ALL.to_owned(), vec![told(&place)]),
        })
    }

    #[test]
    fn words_mean_a_scenario_or_a_folder_and_never_both_in_silence() {
        let meant = |words: &[&str]| selected(words, &["stall", "data"]).expect("clear");
        let is = |name: &str, places: &[&str]| {
            (name.to_owned(), places.iter().map(|place| (*place).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(meant(&[]), is("commit", &["."]));
        assert_eq!(meant(&["data"]), is("commit", &["data"]));
        assert_eq!(meant(&["missing"]), is("commit", &["missing"]));
        assert_eq!(meant(&["./stall"]), is("commit", &["./stall"]));
        assert_eq!(meant(&["stall", "."]), is("stall", &["."]));
        assert_eq!(meant(&["group"]), is("group", &["."]));
        assert_eq!(meant(&["cached", "data", "stall"]), is("cached", &["data", "stall"]));
        assert_eq!(meant(&["all"]), is("all", &["."]));
        let cases: [(&[&str], &str); 4] = [
            (&["stall"], "./stall"),
            (&["group", "data", "stall"], "one folder"),
            (&["stal", "data"], "`stal` is no scenario"),
            (&["all", "data", "stall"], "one folder"),
        ];
        for (words, said) in cases {
            let refusal = selected(words, &["stall", "data"]).expect_err(said);
            assert!(refusal.contains(said), "{refusal}");
        }
    }

    fn bench(words: &[&str]) -> Bench {
        let line = ["seawall", "bench"].iter().chain(words);
        let Command::Bench(bench) = Cli::parse_from(line).command else { panic!("bench was asked for") };
        *bench
    }

    #[test]
    fn an_option_that_a_scenario_does_not_have_is_refused() {
        let refused = |words: &[&str]| {
            let options = bench(words);
            let selection = select(&options.words, |_| false).expect("clear");
            check_options(&selection, &options).err()
        };
        assert_eq!(refused(&["stall", "--size", "2KiB", "--sync-sleep", "1000", "--time", "5s"]), None);
        assert_eq!(refused(&["--journal", "1MiB", "--methods", "all"]), None);
        for words in [
            &["stall", "--journal", "1MiB"][..],
            &["--sync-sleep", "5"],
            &["group", "--require", "etcd"],
            &["all", "--size", "1KiB"],
            &["all", "--json", "-"],
            &["cached", "--time", "60s"],
            &["stall", "--jvm"],
        ] {
            let refusal = refused(words).expect("refused");
            assert!(words.iter().any(|word| word.starts_with("--") && refusal.contains(word)), "{refusal}");
        }
    }

    #[test]
    fn every_option_of_a_scenario_is_one_that_can_be_given_and_defaults_are_the_library_s() {
        let known = given(&bench(&[])).map(|(option, _)| option);
        for scenario in &SCENARIOS {
            let Some(study) = &scenario.study else { continue };
            assert!(study.options.iter().all(|option| known.contains(option)), "{}", scenario.name);
            assert_eq!(
                settings(study, &bench(&[scenario.name])),
                Ok((study.settings)()),
                "{}",
                scenario.name
            );
        }
        assert!(COMMIT_OPTIONS.iter().all(|option| known.contains(option)));
    }
}
