//! Tests that every recipe of `docs/crash-test.md` ends with the exit code that its last line names.

use std::path::Path;
use std::process::Command;

/// What the recipes start.
const PROGRAMS: [&str; 6] = ["sqlite3", "python3", "go", "javac", "curl", "psql"];

#[test]
#[ignore = "needs FUSE, PostgreSQL and three compilers"]
fn each_recipe_ends_as_it_says() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(here.join("../../docs/crash-test.md")).expect("the page is there");
    let seawall = Path::new(env!("CARGO_BIN_EXE_seawall")).parent().expect("it lies in a folder");
    let path =
        format!("{}:{}:/usr/local/go/bin", seawall.display(), std::env::var("PATH").unwrap_or_default());
    let found = |name: &&str| path.split(':').any(|folder| Path::new(folder).join(name).exists());
    if let Some(missing) = PROGRAMS.iter().find(|name| !found(name)) {
        return seawall_sys::skip::skipped(format!("no {missing}: the recipes need it"));
    }
    if std::fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
        return seawall_sys::skip::skipped("/dev/fuse cannot be opened by this user");
    }
    let recipes: Vec<&str> =
        page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(recipes.len(), PROGRAMS.len(), "a recipe for each of {PROGRAMS:?}");
    for recipe in recipes {
        let code = recipe.trim_end().rsplit_once("# exit ").expect("it names its exit code").1;
        let folder = tempfile::tempdir().expect("a folder");
        // PostgreSQL refuses root, which everything else here may be.
        let user: &[&str] = if recipe.contains("initdb") && is_root() {
            std::os::unix::fs::chown(folder.path(), Some(1), Some(1)).expect("given");
            // As udev makes it, which containers lack.
            let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o666);
            std::fs::set_permissions("/dev/fuse", everyone).expect("given to everyone");
            // Its own may lie where only root comes.
            std::fs::copy(env!("CARGO_BIN_EXE_seawall"), folder.path().join("seawall")).expect("copied");
            &["setpriv", "--reuid", "1", "--regid", "1", "--clear-groups"]
        } else {
            &[]
        };
        let words = [user, &["timeout", "-k", "5", "120", "bash", "-c", recipe]].concat();
        let mut script = Command::new(words[0]);
        script.args(&words[1..]).current_dir(folder.path());
        script
            .env("PATH", format!("{}:{path}", folder.path().display()))
            .env("GOCACHE", folder.path().join("cache"));
        let output = script.output().expect("a shell runs");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            output.status.code().map(|code| code.to_string()).as_deref(),
            Some(code),
            "{recipe}\n{printed}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").expect("this process")) == 0
}
