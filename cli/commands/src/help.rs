//! Help as wide as the terminal: what stands behind the flags keeps its indentation, and each command has examples.

use crate::print::is_terminal;
use clap::{Arg, ArgAction, Command};
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
        "polling",
        &[
            ("corelane polling", "how much of their time lanes give to packets"),
            ("corelane polling --set user_frac=30", "keeps 30 % for services and tasks"),
        ],
    ),
    (
        "gateway",
        &[
            ("corelane gateway show", "the rules with what they have matched"),
            ("corelane gateway add 100 count ip from any to any in via users10", "one more rule, in ipfw's words"),
            ("corelane gateway trace in via users10 tcp 10.0.10.5:4000 to 192.0.2.1:80 syn", "what becomes of a packet"),
            ("corelane gateway import --check /etc/ipfw.rules", "what would come of a script of ipfw commands"),
            ("corelane gateway route add 10.9.0.0/16 via 10.0.10.2", "one more route"),
        ],
    ),
    (
        "proxy",
        &[
            ("corelane proxy show", "the servers behind a proxy, and how each does"),
            ("corelane proxy drain 10.0.0.2:80", "nothing new goes to this one"),
        ],
    ),
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
    // Elsewhere nobody is asked: the library would start a program (tput) for what no terminal tells.
    let size = is_terminal().then(terminal::size).and_then(Result::ok);
    let columns = size.map_or(WIDTH_MAX, |(columns, _)| columns.into());
    let width = columns.clamp(WIDTH_MIN, WIDTH_MAX);
    with_examples(brief(command).term_width(width), "", width)
}

/// Has `--help` say the first words of each flag alone. The manual page has all of them, and so has `corelane help`.
fn brief(command: Command) -> Command {
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help("Print help");
    command.disable_help_flag(true).next_line_help(true).arg(help).mut_subcommands(brief)
}

/// Puts examples and then the rest behind the flags of a command, which is called behind the words `above`.
fn with_examples(command: Command, above: &str, width: usize) -> Command {
    let name = command.get_name().to_owned();
    let words = if above.is_empty() { name.clone() } else { format!("{above} {name}") };
    let rest = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let rest = match details(&command, &words) {
        Some(where_to) if rest.is_empty() => where_to,
        Some(where_to) => format!("{rest}\n\n{where_to}"),
        None => rest,
    };
    let examples = EXAMPLES.iter().find(|(of, _)| *of == name).map(|(_, examples)| lines(examples)).unwrap_or_default();
    let between = if examples.is_empty() || rest.is_empty() { "" } else { "\n" };
    let after = hung(&format!("{examples}{between}{rest}"), width);
    let command = command.mut_subcommands(|command| with_examples(command, &words, width));
    if after.is_empty() { command } else { command.after_help(after) }
}

/// Where the rest of what is said of the command or of its flags stands, if there is more than the first words.
fn details(command: &Command, words: &str) -> Option<String> {
    let is_cut = command.get_long_about().is_some() || command.get_arguments().any(|arg| arg.get_long_help().is_some());
    let (program, below) = words.split_once(' ')?;
    is_cut.then(|| format!("Details: {program} help {below}, or the manual page {}(1)", words.replace(' ', "-")))
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
            let help = with_examples(command.clone(), "corelane", 60).term_width(60).render_long_help().to_string();
            let (_, after) = help.split_once("Examples:").unwrap_or_else(|| panic!("{}", command.get_name()));
            let long =
                after.lines().find(|line| line.chars().count() > 60 && line.trim().contains(' ') && !line.contains("corelane "));
            assert_eq!(long, None, "{}", command.get_name());
        }
    }

    /// The most lines that help has of a flag or a command, in the columns that 80 make behind the indentation.
    const LINES_MAX: usize = 2;
    const WIDTH: usize = 90;
    /// The most characters of them, without what is said of values.
    const LETTERS_MAX: usize = 140;

    /// The lines of help for each flag and command, and for the command itself: how many stand together, by the line above them.
    fn said(help: &str) -> Vec<(String, usize)> {
        let about = help.lines().take_while(|line| !line.starts_with("Usage:")).filter(|line| !line.is_empty()).count();
        let mut all = vec![("its own words".to_owned(), about)];
        for line in help.lines() {
            match all.last_mut() {
                Some((_, lines)) if line.starts_with("          ") => *lines += 1,
                _ if line.starts_with("  ") => all.push((line.trim().to_owned(), 0)),
                _ => {}
            }
        }
        all
    }

    #[test]
    fn help_says_each_thing_in_two_lines() {
        let mut commands = vec![(crate::line(), "corelane".to_owned())];
        let (mut seen, mut long) = (0, String::new());
        while let Some((command, words)) = commands.pop() {
            commands.extend(command.get_subcommands().map(|below| (below.clone(), format!("{words} {}", below.get_name()))));
            let help = command.clone().after_help("").term_width(WIDTH).render_help().to_string();
            for arg in command.get_arguments() {
                let letters = arg.get_help().map_or(0, |help| help.to_string().chars().count());
                if letters > LETTERS_MAX {
                    long += &format!("\n{words} --help: {letters} letters of {}", arg.get_id());
                }
            }
            for (thing, lines) in said(&help) {
                seen += lines;
                if lines > LINES_MAX {
                    long += &format!("\n{words} --help: {lines} lines of {thing}");
                }
            }
        }
        assert!(long.is_empty(), "move some behind the first paragraph:{long}");
        assert!(seen > 100, "{seen} lines");
    }

    #[test]
    fn the_manual_page_and_the_command_help_have_what_the_flag_leaves_out() {
        let line = crate::line();
        let serve = || line.find_subcommand("serve").unwrap().clone();
        let mut page = Vec::new();
        clap_mangen::Man::new(serve()).render(&mut page).unwrap();
        let flag = serve().render_help().to_string();
        for text in [String::from_utf8(page).unwrap(), serve().render_long_help().to_string()] {
            assert!(text.contains("SIGRTMIN+5"), "{text}");
        }
        let asked = crate::line().try_get_matches_from(["corelane", "serve", "--help"]).unwrap_err().to_string();
        for text in [flag, asked] {
            assert!(text.contains("--stall") && !text.contains("SIGRTMIN+5"), "{text}");
        }
    }

    #[test]
    fn details_are_told_where_there_are_more_words() {
        let flag = |help: &'static str| Arg::new("flag").long("flag").help(help);
        let command = |arg| with_examples(Command::new("rss").arg(arg), "corelane", 60);
        let more = command(flag("short").long_help("short\n\nand more"));
        assert!(
            more.get_after_help()
                .unwrap()
                .to_string()
                .ends_with("Details: corelane help rss, or the manual page\n  corelane-rss(1)")
        );
        let all = command(flag("short"));
        assert!(!all.get_after_help().unwrap().to_string().contains("Details"));
    }
}
