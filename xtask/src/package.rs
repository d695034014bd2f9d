//! `cargo xtask package`: builds the program for other machines, packs it, and tries what it packed.
//!
//! ```text
//!   cargo build ──► program ──► folder ──► .tar.gz or .zip ──► SHA256SUMS ──► Homebrew's formula, winget's manifest
//!                               with its bill of materials ──► deb, rpm
//!   --try: unpacked, installed into an empty root, run there, measured with, removed, nothing left
//! ```
//!
//! Invariants: what is made lies in `target/package/out`, and nothing is written elsewhere but in the build folder; packing
//! the same program twice gives the same bytes; what cannot be made or tried here is an error with its remedy.

mod archives;
mod bom;
mod channels;
mod contents;
mod linux;
mod targets;

use crate::error::{Error, Result};
use crate::files;
use crate::shell::{cargo, command, is_root, output, root, target as builds};
use clap::Args;
use clap::builder::PossibleValuesParser;
use contents::Runs;
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};
use targets::{TARGETS, Target};

/// What the published programs have: Kafka's client needs a library of C that would not be static.
const FEATURES: &str = "nats,s3,azure,gcs,zstd";
/// Where the files to publish are put.
const OUT: &str = "out";
/// What must be set before anything is published: the file, what stands in it until then, and what that is.
const UNSET: [(&str, &str, &str); 3] = [
    ("crates/cli/Cargo.toml", "/OWNER/", "`repository`, which gives all addresses"),
    ("packaging/nfpm.yaml", "@example.invalid", "the address of the `maintainer`"),
    ("bindings/java/pom.xml", ".OWNER<", "`groupId`, the group of the jars, there and in its modules"),
];

/// What the packages of one commit have in common.
#[derive(Debug, Default)]
pub(crate) struct Release {
    version: String,
    /// The address that `crates/cli/Cargo.toml` gives.
    repository: String,
    /// The time that all files get: of `SOURCE_DATE_EPOCH`, else of the commit.
    seconds: u64,
    date: String,
}

impl Release {
    pub(crate) fn read() -> Result<Self> {
        let cli = manifest()?;
        let text = |name: &str| {
            let text = cli[name].as_str();
            text.map(str::to_owned)
                .ok_or_else(|| Error::check(format!("crates/cli/Cargo.toml has no {name}")))
        };
        let seconds = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(seconds) => seconds,
            Err(_) => output(command("git", &["log", "-1", "--format=%ct"]))?,
        };
        let seconds = seconds.trim().parse().map_err(Error::at("the time of the packages"))?;
        let date = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string();
        Ok(Self { version: text("version")?, repository: text("repository")?, seconds, date })
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/releases/download/v{}", self.repository, self.version)
    }
}

/// What cargo knows of `crates/cli/Cargo.toml`.
fn manifest() -> Result<Value> {
    let metadata = output(cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(Error::at("cargo metadata"))?;
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let cli = packages.find(|package| package["name"] == "seawall-cli");
    cli.cloned().ok_or_else(|| Error::check("cargo metadata has no seawall-cli"))
}

#[derive(Args, Default)]
pub(crate) struct Options {
    /// Only for this target; otherwise for all that can be made here
    #[arg(long, value_name = "TRIPLE", value_parser = PossibleValuesParser::new(TARGETS.map(|target| target.triple)))]
    target: Vec<String>,
    /// Tries what was made
    #[arg(long = "try")]
    tried: bool,
    /// Only sums and channels, for the files that other machines made
    #[arg(long, value_name = "DIR", conflicts_with_all = ["target", "tried"])]
    collect: Option<PathBuf>,
}

/// The rows that are meant: those named, else all that can be made here.
fn chosen(options: &Options) -> Result<Vec<Target>> {
    let named = TARGETS.into_iter().filter(|target| options.target.iter().any(|name| name == target.triple));
    let named: Vec<Target> = named.collect();
    if let Some(away) = named.iter().find(|target| !target.is_here()) {
        return Err(Error::lacking(format!("{} cannot be built or tried on this system", away.triple)));
    }
    if !named.is_empty() {
        return Ok(named);
    }
    let here: Vec<Target> = TARGETS.into_iter().filter(Target::is_here).collect();
    if here.is_empty() { Err(Error::lacking("nothing is packaged on this system")) } else { Ok(here) }
}

pub(crate) fn run(options: &Options) -> Result {
    let release = Release::read()?;
    if let Some(folder) = &options.collect {
        channels::write(folder, &release)?;
    } else {
        for target in chosen(options)? {
            make(&target, &release, options.tried)?;
        }
        channels::write(&out(), &release)?;
    }
    // At the end, where it is read.
    for (file, placeholder, what) in UNSET {
        if files::read(&root().join(file))?.contains(placeholder) {
            println!("NOT TO BE PUBLISHED YET: {what} in {file} is a placeholder");
        }
    }
    Ok(())
}

/// The packages of this machine's own processor, made and tried: what CI does for every change.
pub(crate) fn check() -> Result {
    run(&Options { target: vec![TARGETS[0].triple.to_owned()], tried: true, collect: None })
}

fn make(target: &Target, release: &Release, tried: bool) -> Result {
    println!("packages of {}", target.triple);
    if tried && target.linux.is_some() && !is_root() {
        return Err(Error::lacking("packages are installed into an empty root by root only, on Linux"));
    }
    let runs = Runs::prepare(target)?;
    let folder = contents::lay_out(target, release, &runs)?;
    bom::validate(&folder.join("seawall.cdx.json"))?;
    files::make_folder(&out())?;
    let archive = archives::pack(target, release, &folder)?;
    contents::copy(
        &folder.join("seawall.cdx.json"),
        &out().join(format!("{}.cdx.json", target.folder(&release.version))),
    )?;
    if tried {
        archives::try_out(target, release, &archive, &runs)?;
    }
    match target.linux {
        Some(names) => linux::make(target, names, release, &folder, tried.then_some(&runs)),
        None => Ok(()),
    }
}

fn folder(target: &Target) -> PathBuf {
    builds().join("package").join(target.triple)
}

fn out() -> PathBuf {
    builds().join("package").join(OUT)
}

/// Fills in what a template has between at-signs; a line that is left with two is an error.
fn filled(template: &str, values: &[(String, String)]) -> Result<String> {
    let text = values
        .iter()
        .fold(template.to_owned(), |text, (name, value)| text.replace(&format!("@{name}@"), value));
    // An address of mail has one.
    let asks = |line: &&str| !line.starts_with('#') && line.matches('@').count() > 1;
    match text.lines().find(asks) {
        Some(line) => fail!("a template asks for {}", line.trim()),
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::{UNSET, filled};
    use crate::files;
    use crate::shell::root;

    #[test]
    fn what_is_to_be_set_before_publication_is_on_the_page() {
        let page = files::read(&root().join("packaging/README.md")).expect("readable");
        for (file, ..) in UNSET {
            assert!(page.contains(&format!("`{file}`")), "packaging/README.md does not name {file}");
        }
    }

    #[test]
    fn a_template_is_filled_or_refused() {
        let values = [("VERSION".to_owned(), "1.2".to_owned())];
        assert_eq!(filled("v @VERSION@!\na@b.c\n", &values).expect("known"), "v 1.2!\na@b.c\n");
        assert!(filled("@OTHER@", &values).is_err());
    }
}
