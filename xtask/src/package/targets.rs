//! The table of targets that are packaged: how each is built, by what its program runs here, and what its files are called.
//!
//! Invariant: `cargo binstall`, Homebrew and winget look for the names that [`Target::archive`] gives.

use crate::tools::For;

/// By what a program of a target runs on the machine that packages it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// By itself; on the systems and processors that cargo's `std::env::consts` call so.
    Itself { os: &'static str, arch: &'static str },
    /// On another processor by QEMU.
    Qemu { arch: &'static str },
    /// On Linux by Wine.
    Wine,
}

#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) triple: &'static str,
    /// Debian's and RPM's names of its processor, where there are a deb and an rpm.
    pub(crate) linux: Option<[&'static str; 2]>,
    /// The ending of its archive, which is also its format.
    ending: &'static str,
    pub(crate) runner: Runner,
    /// What cargo needs to know of compilers and linkers.
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// What Debian has for it.
    pub(crate) tools: Option<For>,
}

pub(crate) const TARGETS: [Target; 5] = [
    Target {
        triple: "x86_64-unknown-linux-musl",
        linux: Some(["amd64", "x86_64"]),
        ending: "tar.gz",
        runner: Runner::Itself { os: "linux", arch: "x86_64" },
        environment: &[],
        tools: Some(For::Musl),
    },
    Target {
        triple: "aarch64-unknown-linux-musl",
        linux: Some(["arm64", "aarch64"]),
        ending: "tar.gz",
        runner: Runner::Qemu { arch: "aarch64" },
        environment: &[
            ("CC_aarch64_unknown_linux_musl", "aarch64-linux-gnu-gcc"),
            // musl's own start files and library come with the target; only a linker is needed.
            ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld"),
        ],
        tools: Some(For::Arm),
    },
    Target {
        triple: "x86_64-pc-windows-gnu",
        linux: None,
        ending: "zip",
        runner: Runner::Wine,
        environment: &[],
        tools: Some(For::Windows),
    },
    macos("aarch64-apple-darwin", "aarch64"),
    macos("x86_64-apple-darwin", "x86_64"),
];

/// Built on macOS only: Apple's linker and libraries are nowhere else.
const fn macos(triple: &'static str, arch: &'static str) -> Target {
    let runner = Runner::Itself { os: "macos", arch };
    Target { triple, linux: None, ending: "tar.gz", runner, environment: &[], tools: None }
}

impl Target {
    pub(crate) fn folder(&self, version: &str) -> String {
        format!("seawall-{version}-{}", self.triple)
    }

    pub(crate) fn archive(&self, version: &str) -> String {
        format!("{}.{}", self.folder(version), self.ending)
    }

    pub(crate) fn program(&self) -> &'static str {
        if self.runner == Runner::Wine { "seawall.exe" } else { "seawall" }
    }

    /// Whether it can be built and tried here: Linux has everything for three targets, macOS for its own.
    pub(crate) fn is_here(&self) -> bool {
        match self.runner {
            Runner::Itself { os, arch } => os == std::env::consts::OS && arch == std::env::consts::ARCH,
            Runner::Qemu { .. } => cfg!(target_os = "linux"),
            Runner::Wine => cfg!(all(target_os = "linux", target_arch = "x86_64")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TARGETS;
    use crate::package::{Release, manifest};

    /// As cargo-binstall fills in its templates.
    fn filled(template: &str, release: &Release, triple: &str, ending: &str) -> String {
        let windows = if triple.contains("windows") { ".exe" } else { "" };
        let of = [
            ("{ repo }", release.repository.as_str()),
            ("{ version }", &release.version),
            ("{ target }", triple),
            ("{ archive-suffix }", ending),
            ("{ bin }", "seawall"),
            ("{ binary-ext }", windows),
        ];
        of.iter().fold(template.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    #[test]
    fn binstall_finds_what_is_packaged() {
        let release = Release::read().expect("cargo's metadata");
        let binstall = &manifest().expect("cargo's metadata")["metadata"]["binstall"];
        for target in TARGETS {
            let own = &binstall["overrides"][target.triple];
            let value =
                |name: &str| own[name].as_str().or(binstall[name].as_str()).expect("a value").to_owned();
            let ending = match value("pkg-fmt").as_str() {
                "tgz" => ".tar.gz",
                "zip" => ".zip",
                other => panic!("{other}"),
            };
            let url = filled(&value("pkg-url"), &release, target.triple, ending);
            assert_eq!(url, format!("{}/{}", release.url(), target.archive(&release.version)));
            let inside = filled(&value("bin-dir"), &release, target.triple, ending);
            assert_eq!(inside, format!("{}/{}", target.folder(&release.version), target.program()));
        }
        let overrides = binstall["overrides"].as_object().expect("overrides");
        assert!(overrides.keys().all(|triple| TARGETS.iter().any(|target| target.triple == triple)));
    }
}
