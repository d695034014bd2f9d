//! The C interface for those who do not write Rust: makes its header, installs header and libraries, and tries what was installed.
//!
//! ```text
//!   PREFIX/include/seawall.h
//!   PREFIX/lib/libseawall.so.0, libseawall.so -> libseawall.so.0, libseawall.a
//!   PREFIX/lib/pkgconfig/seawall.pc
//!   PREFIX/lib/cmake/seawall/seawall-config.cmake, seawall-config-version.cmake
//! ```

use crate::error::{Error, Result};
use crate::files;
use crate::shell::{cargo, command, has, output, root, status, target};
use clap::Args;
use std::path::{Path, PathBuf};

/// What makes the header; the tests of `bindings/c` name the same version.
const CBINDGEN: &str = "0.29.4";
const CRATE: &str = "bindings/c";

/// Makes `include/seawall.h` again from the source, and installs cbindgen first where it is missing.
pub(crate) fn header() -> Result {
    provide()?;
    let made = output(command("cbindgen", &["--quiet", "--config", "bindings/c/cbindgen.toml", CRATE]))?;
    files::write(&root().join(CRATE).join("include/seawall.h"), made)
}

/// Installs cbindgen where it, or this version of it, is missing.
pub(crate) fn provide() -> Result {
    let version = || output(command("cbindgen", &["--version"])).unwrap_or_default();
    if has("cbindgen") && version().trim() == format!("cbindgen {CBINDGEN}") {
        return Ok(());
    }
    println!("cbindgen {CBINDGEN} is missing: installing it from crates.io, which takes a minute");
    let mut install = crate::shell::install("cbindgen");
    // Beside the sources: their build would be that of the log.
    install.args(["--version", CBINDGEN]).current_dir(std::env::temp_dir());
    status(install)
}

#[derive(Args)]
pub(crate) struct Installation {
    /// Where to, such as /usr/local
    #[arg(long, value_name = "DIR", value_parser = |prefix: &str| std::path::absolute(prefix))]
    prefix: PathBuf,
    /// A debug build
    #[arg(long)]
    debug: bool,
}

impl Installation {
    /// Builds the libraries and puts everything into its place.
    pub(crate) fn make(&self) -> Result {
        if !cfg!(target_os = "linux") {
            return Err(Error::lacking(
                "this installs libraries by their names on Linux only; elsewhere `cargo build --release -p seawall-ffi` \
                 makes them, and the header is bindings/c/include/seawall.h",
            ));
        }
        let words: &[&str] = &["build", "--quiet", "--package=seawall-ffi", "--lib"];
        status(cargo(&[words, if self.debug { &[] } else { &["--release"] }].concat()))?;
        let built = target().join(if self.debug { "debug" } else { "release" });
        let (include, lib) = (self.prefix.join("include"), self.prefix.join("lib"));
        let (pkgconfig, cmake) = (lib.join("pkgconfig"), lib.join("cmake/seawall"));
        for folder in [&include, &pkgconfig, &cmake] {
            files::make_folder(folder)?;
        }
        let copies = [
            (root().join(CRATE).join("include/seawall.h"), include.join("seawall.h")),
            (built.join("libseawall_ffi.a"), lib.join("libseawall.a")),
            (built.join("libseawall_ffi.so"), lib.join("libseawall.so.0")),
        ];
        for (from, to) in copies {
            replace(&to, |staged| std::fs::copy(&from, staged).map(drop))?;
        }
        replace(&lib.join("libseawall.so"), link)?;
        let version = version()?;
        let texts = [
            (pkgconfig.join("seawall.pc"), pc(&self.prefix, &version)),
            (cmake.join("seawall-config.cmake"), CMAKE.to_owned()),
            (cmake.join("seawall-config-version.cmake"), CMAKE_VERSION.replace("@VERSION@", &version)),
        ];
        for (path, text) in texts {
            replace(&path, |staged| std::fs::write(staged, text))?;
        }
        println!(
            "installed in {}: include/seawall.h, lib/libseawall.so.0, lib/libseawall.a",
            self.prefix.display()
        );
        println!("if pkg-config does not look there: PKG_CONFIG_PATH={}", pkgconfig.display());
        println!(
            "if programs do not find libseawall.so.0: ldconfig as root, or link with -Wl,-rpath,{}",
            lib.display()
        );
        Ok(())
    }
}

#[cfg(unix)]
fn link(staged: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink("libseawall.so.0", staged)
}

#[cfg(not(unix))]
fn link(_: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Has `make` make a file beside `path`, and puts it there: a program that has the old one mapped goes on with that.
fn replace(path: &Path, make: impl FnOnce(&Path) -> std::io::Result<()>) -> Result {
    let mut staged = path.as_os_str().to_owned();
    staged.push(".new");
    let staged = PathBuf::from(staged);
    let _ = std::fs::remove_file(&staged);
    make(&staged).and_then(|()| std::fs::rename(&staged, path)).map_err(Error::at(path.display()))
}

/// What `find_package(seawall)` reads: the targets `seawall::seawall` and `seawall::static`.
const CMAKE: &str = r#"get_filename_component(_seawall "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET seawall::seawall)
  add_library(seawall::seawall SHARED IMPORTED)
  set_target_properties(seawall::seawall PROPERTIES IMPORTED_LOCATION "${_seawall}/lib/libseawall.so.0"
    IMPORTED_SONAME libseawall.so.0 INTERFACE_INCLUDE_DIRECTORIES "${_seawall}/include")
  add_library(seawall::static STATIC IMPORTED)
  set_target_properties(seawall::static PROPERTIES IMPORTED_LOCATION "${_seawall}/lib/libseawall.a"
    INTERFACE_LINK_LIBRARIES "pthread;dl;m" INTERFACE_INCLUDE_DIRECTORIES "${_seawall}/include")
endif()
"#;

/// Versions before 1.0 do not promise to replace each other.
const CMAKE_VERSION: &str = r#"set(PACKAGE_VERSION "@VERSION@")
if("${PACKAGE_FIND_VERSION}" STREQUAL "" OR PACKAGE_VERSION MATCHES "^${PACKAGE_FIND_VERSION}(\\.|$)")
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
"#;

/// What pkg-config reads. `--static` names the system's libraries that the archive needs.
fn pc(prefix: &Path, version: &str) -> String {
    format!(
        "prefix={}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\n\
         Name: seawall\nDescription: An embeddable transaction log with durable group commit\nVersion: {version}\n\
         Libs: -L${{libdir}} -lseawall\nLibs.private: -lpthread -ldl -lm\nCflags: -I${{includedir}}\n",
        prefix.display()
    )
}

fn version() -> Result<String> {
    let manifest = files::read(&root().join("Cargo.toml"))?;
    let mut lines = manifest.lines().skip_while(|line| *line != "[workspace.package]");
    let version = lines.find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    version.map(str::to_owned).ok_or_else(|| Error::check("Cargo.toml names no version of the workspace"))
}

/// Installs a debug build below the target folder, and compiles and runs the program of the README by what was installed.
pub(crate) fn check() -> Result {
    let folder = target().join("tmp/c-interface");
    files::empty_folder(&folder)?;
    let prefix = folder.join("prefix");
    Installation { prefix: prefix.clone(), debug: true }.make()?;
    let mut list = command("nm", &["-D", "--defined-only"]);
    list.arg(prefix.join("lib/libseawall.so.0"));
    let exported = output(list)?;
    let names = exported.lines().filter_map(|line| line.split(' ').nth(2));
    if let Some(other) = names.clone().find(|name| !name.starts_with("seawall_")) {
        fail!("the installed library exports {other}");
    }
    ensure!(names.count() >= 40, "the installed library exports no more than: {exported}");
    let page = files::read(&root().join(CRATE).join("README.md"))?;
    let source = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next());
    let source = source.ok_or_else(|| Error::check("the README of bindings/c shows no program"))?;
    files::write(&folder.join("orders.c"), source)?;
    let flags = |more: &[&str]| {
        let mut ask = command("pkg-config", &[more, &["--cflags", "--libs", "seawall"]].concat());
        ask.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        let text = output(ask)?;
        Ok::<Vec<String>, Error>(text.split_whitespace().map(str::to_owned).collect())
    };
    let rpath = format!("-Wl,-rpath,{}", prefix.join("lib").display());
    let ways = [
        ("with an rpath", flags(&[])?, vec![rpath]),
        ("static", flags(&["--static"])?, vec!["-static".to_owned()]),
    ];
    let tried = |name: &str, program: PathBuf| {
        let place = folder.join(format!("run {name}"));
        files::make_folder(&place)?;
        let printed = output(command(program, &[] as &[&str]).current_dir(&place))?;
        let right = printed == "order 1\norder 2\n";
        ensure!(right, "the program of the README, {name}, printed {printed:?}");
        Ok(())
    };
    for (name, flags, more) in ways {
        let mut compile = command("cc", &["-std=c99", "orders.c", "-o", name]);
        compile.args(&flags).args(&more).current_dir(&folder);
        status(compile)?;
        tried(name, folder.join(name))?;
    }
    if has("cmake") {
        files::write(&folder.join("CMakeLists.txt"), CMAKE_PROGRAM)?;
        let prefix = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
        for words in [&["-S", ".", "-B", "cmake", &prefix][..], &["--build", "cmake"]] {
            output(command("cmake", words).current_dir(&folder))?;
        }
        tried("by CMake", folder.join("cmake/orders"))?;
        tried("by CMake, static", folder.join("cmake/orders-static"))?;
    } else {
        println!("SKIPPED: no cmake: the package of CMake was not tried");
    }
    files::remove_folder(&folder)
}

/// The program of the README, by either target.
const CMAKE_PROGRAM: &str = "cmake_minimum_required(VERSION 3.10)\nproject(orders C)\n\
    find_package(seawall 0.1 REQUIRED)\n\
    add_executable(orders orders.c)\ntarget_link_libraries(orders seawall::seawall)\n\
    add_executable(orders-static orders.c)\ntarget_link_libraries(orders-static seawall::static)\n";

#[cfg(test)]
mod tests {
    use super::{CBINDGEN, pc, version};
    use crate::shell::root;
    use std::path::Path;

    #[test]
    fn pkg_config_gets_the_prefix_and_the_version_of_the_crates() {
        let text = pc(Path::new("/opt/seawall"), &version().expect("a version"));
        assert!(text.starts_with("prefix=/opt/seawall\n"), "{text}");
        let ours = std::fs::read_to_string(root().join("Cargo.lock")).expect("is there");
        let number = text.lines().find_map(|line| line.strip_prefix("Version: ")).expect("a version");
        assert!(ours.contains(&format!("name = \"seawall-ffi\"\nversion = \"{number}\"")), "{number}");
    }

    #[test]
    fn the_tests_of_the_header_take_the_same_cbindgen() {
        let tests = std::fs::read_to_string(root().join("bindings/c/tests/c.rs")).expect("is there");
        assert!(tests.contains(&format!("cbindgen {CBINDGEN}")));
    }
}
