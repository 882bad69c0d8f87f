//! Help as wide as the terminal: what stands behind the flags keeps its indentation, and each command has examples.

use crate::print::is_terminal;
use clap::Command;
use ratatui::crossterm::terminal;

/// The most columns, and those where nobody looks.
const WIDTH_MAX: usize = 100;
/// The fewest that lines are broken for.
const WIDTH_MIN: usize = 40;

/// Examples, by command: lines for a shell, each with what it does.
const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "serve",
        &[
            ("corelane serve", "echo and RPC on loopback"),
            ("corelane serve 'http=http://[::]:8080?root=/srv/www'", "the files beneath a directory"),
            ("corelane serve --check --config /etc/corelane/corelane.toml", "whether settings are right"),
            ("corelane serve --take-over --config /etc/corelane/corelane.toml", "instead of the process that serves now"),
        ],
    ),
    (
        "load",
        &[
            ("corelane load", "echo, one connection, as fast as it goes"),
            (
                "corelane load http http://127.0.0.1:8080/ -c 64 --rate 10k --server-page",
                "an open loop, with the server's own cost",
            ),
            ("corelane load echo tcp://10.0.0.7:60007 --against tcp://10.0.0.8:60007", "two servers in paired rounds"),
        ],
    ),
    (
        "rss",
        &[
            ("corelane rss show eth0", "how a card spreads flows"),
            ("corelane rss check tcp://127.0.0.1:60007", "whether flows come to their lanes"),
            ("corelane rss table --move 0-15:1", "gives sixteen buckets to lane 1"),
        ],
    ),
    ("dispatch", &[("corelane dispatch --set ip=deferred --limit ip=512", "handles IPv4 later, with a queue of 512")]),
    (
        "stat",
        &[
            ("corelane stat", "all that runs, and what is wrong"),
            ("corelane stat --every 1s", "with rates, each second"),
            ("corelane stat -R", "each connection, and the lane that it belongs to"),
            ("corelane stat --all --json", "every counter, for programs"),
        ],
    ),
    ("top", &[("corelane top", "the process that runs, or a choice of several")]),
    ("profile", &[("corelane profile", "where lanes spend their time")]),
    (
        "doctor",
        &[
            ("corelane doctor", "what this machine lacks"),
            ("corelane doctor -- 'http=http://[::]:80?root=/srv/www'", "and what stands in the way of this"),
        ],
    ),
    (
        "generate",
        &[
            ("corelane generate manual ~/.local/share/man/man1", "manual pages"),
            ("corelane generate completions bash > ~/.local/share/bash-completion/completions/corelane", "completions"),
        ],
    ),
];

/// The command with examples, for the terminal that there is.
pub fn fitted(command: Command) -> Command {
    let columns = terminal::size().ok().filter(|_| is_terminal()).map_or(WIDTH_MAX, |(columns, _)| columns.into());
    let width = columns.clamp(WIDTH_MIN, WIDTH_MAX);
    with_examples(command.term_width(width), width)
}

/// What stands behind the flags: examples, and then the rest.
fn with_examples(command: Command, width: usize) -> Command {
    let name = command.get_name().to_owned();
    let rest = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let examples = EXAMPLES.iter().find(|(of, _)| *of == name).map(|(_, examples)| lines(examples)).unwrap_or_default();
    let between = if examples.is_empty() || rest.is_empty() { "" } else { "\n" };
    let after = hung(&format!("{examples}{between}{rest}"), width);
    let command = command.mut_subcommands(|command| with_examples(command, width));
    if after.is_empty() { command } else { command.after_help(after) }
}

fn lines(examples: &[(&str, &str)]) -> String {
    let line = |(line, what): &(&str, &str)| format!("  {line}\n      {what}\n");
    "Examples:\n".to_owned() + &examples.iter().map(line).collect::<String>()
}

/// Breaks lines that are too long. What follows stands below what stood behind the line's name, which ends with two spaces, or else a little deeper than the
/// line began.
fn hung(text: &str, width: usize) -> String {
    let line = |line: &str| {
        if line.chars().count() <= width {
            return line.to_owned();
        }
        let begin = line.len() - line.trim_start().len();
        let behind =
            line[begin..].find("  ").map(|at| begin + at + line[begin + at..].len() - line[begin + at..].trim_start().len());
        let deeper = behind.filter(|&at| at <= width / 2).unwrap_or(begin + 2);
        let (first, rest) = line.split_at(behind.filter(|&at| at == deeper).unwrap_or(begin));
        let indent = " ".repeat(deeper);
        let options = textwrap::Options::new(width).initial_indent(first).subsequent_indent(&indent).break_words(false);
        textwrap::fill(rest, options.word_splitter(textwrap::WordSplitter::NoHyphenation))
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_keep_their_indentation() {
        let text = "Codes:\n    3  one two three four five six seven\n  a line without a name goes on deeper than it began";
        assert_eq!(
            hung(text, 26),
            "Codes:\n    3  one two three four\n       five six seven\n  a line without a name\n    goes on deeper than it\n    began"
        );
        assert_eq!(hung("short", 40), "short");
    }

    #[test]
    fn each_command_has_examples_that_it_takes_and_its_help_fits() {
        for command in crate::line().get_subcommands().filter(|command| command.get_name() != "help") {
            let (_, examples) =
                EXAMPLES.iter().find(|(name, _)| *name == command.get_name()).unwrap_or_else(|| panic!("{}", command.get_name()));
            for (line, _) in *examples {
                // As a shell would read them: quotes stand around whole words, and what is behind > is not the program's.
                let words = line.split(" > ").next().unwrap_or_default().split(' ').map(|word| word.trim_matches('\''));
                let read = crate::line().try_get_matches_from(words);
                assert!(read.is_ok(), "{line}: {}", read.unwrap_err());
            }
            let help = with_examples(command.clone(), 60).term_width(60).render_long_help().to_string();
            let (_, after) = help.split_once("Examples:").unwrap_or_else(|| panic!("{}", command.get_name()));
            let long =
                after.lines().find(|line| line.chars().count() > 60 && line.trim().contains(' ') && !line.contains("corelane "));
            assert_eq!(long, None, "{}", command.get_name());
        }
    }
}
