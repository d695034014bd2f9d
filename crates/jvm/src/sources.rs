//! Embeds the jar's sources, so that an installed program can build it.

use std::io;
use std::path::Path;

/// Path below the module, and text.
type Source = (&'static str, &'static str);

macro_rules! sources {
    ($($path:literal),* $(,)?) => { [$(($path, include_str!(concat!("../java/", $path)))),*] };
}

/// Everything that the jar is made of; the tests of the module are not.
pub(crate) const SOURCES: &[Source] = &sources![
    "pom.xml",
    "src/main/java/seawall/path/Accounts.java",
    "src/main/java/seawall/path/Files17.java",
    "src/main/java/seawall/path/Foreign.java",
    "src/main/java/seawall/path/Json.java",
    "src/main/java/seawall/path/Loop.java",
    "src/main/java/seawall/path/Main.java",
    "src/main/java/seawall/path/Mapped.java",
    "src/main/java/seawall/path/Options.java",
    "src/main/java/seawall/path/Order.java",
    "src/main/java/seawall/path/Original.java",
    "src/main/java/seawall/path/Record.java",
    "src/main/java/seawall/path/Row.java",
    "src/main/java/seawall/path/Sample.java",
    "src/main/java/seawall/path/Serve.java",
    "src/main/java/seawall/path/Unavailable.java",
    "src/main/java/seawall/path/Ways.java",
    "src/main/java/seawall/path/Writer.java",
    "src/main/java22/seawall/path/Foreign.java",
    "src/main/resources/seawall/path/rows.tsv",
];

/// A short name of all sources together: other sources, another name (FNV-1a).
pub(crate) fn fingerprint() -> String {
    let bytes = SOURCES.iter().flat_map(|(path, text)| path.bytes().chain([0]).chain(text.bytes()));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Writes them below `folder`.
pub(crate) fn unpack(folder: &Path) -> io::Result<()> {
    for (path, text) in SOURCES {
        let file = folder.join(path);
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(file, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path, found: &mut Vec<String>, root: &Path) {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                files(&path, found, root);
            } else {
                let below = path.strip_prefix(root).expect("below it");
                found.push(below.to_string_lossy().replace('\\', "/"));
            }
        }
    }

    #[test]
    fn every_file_of_the_module_is_embedded() {
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("java");
        let mut found = vec!["pom.xml".to_owned()];
        files(&module.join("src/main"), &mut found, &module);
        found.sort();
        let mut embedded: Vec<&str> = SOURCES.iter().map(|(path, _)| *path).collect();
        embedded.sort_unstable();
        assert_eq!(embedded, found, "the list in sources.rs and the module differ");
    }
}
