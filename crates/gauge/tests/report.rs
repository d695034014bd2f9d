//! Snapshot tests: the reports of simulated runs are compared to the byte.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p seawall-gauge --test report` rewrites the files; only on purpose.
//!
//! Invariants: each case is measured with a fixed seed, so its figures are exact; every terminal line fits its width;
//! a result read back from its file gives the same report.
#![cfg(target_os = "linux")]

mod snapshot;
mod watcher;

use seawall_gauge::method_names::choose_methods;
use seawall_gauge::rank::Ranking;
use seawall_gauge::report::advice::{self, Scope};
use seawall_gauge::report::figure::{self, svg};
use seawall_gauge::report::html::html;
use seawall_gauge::report::screen::screen;
use seawall_gauge::report::{self, Style, csv, markdown};
use seawall_gauge::require;
use seawall_gauge::result::RunResult;
use seawall_gauge::row::Tail;
use seawall_gauge::scenario::commit;
use seawall_gauge::scenario::settings::{Amount, Settings};
use seawall_gauge::testbed::sim::{Plant, SimTestbed};
use seawall_sys::durability::{FileState, Lie, Medium, classify};
use seawall_sys::inspect::{Environment, FoundLie};
use seawall_sys::method::System;
use seawall_sys::methods;
use snapshot::compare;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use watcher::Watcher;

struct Case {
    name: &'static str,
    plants: Vec<Plant>,
    environment: fn(&mut Environment),
    settings: fn(&mut Settings),
    stop_after: Option<u64>,
}

fn case(name: &'static str) -> Case {
    Case { name, plants: Vec::new(), environment: |_| {}, settings: |_| {}, stop_after: None }
}

impl Case {
    fn run(&self) -> RunResult {
        let mut settings = Settings {
            methods: choose_methods("all").expect("all"),
            others: Vec::new(),
            amount: Amount::Transactions(12_000),
            rounds: 5,
            seed: 42,
            ..commit::settings()
        };
        (self.settings)(&mut settings);
        let mut testbed = SimTestbed::new(settings.seed, self.plants.clone());
        (self.environment)(&mut testbed.environments_mut()[0]);
        let mut watcher = Watcher { stop_after: self.stop_after, ..Watcher::default() };
        commit::run(&settings, &mut testbed, &mut watcher).expect("a result")
    }
}

const SPLIT: &str = "buffered+fdatasync";

fn cases() -> Vec<Case> {
    vec![
        case("honest"),
        Case { plants: vec![Plant::Stall { method: SPLIT, every: 5_000, ns: 80_000_000 }], ..case("stall") },
        Case { plants: vec![Plant::CpuWait { method: SPLIT, every: 90, ns: 2_100_000 }], ..case("cpu-wait") },
        Case { plants: vec![Plant::NoFlushes], ..case("no-flushes") },
        Case {
            environment: |environment| {
                "tmpfs".clone_into(&mut environment.file_system.kind);
                "tmpfs".clone_into(&mut environment.file_system.source);
                environment.file_system.medium = Medium::Memory;
                environment.devices.clear();
            },
            ..case("tmpfs")
        },
        Case {
            environment: |environment| {
                environment.file_system.options.push("nobarrier".to_owned());
                let evidence = "mount option `nobarrier`".to_owned();
                environment.lies.push(FoundLie { lie: Lie::BarriersOff, evidence });
            },
            plants: vec![Plant::NoFlushes],
            ..case("barriers-off")
        },
        Case {
            environment: |environment| {
                environment.wine = Some("8.0".to_owned());
                environment.devices.clear();
                let evidence = "ntdll exports wine_get_version".to_owned();
                environment.lies.push(FoundLie { lie: Lie::WineFlags, evidence });
            },
            ..case("wine")
        },
        Case {
            plants: vec![
                Plant::Missing { method: "atomic+dsync", reason: "the device has no atomic writes" },
                Plant::Missing { method: "uring-direct-iopoll", reason: "the device has no poll queues" },
                Plant::Missing { method: "uring-linked", reason: "io_uring is not allowed here" },
                Plant::Missing { method: "uring-rwf-dsync", reason: "io_uring is not allowed here" },
                Plant::Fails { method: "mmap+msync", after: 100 },
            ],
            ..case("missing-and-failed")
        },
        Case { stop_after: Some(70), ..case("interrupted") },
        Case {
            environment: |environment| {
                environment.hypervisor = Some("KVM".to_owned());
                environment.devices[0].transport = Some("virtio".to_owned());
            },
            plants: vec![Plant::Neighbour { writes_per_s: 2_000 }],
            ..case("virtual-machine-with-neighbour")
        },
        Case {
            settings: |settings| {
                settings.methods = choose_methods("published").expect("published");
                settings.amount = Amount::Transactions(65_536);
                settings.journal.state = FileState::Unwritten;
            },
            ..case("published")
        },
    ]
}

#[test]
fn every_report_is_as_it_was() {
    for case in cases() {
        let result = case.run();
        for width in [80, 120] {
            compare(&format!("{}.{width}.txt", case.name), &report::terminal(&result, width, Style::PLAIN));
        }
        if ["honest", "missing-and-failed", "no-flushes", "published"].contains(&case.name) {
            compare(&format!("{}.md.txt", case.name), &markdown::markdown(&result));
            compare(&format!("{}.csv.txt", case.name), &csv::csv(&result));
        }
    }
}

#[test]
fn advice_is_as_it_was() {
    for name in ["honest", "no-flushes", "published"] {
        let result = cases().into_iter().find(|case| case.name == name).expect("a case").run();
        for width in [40, 80, 120] {
            for (scope, called) in [(Scope::Overview, ""), (Scope::All, "-verbose")] {
                let text = advice::text(&result, scope, width, Style::PLAIN);
                assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
                compare(&format!("advice-{name}{called}.{width}.txt"), &text);
            }
        }
        compare(&format!("advice-{name}.json"), &advice::json(&result, None).expect("JSON"));
    }
}

#[test]
fn the_first_screen_of_advice_has_a_line_for_each_product_and_all_is_verbose() {
    let result = case("honest").run();
    let settings = advice::text(&result, Scope::All, 80, Style::PLAIN);
    let products = settings.lines().filter(|line| line.ends_with(')') && !line.starts_with(' ')).count();
    let brief = advice::text(&result, Scope::Overview, 80, Style::PLAIN);
    assert!(brief.lines().count() <= products + 15, "{brief}");
    for product in ["PostgreSQL", "MariaDB", "etcd", "ZooKeeper"] {
        assert_eq!(brief.lines().filter(|line| line.starts_with(product)).count(), 1, "{brief}");
    }
    assert!(brief.contains("--verbose") && brief.contains("--only PRODUCT"), "{brief}");
}

#[test]
fn requirements_print_as_before() {
    // Presets that are measured differently are demanded apart.
    let others = "openshift and cockroachdb, direct:p99<1ms, p99.99<51us, sync-p50<1us, commits/s>1e6, dsync:sync-p99<1ms";
    let mut printed = Vec::new();
    for name in ["honest", "no-flushes", "missing-and-failed"] {
        let case = cases().into_iter().find(|case| case.name == name).expect("a case");
        let result = case.run();
        let ranking = Ranking::new(&result);
        let check = |demands: &str| require::check(&ranking, &require::parse(demands).expect("readable"));
        let checked = [check("etcd"), check(others)].concat();
        printed.push(format!("{name}\n{}", report::requirements(&checked, 80, Style::PLAIN)));
    }
    let text = printed.concat();
    assert!(text.lines().all(|line| line.chars().count() <= 80));
    compare("require.80.txt", &text);
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for case in cases() {
        let result = case.run();
        for width in [40, 50, 60, 70, 80, 100, 110, 120, 160] {
            for line in report::terminal(&result, width, Style::PLAIN).lines() {
                assert!(line.chars().count() <= width, "{} at {width}: {line}", case.name);
            }
        }
    }
}

#[test]
fn a_narrow_terminal_shows_names_with_median_p99_and_rate() {
    for (case, names) in [(case("honest").run(), "buffered+fdatasync"), (windows(), "no-buffering+write-")] {
        let text = report::terminal(&case, 40, Style::PLAIN);
        let head = text.lines().find(|line| line.starts_with("method ")).expect("a table");
        for figure in ["p50", "p99", "/s"] {
            assert!(head.contains(figure), "{figure}: {text}");
        }
        assert!(text.lines().any(|line| line.starts_with(names) && line.contains("µs")), "{text}");
    }
    compare("honest.40.txt", &report::terminal(&case("honest").run(), 40, Style::PLAIN));
}

/// What `seawall bench` runs without options, on the simulated machine.
fn first_run(plants: Vec<Plant>) -> RunResult {
    let settings = Settings { seed: 42, ..commit::settings() };
    let mut testbed = SimTestbed::new(settings.seed, plants);
    commit::run(&settings, &mut testbed, &mut Watcher::default()).expect("a result")
}

#[test]
fn the_first_screen_of_a_quiet_first_run_is_24_lines_of_80_columns_with_the_verdict_last() {
    let slow = |method| Plant::Stall { method, every: 1, ns: 100_000 };
    let beaten =
        ["dsync", "direct+dsync", "buffered+fdatasync", "buffered+fsync", "direct", "buffered"].map(slow);
    let wait = ["direct+dsync", "dsync", "buffered+fdatasync", "buffered+fsync"];
    let wait = wait.map(|method| Plant::CpuWait { method, every: 2, ns: 2_100_000 });
    for (name, plants) in
        [("first", Vec::new()), ("first-beaten", beaten.to_vec()), ("first-cpu-wait", wait.to_vec())]
    {
        let result = first_run(plants);
        let text = screen(&result, Some("seawall-results/commit-2026-11-25T031000Z"), 80, Style::PLAIN);
        compare(&format!("screen-{name}.80.txt"), &text);
        // Rows that beat the published ones of their class come on top.
        let lines = if name == "first" { 24 } else { 27 };
        assert!(text.lines().count() <= lines, "{} lines:\n{text}", text.lines().count());
        let table = text.lines().position(|line| line.starts_with("buffered ")).expect("a row");
        let disturbed = name == "first-cpu-wait";
        let last = text.lines().position(|line| line.starts_with("verdict"));
        assert!(last.expect("a verdict") > table, "{text}");
        assert_eq!(text.matches("!!").count(), 0, "{text}");
        assert_eq!(text.contains("seawall advise:"), !disturbed, "no next step from noise:\n{text}");
        assert!(text.contains("A commit that outlives a power cut costs"), "{text}");
        assert_eq!(text.contains("costs at most"), disturbed, "{text}");
    }
}

#[test]
fn the_first_screen_fits_every_width_and_never_recommends_what_the_whole_report_does_not() {
    for case in cases() {
        let result = case.run();
        for width in [40, 50, 60, 80, 100, 120, 160] {
            let text = screen(&result, None, width, Style::PLAIN);
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{} at {width}: {line}", case.name);
            }
        }
        let text = screen(&result, None, 80, Style::PLAIN);
        compare(&format!("screen-{}.80.txt", case.name), &text);
        let whole = report::terminal(&result, 80, Style::PLAIN);
        assert!(
            !text.lines().any(|line| line.starts_with("verdict"))
                || whole.contains("verdict      A commit that outlives"),
            "{}: {text}",
            case.name
        );
    }
    compare("screen-windows.80.txt", &screen(&windows(), None, 80, Style::PLAIN));
    compare("screen-first.40.txt", &screen(&first_run(Vec::new()), None, 40, Style::PLAIN));
    compare("screen-first.120.txt", &screen(&first_run(Vec::new()), None, 120, Style::PLAIN));
}

#[test]
fn the_picture_to_share_has_every_row_once_in_the_colour_of_its_class_and_no_markup_from_outside() {
    let colour = |svg: &str, id: &str| {
        let (_, row) =
            svg.split_once(&format!(">{id}</text>")).unwrap_or_else(|| panic!("{id} is not there"));
        let (_, dot) = row.split_once("<circle").expect("a dot");
        let (_, dot) = dot.split_once("<circle").expect("the dot on its ground");
        dot.split_once("fill=\"").expect("a colour").1[..7].to_owned()
    };
    let of = |result: &RunResult| svg::document(&figure::scene(result, figure::Form::Wide));
    let all = of(&case("honest").run());
    let few = of(&first_run(Vec::new()));
    for id in ["dsync", "direct", "buffered"] {
        assert_eq!(colour(&all, id), colour(&few, id), "{id}");
    }
    let colours: BTreeSet<String> = ["dsync", "direct", "buffered"].map(|id| colour(&few, id)).into();
    assert_eq!(colours.len(), 3, "one a class");
    for svg in [&all, &few] {
        assert_eq!(svg.matches("below this line").count(), 1);
        assert!(svg.contains("seawall 0.1.0") && svg.contains("Simulated disk"), "{svg}");
    }
    assert_eq!(all.matches("</text>").count(), all.matches("<text ").count());
    let mut hostile = case("honest").run();
    hostile.label = Some("\"/><script>alert(1)</script>".to_owned());
    hostile.study.rows[0].id = "<img src=x>".to_owned();
    let hostile = of(&hostile);
    assert!(!hostile.contains("<script") && !hostile.contains("<img"), "{hostile}");
    assert!(hostile.contains("&lt;script&gt;alert(1)"));
}

#[test]
fn a_picture_of_a_run_that_recommends_nothing_says_so() {
    let said = |name: &str, words: &str| {
        let result = cases().into_iter().find(|case| case.name == name).expect("a case").run();
        assert!(!html(&result).contains(">recommended</span>"), "{name} recommends a row all the same");
        let svg = svg::document(&figure::scene(&result, figure::Form::Wide));
        assert!(svg.contains(words), "{name} does not say {words}: {svg}");
    };
    said("interrupted", "No verdict: it was interrupted");
    said("tmpfs", "This is memory, not a disk");
    said("no-flushes", "Flushes go missing");
}

/// The run that the README begins with.
const SHOWN: &str = "2026-11-25-firecracker-ext4/commit";

#[test]
fn the_readme_shows_the_first_screen_and_the_picture_of_one_committed_result() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap_or_else(|_| panic!("no {name}"));
    let result = RunResult::read(&root.join("results").join(format!("{SHOWN}.json"))).expect("a result");
    let shown = read(&format!("results/{SHOWN}.txt"));
    let kept = shown.lines().last().and_then(|line| line.split_once(": ")).expect("the folder").1;
    let kept = kept.strip_suffix("/report.html").expect("a page");
    assert_eq!(shown, screen(&result, Some(kept), 80, Style::PLAIN));
    assert_eq!(
        read(&format!("results/{SHOWN}.svg")),
        svg::document(&figure::scene(&result, figure::Form::Wide))
    );
    let readme = read("README.md");
    assert!(readme.contains(&shown), "the README shows another screen than\n{shown}");
    assert!(readme.contains(&format!("(results/{SHOWN}.svg)")), "the README shows no picture of it");
}

/// Of another system: its ids, without counters and without run-queue waits.
fn windows() -> RunResult {
    let mut result = case("honest").run();
    "Windows 11".clone_into(&mut result.environment.system);
    let around = result.environment.surroundings(result.plan.file_state);
    let rows = &mut result.study.rows;
    rows.truncate(methods::of(System::Windows).len());
    for (row, method) in rows.iter_mut().zip(methods::of(System::Windows)) {
        method.id.clone_into(&mut row.id);
        method.id.clone_into(&mut row.label);
        method.calls.clone_into(&mut row.what);
        row.method = Some(method.into());
        if let Some(measured) = row.measured_mut() {
            measured.durability = Some(classify(method, &around));
            measured.letter = Some(method.reach().letter());
            measured.counts = None;
            measured.cpu.wait_ns = None;
            measured.tail = Tail::default();
        }
    }
    result
}

#[test]
fn long_names_are_whole_at_80_columns_and_a_column_without_figures_goes_first() {
    let text = report::terminal(&windows(), 80, Style::PLAIN);
    assert!(text.contains("\nno-buffering+write-through "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80));
    compare("windows.80.txt", &text);
}

#[test]
fn a_result_read_back_from_its_file_prints_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("result.json");
    let result = case("honest").run();
    result.write(&path).expect("written");
    let read = RunResult::read(&path).expect("read");
    let all = |result: &RunResult| {
        [report::terminal(result, 80, Style::PLAIN), markdown::markdown(result), csv::csv(result)]
    };
    assert_eq!(all(&result), all(&read));
}

/// The look of each series of the first picture.
fn looks(result: &RunResult) -> BTreeMap<String, u64> {
    let page = html(result);
    let start = page.split_once("id=\"pictures\">").expect("pictures").1;
    let pictures: serde_json::Value =
        serde_json::from_str(start.split_once("</script>").expect("an end").0).expect("JSON");
    let series = pictures[0]["series"].as_array().expect("series");
    let look = |one: &serde_json::Value| {
        (one["name"].as_str().expect("a name").to_owned(), one["look"].as_u64().expect("a look"))
    };
    series.iter().map(look).collect()
}

#[test]
fn a_page_says_when_and_of_what_and_a_method_looks_the_same_on_every_page() {
    let of = |name: &str| cases().into_iter().find(|case| case.name == name).expect("a case").run();
    let (all, few) = (of("honest"), of("published"));
    let (all_looks, few_looks) = (looks(&all), looks(&few));
    for (name, look) in &few_looks {
        assert_eq!(all_looks[name], *look, "{name}");
    }
    let colours: BTreeSet<u64> = few_looks.values().map(|look| look % 8).collect();
    assert_eq!(colours.len(), few_looks.len(), "published methods differ in colour: {few_looks:?}");
    let every: BTreeSet<&u64> = all_looks.values().collect();
    assert_eq!(every.len(), all_looks.len(), "no two look the same");
    let labelled =
        RunResult { label: Some("db-7 <before>".to_owned()), started_unix_s: 1_763_820_000, ..few };
    let page = html(&labelled);
    assert!(page.contains("db-7 &lt;before&gt; · measured 2025-11-22T14:00:00Z · "), "no stamp");
    let forged = RunResult { started_unix_s: u64::MAX, ..labelled };
    assert!(!html(&forged).contains("· measured "), "no date is made up");
}

#[test]
fn colour_changes_no_word() {
    let result = case("honest").run();
    let coloured = report::terminal(&result, 80, Style::COLOURED);
    assert!(coloured.contains("\u{1b}["));
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain += before;
        rest = after.split_once('m').expect("a whole escape").1;
    }
    plain += rest;
    assert_eq!(plain, report::terminal(&result, 80, Style::PLAIN));
}
