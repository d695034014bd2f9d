//! Compiles and runs what uses the interface from C and C++: the tests of every function, the cases that all languages share, and the
//! programs that the documentation shows.
//!
//! Without a C compiler they say what they left out.
#![cfg(target_os = "linux")]

#[path = "../../../crates/log/examples/behaviour/interpreter.rs"]
mod interpreter;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use seawall_sys::skip::skipped;

const HEADER: &str = include_str!("../include/seawall.h");
const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/behaviour/cases.txt");
/// The arguments of a child of the cases, one a line.
const CHILD: &str = "SEAWALL_TEST_BEHAVIOUR";
const SANITIZERS: &str = "-fsanitize=address,undefined";

/// A language with its compiler.
struct Language {
    name: &'static str,
    /// The variable that names a compiler, and the one that is taken without it.
    compiler: (&'static str, &'static str),
    flags: &'static [&'static str],
}

const C99: Language = Language { name: "C99", compiler: ("CC", "cc"), flags: &["-std=c99"] };
const CPP: Language = Language { name: "C++", compiler: ("CXX", "c++"), flags: &["-x", "c++", "-std=c++17"] };

/// How a program finds the library.
#[derive(Clone, Copy, PartialEq)]
enum Library {
    Static,
    Shared,
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on the file system of the build")
}

/// What cargo built beside this test.
fn built() -> PathBuf {
    let this = std::env::current_exe().expect("this test");
    this.parent().expect("a folder").to_path_buf()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

impl Language {
    fn compiler(&self) -> String {
        std::env::var(self.compiler.0).unwrap_or_else(|_| self.compiler.1.to_owned())
    }

    /// Whether this machine compiles it; says what is left out if not.
    fn is_here(&self) -> bool {
        let here = Command::new(self.compiler()).arg("--version").output().is_ok();
        if !here {
            skipped(format!(
                "no {} compiler ({}): the C interface was not tried from {}",
                self.name,
                self.compiler(),
                self.name
            ));
        }
        here
    }

    /// Compiles `source` into `program`, with every warning an error.
    fn compile(&self, source: &Path, program: &Path, library: Library, more: &[&str]) {
        let mut compile = Command::new(self.compiler());
        compile.args(self.flags).args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-g"]).args(more);
        compile.arg("-I").arg(folder().join("include")).arg("-I").arg(program.parent().expect("a folder"));
        compile.arg(source).arg("-o").arg(program).args(["-x", "none"]);
        match library {
            Library::Static => compile.arg(built().join("libseawall_ffi.a")),
            Library::Shared => compile.arg(built().join("libseawall_ffi.so")),
        };
        let done = compile.args(["-lpthread", "-ldl", "-lm"]).output().expect("a compiler");
        assert!(done.status.success(), "{compile:?}\n{}", text(&done));
    }
}

/// Runs a program, which finds the shared library by the name that is in it.
fn run(program: &Path, arguments: &[&Path]) -> Output {
    let libraries = program.parent().expect("a folder").join("libraries");
    std::fs::create_dir_all(&libraries).expect("makes a folder");
    let library = libraries.join("libseawall.so.0");
    if !library.exists() {
        std::os::unix::fs::symlink(built().join("libseawall_ffi.so"), library).expect("links");
    }
    let mut command = Command::new(program);
    command.args(arguments).env("LD_LIBRARY_PATH", libraries);
    command.current_dir(program.parent().expect("a folder"));
    command.output().expect("runs")
}

/// The functions that the header declares, by the line that begins each, with their names.
fn declarations() -> impl Iterator<Item = (&'static str, &'static str)> {
    let declarations = HEADER.lines().filter(|line| !line.starts_with([' ', '/', '#', '}', 't', '*']));
    let name = |line: &'static str| Some((line, line.split_once('(')?.0.rsplit([' ', '*']).next()?));
    declarations.filter_map(name).filter(|(_, name)| name.starts_with("seawall_"))
}

/// Their names.
fn functions() -> Vec<&'static str> {
    declarations().map(|(_, name)| name).collect()
}

/// The structures of the header that have fields, as lines for `use.c`.
fn layout() -> String {
    let mut lines = String::new();
    let mut structure = None;
    for line in HEADER.lines().filter(|line| !line.trim_start().starts_with(['*', '/'])) {
        if let Some(name) = line.strip_prefix("typedef struct ").and_then(|rest| rest.strip_suffix(" {")) {
            writeln!(lines, "WHOLE({name});").expect("writes");
            structure = Some(name);
        } else if line.starts_with('}') {
            structure = None;
        } else if let (Some(name), Some(field)) = (structure, line.strip_suffix(';')) {
            let field =
                field.split('[').next().and_then(|field| field.rsplit([' ', '*']).next()).expect("a name");
            writeln!(lines, "FIELD({name}, {field});").expect("writes");
        }
    }
    lines
}

fn every_function_is_tried(language: &Language, library: Library, more: &[&str]) {
    if !language.is_here() {
        return;
    }
    let made = scratch();
    std::fs::write(made.path().join("layout.inc"), layout()).expect("writes");
    for name in ["use", "queue"] {
        let program = made.path().join(name);
        language.compile(&folder().join(format!("tests/c/{name}.c")), &program, library, more);
        let logs = scratch();
        let ran = run(&program, &[logs.path()]);
        assert!(
            ran.status.success() && text(&ran) == "0 failures\n",
            "{name}: {}\n{}",
            ran.status,
            text(&ran)
        );
    }
}

#[test]
fn every_function_holds_in_c99_under_the_sanitizers() {
    every_function_is_tried(&C99, Library::Static, &[SANITIZERS, "-fno-sanitize-recover=all"]);
}

#[test]
fn every_function_holds_in_cpp_with_the_shared_library() {
    every_function_is_tried(&CPP, Library::Shared, &[]);
}

/// The oldest C there is a standard of, without a word of the compiler.
#[test]
fn the_header_is_c90() {
    if !C99.is_here() {
        return;
    }
    let made = scratch();
    let file = made.path().join("header.c");
    std::fs::write(&file, "#include <seawall.h>\n#include <seawall.h>\nint none;\n").expect("writes");
    let mut compile = Command::new(C99.compiler());
    compile.args(["-std=c90", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
    let done = compile.arg("-I").arg(folder().join("include")).arg(&file).output().expect("a compiler");
    assert!(done.status.success(), "{}", text(&done));
}

#[test]
fn what_a_program_without_standard_streams_prints_reaches_no_log() {
    if !C99.is_here() {
        return;
    }
    let made = scratch();
    let program = made.path().join("streams");
    C99.compile(
        &folder().join("tests/c/streams.c"),
        &program,
        Library::Static,
        &["-D_POSIX_C_SOURCE=200809L"],
    );
    for method in ["buffered+fdatasync", "direct+dsync", "uring-direct-linked"] {
        for closed in ["0", "1", "2", "3"] {
            let logs = scratch();
            let done = run(&program, &[logs.path(), Path::new(method), Path::new(closed)]);
            let forbidden = method.starts_with("uring") && seawall::Engine::IoUring.probe().is_err();
            assert!(forbidden || done.status.success(), "{method}, {closed} closed: {}", done.status);
        }
    }
}

#[test]
fn the_tests_in_c_leave_no_function_out() {
    let functions = functions();
    assert!((40..=70).contains(&functions.len()), "{functions:?}");
    let tests = ["use.c", "queue.c"];
    let tests =
        tests.map(|name| std::fs::read_to_string(folder().join("tests/c").join(name)).expect("is there"));
    for name in &functions {
        assert!(tests.iter().any(|tests| tests.contains(&format!("{name}("))), "{name}");
    }
    let null = tests.map(|tests| {
        let rest = tests.split("static void no_pointer_is_needed").nth(1).expect("tries NULL");
        rest.split("\n}\n").next().expect("its body").to_owned()
    });
    for name in functions.iter().filter(|name| {
        HEADER.contains(&format!("{name}(struct")) || HEADER.contains(&format!("{name}(const"))
    }) {
        let tried = null.iter().any(|null| null.contains(&format!("{name}(NULL")));
        assert!(tried, "{name} is not tried with NULL");
    }
}

#[test]
fn the_shared_library_has_the_functions_of_the_header_and_no_others() {
    let library = built().join("libseawall_ffi.so");
    let Ok(listed) = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output() else {
        return skipped("no nm: what the shared library exports was not looked at");
    };
    let listed = text(&listed);
    let mut exported: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let mut declared = functions();
    // The build of all tests has a C interface in a dependency, which the library that is installed has not.
    exported.retain(|name| !name.starts_with("crc_fast_"));
    exported.sort_unstable();
    declared.sort_unstable();
    assert_eq!(exported, declared);
    let name = std::fs::read(library).expect("is there");
    let soname = b"\0libseawall.so.0\0";
    assert!(name.windows(soname.len()).any(|found| found == soname), "the library does not name itself");
}

/// As `cargo xtask c-header` makes it.
#[test]
fn the_header_is_what_the_source_makes() {
    let version = Command::new("cbindgen").arg("--version").output();
    if !version.is_ok_and(|found| text(&found).trim() == "cbindgen 0.29.4") {
        return skipped(
            "no cbindgen 0.29.4: whether include/seawall.h is what the source makes was not looked at; `cargo install cbindgen --version 0.29.4 --locked`",
        );
    }
    let made = Command::new("cbindgen")
        .args(["--quiet", "--config", "cbindgen.toml", "."])
        .current_dir(folder())
        .output()
        .expect("runs");
    assert!(made.status.success(), "{}", text(&made));
    assert!(String::from_utf8_lossy(&made.stdout) == HEADER, "`cargo xtask c-header` makes another one");
}

#[test]
fn the_version_is_the_same_everywhere() {
    let number =
        HEADER.lines().find_map(|line| line.strip_prefix("#define SEAWALL_ABI_VERSION ")).expect("a version");
    let build = std::fs::read_to_string(folder().join("build.rs")).expect("is there");
    assert!(build.contains(&format!("let abi = {number};")), "the name of the library says another version");
    assert_eq!(seawall_ffi::layout::SEAWALL_ABI_VERSION.to_string(), number);
}

/// The text blocks of one kind in a page, in order.
fn blocks<'a>(page: &'a str, kind: &str) -> Vec<&'a str> {
    let begin = format!("```{kind}\n");
    page.split(&begin).skip(1).filter_map(|rest| rest.split("\n```").next()).collect()
}

/// Compiles and runs the programs that a page shows, each in an empty directory; each prints what the page says.
fn shown_programs(page: &Path) {
    let shown = std::fs::read_to_string(page).expect("is there");
    let (programs, outputs) = (blocks(&shown, "c"), blocks(&shown, "text"));
    assert!(!programs.is_empty() && programs.len() == outputs.len(), "{}", page.display());
    for language in [&C99, &CPP] {
        if !language.is_here() {
            continue;
        }
        for (source, output) in programs.iter().zip(&outputs) {
            let made = scratch();
            let (file, program) = (made.path().join("shown.c"), made.path().join("shown"));
            std::fs::write(&file, format!("{source}\n")).expect("writes");
            language.compile(&file, &program, Library::Static, &[SANITIZERS]);
            let ran = Command::new(&program).current_dir(made.path()).output().expect("runs");
            assert!(
                ran.status.success() && text(&ran).trim_end() == *output,
                "{}\n{}",
                ran.status,
                text(&ran)
            );
        }
    }
}

#[test]
fn the_readme_shows_a_program_that_runs() {
    shown_programs(&folder().join("README.md"));
}

#[test]
fn the_page_shows_programs_that_run() {
    shown_programs(&folder().join("../../docs/c.md"));
}

#[test]
fn the_page_says_of_every_function_what_it_returns() {
    let page = std::fs::read_to_string(folder().join("../../docs/c.md")).expect("is there");
    let types = ["`int64_t`", "`int32_t`", "`void`", "a pointer"];
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let rows: Vec<_> = rows.filter(|(first, _)| types.contains(first)).collect();
    let mut functions = 0;
    for (line, name) in declarations() {
        let returned =
            types.iter().find(|shown| line.starts_with(&format!("{} seawall", shown.trim_matches('`'))));
        let returned = returned.unwrap_or(&"a pointer");
        let word = format!("`{}`", name.trim_start_matches("seawall_"));
        let found: Vec<_> =
            rows.iter().filter(|(_, rest)| rest.contains(&word)).map(|(first, _)| first).collect();
        assert_eq!(found, [returned], "{name}");
        functions += 1;
    }
    assert_eq!(
        rows.iter().map(|(_, rest)| rest.matches('`').count() / 2).sum::<usize>(),
        functions + 1,
        "and SEAWALL_RECORD"
    );
}

/// A folder with the shared library and what finds it, as an installation has them.
fn installed() -> tempfile::TempDir {
    let prefix = scratch();
    let at = |name: &str| prefix.path().join(name);
    std::fs::create_dir_all(at("lib/pkgconfig")).expect("makes a folder");
    for name in ["lib/libseawall.so", "lib/libseawall.so.0"] {
        std::os::unix::fs::symlink(built().join("libseawall_ffi.so"), at(name)).expect("links");
    }
    std::os::unix::fs::symlink(folder().join("include"), at("include")).expect("links");
    let found = format!("-L{0}/lib -lseawall\nCflags: -I{0}/include\n", prefix.path().display());
    let text = format!("Name: seawall\nDescription: the build under test\nVersion: 0\nLibs: {found}");
    std::fs::write(at("lib/pkgconfig/seawall.pc"), text).expect("writes");
    prefix
}

/// Runs a program of an example in a copy of its folder; what it printed, or why it did not run.
fn run_example(name: &str, prefix: &Path, commands: &[&[&str]]) -> Result<String, String> {
    let made = scratch();
    for file in std::fs::read_dir(folder().join("examples").join(name)).expect("is there") {
        let file = file.expect("an entry").path();
        std::fs::copy(&file, made.path().join(file.file_name().expect("a name"))).expect("copies");
    }
    let mut printed = String::new();
    for words in commands {
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .current_dir(made.path())
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        command.env("LD_LIBRARY_PATH", prefix.join("lib")).env("SEAWALL", prefix.join("lib/libseawall.so.0"));
        let ran = command.output().map_err(|error| format!("{}: {error}", words[0]))?;
        printed = text(&ran);
        if !ran.status.success() {
            return Err(format!("{words:?}: {printed}"));
        }
    }
    Ok(printed)
}

fn is_there(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).output().is_ok_and(|ran| ran.status.success())
}

/// 5,000 commits of 100 goroutines, none of which waits in C.
#[test]
fn the_example_for_go_commits_and_follows() {
    if !is_there("go", "version") || !is_there("pkg-config", "--version") {
        return skipped("no Go, or no pkg-config: the example for Go was not tried");
    }
    let ran = run_example("go", installed().path(), &[&["go", "run", ".", "log"]]);
    assert_eq!(ran.as_deref(), Ok("5000 commits, 5000 records received, error: <nil>\n"));
}

/// The same from Node's event loop.
#[test]
fn the_example_for_node_commits_and_follows() {
    let install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "koffi@2"];
    let prefix = installed();
    if let Err(why) = run_example("node", prefix.path(), &[&["node", "--version"], &install]) {
        return skipped(format_args!("the example for Node was not tried: {why}"));
    }
    let ran = run_example("node", prefix.path(), &[&install, &["node", "commits.mjs", "log"]]);
    assert_eq!(ran.as_deref(), Ok("5000 commits, 5000 records received\n"));
}

/// A child is a test of this file, which does nothing by itself.
fn child(arguments: &[String]) -> Result<Command, String> {
    let mut child = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    child
        .args(["--exact", "a_child_of_the_cases", "--nocapture", "--test-threads=2"])
        .env(CHILD, arguments.join("\n"));
    Ok(child)
}

#[test]
fn a_child_of_the_cases() {
    if let Ok(arguments) = std::env::var(CHILD) {
        let arguments: Vec<String> = arguments.lines().map(str::to_owned).collect();
        interpreter::run(&arguments, &child).expect("runs");
    }
}

/// What C writes Rust reads, and the other way round, twice each.
#[test]
fn c_and_rust_behave_alike() {
    if !C99.is_here() {
        return;
    }
    let made = scratch();
    let program = made.path().join("behaviour");
    C99.compile(
        &folder().join("tests/c/behaviour.c"),
        &program,
        Library::Static,
        &[SANITIZERS, "-fno-sanitize-recover=all"],
    );
    let cpp = made.path().join("behaviour-cpp");
    if CPP.is_here() {
        CPP.compile(&folder().join("tests/c/behaviour.c"), &cpp, Library::Shared, &[]);
    }
    let cases = std::fs::read_to_string(CASES).expect("is there");
    let count = cases.lines().filter(|line| line.starts_with("case ")).count();
    let fine = format!("{count} cases, 0 failed\n");
    let in_c = |root: &Path, mode: &str| {
        let ran = run(&program, &[Path::new(CASES), root, Path::new(mode)]);
        assert!(ran.status.success() && text(&ran) == fine, "{mode}: {}\n{}", ran.status, text(&ran));
    };
    let in_rust = |root: &Path, mode: &str| {
        let arguments = [CASES, &root.to_string_lossy(), mode].map(str::to_owned);
        assert_eq!(interpreter::run(&arguments, &child), Ok(0), "{mode}: see what was printed");
    };
    let (by_c, by_rust) = (scratch(), scratch());
    in_c(by_c.path(), "write");
    in_rust(by_rust.path(), "write");
    for _ in 0..2 {
        in_rust(by_c.path(), "check");
        in_c(by_rust.path(), "check");
    }
    in_c(by_c.path(), "check");
}

/// The interpreter for C finds what is wrong as well.
#[test]
fn a_case_that_says_something_else_fails_in_c() {
    if !C99.is_here() {
        return;
    }
    let made = scratch();
    let (program, cases) = (made.path().join("behaviour"), made.path().join("cases"));
    C99.compile(&folder().join("tests/c/behaviour.c"), &program, Library::Static, &[]);
    let wrong = [
        "open = new 0 1",
        "open ! locked",
        "close",
        "open\nappend x = 6",
        "no such step",
        "child\nopen = clean 0 0\nkilled",
    ];
    let mut text_of_cases = "case z\nopen = new 0 0\nclose\n".to_owned();
    for (number, steps) in wrong.iter().enumerate() {
        write!(text_of_cases, "case {number}\n{steps}\n").expect("writes");
    }
    std::fs::write(&cases, text_of_cases).expect("writes");
    let ran = run(&program, &[&cases, made.path(), Path::new("write")]);
    let printed = text(&ran);
    assert!(!ran.status.success() && printed.ends_with("7 cases, 6 failed\n"), "{printed}");
}
