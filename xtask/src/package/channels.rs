//! `SHA256SUMS` of the files to publish, and from it Homebrew's formula and winget's manifest.
//!
//! Invariant: a template that needs an archive which is not there is named and not written, never filled with half of it.

use super::{Release, archives, filled, targets::TARGETS};
use crate::error::Result;
use crate::files;
use crate::shell::root;
use std::path::Path;

const TEMPLATES: [&str; 4] = [
    "homebrew/seawall.rb",
    "winget/Seawall.Seawall.yaml",
    "winget/Seawall.Seawall.installer.yaml",
    "winget/Seawall.Seawall.locale.en-US.yaml",
];
const SUMS: &str = "SHA256SUMS";

/// Writes them beside the files that they are of.
pub(crate) fn write(folder: &Path, release: &Release) -> Result {
    let mut all = files::list(folder)?;
    // What an earlier run has written of the archives at that time.
    let written = |path: &Path| TEMPLATES.iter().any(|name| path.file_name() == Path::new(name).file_name());
    all.retain(|path| path.is_file() && !path.ends_with(SUMS) && !written(path));
    all.sort();
    let sums = archives::sums(&all)?;
    files::write(&folder.join(SUMS), &sums)?;
    print!("{sums}");
    let values = values(&sums, release);
    for name in TEMPLATES {
        let written = folder.join(Path::new(name).file_name().unwrap_or_default());
        let template = files::read(&root().join("packaging").join(name))?;
        match filled(&template, &values) {
            Ok(text) => files::write(&written, text)?,
            Err(reason) => {
                println!("packaging/{name} was not filled in: {reason}, which is not made here");
                let _ = std::fs::remove_file(&written);
            }
        }
    }
    Ok(())
}

/// What templates ask for; no sum of an archive that is not there.
fn values(sums: &str, release: &Release) -> Vec<(String, String)> {
    let own = [("VERSION", &release.version), ("REPOSITORY", &release.repository), ("URL", &release.url())];
    let mut values: Vec<(String, String)> =
        own.into_iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
    for target in TARGETS {
        let archive = target.archive(&release.version);
        let sum = sums.lines().find_map(|line| line.strip_suffix(&format!("  {archive}")));
        values.extend(sum.map(|sum| (format!("SHA256:{}", target.triple), sum.to_ascii_uppercase())));
        values.push((format!("ARCHIVE:{}", target.triple), archive));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::{Release, TARGETS, TEMPLATES, values};
    use crate::files;
    use crate::package::filled;
    use crate::shell::root;
    use std::fmt::Write;

    #[test]
    fn every_template_is_filled_by_the_archives_of_all_targets_and_by_no_fewer() {
        let release =
            Release { version: "1.2.3".to_owned(), repository: "https://r".to_owned(), ..Release::default() };
        let sums = TARGETS.iter().fold(String::new(), |mut text, target| {
            let _ = writeln!(text, "{}  {}", "ab".repeat(32), target.archive("1.2.3"));
            text
        });
        let mut with_sums = 0;
        for name in TEMPLATES {
            let template = files::read(&root().join("packaging").join(name)).expect(name);
            assert!(!template.contains("github.com"), "{name} has an address of its own");
            let text = filled(&template, &values(&sums, &release)).expect(name);
            assert!(!text.lines().any(|line| !line.starts_with('#') && line.contains('@')), "{text}");
            let needs_sums = template.contains("@SHA256:");
            with_sums += usize::from(needs_sums);
            assert_eq!(filled(&template, &values("", &release)).is_err(), needs_sums, "{name}");
        }
        assert_eq!(with_sums, 2);
    }
}
