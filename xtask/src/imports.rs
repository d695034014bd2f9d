//! Tests which files import each other: no large cycle in any crate, and the layers of ARCHITECTURE.md in the log.
//!
//! An import is a path that begins with `crate`, `super` or `self`, in a `use` or in an expression; one that a module only passes
//! on (`pub use`) leads to where it is defined. Modules of tests are left out.

use crate::files::sources;
use crate::shell::root;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;
use std::path::Path;

/// The files of the largest cycle of imports that a crate may have.
const CYCLE_MAX: usize = 4;
/// Crates that still have a larger one, which must not grow.
const LARGER: [(&str, usize); 1] = [("bindings/python/src", 5)];

type Module = Vec<String>;

/// The modules of a crate with their files, and what each passes on.
struct Imports {
    modules: BTreeMap<Module, String>,
    passed_on: BTreeMap<Module, BTreeMap<String, Module>>,
}

/// The text of a file without comments and without modules of tests at its end.
fn code(path: &Path) -> String {
    let text = read_to_string(path).expect("a source");
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_test = line.starts_with("#[cfg(test") || line.starts_with("#[cfg(all(test");
        while is_test && lines.peek().is_some_and(|next| next.starts_with("#[")) {
            lines.next();
        }
        if is_test && lines.peek().is_some_and(|next| next.contains("mod ") && next.ends_with('{')) {
            lines.by_ref().find(|line| *line == "}");
            continue;
        }
        code += line.split("//").next().unwrap_or_default();
        code.push('\n');
    }
    code
}

/// Each path of the tree of paths that `text` begins with, and whether a tree ended there.
fn paths(text: &str, before: &[String], found: &mut Vec<Module>) -> usize {
    let mut path = before.to_vec();
    let mut at = 0;
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let name = text[at..].find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len() - at);
        if name > 0 {
            path.push(text[at..at + name].to_owned());
            at += name;
        } else if text[at..].starts_with('{') {
            at += 1;
            while at < text.len() && !text[at..].starts_with('}') {
                at += paths(&text[at..], &path, found);
                at += text[at..].find([',', '}']).unwrap_or(text.len() - at);
                at += usize::from(text[at..].starts_with(','));
                at += text[at..].len() - text[at..].trim_start().len();
            }
            return at + 1;
        }
        if !text[at..].starts_with("::") {
            found.push(path);
            return at;
        }
        at += 2;
    }
}

/// The path within the crate that `path` means in module `here`.
fn resolved(path: &[String], here: &[String]) -> Module {
    let up = path.iter().take_while(|word| *word == "super").count();
    let (base, skip) = match path.first().map(String::as_str) {
        Some("crate") => (&[][..], 1),
        Some("self") => (here, 1),
        _ => (&here[..here.len().saturating_sub(up)], up),
    };
    [base, &path[skip..]].concat()
}

/// Every path of `code` within its crate, as seen from module `here`.
fn within(code: &str, here: &[String]) -> Vec<Module> {
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_none_or(|c| !c.is_alphanumeric() && !"_:$".contains(c)) {
                paths(&code[at..], &[], &mut found);
            }
        }
    }
    found.iter().map(|path| resolved(path, here)).collect()
}

impl Imports {
    /// The files of a crate that import others of it, each with those.
    fn between_files(src: &Path) -> BTreeMap<String, BTreeSet<String>> {
        let files = sources(src);
        let module = |file: &Path| -> Module {
            let path = file.strip_prefix(src).expect("below").with_extension("");
            let mut path: Module = path.iter().map(|name| name.to_str().expect("UTF-8").to_owned()).collect();
            if path.last().is_some_and(|name| name == "mod")
                || ["lib", "main"].contains(&path.join("/").as_str())
            {
                path.pop();
            }
            path
        };
        let name = |file: &Path| file.strip_prefix(src).expect("below").display().to_string();
        let codes: Vec<(Module, String, String)> =
            files.iter().map(|file| (module(file), name(file), code(file))).collect();
        let modules = codes.iter().map(|(module, name, _)| (module.clone(), name.clone())).collect();
        let mut imports = Self { modules, passed_on: BTreeMap::new() };
        for (here, _, code) in &codes {
            for statement in code.split(';').filter_map(|text| text.rsplit_once("use ")) {
                let line = statement.0.trim_end().lines().next_back().unwrap_or_default();
                let mut found = Vec::new();
                if line.trim_start().starts_with("pub") {
                    paths(statement.1, &[], &mut found);
                }
                for path in found {
                    let to = imports.defined(&resolved(&path, here)).0;
                    let last = path.last().cloned().unwrap_or_default();
                    if to != *here {
                        imports.passed_on.entry(here.clone()).or_default().insert(last, to);
                    }
                }
            }
        }
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (here, file, code) in &codes {
            for path in within(code, here) {
                let to = imports.modules[&imports.target(&path)].clone();
                // What a planted bug does wrong is called by `planted!` alone.
                if to != *file && !["lib.rs", "main.rs", "wrong.rs"].contains(&&*to) {
                    edges.entry(file.clone()).or_default().insert(to);
                }
            }
        }
        edges
    }

    /// The module that a path leads into, and what is named there.
    fn defined(&self, path: &[String]) -> (Module, Option<String>) {
        let depth =
            (0..=path.len()).rev().find(|depth| self.modules.contains_key(&path[..*depth])).unwrap_or(0);
        (path[..depth].to_vec(), path.get(depth).cloned())
    }

    fn target(&self, path: &[String]) -> Module {
        let (mut module, name) = self.defined(path);
        for _ in 0..4 {
            let next = name.as_ref().and_then(|name| self.passed_on.get(&module)?.get(name));
            match next {
                Some(next) => module.clone_from(next),
                None => break,
            }
        }
        module
    }
}

fn reached<'a>(edges: &'a BTreeMap<String, BTreeSet<String>>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(file) = next.pop() {
        for to in edges.get(file).into_iter().flatten() {
            if reached.insert(to.as_str()) {
                next.push(to);
            }
        }
    }
    reached
}

#[test]
fn no_crate_has_a_large_cycle_of_imports() {
    let mut crates = vec![root().join("xtask/src")];
    crates.extend(folders().map(|folder| folder.join("src")).filter(|src| src.is_dir()));
    assert!(crates.len() > 10, "{crates:?}");
    for src in crates {
        let edges = Imports::between_files(&src);
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            edges.keys().map(|file| (file.as_str(), reached(&edges, file))).collect();
        for (file, to) in &reach {
            let mutual = |other: &&&str| reach.get(**other).is_some_and(|back| back.contains(file));
            let cycle: Vec<&&str> = to.iter().filter(mutual).collect();
            let larger = LARGER.iter().find(|(known, _)| src.ends_with(known)).map(|(_, files)| *files);
            let most = larger.unwrap_or(CYCLE_MAX);
            assert!(cycle.len() <= most, "{}: {cycle:?} import each other", src.display());
        }
    }
}

/// A table of ARCHITECTURE.md whose head begins with `head`: its rows in order, each with what it may use: what its row names, and what
/// those may use.
fn layers(head: &str) -> BTreeMap<String, BTreeSet<String>> {
    let text = read_to_string(root().join("ARCHITECTURE.md")).expect("the architecture");
    let quoted = |cell: &str| -> Vec<String> {
        cell.split('`').skip(1).step_by(2).map(|name| name.trim_end_matches('/').to_owned()).collect()
    };
    let mut layers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().skip_while(|line| !line.starts_with(head)).skip(2) {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [name, _, uses] = cells[..] else { break };
        let name = quoted(name).swap_remove(0);
        let all = uses.contains("all of them");
        let mut may: BTreeSet<String> =
            if all { layers.keys().cloned().collect() } else { quoted(uses).into_iter().collect() };
        for below in may.clone() {
            may.extend(
                layers.get(&below).unwrap_or_else(|| panic!("{name} uses {below}, no row above")).clone(),
            );
        }
        layers.insert(name, may);
    }
    layers
}

const PARENTS: [&str; 4] = ["crates", "bindings", "adapters", "proof"];

fn folders() -> impl Iterator<Item = std::path::PathBuf> {
    let entries = |parent| std::fs::read_dir(root().join(parent)).expect("folders of crates");
    let all = PARENTS.into_iter().flat_map(entries).map(|entry| entry.expect("an entry").path());
    all.filter(|folder| folder.join("Cargo.toml").is_file())
}

/// The names of the folders of our crates that the crate in this folder depends on, outside its tests.
fn dependencies(folder: &str) -> BTreeSet<String> {
    let mut manifests = PARENTS.iter().map(|parent| root().join(parent).join(folder).join("Cargo.toml"));
    let manifest = manifests.find_map(|path| read_to_string(path).ok()).expect("a manifest");
    let tables = manifest.split("\n[").filter(|table| {
        table.lines().next().is_some_and(|head| head.ends_with("dependencies]") && !head.contains("dev-"))
    });
    let names = tables.flat_map(str::lines).filter_map(|line| line.split(['.', ' ', '=']).next());
    names
        .filter_map(|name| if name == "seawall" { Some("log") } else { name.strip_prefix("seawall-") })
        .map(str::to_owned)
        .collect()
}

#[test]
fn crates_use_only_those_that_the_architecture_names() {
    let layers = layers("| crate, in");
    for folder in folders() {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        assert!(layers.contains_key(&*name), "{} has no row", folder.display());
    }
    for (folder, may) in &layers {
        let uses = dependencies(folder);
        assert!(folder == "sys" || !uses.is_empty(), "{folder} was not read");
        assert!(uses.is_subset(may), "{folder} uses {uses:?}");
    }
}

/// The crates of others that a program compiles with the log.
const CRATES_MAX: usize = 20;

#[test]
fn a_program_compiles_few_crates_with_the_log() {
    let words = ["tree", "--package=seawall", "--edges=normal", "--prefix=none", "--no-dedupe", "--offline"];
    let tree = crate::shell::output(crate::shell::cargo(&words)).expect("cargo tree");
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    let (ours, others): (BTreeSet<&str>, BTreeSet<&str>) =
        names.partition(|name| name.starts_with("seawall"));
    assert!(ours.contains("seawall-sys") && others.len() <= CRATES_MAX, "{others:?}");
}

#[test]
fn the_folders_of_the_log_use_only_those_that_the_architecture_names() {
    let layers = layers("| folder of");
    assert!(layers.len() > 8, "{layers:?}");
    let edges = Imports::between_files(&root().join("crates/log/src"));
    let folder = |file: &str| file.split_once('/').map(|(folder, _)| folder.to_owned());
    let mut wrong = Vec::new();
    for (from, to) in edges.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to))) {
        let (Some(upper), Some(lower)) = (folder(from), folder(to)) else { continue };
        // What is planted is switched on from `testing`.
        if upper != lower && lower != "testing" && !layers[&upper].contains(&lower) {
            wrong.push(format!("{from} uses {to}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}
