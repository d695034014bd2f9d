//! Builds the log for Java with its native library, tests it on every JDK here, and measures it beside its peers.
//!
//! ```text
//! target/java/natives/META-INF/native/<os>-<arch>/   the native library as it is released, which the jar takes in
//! target/java/<module>/                              what Maven builds
//! ```
//!
//! Invariants: a JDK that lacks is reported: in CI it is a failure, elsewhere what needs it counts as skipped; all downloads and
//! builds stay below the build folder.

use crate::error::{Error, Result};
use crate::files::{empty_folder, make_folder, remove_folder, write};
use crate::shell::{captured, cargo, command, has, rest_and_print_load, root, status, target, tests};
use crate::tally::Counts;
use clap::{Args, Subcommand};
use seawall_host::jdk::{FOREIGN, Jdk, find};
use std::env::consts::{ARCH, DLL_PREFIX, DLL_SUFFIX, OS};
use std::path::PathBuf;
use std::process::Command;

const POM: &str = "bindings/java/pom.xml";

/// What is done in place of the tests.
#[derive(Subcommand)]
pub(crate) enum More {
    /// Puts both jars into the Maven repository of this user
    Install,
    /// Measures it beside Chronicle Queue, Artemis' journal and `FileChannel`, in twelve minutes
    Bench(Order),
}

#[derive(Args)]
pub(crate) struct Order {
    /// Where it measures
    #[arg(default_value_os_t = target().join("java/bench"))]
    dir: PathBuf,
    #[arg(long, value_name = "N", default_value_t = 7)]
    rounds: u32,
    /// Of a round
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// One kind of table alone: append, power-loss, process-crash, queue
    #[arg(long, value_name = "KIND")]
    only: Option<String>,
}

pub(crate) fn run(more: Option<More>) -> Result {
    match more {
        None => {
            let (counts, result) = test(false)?;
            println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.ignored);
            result
        }
        Some(More::Install) => install(),
        Some(More::Bench(order)) => bench(&order),
    }
}

/// Runs the tests of all modules; the outer error is that they could not be run at all.
pub(crate) fn test(in_ci: bool) -> Result<(Counts, Result)> {
    let (jdks, newest) = find_jdks()?;
    let versions: Vec<&str> = jdks.iter().map(|jdk| jdk.version.as_str()).collect();
    println!("built by JDK {}, run on {}", newest.version, versions.join(", "));
    let mut counts = Counts::default();
    let mut result = Ok(());
    if newest.major >= FOREIGN {
        status(cargo(&["build", "--quiet", "--package=seawall", "--example=behaviour"]))?;
        stage()?;
    } else {
        let lacking = format!(
            "the newest JDK here is {}: the log for Java needs {FOREIGN}, and only its reader was tested",
            newest.version
        );
        println!("SKIPPED: {lacking}");
        counts.ignored += 1;
        result = if in_ci { Err(Error::Lacking(lacking)) } else { Ok(()) };
    }
    for jdk in &jdks {
        // What was built once runs on each of them that it is for.
        let modules = if jdk.major >= FOREIGN { "reader,log" } else { "reader" };
        let mut arguments = settings();
        arguments.push(format!("-Djvm={}", jdk.program("java").display()));
        arguments.push(format!("--projects={modules}"));
        arguments.push("verify".to_owned());
        let (more, ran) = tests(maven(&newest, POM, &arguments));
        counts = counts.plus(more);
        result = result.and(ran);
    }
    if newest.major >= FOREIGN && result.is_ok() {
        result = tried(&newest);
        counts.passed += u64::from(result.is_ok());
        counts.failed += u64::from(result.is_err());
    }
    Ok((counts, result))
}

/// The JDKs that are here, and the newest that compiles.
fn find_jdks() -> Result<(Vec<Jdk>, Jdk)> {
    let jdks = find(&[]).map_err(Error::at("JDKs"))?;
    let newest = jdks.iter().filter(|jdk| jdk.compiles).max_by_key(|jdk| jdk.major).cloned();
    let newest = newest
        .ok_or_else(|| Error::lacking("no JDK from 17 on is here; `cargo xtask setup` installs one"))?;
    if !has("mvn") {
        return Err(Error::lacking("Maven is missing; `cargo xtask setup` installs it"));
    }
    Ok((jdks, newest))
}

/// Maven on the project `pom`, run by `jdk`, with its downloads in the build folder.
fn maven(jdk: &Jdk, pom: &str, more: &[String]) -> Command {
    let common = [
        "--batch-mode".to_owned(),
        // An archive whose checksum is not the registry's ends the build.
        "--strict-checksums".to_owned(),
        "--no-transfer-progress".to_owned(),
        "-Dstyle.color=never".to_owned(),
        format!("--file={}", root().join(pom).display()),
        format!("-Dmaven.repo.local={}", target().join("jvm/repository").display()),
    ];
    let mut maven = command("mvn", &[&common[..], more].concat());
    maven.env("JAVA_HOME", &jdk.home);
    maven
}

/// What a project does with the jar, as a source file that is started.
const TRIED: &str = "public class Tried {
    public static void main(String[] arguments) throws Exception {
        try (seawall.Log log = seawall.Log.open(java.nio.file.Path.of(arguments[0]))) {
            log.commit(log.append(new byte[1]));
        }
        System.out.print(seawall.Log.class.getModule().isNamed());
    }
}
";

/// Uses the jar as it was packed, on the class path and on the module path, each with the flag of the guide and no word of warning.
fn tried(jdk: &Jdk) -> Result {
    let folder = target().join("java/tried");
    empty_folder(&folder)?;
    let (source, jar) = (folder.join("Tried.java"), target().join("java/seawall/seawall.jar"));
    write(&source, TRIED)?;
    let ways = [
        (["--class-path", "--enable-native-access=ALL-UNNAMED", "--add-modules=java.base"], "false"),
        (["--module-path", "--enable-native-access=seawall", "--add-modules=seawall"], "true"),
    ];
    for ([path, access, modules], expected) in ways {
        let mut java = command(jdk.program("java"), &[access, modules, path]);
        java.arg(&jar).arg(&source).arg(folder.join(expected));
        let (printed, warned) = captured(java)?;
        ensure!(
            printed == expected && warned.is_empty(),
            "the jar on the {path}: a named module: {printed} {warned}"
        );
    }
    Ok(())
}

/// Where Maven finds and puts things.
fn settings() -> Vec<String> {
    let folder = target().join("java");
    vec![
        format!("-Dseawall.root={}", root().display()),
        format!("-Dseawall.build={}", folder.display()),
        format!("-Dseawall.natives={}", folder.join("natives").display()),
        format!("-Dseawall.platform={}", platform()),
        format!("-Dseawall.behaviour={}", target().join("debug/examples/behaviour").display()),
    ]
}

fn platform() -> String {
    format!("{OS}-{ARCH}")
}

/// Builds the native library as it is released, and puts it where the jar takes it from. A test looks into the jar.
fn stage() -> Result {
    status(cargo(&["build", "--quiet", "--release", "--package=seawall-ffi"]))?;
    let name = format!("{DLL_PREFIX}seawall_ffi{DLL_SUFFIX}");
    let folder = target().join("java/natives/META-INF/native").join(platform());
    make_folder(&folder)?;
    make_folder(&target().join("java/seawall/tmp"))?;
    let built = target().join("release").join(&name);
    std::fs::copy(&built, folder.join(&name)).map(drop).map_err(Error::at(built.display()))
}

/// The newest JDK, if the log for Java can be built by it.
fn newest() -> Result<Jdk> {
    let (_, newest) = find_jdks()?;
    if newest.major >= FOREIGN {
        return Ok(newest);
    }
    Err(Error::lacking(format!(
        "the newest JDK here is {}, the log for Java needs {FOREIGN}: set JAVA_HOME to one",
        newest.version
    )))
}

/// Puts both jars into the Maven repository of this user, for projects on this machine.
fn install() -> Result {
    let jdk = newest()?;
    stage()?;
    let mut maven = command("mvn", &["--batch-mode", "--quiet", "--strict-checksums"]);
    maven.arg(format!("--file={}", root().join(POM).display())).env("JAVA_HOME", &jdk.home);
    maven.args(settings()).args(["-Dmaven.test.skip=true", "install"]);
    status(maven)?;
    let folder = target().join("java");
    for jar in ["seawall", "seawall-reader"] {
        println!("installed {}", folder.join(jar).join(format!("{jar}.jar")).display());
    }
    Ok(())
}

/// Builds everything for speed and runs the benchmark: appends in memory and commits.
fn bench(order: &Order) -> Result {
    let newest = newest()?;
    status(cargo(&["build", "--quiet", "--release", "--package=seawall", "--example=commits"]))?;
    stage()?;
    let mut arguments = settings();
    arguments.extend(["--quiet", "--activate-profiles=bench", "-DskipTests", "package"].map(str::to_owned));
    status(maven(&newest, POM, &arguments))?;
    make_folder(&order.dir)?;
    rest_and_print_load();
    println!("JDK {}", newest.version);
    let program = target().join("release/examples/commits");
    let (dir, program) = (order.dir.display().to_string(), program.display().to_string());
    let (rounds, seconds) = (order.rounds.to_string(), order.seconds.to_string());
    let mut measured = vec!["seawall.bench.Bench", &dir, &program, &rounds, &seconds];
    measured.extend(order.only.as_deref());
    status(java(&newest, &measured))?;
    remove_folder(&order.dir)
}

/// What the peers reach into of the JDK, as their makers ask for.
const OPENED: [&str; 13] = [
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=jdk.unsupported/sun.misc=ALL-UNNAMED",
    "--add-exports=jdk.compiler/com.sun.tools.javac.file=ALL-UNNAMED",
    "--add-opens=jdk.compiler/com.sun.tools.javac=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
    "-Dchronicle.analytics.disable=true",
];

/// A program of the benchmark on `jdk`.
fn java(jdk: &Jdk, arguments: &[&str]) -> Command {
    let built = target().join("java/seawall-bench");
    let class_path =
        format!("{}:{}", built.join("seawall-bench.jar").display(), built.join("lib/*").display());
    let mut all: Vec<String> = OPENED.map(str::to_owned).to_vec();
    all.push("--enable-native-access=ALL-UNNAMED".to_owned());
    all.extend(["-cp".to_owned(), class_path]);
    all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    command(jdk.program("java"), &all)
}
