//! The deb and the rpm of a target: made by nfpm, and tried in a root of their own with nothing else in it.
//!
//! Invariant: what a package leaves behind, or a file that it should bring and does not, is a failure.

use super::{Release, archives, contents, contents::Runs, filled, folder, out, targets::Target};
use crate::error::{Error, Result};
use crate::files;
use crate::shell::{command, find_program, root, status};
use crate::tools::{self, For};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const NFPM: (&str, &str) = ("github.com/goreleaser/nfpm/v2/cmd/nfpm", "v2.45.2");

/// A kind of package: its manager's words, with `ROOT` and `PACKAGE` to be filled in.
struct Kind {
    name: &'static str,
    /// Folders of the root that the manager itself needs; the first is its database, which no list of paths includes.
    folders: &'static [&'static str],
    set_up: &'static str,
    install: &'static str,
    remove: &'static str,
    /// Files that it has to bring beside the program and its pages.
    brings: &'static [&'static str],
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "deb",
        folders: &["var/lib/dpkg", "var/lib/dpkg/info", "var/lib/dpkg/updates"],
        set_up: "dpkg --root=ROOT --add-architecture ARCH",
        install: "dpkg --root=ROOT --install PACKAGE",
        remove: "dpkg --root=ROOT --purge seawall",
        brings: &["usr/share/zsh/vendor-completions/_seawall", "usr/share/doc/seawall/copyright"],
    },
    Kind {
        name: "rpm",
        // Folders that every system has, which no package may take away.
        folders: &["var/lib/rpm", "usr/bin", "usr/share/man/man1", "usr/share/doc", "usr/share/licenses"],
        set_up: "rpm --root=ROOT --dbpath=/var/lib/rpm --initdb",
        install: "rpm --root=ROOT --dbpath=/var/lib/rpm --ignorearch --nosignature --install PACKAGE",
        remove: "rpm --root=ROOT --dbpath=/var/lib/rpm --erase seawall",
        brings: &["usr/share/zsh/site-functions/_seawall", "usr/share/licenses/seawall/LICENSE-MIT"],
    },
];

const BRINGS: [&str; 5] = [
    "usr/bin/seawall",
    "usr/share/man/man1/seawall-bench.1",
    "usr/share/bash-completion/completions/seawall",
    "usr/share/fish/vendor_completions.d/seawall.fish",
    "usr/share/doc/seawall/README.md",
];

/// Makes both twice, and with `runs` tries them.
pub(crate) fn make(
    target: &Target,
    [debian, rpm]: [&str; 2],
    release: &Release,
    from: &Path,
    runs: Option<&Runs>,
) -> Result {
    let nfpm = tools::go_program(NFPM.0, NFPM.1)?;
    let config = folder(target).join("nfpm.yaml");
    let values = [
        ("VERSION", release.version.as_str()),
        ("REPOSITORY", &release.repository),
        ("DATE", &release.date),
        ("FOLDER", &from.to_string_lossy()),
        ("DEBIAN_ARCH", debian),
        ("RPM_ARCH", rpm),
    ];
    let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
    files::write(&config, filled(&files::read(&root().join("packaging/nfpm.yaml"))?, &values)?)?;
    if runs.is_some() {
        tools::provide(For::Packages)?;
    }
    let names = [
        format!("seawall_{}-1_{debian}.deb", release.version),
        format!("seawall-{}-1.{rpm}.rpm", release.version),
    ];
    for (kind, name) in KINDS.iter().zip(names) {
        let (package, again) = (out().join(&name), folder(target).join(&name));
        for to in [&package, &again] {
            let mut pack = command(&nfpm, &["package", "--packager", kind.name, "--config"]);
            pack.arg(&config).arg("--target").arg(to).env("SOURCE_DATE_EPOCH", release.seconds.to_string());
            status(pack)?;
        }
        archives::same(&package, &again)?;
        if let Some(runs) = runs {
            kind.try_out(&package, debian, release, &folder(target).join(kind.name), runs)?;
        }
    }
    Ok(())
}

impl Kind {
    /// Installs it into an empty root, runs the program there, removes it, and looks for what is left.
    fn try_out(&self, package: &Path, debian: &str, release: &Release, at: &Path, runs: &Runs) -> Result {
        files::empty_folder(at)?;
        self.folders.iter().try_for_each(|folder| files::make_folder(&at.join(folder)))?;
        if self.name == "deb" {
            files::write(&at.join("var/lib/dpkg/status"), "")?;
        }
        let step = |words: &str| {
            let filled = words.split(' ').map(|word| {
                let word = word.replace("ROOT", &at.to_string_lossy()).replace("ARCH", debian);
                word.replace("PACKAGE", &package.to_string_lossy())
            });
            let filled: Vec<String> = filled.collect();
            status(command(&filled[0], &filled[1..]))
        };
        step(self.set_up)?;
        let before = self.paths(at)?;
        step(self.install)?;
        let missing = BRINGS.iter().chain(self.brings).find(|path| !at.join(path).is_file());
        if let Some(missing) = missing {
            fail!("{} brings no {missing}", package.display());
        }
        alone(at, release, runs)?;
        step(self.remove)?;
        let after = self.paths(at)?;
        let differ: Vec<String> =
            before.symmetric_difference(&after).map(|path| path.display().to_string()).collect();
        ensure!(differ.is_empty(), "{} leaves behind or took: {}", self.name, differ.join(", "));
        println!(
            "{}: installed, run in a root without anything else, removed, nothing left",
            package.display()
        );
        Ok(())
    }

    /// Every path in the root but those of the manager's own.
    fn paths(&self, at: &Path) -> Result<BTreeSet<PathBuf>> {
        let own = at.join(self.folders[0]);
        Ok(files::below(at)?.into_iter().filter(|path| !path.starts_with(&own)).collect())
    }
}

/// Runs the installed program with this root as its own: no library, no configuration and no other
/// program is in it.
fn alone(at: &Path, release: &Release, runs: &Runs) -> Result {
    let (data, processes) = (at.join("data"), at.join("proc"));
    files::make_folder(&data)?;
    files::make_folder(&processes)?;
    let emulator = at.join("emulator");
    if let Some(qemu) = runs.qemu() {
        let found = find_program(qemu).ok_or_else(|| Error::lacking(format!("{qemu} is missing")))?;
        contents::copy(&found, &emulator)?;
    }
    let run = |words: &[&str]| -> Command {
        // The program looks at its own files in /proc, which it asks for where there is none.
        let mut run = command("unshare", &["--pid", "--fork"]);
        run.arg(format!("--mount-proc={}", processes.display())).arg("chroot").arg(at);
        if runs.qemu().is_some() {
            run.arg("/emulator");
        }
        run.arg("/usr/bin/seawall").args(words);
        run
    };
    archives::measure(release, "/data", &data.join("bench.json"), run)?;
    if runs.qemu().is_some() {
        std::fs::remove_file(&emulator).map_err(Error::at(emulator.display()))?;
    }
    std::fs::remove_dir(&processes).map_err(Error::at(processes.display()))?;
    files::remove_folder(&data)
}
