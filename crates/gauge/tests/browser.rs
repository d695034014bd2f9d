//! Tests the HTML report in headless Chromium: wide and narrow, light and dark, and printed.
//!
//! A probe script runs after the page's own scripts; it writes its findings into the document, which is dumped.
//!
//! `REPORT_PAGES=DIR` keeps the pages of the scenarios for inspection.
//!
//! Invariants: any message in the browser's console is a failure; figures are compared with the result that the page
//! was made from, not with the page's own data; the tests are `#[ignore]`d and run by `cargo xtask test`.
#![cfg(target_os = "linux")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use seawall_gauge::compare::side::Side;
use seawall_gauge::figures::{duration_ns, tight};
use seawall_gauge::report::html::{Named, html, page};
use seawall_gauge::result::RunResult;
use seawall_gauge::study::Study;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The narrowest window that the browser opens is wider than a phone, so that a phone is a frame in a window.
const WINDOW: &str = "--window-size=1280,900";

#[derive(Clone, Copy, PartialEq)]
enum Screen {
    Wide,
    Phone,
}
use Screen::{Phone, Wide};
const PHONE_WIDTH: u64 = 360;

/// The pictures of a run of `commit`: commit, write and sync by percentile, and all over time.
const PICTURES: usize = 4;

const DARK: &str = "--blink-settings=preferredColorScheme=0";

const PROBE: &str = r"<script>
addEventListener('load', () => setTimeout(() => {
  const painted = (canvas) => {
    if (!canvas.width || !canvas.height) return 0;
    // Read from a copy made for reading: the browser grumbles about reading the picture itself.
    const copy = Object.assign(document.createElement('canvas'), { width: canvas.width, height: canvas.height });
    const context = copy.getContext('2d', { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);
    const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
    let opaque = 0;
    for (let at = 3; at < pixels.length; at += 4) if (pixels[at] > 0) opaque += 1;
    return opaque;
  };
  const pictures = [...document.querySelectorAll('figure')].filter((figure) => figure.querySelector('.plot')).map((figure) => ({
    id: figure.id,
    painted: [...figure.querySelectorAll('canvas')].map(painted).reduce((sum, one) => sum + one, 0),
    boxes: figure.querySelectorAll('fieldset input').length,
    dashes: new Set([...figure.querySelectorAll('fieldset line')].map((line) => line.getAttribute('stroke') + line.getAttribute('stroke-dasharray'))).size,
    tableRows: figure.querySelectorAll('details tbody tr').length,
    label: figure.querySelector('.plot').getAttribute('aria-label'),
  }));
  const methods = [...document.querySelectorAll('tr[data-method]')].map((row) => ({
    ...row.dataset,
    cells: Object.fromEntries([...row.querySelectorAll('td')].map((cell) => [cell.dataset.column, cell.textContent])),
  }));
  const studies = [...document.querySelectorAll('table.study tr[data-row]')].map((row) => ({
    row: row.dataset.row,
    cells: Object.fromEntries([...row.querySelectorAll('td[data-column]')].map((cell) => [cell.dataset.column, cell.dataset.value])),
  }));
  const versus = [...document.querySelectorAll('table.versus')].map((table) => ({
    measure: table.dataset.measure,
    rows: [...table.querySelectorAll('tr[data-row]')].map((row) => ({
      row: row.dataset.row,
      values: [...row.querySelectorAll('td[data-value]')].map((cell) => cell.dataset.value),
      percents: [...row.querySelectorAll('td[data-percent]')].map((cell) => cell.dataset.percent),
    })),
  }));
  // Words of the picture to share, in the browser's own fonts: within the picture, and none over another.
  const shares = [...document.querySelectorAll('figure.share svg')].filter((svg) => svg.getBoundingClientRect().width > 0).map((svg) => {
    const view = svg.viewBox.baseVal;
    const words = [...svg.querySelectorAll('text')].map((text) => ({ text: text.textContent, box: text.getBBox() }));
    const outside = words.filter(({ box }) => box.x < 0 || box.y < 0 || box.x + box.width > view.width || box.y + box.height > view.height);
    const clashes = words.flatMap((one, index) => words.slice(index + 1).filter((other) =>
      one.box.x < other.box.x + other.box.width && other.box.x < one.box.x + one.box.width
      && one.box.y + 3 < other.box.y + other.box.height && other.box.y + 3 < one.box.y + one.box.height).map((other) => [one.text, other.text]));
    return { words: words.map(({ text }) => text), outside: outside.map(({ text }) => text), clashes, form: svg.getAttribute('class') };
  });
  // A choice that is changed by the keyboard must change the picture.
  const first = document.querySelector('figure fieldset input');
  const before = first && painted(first.closest('figure').querySelector('canvas'));
  if (first) first.click();
  // The last: a distribution, at whose end every shown series of it may have a value.
  const plot = [...document.querySelectorAll('.plot')].pop();
  if (plot) plot.dispatchEvent(new KeyboardEvent('keydown', { key: 'End' }));
  setTimeout(() => {
    const after = first && painted(first.closest('figure').querySelector('canvas'));
    const found = {
      drawn: document.documentElement.dataset.pictures,
      width: innerWidth,
      scrollWidth: document.documentElement.scrollWidth,
      background: getComputedStyle(document.body).backgroundColor,
      broken: document.querySelectorAll('.broken').length,
      images: document.images.length,
      scripts: document.scripts.length,
      unlabelled: [...document.querySelectorAll('input, select, button, [role=region], [role=img]')].filter((one) => !(one.labels && one.labels.length) && !one.getAttribute('aria-label') && !one.textContent.trim()).length,
      readout: plot && plot.closest('figure').querySelector('.readout').textContent,
      changed: before !== after,
      pictures, methods, studies, versus, shares,
      text: document.body.innerText,
    };
    const pre = document.createElement('pre');
    pre.id = 'probe';
    pre.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(found))));
    window.top.document.body.append(pre);
  }, 100);
}, 200));
</script>";

fn committed(name: &str) -> RunResult {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/2026-11-21-firecracker-ext4");
    RunResult::read(&folder.join(name)).expect("a committed result")
}

struct Browser {
    scratch: tempfile::TempDir,
}

impl Browser {
    fn new() -> Self {
        Self { scratch: tempfile::tempdir().expect("a folder") }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("chromium");
        command
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"])
            .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=8000"])
            .arg(format!("--user-data-dir={}", self.scratch.path().join("profile").display()))
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    fn file(&self, page: &str) -> PathBuf {
        let file = self.scratch.path().join("report.html");
        std::fs::write(&file, page).expect("written");
        file
    }

    /// What the probe finds in `page` on such a screen.
    fn probe(&self, page: &str, screen: Screen, more: &[&str]) -> Value {
        let script = PROBE.trim_start_matches("<script>").trim_end_matches("</script>");
        // The policy of the page lets its own scripts run, and this one.
        let allowed = format!("script-src 'sha256-{}' ", STANDARD.encode(Sha256::digest(script)));
        let mut probed = page.replacen("script-src ", &allowed, 1);
        assert_ne!(probed, page, "the page has no policy");
        let unprobed = probed.clone();
        probed = probed.replacen("</body>", &format!("{PROBE}</body>"), 1);
        assert_ne!(probed, unprobed, "the page has no end for the probe to stand at");
        if screen == Phone {
            let framed = probed.replace('&', "&amp;").replace('"', "&quot;");
            probed = format!(
                "<!doctype html><meta charset=utf-8><body><iframe srcdoc=\"{framed}\" width={PHONE_WIDTH} height=780 frameborder=0></iframe></body>"
            );
        }
        let file = self.file(&probed);
        let address = format!("file://{}", file.display());
        let mut arguments = more.to_vec();
        arguments.extend([WINDOW, "--dump-dom", address.as_str()]);
        let output = self.command(&arguments).output().expect("chromium starts");
        quiet(&output.stderr);
        let dom = String::from_utf8_lossy(&output.stdout).into_owned();
        let found = dom.rsplit_once("<pre id=\"probe\">").and_then(|(_, rest)| rest.split_once("</pre>"));
        let (found, _) =
            found.unwrap_or_else(|| panic!("the probe found nothing: {} bytes of page", dom.len()));
        let json = STANDARD.decode(found).expect("base64");
        serde_json::from_slice(&json).expect("JSON")
    }
}

/// The page has said nothing on the console: no error, no warning.
fn quiet(stderr: &[u8]) {
    let said = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(lines.is_empty(), "the console says: {lines:#?}");
}

fn list<'a>(found: &'a Value, name: &str) -> &'a [Value] {
    found[name].as_array().map_or(&[], Vec::as_slice)
}

/// What every page owes its reader, whatever is in it.
fn sound(found: &Value, pictures: usize) {
    assert_eq!(found["drawn"], pictures.to_string(), "pictures that were drawn");
    assert_eq!(list(found, "pictures").len(), pictures);
    assert_eq!((found["broken"].as_u64(), found["images"].as_u64()), (Some(0), Some(0)));
    assert_eq!(found["unlabelled"], 0, "controls without a name");
    for picture in list(found, "pictures") {
        assert!(picture["tableRows"].as_u64() > Some(0), "no table behind {picture}");
        assert_eq!(picture["boxes"], picture["dashes"], "series of one look: {picture}");
        assert!(picture["label"].as_str().is_some_and(|label| label.contains("Series: ")), "{picture}");
    }
    assert!(!list(found, "shares").is_empty(), "no picture to share");
    for share in list(found, "shares") {
        assert!(list(share, "outside").is_empty() && list(share, "clashes").is_empty(), "{share}");
    }
    let width = |name: &str| found[name].as_u64().expect("a width");
    assert!(width("scrollWidth") <= width("width"), "wider than the window: {}", found["scrollWidth"]);
}

fn all_painted(found: &Value) {
    for picture in list(found, "pictures") {
        assert!(picture["painted"].as_u64() > Some(1000), "blank: {picture}");
    }
}

/// Every figure of the table is the result's.
fn figures_are_those_of(found: &Value, result: &RunResult) {
    assert!(result.measured().count() > 0 && list(found, "methods").len() == result.measured().count());
    for (row, measured) in result.measured() {
        let shown = list(found, "methods").iter().find(|shown| shown["method"] == row.id).expect("its row");
        let latency = measured.main();
        assert_eq!(shown["commits"], measured.commits.to_string(), "{}", row.id);
        assert_eq!(shown["p50Ns"], latency.p50_ns().to_string(), "{}", row.id);
        assert_eq!(shown["maxNs"], latency.max_ns().to_string(), "{}", row.id);
        assert_eq!(shown["elapsedNs"], measured.elapsed_ns.to_string(), "{}", row.id);
        let cells = &shown["cells"];
        assert_eq!(cells["p50"], tight(latency.p50_ns() as f64), "{}", row.id);
        let p99_ns = latency.percentile(99.0).ns().expect("enough samples");
        assert_eq!(
            cells["p99"].as_str().map(|cell| cell.trim_start_matches('~')),
            Some(tight(p99_ns as f64).as_str())
        );
        assert_eq!(cells["Max"], tight(latency.max_ns() as f64), "{}", row.id);
        let counts = measured.counts.expect("this machine counts");
        let flushes = counts.flushes as f64 / measured.commits as f64;
        assert_eq!(cells["Flushes per commit"], format!("{flushes:.2}"), "{}", row.id);
    }
}

#[test]
#[ignore = "needs Chromium: cargo xtask test 'report in a browser'"]
fn a_real_result_is_drawn_and_its_figures_are_the_result_s() {
    let result = committed("published.json");
    let found = Browser::new().probe(&html(&result), Wide, &[]);
    sound(&found, PICTURES);
    all_painted(&found);
    figures_are_those_of(&found, &result);
    assert_eq!(found["changed"], true, "a series that is switched off is no longer drawn");
    let readout = found["readout"].as_str().expect("a readout");
    assert!(
        readout.contains("%: ") && readout.contains("buffered"),
        "the End key reads the last value: {readout}"
    );
    let share = &list(&found, "shares")[0];
    let words: Vec<&str> = list(share, "words").iter().filter_map(Value::as_str).collect();
    for (row, measured) in result.measured() {
        let p50 = duration_ns(measured.main().p50_ns());
        assert!(words.contains(&row.id.as_str()) && words.contains(&p50.as_str()), "{}: {words:?}", row.id);
    }
    let text = found["text"].as_str().expect("text");
    assert!(text.contains("below this line a power cut loses acknowledged commits"));
    assert!(text.contains("Firecracker (KVM)"), "the machine is named");
}

#[test]
#[ignore = "needs Chromium: cargo xtask test 'report in a browser'"]
fn thirty_methods_fit_a_phone() {
    let result = committed("commit.json");
    let found = Browser::new().probe(&html(&result), Phone, &[]);
    assert_eq!(found["width"], PHONE_WIDTH, "the page is as narrow as a phone");
    sound(&found, PICTURES);
    all_painted(&found);
    figures_are_those_of(&found, &result);
    assert_eq!(list(&found, "shares").len(), 1);
    assert_eq!(list(&found, "shares")[0]["form"], "for-narrow");
}

#[test]
#[ignore = "needs Chromium: cargo xtask test 'report in a browser'"]
fn dark_is_dark_and_light_is_light() {
    let page = html(&committed("published.json"));
    let browser = Browser::new();
    let light = browser.probe(&page, Wide, &[]);
    let dark = browser.probe(&page, Phone, &[DARK]);
    sound(&dark, PICTURES);
    all_painted(&dark);
    let brightness = |found: &Value| -> u32 {
        let background = found["background"].as_str().expect("a colour");
        background.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse::<u32>().ok()).sum()
    };
    assert!(
        brightness(&light) > 600 && brightness(&dark) < 200,
        "{} {}",
        light["background"],
        dark["background"]
    );
}

#[test]
#[ignore = "needs Chromium: cargo xtask test 'report in a browser'"]
fn several_results_are_compared_by_unrounded_values() {
    let (a, b) = (committed("published.json"), committed("commit.json"));
    let side = |id: &str| Side::published(id).expect("it ships");
    let published = [side("i2.2xlarge-linux-ssd"), side("i2.2xlarge-windows-ssd")];
    let named = [Named { name: "a.json", result: &a }, Named { name: "b.json", result: &b }];
    let found = Browser::new().probe(&page(&named, &published), Phone, &[]);
    // Those of each result, and one of each method that both have.
    sound(&found, 2 * PICTURES + 6);
    let cost = list(&found, "versus").iter().find(|table| table["measure"] == "cost").expect("by cost");
    let row = list(cost, "rows").iter().find(|row| row["row"] == "dsync").expect("a row");
    let of = |result: &RunResult| {
        let (_, measured) = result.measured().find(|(row, _)| row.id == "dsync").expect("ran");
        measured.elapsed_ns as f64 / measured.commits as f64
    };
    let expected = [of(&a), of(&b), 19_555e6 / 65_536.0, 10_029e6 / 65_536.0];
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<f64>().ok()).expect("a number");
    for (value, expected) in list(row, "values").iter().zip(expected) {
        assert!((number(value) - expected).abs() < 1e-6, "{value} {expected}");
    }
    let percents: Vec<f64> = list(row, "percents").iter().map(number).collect();
    assert_eq!(percents.len(), 3);
    assert!((percents[2] - (expected[3] / expected[0] - 1.0) * 100.0).abs() < 1e-9, "{percents:?}");
    assert!(found["text"].as_str().is_some_and(|text| text.contains("error of the original")));
}

#[test]
#[ignore = "needs Chromium: cargo xtask test 'report in a browser'"]
fn every_scenario_is_drawn_from_its_columns_and_rows() {
    for name in ["stall", "cached", "path", "group", "interfere", "replicated"] {
        let result = committed(&format!("../2026-11-22-firecracker-ext4/{name}.json"));
        let study = &result.study;
        let page = html(&result);
        if let Some(folder) = std::env::var_os("REPORT_PAGES") {
            let file = Path::new(&folder).join(format!("{name}.html"));
            std::fs::write(file, &page).expect("kept");
        }
        let found = Browser::new().probe(&page, Phone, &[]);
        let pictures = list(&found, "pictures").len();
        assert!(pictures >= 1, "{name}: no picture");
        sound(&found, pictures);
        all_painted(&found);
        for row in &study.rows {
            // What did not run is listed with its reason, below the table.
            let shown = list(&found, "studies").iter().find(|shown| shown["row"] == row.id);
            assert_eq!(shown.is_some(), row.measured().is_some(), "{name} {}", row.id);
            for column in study.columns.iter().filter(|_| shown.is_some()) {
                let value = Study::value(row, column).map_or(String::new(), |value| value.value.to_string());
                // A column without any value is left out.
                let cell = shown.and_then(|shown| shown["cells"][&column.key].as_str()).unwrap_or_default();
                assert_eq!(cell, value, "{name} {} {}", row.id, column.key);
            }
        }
    }
}

#[test]
#[ignore = "needs Chromium: cargo xtask test 'report in a browser'"]
fn hostile_names_stay_text() {
    let mut result = committed("published.json");
    let hostile = "\"><img src=x onerror=alert(1)></script><script>console.error('in')</script>";
    hostile.clone_into(&mut result.environment.file_system.source);
    hostile.clone_into(&mut result.environment.system);
    result.environment.hypervisor = Some(hostile.to_owned());
    hostile.clone_into(&mut result.study.rows[0].id);
    hostile.clone_into(&mut result.study.rows[0].label);
    let plain = Browser::new().probe(&html(&committed("published.json")), Wide, &[]);
    let found = Browser::new().probe(&html(&result), Wide, &[]);
    sound(&found, PICTURES);
    assert_eq!(found["scripts"], plain["scripts"], "no script was added");
    assert!(found["text"].as_str().is_some_and(|text| text.contains(hostile)), "it is shown as it is");
}

#[test]
#[ignore = "needs Chromium: cargo xtask test 'report in a browser'"]
fn it_prints() {
    let browser = Browser::new();
    let file = browser.file(&html(&committed("published.json")));
    let pdf = browser.scratch.path().join("report.pdf");
    let print = format!("--print-to-pdf={}", pdf.display());
    let address = format!("file://{}", file.display());
    let output =
        browser.command(&["--no-pdf-header-footer", &print, &address]).output().expect("chromium starts");
    quiet(&output.stderr);
    let bytes = std::fs::read(&pdf).expect("a PDF");
    let pages = bytes.windows(11).filter(|window| window == b"/Type /Page").count();
    // The pictures are embedded as images, so that an empty print is far smaller.
    assert!(
        bytes.starts_with(b"%PDF") && bytes.len() > 60_000 && pages >= 2,
        "{} bytes, {pages} pages",
        bytes.len()
    );
}

#[test]
#[ignore = "needs sha256sum: cargo xtask test 'report in a browser'"]
fn the_vendored_library_is_as_published() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vendor/uplot");
    let mut sums = Command::new("sha256sum");
    sums.args(["--check", "--strict", "SHA256SUMS"]).current_dir(folder);
    assert!(sums.status().expect("sha256sum starts").success());
}
