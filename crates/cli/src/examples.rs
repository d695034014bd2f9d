//! Lists the examples and exit codes of `--help`, for every command.
//!
//! Invariants (tested below and by running each example): every command shows examples and the codes that it can end
//! with; the parser accepts each example.

use crate::exit::{
    self, AWAY, BROKEN, CANNOT_TELL, DAMAGED, FENCED, FORKED, INTERRUPTED, MISSED, NOT_JUDGED,
};

/// Of everything that talks to a destination.
const SHIPPED: &[u8] = &[AWAY, FENCED, FORKED, DAMAGED];
use clap::Command;

/// A command by its words, its exit codes apart from 0, 1 and 2, and its examples: the line, and what it is for.
type Row = (&'static [&'static str], &'static [u8], &'static [(&'static str, &'static str)]);

#[rustfmt::skip]
const TABLE: &[Row] = &[
    (&[], &[MISSED, BROKEN, NOT_JUDGED, AWAY, FENCED, FORKED, DAMAGED, CANNOT_TELL, INTERRUPTED], &[
        ("seawall bench", "what a durable commit costs under this folder"),
        ("seawall advise", "what to set in PostgreSQL, MySQL, SQLite and others, and why"),
        ("seawall help bench", "all about one command"),
    ]),
    (&["bench"], &[MISSED, NOT_JUDGED, CANNOT_TELL, INTERRUPTED], &[
        ("seawall bench", "the disk under this folder, about 30 s"),
        ("seawall bench /var/lib/db --full", "the published experiment: 65,536 transactions a method"),
        ("seawall bench --all", "every method of this system"),
        ("seawall bench --methods published", "only the methods of the published experiment"),
        ("seawall bench --size 2300 --file-state appending --methods fdatasync", "as a log that grows writes"),
        ("seawall bench --size 8k --writes 2 --methods fdatasync,open_datasync", "two writes a commit, as PostgreSQL may need"),
        ("seawall bench --require 'p99<10ms'", "for scripts: exit code 3 if missed, 10 if it cannot be told"),
        ("seawall bench --methods fdatasync --size 2300 --format fio-json", "for tools that read fio's percentiles of syncs"),
        ("seawall bench --require etcd", "is this disk fit for etcd?"),
        ("seawall bench --list", "the scenarios and their defaults"),
        ("seawall bench stall", "another scenario"),
        ("seawall bench ./stall", "a folder named like a scenario"),
    ]),
    (&["bench", "commit"], &[MISSED, NOT_JUDGED, CANNOT_TELL, INTERRUPTED], &[
        ("seawall bench commit /var/lib/db --methods published", "the same as without `commit`"),
    ]),
    (&["bench", "stall"], &[INTERRUPTED], &[
        ("seawall bench stall", "appends while another thread calls fsync, as published"),
        ("seawall bench stall /var/lib/db --size 4k --sync-sleep 1000", "larger appends, fewer syncs"),
    ]),
    (&["bench", "cached"], &[INTERRUPTED], &[
        ("seawall bench cached", "one file system"),
        ("seawall bench cached /mnt/ext4 /mnt/xfs", "two compared"),
    ]),
    (&["bench", "path"], &[INTERRUPTED], &[
        ("seawall bench path", "the native ways"),
        ("seawall bench path --jvm", "JVMs write too, one for each JDK found"),
    ]),
    (&["bench", "group"], &[INTERRUPTED], &[
        ("seawall bench group --writers 1,8,64", "three numbers of writers"),
    ]),
    (&["bench", "interfere"], &[INTERRUPTED], &[
        ("seawall bench interfere --time 1m", "longer than by default"),
    ]),
    (&["bench", "log"], &[INTERRUPTED], &[
        ("seawall bench log /var/lib/db", "all workloads, each against a plain loop"),
        ("seawall bench log --workloads W1 --rounds 3 --time 5", "one of them"),
        ("seawall bench log --workloads W10,W12,open --log-size 4GiB --rounds 5", "reading a log of that size"),
    ]),
    (&["bench", "peers"], &[INTERRUPTED], &[
        ("seawall bench peers /var/lib/db --workloads W1,W3", "five other logs against the log"),
    ]),
    (&["bench", "replicated"], &[INTERRUPTED], &[
        ("seawall bench replicated --nats nats://127.0.0.1:4222", "a cluster, its monitors asked for its sync policy"),
        ("seawall bench replicated --kafka 127.0.0.1:9092", "a cluster, by its bootstrap servers"),
    ]),
    (&["bench", "all"], &[INTERRUPTED], &[
        ("seawall bench all", "every scenario that needs only a folder"),
        ("seawall bench all --time 10 --out results", "about 10 s each but `cached`, kept in a folder"),
    ]),
    (&["compare"], &[MISSED, CANNOT_TELL], &[
        ("seawall compare old.json new.json", "two runs, with confidence"),
        ("seawall compare --list", "the published tables that ship"),
        ("seawall compare mine.json --with published:i2.2xlarge-linux-ssd", "against a published table"),
        ("seawall compare --with published:i2.2xlarge-linux-ssd,published:i2.2xlarge-windows-ssd", "two published tables"),
        ("seawall compare a.json b.json --by p99 --csv -", "by another figure, for other tools"),
        ("seawall compare main.json pr.json --fail-if 'p99>+20%,commits/s<-10%'", "in CI: exit code 3"),
    ]),
    (&["report"], &[], &[
        ("seawall report result.json -o report.html", "one run, with pictures"),
        ("seawall report result.json --text", "the whole report as text: findings with remedies, settings"),
        ("seawall report old.json new.json -o both.html", "two runs compared"),
        ("seawall report results/*/commit.json -o machines.html", "many machines on one page"),
        ("seawall report mine.json --with published:i2.2xlarge-linux-ssd -o mine.html", "compared with a published table"),
    ]),
    (&["methods"], &[], &[
        ("seawall methods", "the commit methods of this system"),
        ("seawall methods /var/lib/db", "what each outlives in that folder"),
        ("seawall methods --json", "for programs"),
    ]),
    (&["advise"], &[CANNOT_TELL, INTERRUPTED], &[
        ("seawall advise", "measures the disk under this folder for 10 s"),
        ("seawall advise --dir /var/lib/db", "the disk under another folder"),
        ("seawall advise result.json", "from a result of `seawall bench --json`"),
        ("seawall advise --only postgresql,etcd", "these products only, with notes and sources"),
        ("seawall advise result.json --json", "for programs"),
    ]),
    (&["probe"], &[CANNOT_TELL, INTERRUPTED], &[
        ("seawall probe /var/lib/db", "at most 64 commits in at most one second"),
        ("seawall probe /var/lib/db --json", "for services, at their start"),
        ("seawall probe --budget 200ms --json", "in less time"),
        ("seawall probe /var/lib/db --openmetrics probe.prom", "for the textfile collector of node_exporter"),
    ]),
    (&["trace"], &[], &[
        ("seawall trace -- ./program", "its syncs by file, call and source line; ends with the program's exit code"),
        ("seawall trace --price result.json -- ./program", "and its run on the disk of that result"),
        ("seawall trace --json --output trace.json -- ./program", "for programs"),
    ]),
    (&["watch"], &[CANNOT_TELL], &[
        ("seawall watch /var/lib/db", "a line a burst, until Ctrl-C"),
        ("seawall watch /var/lib/db --listen 127.0.0.1:9798", "for Prometheus to scrape"),
        ("seawall watch /var/lib/db --openmetrics watch.prom", "for the textfile collector of node_exporter"),
    ]),
    (&["completions"], &[], &[
        ("seawall completions bash", "into ~/.local/share/bash-completion/completions/seawall"),
        ("seawall completions zsh", "into a file _seawall in a folder of $fpath"),
        ("seawall completions fish", "into ~/.config/fish/completions/seawall.fish"),
        ("seawall completions powershell", "run it in the profile"),
    ]),
    (&["man"], &[], &[
        ("seawall man", "the page of seawall itself; `| man -l -` shows it"),
        ("seawall man log append", "the page of one command"),
        ("seawall man --dir /usr/local/share/man/man1", "all pages, as files"),
    ]),
    (&["crash-test"], &[INTERRUPTED], &[
        ("seawall crash-test data --run ./program --check ./check.sh", "the program writes to data and prints a line when something is saved"),
        ("seawall crash-test data --run ./program --check ./check.sh --mutate", "does the check notice when a sync is left out?"),
        ("seawall crash-test data --run ./server --until ./client --check ./check.sh", "a server, until its client has succeeded"),
        ("seawall crash-test --again seawall-crash/1", "the check on a kept state"),
    ]),
    (&["powercut"], &[BROKEN], &[
        ("seawall powercut run /data --witness HOST", "on the host that will lose its power; HOST keeps its own"),
        ("seawall powercut check /data --witness HOST", "when the power is back"),
    ]),
    (&["powercut", "witness"], &[], &[
        ("seawall powercut witness --ledger powercut-ledger", "what `run` and `check` start on the other host"),
    ]),
    (&["powercut", "run"], &[], &[
        ("seawall powercut run /data --witness HOST", "the log, until the power goes or Ctrl-C ends it in order"),
        ("seawall powercut run /data --witness HOST --method all", "every commit method in turn"),
    ]),
    (&["powercut", "check"], &[BROKEN], &[
        ("seawall powercut check /data --witness HOST", "exit code 4 if a promise was broken, 1 if no cut came"),
        ("seawall powercut check /data --witness HOST --json -", "for programs"),
    ]),
    (&["log"], &[INTERRUPTED], &[
        ("seawall log append orders", "a line of standard input is a record"),
        ("seawall log cat orders", "prints them"),
        ("seawall log verify orders", "checks every byte"),
    ]),
    (&["log", "append"], &[], &[
        ("seawall log append orders", "prints the LSN of each line when it is durable"),
        ("seawall log append orders --format raw --quiet", "records of any bytes, framed by their length"),
    ]),
    (&["log", "cat"], &[], &[
        ("seawall log cat orders", "all records, one a line"),
        ("seawall log cat orders --from 7 --limit 10 --format json", "ten of them, from an LSN"),
    ]),
    (&["log", "follow"], &[], &[("seawall log follow orders --format json", "until interrupted, then exits with 0")]),
    (&["log", "stat"], &[], &[("seawall log stat orders", "its LSNs and segments")]),
    (&["log", "verify"], &[], &[("seawall log verify orders", "prints damaged places and exits with 1")]),
    (&["log", "salvage"], &[], &[("seawall log salvage orders orders-2", "copies the intact records into a new log")]),
    (&["log", "backup"], &[], &[
        ("seawall log backup orders backup", "even while it is written; the second time only what changed"),
        ("seawall log verify backup", "a backup is a log: it is checked, read and opened like one"),
    ]),
    (&["log", "trim"], &[], &[("seawall log trim orders 1048576", "removes the records before that LSN")]),
    (&["log", "ship"], SHIPPED, &[
        ("seawall log ship orders --to nats://127.0.0.1:4222/orders --nats-monitor 127.0.0.1:8222", "batch by batch, until interrupted"),
        ("seawall log ship orders --to folder:kept/orders --once", "to an archive, up to what is durable now"),
        ("seawall log ship orders --to folder:kept/orders --dry-run", "prints what would be shipped; changes nothing"),
        ("seawall log ship --file ship.conf --wait --listen 127.0.0.1:9799", "a service: several logs, metrics, health"),
    ]),
    (&["log", "rebuild"], SHIPPED, &[
        ("seawall log rebuild again --from nats://127.0.0.1:4222/orders --fence", "restores the log and fences its old writer"),
        ("seawall log rebuild earlier --from folder:kept/orders --ago 1h", "a copy as of an hour ago"),
    ]),
    (&["log", "standby"], SHIPPED, &[
        ("seawall log standby orders --from nats://127.0.0.1:4222/orders", "follows until interrupted; a later run continues"),
    ]),
    (&["log", "takeover"], SHIPPED, &[
        ("seawall log takeover orders --from nats://127.0.0.1:4222/orders --fence", "orders becomes the log; its old writer is fenced"),
    ]),
    (&["log", "retain"], SHIPPED, &[
        ("seawall log retain --at folder:kept/orders --keep-days 30 --dry-run", "prints what would be removed"),
        ("seawall log retain --at s3://bucket/orders --keep-segments 100", "removes the oldest segments that the log has trimmed"),
    ]),
    (&["log", "compact"], SHIPPED, &[("seawall log compact --at folder:kept/orders", "once a day: a restore reads one object instead of thousands")]),
    (&["log", "status"], SHIPPED, &[
        ("seawall log status orders", "where it is shipped, and the lag"),
        ("seawall log status folder:kept/orders --format json", "what a destination contains, and its writer"),
    ]),
    (&["log", "drill"], SHIPPED, &[("seawall log drill --from folder:kept/orders --log orders", "finds what is missing or damaged, before it is needed")]),
];

pub(crate) fn added_to(bare: Command) -> Command {
    TABLE.iter().fold(bare, |command, (words, codes, examples)| {
        with(command, words, &text(examples), &exit::codes(codes))
    })
}

/// The examples in columns; where a line is too long for them, what it is for stands below it.
fn text(examples: &[(&str, &str)]) -> String {
    /// Of a line, so that the help does not break it.
    const WIDTH_MAX: usize = 98;
    const COLUMN_MAX: usize = 56;
    let lengths = examples.iter().map(|(line, _)| line.len());
    let width = lengths.filter(|length| *length <= COLUMN_MAX).max().unwrap_or(0);
    let lines = examples.iter().map(|(line, why)| {
        let fits = line.len() <= width && width + why.len() + 4 <= WIDTH_MAX;
        if fits { format!("  {line:width$}  {why}\n") } else { format!("  {line}\n      {why}\n") }
    });
    lines.fold("Examples:\n".to_owned(), |text, line| text + &line)
}

/// Puts the examples into the command that the words lead to. One that is not there (yet) is left alone: the test
/// below finds it.
fn with(command: Command, words: &[&str], examples: &str, codes: &str) -> Command {
    match words.split_first() {
        None if command.get_name() == "seawall" => command.after_help(format!("{examples}\n{codes}")),
        None => command.after_help(examples.to_owned()).after_long_help(format!("{examples}\n{codes}")),
        Some((first, rest)) if command.find_subcommand(first).is_some() => {
            command.mut_subcommand(first, |subcommand| with(subcommand, rest, examples, codes))
        }
        Some(_) => command,
    }
}

/// A command's examples, each with what it is for after two spaces.
pub(crate) fn of(command: &Command) -> Vec<String> {
    let mut examples: Vec<String> = Vec::new();
    for line in below(command, "Examples:") {
        match examples.last_mut() {
            Some(last) if !line.starts_with("seawall") => last.extend(["  ", &line]),
            _ => examples.push(line),
        }
    }
    examples
}

pub(crate) fn codes(command: &Command) -> Vec<String> {
    below(command, exit::HEADING)
}

fn below(command: &Command, heading: &str) -> Vec<String> {
    let text = command.get_after_long_help().or(command.get_after_help());
    let text = text.map(ToString::to_string).unwrap_or_default();
    let lines = text.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
    lines.take_while(|line| line.starts_with("  ")).map(|line| line.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::command;

    fn every_command(command: &Command, found: &mut Vec<Command>) {
        found.push(command.clone());
        command
            .get_subcommands()
            .filter(|one| one.get_name() != "help")
            .for_each(|one| every_command(one, found));
    }

    /// The words of an example as a shell sees them; what it is for stands after two spaces.
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
        for (words, ..) in TABLE {
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
    fn the_long_help_of_every_command_lists_its_exit_codes_and_no_other() {
        let mut all = Vec::new();
        every_command(&command(), &mut all);
        for mut one in all {
            let help = one.render_long_help().to_string();
            assert!(help.contains("Exit codes:"), "{}", one.get_name());
            for line in of(&one).iter().chain(&codes(&one)) {
                let is_whole = line.split("  ").all(|part| help.contains(part.trim()));
                assert!(is_whole, "the help breaks {line}");
            }
            let listed: Vec<String> =
                codes(&one).iter().filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect();
            assert_eq!(listed[..3], ["0", "1", "2"], "{}", one.get_name());
            let judges = ["seawall", "bench", "commit", "compare"].contains(&one.get_name());
            assert_eq!(
                listed.iter().any(|code| code == "3"),
                judges && !help.contains("seawall log"),
                "{}",
                one.get_name()
            );
            let breaks = ["seawall", "powercut", "check"].contains(&one.get_name());
            assert_eq!(listed.iter().any(|code| code == "4"), breaks, "{}", one.get_name());
        }
    }
}
