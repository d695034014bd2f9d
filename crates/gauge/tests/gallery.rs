//! Tests the gallery with results that nobody should trust: what is not on its list appears on no page.
//!
//! Invariants: texts are put into every string of a result that takes one, found by trying, so that a field which is added
//! later is tried too; the committed results of this project make a gallery.

use seawall_gauge::gallery::{BYTES_MAX, Entry, INDEX, MARK, PAGE_BYTES_MAX, Page, Shown, pages};
use seawall_gauge::result::RunResult;
use seawall_gauge::row::Row;
use seawall_sys::durability::Class;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What a result may hold that names somebody, and markup that would run: none of it may be on any page.
const SECRET: &str = "db7.example.com /home/alice/x.img S4EWNX0R123456 6f1e9c1a-52cf-4a0d-9d0e-b1b0d2f3a4c5 <script>alert(1)</script>\" onload='alert(2)";
const PARTS: [&str; 6] = ["example.com", "alice", "S4EWNX0R123456", "6f1e9c1a", "alert(", "onload="];

fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results")
}

fn committed() -> RunResult {
    RunResult::read(&results().join("2026-11-25-firecracker-ext4/commit.json")).expect("a committed result")
}

/// A result's JSON in this version, with everything in it that may be unknown.
fn value() -> Value {
    let mut result = committed();
    result.label = Some("nightly".to_owned());
    result.environment.container = Some("docker".to_owned());
    result.environment.wine = Some("9.0".to_owned());
    result.plan.workload = Some("512 B to 16 KiB, 6,997 B in the mean".to_owned());
    let device = &mut result.environment.devices[0];
    device.model = Some("Samsung SSD 980 PRO 1TB".to_owned());
    let mut upper = device.clone();
    [upper.name, upper.kind] = ["dm-0", "dm"].map(str::to_owned);
    upper.stands_on = vec![device.name.clone()];
    result.environment.devices.push(upper);
    serde_json::from_str(&result.to_json().expect("JSON")).expect("JSON")
}

fn entry(value: &Value) -> Result<Entry, String> {
    let text = value.to_string();
    let result = RunResult::from_json(&text).map_err(|refusal| refusal.to_string())?;
    Entry::new(&text, &result).map_err(|unfit| unfit.to_string())
}

fn gallery(entry: Entry) -> Vec<Page> {
    pages(&[entry]).expect("within its bounds")
}

fn assert_silent(pages: &[Page], what: &str) {
    for page in pages {
        for part in PARTS {
            assert!(
                !page.text.contains(part) && !page.name.contains(part),
                "{part} in {} by {what}",
                page.name
            );
        }
    }
}

/// Where strings stand in `value`, as JSON pointers.
fn strings(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at.to_owned()),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(nth, item)| strings(item, &format!("{at}/{nth}"), found));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| strings(field, &format!("{at}/{name}"), found));
        }
        _ => {}
    }
}

/// A pointer without its indices: the field, whatever row it is of.
fn field(pointer: &str) -> String {
    pointer.split('/').filter(|part| part.parse::<usize>().is_err()).collect::<Vec<_>>().join("/")
}

#[test]
fn no_string_of_a_result_reaches_a_page_unless_it_is_on_the_list() {
    let original = value();
    let mut pointers = Vec::new();
    strings(&original, "", &mut pointers);
    // Without these there is nothing to show; each is tried by itself below.
    let needed = |field: &str| {
        field.ends_with("/method/id")
            || field.ends_with("/method/calls")
            || field.ends_with("/latencies/name")
    };
    let secrets: [fn(&str) -> String; 2] = [|_| SECRET.to_owned(), |before| format!("{before} {SECRET}")];
    for secret in secrets {
        let mut all = original.clone();
        let mut tried = BTreeSet::new();
        for pointer in &pointers {
            let before = original.pointer(pointer).and_then(Value::as_str).expect("a string").to_owned();
            let mut one = original.clone();
            *one.pointer_mut(pointer).expect("there") = json!(secret(&before));
            // One row stands for all: what a field takes in one, it takes in every other.
            let is_new = tried.insert(field(pointer));
            if is_new && let Ok(entry) = entry(&one) {
                assert_silent(&gallery(entry), pointer);
            }
            let takes = serde_json::from_value::<RunResult>(one).is_ok();
            // A row's id stands in it twice otherwise.
            let unique = if pointer.ends_with("/id") {
                format!("{}{pointer}", secret(&before))
            } else {
                secret(&before)
            };
            if takes && !needed(&field(pointer)) && field(pointer) != "/format" {
                *all.pointer_mut(pointer).expect("there") = json!(unique);
            }
        }
        assert!(tried.len() > 25, "{tried:?}");
        let entry = entry(&all).expect("its figures are as they were");
        assert!(entry.shown.left_out.len() > 8, "{:?}", entry.shown.left_out);
        assert_silent(&gallery(entry), "all at once");
    }
}

#[test]
fn what_is_shown_is_said_by_what_was_left_out() {
    let entry = entry(&value()).expect("shown");
    let left_out = entry.shown.left_out.join("; ");
    for words in ["the label of the run", "what is mounted", "mount options", "names and sizes of devices"] {
        assert!(left_out.contains(words), "{words} in {left_out}");
    }
    let text: String = gallery(entry).into_iter().map(|page| page.text).collect();
    for shown in ["Samsung SSD 980 PRO 1TB", "Firecracker (KVM)", "direct+dsync", "ext4"] {
        assert!(text.contains(shown), "{shown} is on the list");
    }
}

type Hostile = (&'static str, fn(&mut Value), &'static str);

/// What is forged, how, and what the refusal says.
#[rustfmt::skip]
const HOSTILE: &[Hostile] = &[
    ("no CPU",                 |v| v["environment"]["cpus"] = json!(0), "CPUs"),
    ("CPUs without number",    |v| v["environment"]["cpus"] = json!(u64::MAX), "CPUs"),
    ("all memory there is",    |v| v["environment"]["memory_bytes"] = json!(u64::MAX), "memory"),
    ("a negative load",        |v| v["environment"]["pressure"]["load_1m"] = json!(-1.0), "load"),
    ("a giant load",           |v| v["environment"]["pressure"]["load_1m"] = json!(1e300), "load"),
    ("a negative clock",       |v| v["environment"]["clock"]["read_ns"] = json!(-5.0), "clock"),
    ("a giant rate",           |v| v["plan"]["rate_per_s"] = json!(1e300), "rate"),
    ("no writer",              |v| v["plan"]["threads"] = json!(0), "writers"),
    ("more rounds than any",   |v| v["plan"]["rounds"] = json!(4_000_000_000_u32), "rounds"),
    ("writes without end",     |v| measured(v)["counts"]["writes"] = json!(u64::MAX), "count"),
    ("commits never made",     |v| measured(v)["commits"] = json!(7), "commits"),
    ("a size of all bytes",    |v| v["plan"]["transaction_bytes"] = json!(u64::MAX), "size"),
    ("a negative count",       |v| measured(v)["commits"] = json!(-1), "damaged"),
    ("a figure in words",      |v| measured(v)["commits"] = json!("many"), "damaged"),
    ("a row twice",            |v| { let row = v["study"]["rows"][0].clone(); rows(v).push(row); }, "twice"),
    ("no row at all",          |v| rows(v).clear(), "no commit"),
    ("rows of another program", |v| rows(v).iter_mut().for_each(|row| row["method"]["id"] = json!("magic")), "no commit"),
    ("another scenario",       |v| v["study"]["ranked"] = json!(false), "a gallery shows `commit`"),
    ("a later version",        |v| v["version"] = json!(99), "version 99"),
    ("another format",         |v| v["format"] = json!("<script>"), "format"),
];

fn rows(value: &mut Value) -> &mut Vec<Value> {
    value["study"]["rows"].as_array_mut().expect("rows")
}

fn measured(value: &mut Value) -> &mut Value {
    let row = rows(value).iter_mut().find(|row| row["outcome"]["measured"].is_object()).expect("one");
    &mut row["outcome"]["measured"]
}

#[test]
fn figures_that_no_machine_has_are_refused_by_name() {
    for (what, forge, words) in HOSTILE {
        let mut forged = value();
        forge(&mut forged);
        let refused = entry(&forged).expect_err(what);
        assert!(refused.contains(words), "{what}: {refused}");
    }
    for figure in ["NaN", "Infinity", "1e999"] {
        let text = value().to_string().replace("\"load_1m\":1.77", &format!("\"load_1m\":{figure}"));
        assert!(text.contains(figure));
        assert!(RunResult::from_json(&text).is_err(), "{figure}");
    }
}

#[test]
fn a_class_that_the_calls_do_not_give_is_lowered_and_a_lower_one_is_kept() {
    let class = |from: &str, to: &str| {
        let mut forged = value();
        forged["environment"]["wine"] = Value::Null;
        for row in rows(&mut forged) {
            let id = row["id"].clone();
            if let Some(class) = row.pointer_mut("/outcome/measured/durability/class").filter(|_| id == from)
            {
                *class = json!(to);
            }
        }
        entry(&forged).expect("shown").shown
    };
    let class_of = |shown: &Shown, id: &str| {
        let measured = shown.result.study.row(id).and_then(Row::measured).expect("ran");
        measured.durability.as_ref().map(|durability| durability.class)
    };
    let shown = class("direct+dsync", "process-crash");
    assert!(shown.lowered.is_empty());
    assert_eq!(class_of(&shown, "direct+dsync"), Some(Class::ProcessCrash));
    let shown = class("buffered", "power-loss");
    assert_eq!(
        (&shown.lowered[..], class_of(&shown, "buffered")),
        (&["buffered".to_owned()][..], Some(Class::ProcessCrash))
    );
    let page = gallery(Entry { page: "x.html".to_owned(), shown }).swap_remove(0).text;
    assert!(page.contains("claims more than its calls give for buffered"), "the page says so");
}

#[test]
fn the_committed_results_make_a_gallery_whose_links_lead_somewhere() {
    let mut entries = Vec::new();
    let folders =
        std::fs::read_dir(results()).expect("readable").map(|folder| folder.expect("an entry").path());
    for folder in folders.filter(|path| path.is_dir()) {
        for file in std::fs::read_dir(folder).expect("readable").map(|file| file.expect("an entry").path()) {
            let is_json = file.extension().is_some_and(|extension| extension == "json");
            // Others are counts of tests.
            let Some((result, text)) = is_json.then(|| RunResult::read_with_text(&file).ok()).flatten()
            else {
                continue;
            };
            match Entry::new(&text, &result) {
                Ok(entry) => entries.push(entry),
                Err(unfit) => assert_ne!(result.scenario, "commit", "{}: {unfit}", file.display()),
            }
        }
    }
    assert!(entries.len() >= 5, "{} results of commits", entries.len());
    let pages = pages(&entries).expect("within its bounds");
    let names: BTreeSet<&str> = pages.iter().map(|page| page.name.as_str()).collect();
    assert_eq!(names.len(), entries.len() + 4 + 1, "with the published tables and the index");
    assert!(pages.iter().map(|page| page.text.len()).sum::<usize>() < BYTES_MAX);
    for page in &pages {
        assert!(page.text.len() < PAGE_BYTES_MAX, "{}", page.name);
        assert!(page.text.find(MARK).is_some_and(|at| at < 300), "{}", page.name);
        assert!(
            page.text.contains("default-src 'none'") && !page.text.contains("unsafe-inline"),
            "{}",
            page.name
        );
        assert!(!page.text.contains(" style=\""), "the policy forbids it: {}", page.name);
        for link in page.text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(
                link.starts_with(['#', 'd']) || names.contains(link) || link == INDEX,
                "{link} in {}",
                page.name
            );
        }
    }
    let index = pages.last().expect("an index");
    assert_eq!(index.name, INDEX);
    for name in names.iter().filter(|name| **name != INDEX) {
        assert!(index.text.contains(*name), "the index leads to {name}");
    }
}
