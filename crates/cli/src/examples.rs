//! Lists the examples of `--help`, for all commands that bring none of their own.
//!
//! Invariants (tested below): every command shows examples, and the parser accepts each of them.

use crate::args::Cli;
use crate::exit;
use clap::{Command, CommandFactory as _};

/// A command by its words, and its examples: the line, and what it is for.
type Row = (&'static [&'static str], &'static [(&'static str, &'static str)]);

#[rustfmt::skip]
const TABLE: &[Row] = &[
    (&[], &[
        ("seawall bench", "what a durable commit costs under this folder"),
        ("seawall advise", "what to set in PostgreSQL, MySQL, SQLite and others, and why"),
        ("seawall help bench", "all about one command"),
    ]),
    (&["methods"], &[
        ("seawall methods", "the commit methods of this system"),
        ("seawall methods /var/lib/db", "what each outlives in that folder"),
        ("seawall methods --json", "for programs"),
    ]),
    (&["advise"], &[
        ("seawall advise", "measures the disk under this folder for 10 s"),
        ("seawall advise --dir /var/lib/db", "the disk under another folder"),
        ("seawall advise result.json", "from a result of `seawall bench --json`"),
        ("seawall advise --only postgresql,etcd", "these products only, with notes and sources"),
        ("seawall advise result.json --json", "for programs"),
    ]),
    (&["probe"], &[
        ("seawall probe /var/lib/db", "at most 64 commits in at most one second"),
        ("seawall probe /var/lib/db --json", "for services, at their start"),
        ("seawall probe --budget 200ms --json", "in less time"),
        ("seawall probe /var/lib/db --format openmetrics", "for Prometheus' textfile collector"),
    ]),
    (&["completions"], &[
        ("seawall completions bash", "into ~/.local/share/bash-completion/completions/seawall"),
        ("seawall completions zsh", "into a file _seawall in a folder of $fpath"),
        ("seawall completions fish", "into ~/.config/fish/completions/seawall.fish"),
        ("seawall completions powershell", "to be run by the profile"),
    ]),
    (&["man"], &[
        ("seawall man", "the page of seawall itself; `| man -l -` shows it"),
        ("seawall man log append", "the page of one command"),
        ("seawall man --dir /usr/local/share/man/man1", "all pages, as files"),
    ]),
    (&["cluster"], &[
        ("seawall cluster up nats", "three nodes on this machine; prints how to measure them"),
        ("seawall cluster status", "which run, and where"),
        ("seawall cluster down", "ends them all"),
    ]),
    (&["cluster", "up"], &[
        ("seawall cluster up nats --sync always", "synced before each acknowledgement"),
        ("seawall cluster up kafka --foreground", "until Ctrl-C"),
    ]),
    (&["cluster", "down"], &[("seawall cluster down nats", "every cluster of that engine")]),
    (&["cluster", "status"], &[("seawall cluster status", "every cluster below ./seawall-cluster")]),
    (&["powercut"], &[
        ("seawall powercut witness --listen 0.0.0.0 --token-file token --ledger ledger", "on the host that keeps its power"),
        ("seawall powercut run /data --witness HOST --token-file token", "on the one that will lose it"),
        ("seawall powercut check /data --witness HOST --token-file token", "when the power is back"),
    ]),
    (&["powercut", "witness"], &[
        ("seawall powercut witness --listen 0.0.0.0 --token-file token --ledger ledger", "lets other hosts in, until interrupted"),
    ]),
    (&["powercut", "run"], &[
        ("seawall powercut run /data --witness HOST --token-file token", "the log, until the power goes"),
        ("seawall powercut run /data --witness HOST --token-file token --method all", "every commit method in turn"),
    ]),
    (&["powercut", "check"], &[
        ("seawall powercut check /data --witness HOST --token-file token", "exit code 4 if a promise was broken, 1 if no cut came"),
        ("seawall powercut check /data --witness HOST --token-file token --json -", "for programs"),
    ]),
    (&["log"], &[
        ("seawall log append orders", "a line of standard input is a record"),
        ("seawall log cat orders", "prints them"),
        ("seawall log verify orders", "checks every byte"),
    ]),
    (&["log", "append"], &[
        ("seawall log append orders", "prints the LSN of each line when it is durable"),
        ("seawall log append orders --format raw --quiet", "records of any bytes, framed by their length"),
    ]),
    (&["log", "cat"], &[
        ("seawall log cat orders", "all records, one a line"),
        ("seawall log cat orders --from 7 --limit 10 --format json", "ten of them, from an LSN on"),
    ]),
    (&["log", "follow"], &[("seawall log follow orders --format json", "goes on until interrupted")]),
    (&["log", "stat"], &[("seawall log stat orders", "its LSNs and segments")]),
    (&["log", "verify"], &[("seawall log verify orders", "exit code 1 and the places if anything is damaged")]),
    (&["log", "salvage"], &[("seawall log salvage orders orders-2", "what is intact, into a new log")]),
    (&["log", "trim"], &[("seawall log trim orders 1048576", "forgets what is before that LSN")]),
    (&["log", "bench"], &[
        ("seawall log bench /var/lib/db", "all workloads, beside the raw disk"),
        ("seawall log bench --only W1 --rounds 3", "one of them"),
    ]),
];

/// The whole command line, with its examples and exit codes.
pub(crate) fn command() -> Command {
    TABLE.iter().fold(Cli::command(), |command, (words, examples)| with(command, words, &text(examples)))
}

fn text(examples: &[(&str, &str)]) -> String {
    let width = examples.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
    let lines = examples.iter().map(|(line, why)| format!("  {line:width$}  {why}\n"));
    lines.fold("Examples:\n".to_owned(), |text, line| text + &line)
}

/// Puts the examples into the command that the words lead to. One that is not there (yet) is left alone: the test
/// below finds it.
fn with(command: Command, words: &[&str], examples: &str) -> Command {
    match words.split_first() {
        None if command.get_name() == "seawall" => command.after_help(format!("{examples}\n{}", exit::CODES)),
        None => {
            command.after_help(examples.to_owned()).after_long_help(format!("{examples}\n{}", exit::CODES))
        }
        Some((first, rest)) if command.find_subcommand(first).is_some() => {
            command.mut_subcommand(first, |subcommand| with(subcommand, rest, examples))
        }
        Some(_) => command,
    }
}

/// The lines of a command's examples.
pub(crate) fn of(command: &Command) -> Vec<String> {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines = text.lines().skip_while(|line| !line.starts_with("Examples:")).skip(1);
    lines.take_while(|line| line.starts_with("  ")).map(|line| line.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_command(command: &Command, found: &mut Vec<Command>) {
        found.push(command.clone());
        command
            .get_subcommands()
            .filter(|one| one.get_name() != "help")
            .for_each(|one| every_command(one, found));
    }

    /// The words of an example as a shell sees them; what it is for stands behind two spaces.
    fn words(line: &str) -> Vec<String> {
        let line = line.split("  ").next().expect("a line");
        let mut words = Vec::new();
        for (number, part) in line.split('\'').enumerate() {
            if number % 2 == 1 {
                words.push(part.to_owned());
            } else {
                words.extend(part.split_whitespace().map(str::to_owned));
            }
        }
        words
    }

    #[test]
    fn every_command_shows_examples_and_each_of_them_parses() {
        let mut all = Vec::new();
        every_command(&command(), &mut all);
        assert!(all.len() > 12, "{}", all.len());
        for one in &all {
            let examples = of(one);
            assert!(!examples.is_empty(), "`{}` has no examples: add a row to the table", one.get_name());
            for example in examples {
                assert!(example.starts_with("seawall"), "{example}");
                match command().try_get_matches_from(words(&example)) {
                    Ok(_) => {}
                    Err(error) if error.kind() == clap::error::ErrorKind::DisplayHelp => {}
                    Err(error) => panic!("{example}: {error}"),
                }
            }
        }
    }

    #[test]
    fn every_row_of_the_table_is_of_a_command() {
        for (words, _) in TABLE {
            let mut at = command();
            for word in *words {
                at = at.find_subcommand(word).unwrap_or_else(|| panic!("there is no {words:?}")).clone();
            }
        }
    }

    #[test]
    fn a_wrong_example_would_be_seen() {
        assert!(command().try_get_matches_from(words("seawall bench --no-such-option  why")).is_err());
        assert_eq!(
            words("seawall bench --require 'p99 < 10ms'  why"),
            ["seawall", "bench", "--require", "p99 < 10ms"]
        );
    }

    #[test]
    fn the_long_help_of_every_command_tells_the_exit_codes() {
        let mut all = Vec::new();
        every_command(&command(), &mut all);
        for mut one in all {
            let help = one.render_long_help().to_string();
            assert!(help.contains("Exit codes:") && help.contains("130"), "{}", one.get_name());
        }
    }
}
