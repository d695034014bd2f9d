//! The bill of materials of a program, as `CycloneDX` 1.6: every crate that is compiled for it, from `cargo tree`.
//!
//! Invariants: crates of other targets, of tests and of features that are off are not in it; the same sources give the same
//! bytes; `bom.py` holds it against the schema.

use super::{FEATURES, Release, targets::Target};
use crate::error::{Error, Result};
use crate::files;
use crate::shell::{cargo, command, output, root, status};
use crate::tools;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What stands between the fields of a line of `cargo tree`; in no name, version or licence.
const BETWEEN: char = '\t';

type Crate = (String, String, String);

pub(crate) fn of(target: &Target, release: &Release) -> Result<String> {
    // The depth of a line stands right before its name.
    let format = format!("{BETWEEN}{{p}}{BETWEEN}{{l}}");
    let mut tree = cargo(&["tree", "--locked", "--package", "seawall-cli", "--features", FEATURES]);
    tree.args(["--target", target.triple, "--edges", "normal,build"]);
    tree.args(["--prefix", "depth", "--format", &format]);
    let edges = edges(&output(tree)?)?;
    let sums = checksums(&files::read(&root().join("Cargo.lock"))?);
    let document = document(&edges, &sums, release);
    let text = serde_json::to_string_pretty(&document).map_err(Error::at("the bill of materials"))?;
    Ok(text + "\n")
}

pub(crate) fn validate(file: &Path) -> Result {
    let script = root().join("xtask/package/bom.py");
    status(command(tools::listed("python")?, &[script.as_path(), file]))
}

/// Each crate with those that it depends on; the first is the root.
fn edges(tree: &str) -> Result<Vec<(Crate, BTreeSet<Crate>)>> {
    let mut above: Vec<Crate> = Vec::new();
    let mut found: Vec<(Crate, BTreeSet<Crate>)> = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let parsed = parse(line);
        let (depth, this) = parsed.ok_or_else(|| Error::check(format!("a line of cargo tree: {line}")))?;
        above.truncate(depth);
        if let Some(parent) = above.last()
            && let Some((_, children)) = found.iter_mut().find(|(other, _)| other == parent)
        {
            children.insert(this.clone());
        }
        if found.iter().all(|(other, _)| *other != this) {
            found.push((this.clone(), BTreeSet::new()));
        }
        above.push(this);
    }
    ensure!(!found.is_empty(), "cargo tree named no crate");
    Ok(found)
}

fn parse(line: &str) -> Option<(usize, Crate)> {
    let mut fields = line.split(BETWEEN);
    let depth = fields.next()?.parse().ok()?;
    // `name v1.2.3 (path) (proc-macro)`, and `licence (*)` where its own crates were listed before.
    let mut words = fields.next()?.split(' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    let licence = fields.next()?.trim_end_matches("(*)").trim();
    Some((depth, (name.to_owned(), version.to_owned(), licence.to_owned())))
}

/// SHA-256 by name and version, of crates that came from a registry.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |package: &str, name: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
        line.map(|line| line.trim_end_matches('"').to_owned())
    };
    let of = |package: &str| {
        Some(((value(package, "name")?, value(package, "version")?), value(package, "checksum")?))
    };
    lock.split("[[package]]").filter_map(of).collect()
}

fn reference((name, version, _): &Crate) -> String {
    format!("pkg:cargo/{name}@{version}")
}

fn document(
    edges: &[(Crate, BTreeSet<Crate>)],
    sums: &BTreeMap<(String, String), String>,
    release: &Release,
) -> Value {
    let component = |kind: &str, this: &Crate| {
        let (name, version, licence) = this;
        let mut component = json!({
            "type": kind, "bom-ref": reference(this), "name": name, "version": version, "purl": reference(this),
        });
        if !licence.is_empty() {
            // Old manifests write a slash where SPDX has OR.
            component["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
        }
        if let Some(sum) = sums.get(&(name.clone(), version.clone())) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        component
    };
    let depends = |(this, on): &(Crate, BTreeSet<Crate>)| json!({ "ref": reference(this), "dependsOn": on.iter().map(reference).collect::<Vec<_>>() });
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": release.date,
            "component": component("application", &edges[0].0),
        },
        "components": edges[1..].iter().map(|(this, _)| component("library", this)).collect::<Vec<_>>(),
        "dependencies": edges.iter().map(depends).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::{checksums, document, edges};
    use crate::package::Release;

    const TREE: &str = "0\tseawall-cli v0.1.0 (/w/crates/cli)\tApache-2.0 OR MIT\n1\ta v1.0.0\tMIT/Apache-2.0\n2\tb v2.0.0 (proc-macro)\tMIT\n\
                        1\tb v2.0.0 (proc-macro)\tMIT (*)\n";
    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"00ff\"\n\n[[package]]\nname = \"seawall-cli\"\nversion = \"0.1.0\"\n";

    #[test]
    fn a_tree_becomes_components_and_edges() {
        let release = Release { date: "2026-11-25T00:00:00Z".to_owned(), ..Release::default() };
        let found = document(&edges(TREE).expect("a tree"), &checksums(LOCK), &release);
        let all = found["components"].as_array().expect("components");
        assert_eq!(all.iter().map(|one| one["name"].as_str()).collect::<Vec<_>>(), [Some("a"), Some("b")]);
        assert_eq!(all[0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(all[0]["hashes"][0]["content"], "00ff");
        let on = |index: usize| found["dependencies"][index]["dependsOn"].as_array().expect("a list").len();
        assert_eq!((on(0), on(1), on(2)), (2, 1, 0));
        assert_eq!(found["metadata"]["component"]["name"], "seawall-cli");
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        assert!(edges("").is_err());
        assert!(edges("error: no such package").is_err());
    }
}
