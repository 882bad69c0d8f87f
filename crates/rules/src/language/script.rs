//! Shell scripts of ipfw commands, read without being run.
//!
//! What is understood: comments, lines that go on behind a backslash, quotes, variables that are set to texts (`fwcmd="/sbin/ipfw -q"`), and commands of
//! ipfw with them. Anything else that a shell would do is refused with its line: half a script would be other rules.

use super::command::{Command, command_of};
use super::words::{Cursor, LINE_CHARACTERS_MAX, Word, split};
use crate::error::{Error, Place};
use std::collections::BTreeMap;

/// Bytes of a script at the most.
pub const SCRIPT_BYTES_MAX: usize = 1 << 20;

/// Commands that change nothing here.
const HARMLESS: &[&str] = &["echo", "exit", ":", "true", "set"];

/// Words by which a shell decides and repeats.
const CONTROL: &[&str] = &[
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "function", "eval", "source", ".",
    "in", "!",
];

/// The commands of a script, each with its line.
///
/// # Errors
/// [`Error::Syntax`] for the first thing that is not understood.
pub fn import(script: &str) -> Result<Vec<(usize, Command)>, Error> {
    if script.len() > SCRIPT_BYTES_MAX {
        let what = format!("the script has more than {SCRIPT_BYTES_MAX} bytes");
        return Err(fault(1, 1, what, "put its addresses into tables"));
    }
    let mut shell = Shell::default();
    let mut commands = Vec::new();
    let mut lines = script.lines().enumerate();
    while let Some((index, first)) = lines.next() {
        let mut text = first.to_owned();
        while let Some(front) = text.strip_suffix('\\') {
            // A blank for the backslash keeps the columns of the first line.
            text = format!("{front} {}", lines.next().map_or("", |(_, next)| next));
        }
        let line = index + 1;
        for words in shell.line(line, &text)? {
            commands.extend(shell.run(line, &words)?.map(|command| (line, command)));
        }
    }
    Ok(commands)
}

fn fault(line: usize, column: usize, what: impl Into<String>, remedy: &str) -> Error {
    Error::Syntax { place: Place { line, column }, what: what.into(), remedy: remedy.to_owned() }
}

/// The variables of a script.
#[derive(Default)]
struct Shell {
    variables: BTreeMap<String, String>,
}

/// A word of the shell, whose variables are replaced.
#[derive(Default)]
struct ShellWord {
    text: String,
    column: usize,
    is_begun: bool,
}

impl Shell {
    /// The commands of a line as words.
    fn line(&self, line: usize, text: &str) -> Result<Vec<Vec<Word>>, Error> {
        let chars: Vec<char> = text.chars().collect();
        let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), ShellWord::default());
        let (mut at, mut quote) = (0, None);
        while let Some(&c) = chars.get(at) {
            let (here, next) = (at + 1, chars.get(at + 1).copied());
            at += 1;
            match (quote, c) {
                (None, ' ' | '\t' | '\r' | ';') => {
                    word.finish(&mut words);
                    if c == ';' {
                        commands.push(std::mem::take(&mut words));
                    }
                }
                (None, '#') if !word.is_begun => break,
                (None, '\'' | '"') => {
                    word.begin(here);
                    quote = Some(c);
                }
                (Some(open), c) if open == c => quote = None,
                (None | Some('"'), '\\') => {
                    word.begin(here);
                    word.text.extend(next);
                    at += 1;
                }
                (None | Some('"'), '$') => {
                    word.begin(here);
                    let (value, after) = self.variable(line, &chars, at)?;
                    word.text.push_str(value);
                    at = after;
                }
                (None | Some('"'), '`') => return Err(substitution(line, here)),
                (None, '>') | (None, '2') if is_silence(&chars[here - 1..]).is_some() && (c == '>' || !word.is_begun) => {
                    word.finish(&mut words);
                    at = here - 1 + is_silence(&chars[here - 1..]).unwrap_or(1);
                }
                (None, '|' | '&' | '<' | '>' | '(' | ')') if !(c == '(' || c == ')') || !word.text.starts_with("table") => {
                    let what = format!("\"{c}\" makes the shell do something that is not understood");
                    return Err(fault(line, here, what, "write one ipfw command a line"));
                }
                (_, c) => {
                    word.begin(here);
                    word.text.push(c);
                }
            }
            if word.text.len() > LINE_CHARACTERS_MAX {
                return Err(fault(line, here, "the text of a word is too long", "put its addresses into a table"));
            }
        }
        if quote.is_some() {
            return Err(fault(line, chars.len(), "a quote is not closed on its line", "close it"));
        }
        word.finish(&mut words);
        commands.push(words);
        Ok(commands)
    }

    /// The value of the variable whose name begins at `at`, and where the text goes on.
    fn variable(&self, line: usize, chars: &[char], at: usize) -> Result<(&str, usize), Error> {
        let is_braced = chars.get(at) == Some(&'{');
        let start = at + usize::from(is_braced);
        let length = chars[start.min(chars.len())..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').count();
        let name: String = chars[start.min(chars.len())..][..length].iter().collect();
        let end = start + length;
        let is_closed = !is_braced || chars.get(end) == Some(&'}');
        if name.is_empty() || !is_closed || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(substitution(line, at));
        }
        match self.variables.get(&name) {
            Some(value) => Ok((value, end + usize::from(is_braced))),
            None => Err(fault(line, at, format!("the variable {name} is not set above"), "set it in the script to a text")),
        }
    }

    /// Sets variables, or reads a command of ipfw.
    fn run(&mut self, line: usize, words: &[Word]) -> Result<Option<Command>, Error> {
        if let [only] = words
            && let Some((name, value)) = only.text.split_once('=')
            && is_name(name)
        {
            self.variables.insert(name.to_owned(), value.to_owned());
            return Ok(None);
        }
        let mut parts = Vec::new();
        words.iter().for_each(|word| split(&word.text, word.column, &mut parts));
        let Some(first) = parts.first() else { return Ok(None) };
        let name = first.text.rsplit('/').next().unwrap_or_default();
        if name == "ipfw" {
            return command_of(line, &parts[1..]).map(Some);
        }
        if HARMLESS.contains(&name) {
            return Ok(None);
        }
        let cursor = Cursor::new(line, &parts);
        Err(if CONTROL.contains(&name) || name.ends_with("()") {
            cursor.fault(format!("\"{name}\" has the shell decide or repeat, which is not understood"), "write each command out")
        } else {
            cursor.fault(format!("\"{name}\" is no command of ipfw"), "take it out of a copy of the script, and do it apart")
        })
    }
}

impl ShellWord {
    fn begin(&mut self, column: usize) {
        if !self.is_begun {
            (self.is_begun, self.column) = (true, column);
        }
    }

    fn finish(&mut self, words: &mut Vec<Word>) {
        let word = std::mem::take(self);
        if word.is_begun {
            words.push(Word { text: word.text, column: word.column });
        }
    }
}

fn substitution(line: usize, column: usize) -> Error {
    fault(line, column, "this substitution is not understood", "write its result, or set a variable to it")
}

/// How many characters send output nowhere; none if these do something else.
fn is_silence(chars: &[char]) -> Option<usize> {
    const SILENCES: [&str; 7] =
        [">/dev/null", "> /dev/null", ">>/dev/null", ">> /dev/null", "2>/dev/null", "2> /dev/null", "2>&1"];
    let found = SILENCES.iter().find(|text| text.chars().enumerate().all(|(at, c)| chars.get(at) == Some(&c)));
    found.map(|text| text.len())
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::command;

    fn place(script: &str) -> (usize, usize) {
        match import(script).unwrap_err() {
            Error::Syntax { place, .. } => (place.line, place.column),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_script_of_commands_is_read() {
        let script = "#!/bin/sh\n\
            # the gateway\n\
            fwcmd=\"/sbin/ipfw -q\"\n\
            net='10.0.0.0/8'; oif=em0\n\
            ipfw -q flush >/dev/null 2>&1\n\
            $fwcmd table 1 add 10.1.0.0/16 7\n\
            ${fwcmd} add 100 count ip from $net to \\\n\
            any in via ${oif} # counted\n\
            $fwcmd add allow ip from 'table(1)' to any // all of \"them\"\n\
            $fwcmd add deny ip from table\\(1\\) to any\n\
            exit 0\n";
        let expected = [
            (5, "flush"),
            (6, "table 1 add 10.1.0.0/16 7"),
            (7, "add 100 count ip from 10.0.0.0/8 to any in via em0"),
            (9, "add allow ip from table(1) to any // all of them"),
            (10, "add deny ip from table(1) to any"),
        ];
        let expected: Vec<_> = expected.iter().map(|(line, text)| (*line, command(text, 1).unwrap())).collect();
        assert_eq!(import(script).unwrap(), expected);
    }

    #[test]
    fn what_a_shell_would_decide_is_refused_with_its_line() {
        for (script, expected) in [
            ("ipfw flush\nfor i in 1 2 3; do\n", (2, 1)),
            ("\nif [ -n 1 ]; then\n", (2, 1)),
            ("ipfw add count ip from $net to any", (1, 24)),
            ("ipfw add count ip from $(net) to any", (1, 24)),
            ("a=`ls`", (1, 3)),
            ("ipfw list | head", (1, 11)),
            ("ipfw flush && ipfw flush", (1, 12)),
            ("kldload ipfw", (1, 1)),
            ("ipfw add count ip from any to any \"", (1, 35)),
            ("x=1\nipfw add count ip from any to any vai em$x", (2, 35)),
            ("ipfw add $1 count ip from any to any", (1, 10)),
            ("ipfw add ${x:-1} count ip from any to any", (1, 10)),
            ("ipfw flush > out", (1, 12)),
        ] {
            assert_eq!(place(script), expected, "{script}");
        }
    }

    #[test]
    fn variables_cannot_grow_without_bound() {
        let script = format!("a=aaaaaaaa\n{}", "a=$a$a\n".repeat(60));
        assert!(matches!(import(&script).unwrap_err(), Error::Syntax { .. }));
        assert_eq!(place(&"#".repeat(SCRIPT_BYTES_MAX + 1)), (1, 1));
    }
}
