//! Checks what the folders of `deploy` hold by the tools of those who would run it, against what the commands really export.
//!
//! ```text
//!   rules.yml, rules_test.yml   promtool check rules, promtool test rules
//!   metrics                     promtool check metrics, on those of a short run; every metric is used or documented
//!   grafana.json, rules.yml     every metric in them is exported
//!   daemonset, statefulset      kubernetes-validate, by the schemas of Kubernetes
//!   *.service                   systemd-analyze verify; its exposure by systemd-analyze security
//!   ship.conf                   its lines, read by the command itself
//! ```
//!
//! Invariants: a tool that cannot be had makes its part skipped, with the reason, and the others are run; each tool must also
//! refuse a wrong file, so that one that accepts everything is noticed.

use crate::error::{Error, Result};
use crate::replicated::get;
use crate::shell::{Running, captured, command, find_program, has, is_root, output, root, target, within};
use crate::{files, runner, tools};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

struct Deployed {
    folder: &'static str,
    page: &'static str,
    prefixes: &'static [&'static str],
    /// Metrics of a short run, a file for each program.
    exported: fn(&Path, &Path) -> Result<Vec<PathBuf>>,
    uses: &'static [&'static str],
    /// A counter under a name that is none's, and a rule that says something else.
    wrong: [(&'static str, &'static str); 2],
    /// The manifest, and mistakes in it.
    manifest: (&'static str, [(&'static str, &'static str); 2]),
    units: &'static [&'static str],
}

const DEPLOYED: [Deployed; 2] = [
    Deployed {
        folder: "deploy/watch",
        page: "docs/watch.md",
        prefixes: &["seawall_watch_"],
        exported: run_watch,
        uses: &["rules.yml", "grafana.json"],
        wrong: [("_bursts_total", "_bursts"), (" == 0", " == 1")],
        manifest: (
            "daemonset.yaml",
            [
                ("readOnlyRootFilesystem:", "readonlyRootFilesystem:"),
                ("containerPort: 9798", "containerPort: http"),
            ],
        ),
        units: &["seawall-watch.service"],
    },
    Deployed {
        folder: "deploy/ship",
        page: "docs/beyond-one-machine.md",
        prefixes: &["seawall_ship_", "seawall_standby_"],
        exported: run_ship,
        uses: &["rules.yml"],
        wrong: [("_messages_total", "_messages"), (" == 0", " == 1")],
        manifest: (
            "statefulset.yaml",
            [
                ("terminationGracePeriodSeconds:", "terminationGraceSeconds:"),
                ("containerPort: 9799", "containerPort: http"),
            ],
        ),
        units: &["seawall-ship.service", "seawall-standby@.service", "seawall-archive@.service"],
    },
];
/// Exposure of the unit by systemd's own measure, of 100, above which it is refused.
const EXPOSURE_MAX: &str = "20";

/// Runs every part; the reasons of those that could not be run.
pub(crate) fn check() -> Result<Vec<String>> {
    if !cfg!(target_os = "linux") {
        return Err(Error::lacking("systemd and Debian's package of promtool are of Linux"));
    }
    let work = target().join("tmp/deployment");
    let program = runner::program(&runner::programs(&["--bin", "seawall"])?, "cli/bin")?;
    let mut skipped = Vec::new();
    for it in &DEPLOYED {
        files::empty_folder(&work)?;
        let exported = (it.exported)(&program, &work)?;
        it.names_agree(&exported)?;
        let units = it.units.iter().map(|unit| it.unit(unit, &program, &work));
        let parts = [
            promtool().and_then(|promtool| it.rules_and_metrics(&promtool, &exported, &work)),
            it.manifest(&work),
        ];
        for part in parts.into_iter().chain(units) {
            match part {
                Err(Error::Lacking(reason)) if skipped.contains(&reason) => {}
                Err(Error::Lacking(reason)) => skipped.push(reason),
                part => part?,
            }
        }
        files::remove_folder(&work)?;
    }
    Ok(skipped)
}

fn run_watch(program: &Path, work: &Path) -> Result<Vec<PathBuf>> {
    let (disk, file) = (work.join("disk"), work.join("watch.prom"));
    files::make_folder(&disk)?;
    let options = ["--every", "1s", "--time", "2s", "--busy", "100", "--allow-memory", "--openmetrics"];
    output(command(program, &["watch"]).arg(&disk).args(options).arg(&file))?;
    Ok(vec![file])
}

/// What a service that ships and a standby serve, and that both say that they are well.
fn run_ship(program: &Path, work: &Path) -> Result<Vec<PathBuf>> {
    let path = |name: &str| work.join(name).display().to_string();
    let (log, copy, archive) = (path("log"), path("copy"), format!("folder:{}", path("archive")));
    let mut append = command(program, &["log", "append", &log, "--quiet"]);
    append.stdin(std::fs::File::open(root().join("README.md")).map_err(Error::at("README.md"))?);
    output(append)?;
    // Its lines are those of the command: they are read, and the first log is not there.
    let conf = root().join("deploy/ship/ship.conf").display().to_string();
    must_refuse(
        "seawall log ship --file",
        captured(command(program, &["log", "ship", "--dry-run", "--file", &conf])),
    )?;
    let ship = ["log", "ship", &log, "--to", &archive, "--listen", "127.0.0.1:0", "--gather", "100ms"];
    let shipped = Served::start(program, &ship)?;
    let file = |name: &str, text: String| {
        let file = work.join(name);
        files::write(&file, text)?;
        Ok(file)
    };
    shipped.well()?;
    let standby =
        Served::start(program, &["log", "standby", &copy, "--from", &archive, "--listen", "127.0.0.1:0"])?;
    standby.well()?;
    // What is at risk is told once a second.
    std::thread::sleep(Duration::from_millis(1500));
    Ok(vec![
        file("ship.prom", get(&shipped.address, "/metrics")?.1)?,
        file("standby.prom", get(&standby.address, "/metrics")?.1)?,
    ])
}

struct Served {
    _process: Running,
    address: String,
}

impl Served {
    fn start(program: &Path, words: &[&str]) -> Result<Self> {
        let mut start = command(program, words);
        start.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = Running::start(&mut start)?;
        let said = process.0.stderr.take().ok_or_else(|| Error::check("no pipe"))?;
        let mut lines = BufReader::new(said).lines().map_while(std::result::Result::ok);
        let address = lines
            .find_map(|line| Some(line.strip_prefix("metrics at http://")?.split('/').next()?.to_owned()));
        // What it says later is read, so that it does not wait for its reader.
        std::thread::spawn(move || lines.for_each(drop));
        let address = address.ok_or_else(|| Error::check(format!("{words:?} serves nothing")))?;
        Ok(Self { _process: process, address })
    }

    /// Waits until it says that all is well.
    fn well(&self) -> Result {
        let mut said = get(&self.address, "/health");
        let well = within(10, || {
            said = get(&self.address, "/health");
            !matches!(&said, Ok((status, _)) if !status.contains("200"))
        });
        let (_, said) = said?;
        ensure!(well, "a service is not well: {said}");
        Ok(())
    }
}

impl Deployed {
    fn at(&self, name: &str) -> PathBuf {
        root().join(self.folder).join(name)
    }

    /// Every metric that rules and dashboard use is exported; every one that is exported is on the page; and the page lists no other.
    fn names_agree(&self, exported: &[PathBuf]) -> Result {
        let texts = exported.iter().map(|file| files::read(file)).collect::<Result<Vec<_>>>()?;
        let types = texts
            .iter()
            .flat_map(|text| text.lines())
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .filter_map(|line| line.split_once(' '));
        let mut known = BTreeSet::new();
        let mut families = BTreeSet::new();
        for (name, kind) in
            types.filter(|(name, _)| self.prefixes.iter().any(|prefix| name.starts_with(prefix)))
        {
            families.insert(name);
            known.insert(name.to_owned());
            if kind == "histogram" {
                known.extend(["bucket", "sum", "count"].map(|part| format!("{name}_{part}")));
            }
        }
        ensure!(families.len() >= 5, "a run exported {} metrics only", families.len());
        for name in self.uses {
            let text = files::read(&self.at(name))?;
            let used = self.prefixes.iter().flat_map(|prefix| words(&text, prefix));
            let unknown: Vec<&str> = used.filter(|word| !known.contains(*word)).collect();
            if !unknown.is_empty() {
                let (folder, unknown) = (self.folder, unknown.join(", "));
                fail!("{folder}/{name} uses what is not exported: {unknown}");
            }
        }
        let page = files::read(&root().join(self.page))?;
        let listed: BTreeSet<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
            .filter(|word| self.prefixes.iter().any(|prefix| word.starts_with(prefix)))
            .collect();
        let differing: Vec<&str> = families.symmetric_difference(&listed).copied().collect();
        let page = self.page;
        ensure!(
            differing.is_empty(),
            "exported but not in the table of {page}, or the other way round: {}",
            differing.join(", ")
        );
        Ok(())
    }

    fn rules_and_metrics(&self, promtool: &Path, exported: &[PathBuf], work: &Path) -> Result {
        for words in [["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]] {
            output(command(promtool, &words).current_dir(root().join(self.folder)))?;
        }
        let metrics = |text: &str| {
            let file = work.join("metrics");
            files::write(&file, text)?;
            let mut check = command(promtool, &["check", "metrics"]);
            check.stdin(std::fs::File::open(&file).map_err(Error::at(file.display()))?);
            captured(check)
        };
        let texts = exported.iter().map(|file| files::read(file)).collect::<Result<Vec<_>>>()?;
        texts.iter().try_for_each(|text| metrics(text).map(drop))?;
        let [(counter, not_one), (right, wrong)] = self.wrong;
        must_refuse("promtool check metrics", metrics(&texts[0].replace(counter, not_one)))?;
        let mistaken = work.join("rules.yml");
        files::write(&mistaken, files::read(&self.at("rules.yml"))?.replace(right, wrong))?;
        std::fs::copy(self.at("rules_test.yml"), work.join("rules_test.yml"))
            .map_err(Error::at(work.display()))?;
        let mut tried = command(promtool, &["test", "rules", "rules_test.yml"]);
        tried.current_dir(work);
        must_refuse("promtool test rules", captured(tried))
    }

    fn manifest(&self, work: &Path) -> Result {
        let (name, mistakes) = self.manifest;
        let validate = tools::listed("kubernetes-validate")?;
        let check = |file: &Path| captured(command(&validate, &["--strict"]).arg(file));
        let file = self.at(name);
        check(&file)?;
        let text = files::read(&file)?;
        for (right, wrong) in mistakes {
            let changed = work.join(name);
            ensure!(text.contains(right), "{}/{name} has no {right}", self.folder);
            files::write(&changed, text.replace(right, wrong))?;
            must_refuse("kubernetes-validate", check(&changed))?;
        }
        Ok(())
    }

    /// A unit, with the program that was built in place of the one that a package installs.
    fn unit(&self, name: &str, program: &Path, work: &Path) -> Result {
        if !has("systemd-analyze") {
            return Err(Error::lacking(
                "the units were not checked: systemd-analyze is missing (Debian's package systemd)",
            ));
        }
        let text = files::read(&self.at(name))?;
        let installed = "/usr/bin/seawall";
        ensure!(text.contains(installed), "{}/{name} does not run {installed}", self.folder);
        // An instance, where it is a template.
        let file = work.join(name.replace('@', "@orders"));
        let analyze = |text: &str, words: &[&str]| {
            files::write(&file, text)?;
            captured(command("systemd-analyze", words).arg(&file))
        };
        let here = text.replace(installed, &program.display().to_string());
        // What it only warns of, such as a word that it does not know, is on standard error.
        let verify = |text: &str| {
            let (_, warnings) = analyze(text, &["verify", "--man=no"])?;
            ensure!(warnings.trim().is_empty(), "systemd-analyze verify: {}", warnings.trim());
            Ok(())
        };
        verify(&here)?;
        ensure!(
            verify(&here.replace("ProtectSystem", "ProtectSytsem")).is_err(),
            "systemd-analyze accepts a word that is none"
        );
        let threshold = format!("--threshold={EXPOSURE_MAX}");
        let security = ["security", "--offline=true", &threshold];
        analyze(&here, &security)?;
        let open: String =
            here.lines().filter(|line| !line.starts_with("Protect")).collect::<Vec<_>>().join("\n");
        let open = open.replace("DynamicUser=yes", "").replace("User=seawall", "User=root");
        must_refuse("systemd-analyze security", analyze(&open, &security))
    }
}

fn words<'a>(text: &'a str, prefix: &str) -> BTreeSet<&'a str> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.split(|c| !is_name(c)).filter(|word| word.starts_with(prefix)).collect()
}

/// Prometheus' tool: on the path, or out of Debian's package, which is not installed because it would start a server.
fn promtool() -> Result<PathBuf> {
    let kept = target().join("tools/prometheus");
    let program = kept.join("usr/bin/promtool");
    if let Some(found) = find_program("promtool").or_else(|| program.is_file().then(|| program.clone())) {
        return Ok(found);
    }
    let lacking = |why: String| {
        Error::lacking(format!(
            "rules and metrics were not checked: promtool is missing ({why}); on Debian it is in the package prometheus"
        ))
    };
    if !(is_root() && has("apt-get") && has("dpkg-deb")) {
        return Err(lacking("it is fetched where apt-get runs as root".to_owned()));
    }
    let unpack = || tools::unpack("prometheus", &kept);
    let first = unpack().or_else(|_| output(command("apt-get", &["update", "-q"])).and_then(|_| unpack()));
    first.map_err(|error| lacking(error.to_string()))?;
    Ok(program)
}

/// That a tool accepts a wrong file is an error.
fn must_refuse<T>(tool: &str, ended: Result<T>) -> Result {
    match ended {
        Err(Error::Ended { .. }) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(Error::check(format!("{tool} accepts a wrong file: what it accepts proves nothing"))),
    }
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn names_of_metrics_are_found_in_any_text() {
        let text = r#"sum(rate(seawall_watch_a_bucket{le="1"}[5m])) > seawall_watch_b * seawall_probe_c"#;
        assert_eq!(
            words(text, "seawall_watch_").into_iter().collect::<Vec<_>>(),
            ["seawall_watch_a_bucket", "seawall_watch_b"]
        );
    }
}
