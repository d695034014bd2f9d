//! Checks what `deploy/watch` holds by the tools of those who would run it, against what `seawall watch` really exports.
//!
//! ```text
//!   rules.yml, rules_test.yml   promtool check rules, promtool test rules
//!   metrics                     promtool check metrics, on the file of a short run; every metric is used or documented
//!   grafana.json, rules.yml     every metric in them is exported
//!   daemonset.yaml              kubeconform, with a schema from Kubernetes' own OpenAPI
//!   seawall-watch.service       systemd-analyze verify; its exposure by systemd-analyze security
//! ```
//!
//! Invariants: a tool that cannot be had makes its part skipped, with the reason, and the others are run; each tool must also
//! refuse a wrong file, so that one that accepts everything is noticed.

use crate::error::{Error, Result};
use crate::shell::{captured, command, find_program, has, is_root, output, root, status, target};
use crate::{files, runner, tools};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folder of what is checked.
const DEPLOY: &str = "deploy/watch";
/// The page that lists the metrics.
const PAGE: &str = "docs/watch.md";
/// What every name of a metric of `seawall watch` begins with.
const PREFIX: &str = "seawall_watch_";
/// Exposure of the unit by systemd's own measure, of 100, above which it is refused.
const EXPOSURE_MAX: &str = "20";

const KUBECONFORM: (&str, &str) = ("github.com/yannh/kubeconform/cmd/kubeconform", "v0.7.0");
/// It carries the API of Kubernetes in its test data; the schemas that kubeconform fetches by itself are made from the same.
const KUBERNETES: &str = "k8s.io/kubectl@v0.34.1";
const OPENAPI: &str = "testdata/openapi/v3/apis/apps/v1.json";

/// Runs every part; the reasons of those that could not be run.
///
/// # Errors
/// What did not hold.
pub(crate) fn check() -> Result<Vec<String>> {
    let work = target().join("tmp/deployment");
    let _ = std::fs::remove_dir_all(&work);
    files::make_folder(&work)?;
    let program = runner::program(&runner::programs(&["--bin", "seawall"])?, "cli/bin")?;
    let exported = run_watch(&program, &work)?;
    names_agree(&files::read(&exported)?)?;
    let parts = [
        promtool().and_then(|promtool| rules_and_metrics(&promtool, &exported, &work)),
        kubeconform().and_then(|(kubeconform, schemas)| manifest(&kubeconform, &schemas, &work)),
        unit(&program, &work),
    ];
    let mut skipped = Vec::new();
    for part in parts {
        match part {
            Err(Error::Lacking(reason)) => skipped.push(reason),
            part => part?,
        }
    }
    std::fs::remove_dir_all(&work).map_err(Error::at(work.display()))?;
    Ok(skipped)
}

fn deployed(name: &str) -> PathBuf {
    root().join(DEPLOY).join(name)
}

/// The metrics of a short run, in the form of the textfile collector.
fn run_watch(program: &Path, work: &Path) -> Result<PathBuf> {
    let (disk, file) = (work.join("disk"), work.join("watch.prom"));
    files::make_folder(&disk)?;
    let options = ["--every", "1s", "--time", "2s", "--busy", "100", "--allow-memory", "--openmetrics"];
    let mut watch = command(program, &["watch"]);
    watch.arg(&disk).args(options).arg(&file);
    output(watch)?;
    Ok(file)
}

/// Every metric that rules and dashboard use is exported; every one that is exported is on the page; and the page lists no other.
fn names_agree(exported: &str) -> Result {
    let types = exported
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split_once(' '));
    let mut known = BTreeSet::new();
    let mut families = BTreeSet::new();
    for (name, kind) in types {
        families.insert(name);
        known.insert(name.to_owned());
        if kind == "histogram" {
            known.extend(["bucket", "sum", "count"].map(|part| format!("{name}_{part}")));
        }
    }
    if families.len() < 5 {
        return Err(Error::check(format!("a run exported {} metrics only", families.len())));
    }
    for name in ["rules.yml", "grafana.json"] {
        let text = files::read(&deployed(name))?;
        let unknown: Vec<&str> = words(&text).into_iter().filter(|word| !known.contains(*word)).collect();
        if !unknown.is_empty() {
            return Err(Error::check(format!(
                "{DEPLOY}/{name} uses what is not exported: {}",
                unknown.join(", ")
            )));
        }
    }
    let page = files::read(&root().join(PAGE))?;
    let listed: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .filter(|word| word.starts_with(PREFIX))
        .collect();
    let differing: Vec<&str> = families.symmetric_difference(&listed).copied().collect();
    if differing.is_empty() {
        return Ok(());
    }
    Err(Error::check(format!(
        "exported but not in the table of {PAGE}, or the other way round: {}",
        differing.join(", ")
    )))
}

/// The names of metrics in a text.
fn words(text: &str) -> BTreeSet<&str> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.split(|c| !is_name(c)).filter(|word| word.starts_with(PREFIX)).collect()
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
    let fetched = kept.join("fetched");
    files::make_folder(&fetched)?;
    let fetch = || {
        let mut apt = command("apt-get", &["download", "-q", "prometheus"]);
        apt.current_dir(&fetched);
        output(apt)
    };
    let first = fetch().or_else(|_| output(command("apt-get", &["update", "-q"])).and_then(|_| fetch()));
    first.map_err(|error| lacking(error.to_string()))?;
    let package =
        files::list(&fetched)?.pop().ok_or_else(|| lacking("apt-get fetched nothing".to_owned()))?;
    status(command("dpkg-deb", &["-x".as_ref(), package.as_os_str(), kept.as_os_str()]))?;
    std::fs::remove_dir_all(&fetched).map_err(Error::at(fetched.display()))?;
    Ok(program)
}

fn rules_and_metrics(promtool: &Path, exported: &Path, work: &Path) -> Result {
    for words in [["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]] {
        let mut check = command(promtool, &words);
        check.current_dir(root().join(DEPLOY));
        output(check)?;
    }
    let metrics = |text: &str| {
        let file = work.join("metrics");
        files::write(&file, text)?;
        let mut check = command(promtool, &["check", "metrics"]);
        check.stdin(std::fs::File::open(&file).map_err(Error::at(file.display()))?);
        captured(check)
    };
    let text = files::read(exported)?;
    metrics(&text)?;
    // A counter under a name that is none's, and rules of which one says something else.
    must_refuse("promtool check metrics", metrics(&text.replace("_bursts_total", "_bursts")))?;
    let wrong = work.join("rules.yml");
    files::write(&wrong, files::read(&deployed("rules.yml"))?.replace(" == 0", " == 1"))?;
    std::fs::copy(deployed("rules_test.yml"), work.join("rules_test.yml"))
        .map_err(Error::at(work.display()))?;
    let mut tried = command(promtool, &["test", "rules", "rules_test.yml"]);
    tried.current_dir(work);
    must_refuse("promtool test rules", captured(tried))
}

/// That a tool accepts a wrong file is an error.
fn must_refuse<T>(tool: &str, ended: Result<T>) -> Result {
    match ended {
        Err(Error::Ended { .. }) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(Error::check(format!("{tool} accepts a wrong file: what it accepts proves nothing"))),
    }
}

/// kubeconform, and a folder with the schema of what is checked, both from Go's modules.
fn kubeconform() -> Result<(PathBuf, PathBuf)> {
    let lacking = |error: Error| Error::lacking(format!("the DaemonSet was not checked: {error}"));
    let program = tools::go_program(KUBECONFORM.0, KUBECONFORM.1).map_err(lacking)?;
    let schemas = target().join("tools/kubernetes/schemas");
    let schema = schemas.join("daemonset-apps-v1.json");
    if schema.is_file() {
        return Ok((program, schemas));
    }
    files::make_folder(&schemas)?;
    let mut download = command(tools::go(), &["mod", "download", "-json", KUBERNETES]);
    // In no module of its own.
    download.current_dir(&schemas).env("GOFLAGS", "-mod=mod");
    let module = output(download).map_err(lacking)?;
    let module: Value = serde_json::from_str(&module).map_err(Error::at(KUBERNETES))?;
    let folder = module["Dir"].as_str().ok_or_else(|| Error::check(format!("{KUBERNETES} has no folder")))?;
    let api = files::read_json(&Path::new(folder).join(OPENAPI))?;
    files::write(&schema, strict(&api, "io.k8s.api.apps.v1.DaemonSet")?.to_string())?;
    Ok((program, schemas))
}

/// The JSON schema of a kind, in which no field is allowed that the kind has not.
fn strict(api: &Value, kind: &str) -> Result<Value> {
    let schemas = &api["components"]["schemas"];
    if schemas.get(kind).is_none() {
        return Err(Error::check(format!("{OPENAPI} of {KUBERNETES} has no {kind}")));
    }
    // Elsewhere than in an OpenAPI document the references lead elsewhere.
    let text = schemas.to_string().replace("#/components/schemas/", "#/definitions/");
    let mut definitions: Value = serde_json::from_str(&text).map_err(Error::at(OPENAPI))?;
    for definition in definitions.as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        if definition.get("properties").is_some() && definition.get("additionalProperties").is_none() {
            definition["additionalProperties"] = json!(false);
        }
    }
    Ok(json!({ "$ref": format!("#/definitions/{kind}"), "definitions": definitions }))
}

fn manifest(kubeconform: &Path, schemas: &Path, work: &Path) -> Result {
    let location = format!("{}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json", schemas.display());
    let check = |file: &Path| {
        let mut check = command(kubeconform, &["-strict", "-schema-location", &location]);
        check.arg(file);
        captured(check)
    };
    let file = deployed("daemonset.yaml");
    check(&file)?;
    let text = files::read(&file)?;
    for (right, wrong) in [
        ("readOnlyRootFilesystem:", "readonlyRootFilesystem:"),
        ("containerPort: 9798", "containerPort: http"),
    ] {
        let mistaken = work.join("daemonset.yaml");
        if !text.contains(right) {
            return Err(Error::check(format!("{DEPLOY}/daemonset.yaml has no {right}")));
        }
        files::write(&mistaken, text.replace(right, wrong))?;
        must_refuse("kubeconform", check(&mistaken))?;
    }
    Ok(())
}

/// The unit, with the program that was built in place of the one that a package installs.
fn unit(program: &Path, work: &Path) -> Result {
    if !has("systemd-analyze") {
        return Err(Error::lacking(
            "the unit was not checked: systemd-analyze is missing (Debian's package systemd)",
        ));
    }
    let text = files::read(&deployed("seawall-watch.service"))?;
    let installed = "/usr/bin/seawall";
    if !text.contains(installed) {
        return Err(Error::check(format!("{DEPLOY}/seawall-watch.service does not run {installed}")));
    }
    let file = work.join("seawall-watch.service");
    let analyze = |text: &str, words: &[&str]| {
        files::write(&file, text)?;
        let mut analyze = command("systemd-analyze", words);
        analyze.arg(&file);
        captured(analyze)
    };
    let here = text.replace(installed, &program.display().to_string());
    // What it only warns of, such as a word that it does not know, is on standard error.
    let verify = |text: &str| {
        analyze(text, &["verify", "--man=no"]).and_then(|(_, warnings)| match warnings.trim() {
            "" => Ok(()),
            warnings => Err(Error::check(format!("systemd-analyze verify: {warnings}"))),
        })
    };
    verify(&here)?;
    if verify(&here.replace("ProtectSystem", "ProtectSytsem")).is_ok() {
        return Err(Error::check("systemd-analyze accepts a word that is none"));
    }
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    let security = ["security", "--offline=true", &threshold];
    analyze(&here, &security)?;
    let open: String =
        here.lines().filter(|line| !line.starts_with("Protect")).collect::<Vec<_>>().join("\n");
    must_refuse("systemd-analyze security", analyze(&open.replace("DynamicUser=yes", ""), &security))
}

#[cfg(test)]
mod tests {
    use super::{strict, words};
    use serde_json::json;

    #[test]
    fn names_of_metrics_are_found_in_any_text() {
        let text = r#"sum(rate(seawall_watch_a_bucket{le="1"}[5m])) > seawall_watch_b * seawall_probe_c"#;
        assert_eq!(
            words(text).into_iter().collect::<Vec<_>>(),
            ["seawall_watch_a_bucket", "seawall_watch_b"]
        );
    }

    #[test]
    fn a_schema_allows_no_other_field_and_leads_to_its_definitions() {
        let api = json!({ "components": { "schemas": {
            "k": { "type": "object", "properties": { "a": { "allOf": [{ "$ref": "#/components/schemas/m" }] } } },
            "m": { "type": "object", "additionalProperties": { "type": "string" } },
        } } });
        let schema = strict(&api, "k").expect("there");
        assert_eq!(schema["$ref"], "#/definitions/k");
        assert_eq!(schema["definitions"]["k"]["additionalProperties"], false);
        assert_eq!(schema["definitions"]["k"]["properties"]["a"]["allOf"][0]["$ref"], "#/definitions/m");
        assert!(schema["definitions"]["m"]["additionalProperties"].is_object(), "a map takes any name");
        assert!(strict(&api, "other").is_err());
    }
}
