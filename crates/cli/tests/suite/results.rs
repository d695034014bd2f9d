//! Tests `compare`, `report`, `advise` and `probe` through the program.
//!
//! Invariants: cases are rows of tables; what is refused is a row of `bad_input`; figures in the outputs are compared with
//! the result files, not with other output of the program.

use crate::{coded, committed, err, names, printed, seawall};
use seawall_gauge::result::RunResult;
use seawall_gauge::study::Study;
use serde_json::Value;
use std::process::Command;

const STUDIES: [&str; 5] = ["stall", "cached", "path", "group", "interfere"];

/// A folder with the results by short names: `STUDIES`, `commit.json` and `published.json`.
fn folder() -> tempfile::TempDir {
    let folder = crate::folder();
    for name in STUDIES.iter().chain(&["commit", "published"]) {
        std::fs::copy(committed(name), folder.path().join(format!("{name}.json"))).expect("copied");
    }
    folder
}

/// Command lines that end well, and what they print.
#[rustfmt::skip]
const PRINTED: &[(&[&str], &[&str])] = &[
    (&["compare", "--list"], &["published:kafka-stall", "published:i2.2xlarge-linux-ssd"]),
    (&["compare", "published.json", "commit.json", "--fail-if", "p99>10s"], &["fail-if  passed p99>10s"]),
    (&["compare", "published.json", "commit.json"], &["conclusion", "B against A", "seawall compare · commit", "both outlive POWER LOSS", "only in B"]),
    (&["compare", "stall.json", "stall.json"], &["seawall compare · stall", "0.0 %", "same-file-fsync"]),
    (&["compare", "stall.json", "--with", "published:kafka-stall"], &["same-file-fsync", "writeback-only"]),
    (&["compare", "stall.json", "published.json", "group.json", "commit.json"],
        &["seawall compare · commit", "not compared: stall.json (the only one of `stall`)", "group.json"]),
    (&["compare", "stall.json", "published.json", "stall.json", "commit.json"],
        &["seawall compare · stall", "seawall compare · commit"]),
    (&["compare", "published.json", "commit.json", "--by", "p99", "--csv", "-"], &["row,side,name", "direct+dsync,B"]),
    (&["compare", "published.json", "commit.json", "--markdown", "-"], &["| Row | A | B | B against A |"]),
    (&["report", "published.json", "--text"], &["verdict", "findings", "direct+dsync"]),
    (&["advise", "published.json"], &["PostgreSQL", "SQLite", "etcd", "commits/s", "no setting"]),
    (&["advise", "published.json", "--only", "rocksdb,etcd"], &["kPointInTimeRecovery", "9.1", "https://", "--wal-dir"]),
];

#[test]
fn what_can_be_done_is_printed_in_80_columns() {
    let folder = folder();
    for (arguments, words) in PRINTED {
        let shown = printed(&seawall(folder.path(), arguments));
        for word in *words {
            assert!(shown.contains(word), "{arguments:?} does not say {word}: {shown}");
        }
        if !arguments.contains(&"-") {
            let wide = shown.lines().find(|line| line.chars().count() > 80);
            assert_eq!(wide, None, "{arguments:?}");
        }
    }
}

#[test]
fn published_rows_and_own_rows_of_the_stall_line_up() {
    let folder = folder();
    let arguments = ["compare", "stall.json", "--with", "published:kafka-stall", "--json", "-"];
    let json: Value = serde_json::from_str(&printed(&seawall(folder.path(), &arguments))).expect("JSON");
    let rows = json["rows"].as_array().expect("rows");
    for id in ["same-file-fsync", "writeback-only"] {
        let row = rows.iter().find(|row| row["row"] == id).unwrap_or_else(|| panic!("{id}: {json:#}"));
        assert_eq!(row["cells"].as_array().map(Vec::len), Some(2), "{id} stands on both sides");
    }
}

#[test]
fn a_comparison_s_figures_are_those_of_the_results() {
    let folder = folder();
    let files = ["published.json", "commit.json"];
    let arguments = ["compare", files[0], files[1], "--by", "p50", "--json", "-"];
    let json: Value = serde_json::from_str(&printed(&seawall(folder.path(), &arguments))).expect("JSON");
    let sides = files.map(|file| RunResult::read(&folder.path().join(file)).expect("a result"));
    let mut compared = 0;
    for row in json["rows"].as_array().expect("rows") {
        let p50_ns = |side: usize| {
            let cell = row["cells"].as_array()?.iter().find(|cell| cell["side"] == ["A", "B"][side])?;
            let (_, measured) = sides[side].measured().find(|(method, _)| cell["id"] == *method.id)?;
            assert_eq!(cell["value"].as_f64(), Some(measured.main().p50_ns() as f64), "{cell}");
            Some((measured.main().p50_ns() as f64, cell["percent_against_a"].as_f64()))
        };
        if let (Some((a, _)), Some((b, Some(percent)))) = (p50_ns(0), p50_ns(1)) {
            assert!((percent - (b / a - 1.0) * 100.0).abs() < 1e-9, "{row}");
            compared += 1;
        }
    }
    assert!(compared >= 6, "only {compared} rows");
}

/// The value of an attribute in the first tag of `html` that begins with `tag`.
fn attribute<'a>(html: &'a str, tag: &str, name: &str) -> Option<&'a str> {
    let from = html.split_once(tag)?.1;
    let (inside, _) = from.split_once('>')?;
    let (_, value) = inside.split_once(&format!("{name}=\""))?;
    value.split_once('"').map(|(value, _)| value)
}

/// Every cell of the study's table is the result's value; how many there are.
fn cells_are_those_of(html: &str, study: &Study) -> usize {
    let mut cells = 0;
    for row in study.rows.iter().filter(|row| row.measured().is_some()) {
        let line = html.split_once(&format!("<tr data-row=\"{}\">", row.id)).expect("its row").1;
        let line = line.split_once("</tr>").expect("its end").0;
        for column in &study.columns {
            let tag = format!("<td data-column=\"{}\"", column.key);
            let value = Study::value(row, column).map(|value| value.value);
            // A column in which nothing is known has no cells.
            let shown = attribute(line, &tag, "data-value").and_then(|shown| shown.parse::<f64>().ok());
            assert_eq!(shown, value, "{} {}", row.id, column.key);
            cells += 1;
        }
    }
    cells
}

#[test]
fn the_page_of_all_scenarios_shows_each_with_the_figures_of_its_file() {
    let folder = folder();
    let files: Vec<String> = STUDIES.iter().map(|name| format!("{name}.json")).collect();
    let mut arguments = vec!["report", "published.json", "commit.json"];
    arguments.extend(files.iter().map(String::as_str));
    arguments.extend([
        "--with",
        "published:i2.2xlarge-linux-ssd,published:kafka-stall,published:solaris9-vxfs",
        "-o",
        "all.html",
    ]);
    let output = seawall(folder.path(), &arguments);
    assert_eq!(printed(&output), "", "the page goes into the file");
    let html = std::fs::read_to_string(folder.path().join("all.html")).expect("written");
    assert!(!html.contains("there is no figure that all of them have"));
    let contents = html.split_once("aria-label=\"Contents\"").and_then(|(_, rest)| rest.split_once("</nav>"));
    let contents = contents.expect("a contents list").0;
    let links = ["Comparison: commit", "Comparison: stall", "commit: published.json", "commit: commit.json"];
    for link in links.iter().chain(&STUDIES) {
        assert!(contents.contains(&format!(">{link}</a>")), "{link}: {contents}");
    }
    assert!(contents.contains("solaris9-vxfs"), "a published table without a fellow is shown by itself");
    for target in contents.split("href=\"#").skip(1).filter_map(|rest| rest.split_once('"')) {
        assert!(html.contains(&format!("id=\"{}\"", target.0)), "{} leads nowhere", target.0);
    }
    for name in STUDIES {
        let result = RunResult::read(&committed(name)).expect("a result");
        let section = html.split_once(&format!(">{name}</h2>")).expect("its section").1;
        assert!(cells_are_those_of(section, &result.study) > 20, "{name}");
    }
    let result = RunResult::read(&committed("published")).expect("a result");
    let section = html.split_once("<code>published.json</code>").expect("its section").1;
    for (method, measured) in result.measured() {
        let shown = |name| attribute(section, &format!("data-method=\"{}\"", method.id), name);
        assert_eq!(
            shown("data-p50-ns"),
            Some(measured.main().p50_ns().to_string().as_str()),
            "{}",
            method.id
        );
        assert_eq!(
            shown("data-max-ns"),
            Some(measured.main().max_ns().to_string().as_str()),
            "{}",
            method.id
        );
    }
}

#[test]
fn a_page_of_one_result_or_of_different_ones_has_no_comparison() {
    let folder = folder();
    for files in [&["stall.json"][..], &["stall.json", "cached.json"]] {
        let html = printed(&seawall(folder.path(), &[&["report"], files, &["-o", "-"]].concat()));
        assert!(html.starts_with("<!doctype html>") && html.contains("</html>"));
        assert!(!html.contains("Comparison") && !html.contains("nothing to compare"), "{files:?}");
    }
}

#[test]
fn a_condition_that_comes_true_ends_with_3_one_that_cannot_be_told_with_10() {
    let folder = folder();
    for (condition, code, words) in [
        ("p99>1ns", 3, "failed p99>1ns"),
        ("commits/s<1e12", 3, "failed commits/s<1e12"),
        ("mmap+msync:p99>+1%", 10, "cannot tell"),
        ("p50>+100000%, p99>100s", 0, "passed"),
    ] {
        let arguments = ["compare", "published.json", "commit.json", "--fail-if", condition];
        let (shown, _) = coded(code, &seawall(folder.path(), &arguments));
        assert!(shown.contains(words), "{condition}: {shown}");
    }
    let arguments = ["compare", "published.json", "commit.json", "--fail-if", "p99>1ns", "--json", "-"];
    let (shown, _) = coded(3, &seawall(folder.path(), &arguments));
    let json: Value = serde_json::from_str(&shown).expect("nothing but JSON");
    assert!(
        json["conclusions"][0].as_str().is_some_and(|words| words.starts_with("B against A")),
        "{json:#}"
    );
}

#[test]
fn methods_and_probes_answer_programs_too() {
    let folder = folder();
    let json: Value =
        serde_json::from_str(&printed(&seawall(folder.path(), &["methods", "--json"]))).expect("JSON");
    let methods = json["methods"].as_array().expect("a list");
    assert_eq!(methods.len(), seawall_sys::methods::here().len());
    assert!(methods.iter().all(|one| one["outlives"].is_string() && one["calls"].is_string()), "{json:#}");
    let metrics = printed(&seawall(folder.path(), &["probe", ".", "--format", "openmetrics"]));
    assert!(
        metrics.ends_with("# EOF\n") && metrics.contains("seawall_probe_commit_seconds{method="),
        "{metrics}"
    );
}

#[test]
fn advice_as_json_names_products_with_rates_from_the_result() {
    let folder = folder();
    let json = printed(&seawall(folder.path(), &["advise", "published.json", "--json"]));
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["format"], "seawall-advice");
    let result = RunResult::read(&folder.path().join("published.json")).expect("a result");
    let expectations = json["expectations"].as_array().expect("expectations");
    let row = expectations.iter().find(|one| {
        one["product"] == "PostgreSQL"
            && one["setting"].as_str().is_some_and(|name| name.ends_with("= fdatasync"))
    });
    let row = row.expect("PostgreSQL by fdatasync");
    let (_, measured) = result.measured().find(|(method, _)| row["method"] == *method.id).expect("its row");
    let has_figure = row["one_client"].is_object() || row["at_most_per_s"].is_number();
    assert_eq!(row["not_known"].is_null(), has_figure, "{row:#}");
    if let Some(most_per_s) = row["one_client"]["most_per_s"].as_f64() {
        assert!((most_per_s * measured.main().p50_ns() as f64 / 1e9 - 1.0).abs() < 1e-9, "one sync a commit");
    }
    for one in json["settings"].as_array().expect("settings") {
        assert!(one["source"].as_str().is_some_and(|source| source.starts_with("http")), "{one:#}");
        assert!(one["product_version"].is_string(), "{one:#}");
    }
    let withheld = json["withheld"].as_array().expect("a list");
    assert!(withheld.iter().any(|one| one["product"] == "MariaDB"), "its default was not measured there");
    for product in ["PostgreSQL", "MySQL", "SQLite", "etcd", "Kafka", "RocksDB", "Redis/Valkey", "Consul"] {
        assert!(expectations.iter().any(|one| one["product"] == product), "{product}");
    }
}

#[test]
fn a_probe_is_bounded_and_answers_in_full_even_where_it_can_do_nothing() {
    let folder = folder();
    let before = names(folder.path());
    let file = folder.path().join("stall.json");
    let cases = [(folder.path().to_path_buf(), true), (folder.path().join("no-such"), false), (file, false)];
    for (place, works) in cases {
        let place = place.to_str().expect("text");
        let answer = printed(&seawall(folder.path(), &["probe", place, "--json"]));
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["problem"].is_null(), works, "{place}: {answer:#}");
        assert_eq!(answer["fastest"].is_null(), !works, "{place}: {answer:#}");
        let tried = answer["tried"].as_array().expect("a list");
        let commits: u64 = tried.iter().filter_map(|one| one["commits"].as_u64()).sum();
        assert!(commits <= 64 && (commits > 0) == works, "{place}: {commits} commits");
        assert!(!answer["verdicts"].as_array().expect("a list").is_empty());
    }
    assert_eq!(names(folder.path()), before, "nothing is left behind");
}

/// The lines with jq in `docs/result.md`, and what they print of a result.
#[test]
fn the_lines_of_the_document_read_what_the_screen_says() {
    use seawall_gauge::judgement::Judgement;
    let document = include_str!("../../../../docs/result.md");
    let lines: Vec<&str> = document.lines().filter(|line| line.starts_with("jq ")).collect();
    let folder = crate::folder();
    let file = folder.path().join("r.json");
    let honest = RunResult::read(&committed("commit")).expect("a result");
    let mut lying = honest.clone();
    for row in &mut lying.study.rows {
        if let Some(counts) = row.measured_mut().and_then(|measured| measured.counts.as_mut()) {
            counts.flushes = 0;
        }
    }
    for (name, result) in [("honest", &honest), ("lying", &lying)] {
        result.write(&file).expect("written");
        let judgement = Judgement::of_result(result);
        let durable: Vec<&str> = judgement
            .rows
            .iter()
            .filter(|row| row.outlives == seawall_gauge::rank::EffectiveClass::PowerLoss)
            .map(|row| row.id.as_str())
            .collect();
        assert_eq!(durable.is_empty(), name == "lying", "{durable:?}");
        let answers: Vec<String> = lines
            .iter()
            .map(|line| {
                let shell = Command::new("sh").args(["-c", line]).current_dir(folder.path()).output();
                let shell = shell.expect("a shell");
                assert!(shell.status.success(), "{line}: {}; `cargo xtask setup` installs jq", err(&shell));
                printed(&shell).trim().to_owned()
            })
            .collect();
        let [verdict, answer, recommended, ranked, wrong, p99, classes] = &answers[..] else {
            panic!("{} lines", answers.len())
        };
        assert_eq!(*verdict, judgement.verdict);
        assert_eq!(serde_json::to_value(judgement.answer).expect("a word"), Value::from(answer.as_str()));
        assert_eq!(recommended == "null", judgement.recommended.is_none());
        assert_eq!(ranked.lines().collect::<Vec<_>>(), durable, "{name}");
        assert_eq!(wrong.lines().collect::<Vec<_>>(), judgement.wrong, "{name}");
        let subject = judgement.subject.expect("a row");
        let (_, measured) = result.measured().find(|(row, _)| row.id == subject).expect("measured");
        assert_eq!(*p99, measured.main().percentile(99.0).ns().expect("enough").to_string());
        let (mut classes, mut durable) = (classes.lines().collect::<Vec<_>>(), durable);
        classes.sort_unstable();
        durable.sort_unstable();
        assert_eq!(classes, durable, "{name}: a script that reads the rows picks no liar");
    }
}
