//! Commands, as ipfw(8) has them.

use super::body::{body, flow_name};
use super::names;
use super::operands::{link_name, number, prefix, rule_number, set, table_name};
use super::rule::{Action, Body, Keep, Log, Rule};
use super::words::{COMMENT, Cursor, LINE_CHARACTERS_MAX, Word, split};
use crate::error::{Error, Place};
use crate::prefix::Prefix;
use crate::verdict::Reject;

/// Characters of a rule's comment at the most.
const COMMENT_CHARACTERS_MAX: usize = 80;

/// What ipfw's rules may do, and ours do not.
const NOT_DONE: &[&str] = &[
    "abort",
    "abort6",
    "altq",
    "call",
    "divert",
    "dscp",
    "eaction",
    "forward",
    "fwd",
    "mark",
    "nat",
    "nat64clat",
    "nat64lsn",
    "nat64stl",
    "netgraph",
    "ngtee",
    "nptv6",
    "pipe",
    "prob",
    "queue",
    "reass",
    "reset6",
    "return",
    "setdscp",
    "setfib",
    "setmark",
    "tag",
    "tcp-setmss",
    "tee",
    "untag",
];

/// What is to be done with rules, sets and tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Adds a rule; without a number it gets the last one's and the step.
    Add(Option<u16>, Rule),
    /// Takes away all rules with numbers in these ranges, first and last.
    Delete(Vec<(u16, u16)>),
    /// Takes away all rules of a set.
    DeleteSet(u8),
    /// Takes away all rules but those of set 31 and the last.
    Flush,
    /// Lets counters begin with 0 again: of the rules with numbers in these ranges, of all if there are none.
    Zero(Vec<(u16, u16)>),
    /// Lets `log` begin again: likewise.
    ResetLog(Vec<(u16, u16)>),
    /// Changes sets.
    Set(SetChange),
    /// Changes a table.
    Table(String, TableChange),
}

/// What is done with sets of rules, at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetChange {
    /// Switches those of the first mask off, and those of the second on.
    Switch {
        /// A bit for each set that is switched off.
        off: u32,
        /// A bit for each set that is switched on.
        on: u32,
    },
    /// The rules of each are in the other.
    Swap(u8, u8),
    /// The rules of the first come to the second.
    Move(u8, u8),
    /// The rules of a number come to a set.
    MoveRule(u16, u8),
}

/// What is done with a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// Makes it, for interfaces or else for prefixes.
    Create {
        /// Whether its keys are names of interfaces.
        of_links: bool,
    },
    /// Takes it away.
    Destroy,
    /// Empties it.
    Flush,
    /// Puts keys into it, each with its value.
    Add(Vec<(Key, u32)>),
    /// Takes keys out of it.
    Delete(Vec<Key>),
}

/// What a table is asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Addresses.
    Prefix(Prefix),
    /// An interface.
    Link(String),
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Prefix(prefix) => prefix.fmt(f),
            Self::Link(name) => f.write_str(name),
        }
    }
}

/// The command in a text, which is line `line` of a file. It may begin with `ipfw` and its options `-q` and `-f`.
///
/// # Errors
/// [`Error::Syntax`].
pub fn command(text: &str, line: usize) -> Result<Command, Error> {
    if text.chars().count() > LINE_CHARACTERS_MAX {
        let place = Place { line, column: LINE_CHARACTERS_MAX };
        let what = format!("the line is longer than {LINE_CHARACTERS_MAX} characters");
        return Err(Error::Syntax { place, what, remedy: "put its addresses into a table".to_owned() });
    }
    let mut words = Vec::new();
    split(text, 1, &mut words);
    command_of(line, &words)
}

/// The command that these words make.
pub(super) fn command_of(line: usize, words: &[Word]) -> Result<Command, Error> {
    let mut cursor = Cursor::new(line, words);
    cursor.take("ipfw");
    while cursor.peek().is_some_and(|word| matches!(word, "-q" | "-f" | "-qf" | "-fq")) {
        cursor.word("a command")?;
    }
    let command = match cursor.word("add, delete, flush, zero, resetlog, set or table")? {
        "add" => add(&mut cursor)?,
        "delete" | "del" if cursor.take("set") => Command::DeleteSet(set(&mut cursor)?),
        "delete" | "del" => Command::Delete(numbered(&mut cursor, true)?),
        "flush" => Command::Flush,
        "zero" => Command::Zero(numbered(&mut cursor, false)?),
        "resetlog" => Command::ResetLog(numbered(&mut cursor, false)?),
        "set" => Command::Set(sets(&mut cursor)?),
        "table" => table(&mut cursor)?,
        other => {
            let remedy = "write add, delete, flush, zero, resetlog, set or table";
            return Err(cursor.fault_before(format!("\"{other}\" is no command that changes rules"), remedy));
        }
    };
    match cursor.peek() {
        None => Ok(command),
        Some(word) => Err(cursor.fault(format!("\"{word}\" is too much"), "end the line before it")),
    }
}

fn add(cursor: &mut Cursor<'_>) -> Result<Command, Error> {
    let has_number = cursor.peek().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let number = if has_number { Some(rule_number(cursor)?) } else { None };
    let set = if cursor.take("set") { set(cursor)? } else { 0 };
    let action = action(cursor)?;
    if matches!(action, Action::Skipto(to) if number.is_some_and(|number| to <= number)) {
        let remedy = "rules are read forwards, so name a number above the rule's own";
        return Err(cursor.fault_before(format!("the rule is to {action}, which is not behind it"), remedy));
    }
    let log = log(cursor)?;
    let (body, keep) =
        if action == Action::CheckState { (Body::default(), flow_name(cursor).map(|()| None::<Keep>)?) } else { body(cursor)? };
    let comment = comment(cursor)?;
    Ok(Command::Add(number, Rule { set, action, log, body, keep, comment }))
}

fn comment(cursor: &mut Cursor<'_>) -> Result<String, Error> {
    if !cursor.peek().is_some_and(|word| word.starts_with(COMMENT)) {
        return Ok(String::new());
    }
    let at = cursor.clone();
    let text = cursor.rest().trim_start_matches(COMMENT).trim().to_owned();
    if text.chars().count() > COMMENT_CHARACTERS_MAX {
        let what = format!("the comment has more than {COMMENT_CHARACTERS_MAX} characters");
        return Err(at.fault(what, "make it shorter"));
    }
    Ok(text)
}

fn action(cursor: &mut Cursor<'_>) -> Result<Action, Error> {
    let word = cursor.word("what the rule does: count, allow, deny, reject, unreach, reset, skipto or check-state")?;
    Ok(match word {
        "count" => Action::Count,
        "allow" | "accept" | "pass" | "permit" => Action::Allow,
        "deny" | "drop" => Action::Deny,
        "reject" => Action::Reject(Reject::Unreachable(1)),
        "reset" => Action::Reject(Reject::Reset),
        "unreach" => Action::Reject(Reject::Unreachable(code(cursor, names::UNREACH)?)),
        "unreach6" => Action::Reject(Reject::Unreachable6(code(cursor, names::UNREACH6)?)),
        "skipto" => Action::Skipto(number(cursor, "the number of a rule behind", 1, 65_535)? as u16),
        "check-state" => Action::CheckState,
        _ => {
            let what = if NOT_DONE.contains(&word) { "is not carried out here" } else { "is nothing that a rule does" };
            let remedy = "write count, allow, deny, reject, unreach, unreach6, reset, skipto or check-state";
            return Err(cursor.fault_before(format!("\"{word}\" {what}"), remedy));
        }
    })
}

fn code(cursor: &mut Cursor<'_>, known: &[(&str, u8)]) -> Result<u8, Error> {
    let word = cursor.word("a code")?;
    let found = names::number(known, word).or_else(|| word.parse().ok());
    found.ok_or_else(|| {
        let all: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        cursor.fault_before(format!("\"{word}\" is no code"), format!("write a number to 255 or {}", all.join(", ")))
    })
}

fn log(cursor: &mut Cursor<'_>) -> Result<Log, Error> {
    if !cursor.take("log") {
        return Ok(Log::No);
    }
    if !cursor.take("logamount") {
        return Ok(Log::Yes);
    }
    number(cursor, "a number of lines", 0, u32::MAX).map(Log::Amount)
}

/// Numbers of rules and ranges of them, to the end.
fn numbered(cursor: &mut Cursor<'_>, at_least_one: bool) -> Result<Vec<(u16, u16)>, Error> {
    let mut ranges = Vec::new();
    while cursor.peek().is_some() || at_least_one && ranges.is_empty() {
        let word = cursor.word("the number of a rule")?;
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if 0 < first && first <= last => ranges.push((first, last)),
            _ => return Err(cursor.fault_before(format!("\"{word}\" is no number of a rule"), "write 1 to 65535, or a range")),
        }
    }
    Ok(ranges)
}

fn sets(cursor: &mut Cursor<'_>) -> Result<SetChange, Error> {
    if cursor.take("swap") {
        return Ok(SetChange::Swap(set(cursor)?, set(cursor)?));
    }
    if cursor.take("move") {
        let rule = if cursor.take("rule") { Some(rule_number(cursor)?) } else { None };
        let from = if rule.is_none() { set(cursor)? } else { 0 };
        cursor.require("to")?;
        let to = set(cursor)?;
        return Ok(rule.map_or(SetChange::Move(from, to), |rule| SetChange::MoveRule(rule, to)));
    }
    let (mut off, mut on, mut is_off) = (0, 0, None);
    while let Some(word) = cursor.peek() {
        match (word, is_off) {
            ("disable" | "enable", _) => {
                cursor.word("disable or enable")?;
                is_off = Some(word == "disable");
            }
            (_, Some(is_off)) => *(if is_off { &mut off } else { &mut on }) |= 1_u32 << set(cursor)?,
            (_, None) => break,
        }
    }
    if off == 0 && on == 0 {
        return Err(cursor.fault("no set is named", "write disable N, enable N, swap N N, move N to N or move rule N to N"));
    }
    if off & on != 0 {
        return Err(cursor.fault_before("a set is switched both ways", "name each set once"));
    }
    Ok(SetChange::Switch { off, on })
}

fn table(cursor: &mut Cursor<'_>) -> Result<Command, Error> {
    let name = table_name(cursor)?;
    let change = match cursor.word("create, destroy, flush, add or delete")? {
        "create" => create(cursor)?,
        "destroy" => TableChange::Destroy,
        "flush" => TableChange::Flush,
        "add" => {
            let mut entries = Vec::new();
            while cursor.peek().is_some() || entries.is_empty() {
                let key = key(cursor)?;
                let has_value = cursor.peek().is_some_and(|word| word.parse::<u32>().is_ok());
                entries.push((key, if has_value { number(cursor, "a value", 0, u32::MAX)? } else { 0 }));
            }
            TableChange::Add(entries)
        }
        "delete" => {
            let mut keys = vec![key(cursor)?];
            while cursor.peek().is_some() {
                keys.push(key(cursor)?);
            }
            TableChange::Delete(keys)
        }
        other => {
            let remedy = "write create, destroy, flush, add or delete";
            return Err(cursor.fault_before(format!("\"{other}\" is nothing that is done with a table"), remedy));
        }
    };
    Ok(Command::Table(name, change))
}

fn create(cursor: &mut Cursor<'_>) -> Result<TableChange, Error> {
    let mut of_links = false;
    while let Some(word) = cursor.peek() {
        cursor.word("an option")?;
        match word {
            "type" => match cursor.word("addr or iface")? {
                "addr" => of_links = false,
                "iface" => of_links = true,
                other => {
                    return Err(
                        cursor.fault_before(format!("there are no tables of \"{other}\""), "write type addr or type iface")
                    );
                }
            },
            "valtype" => {
                cursor.word("a type of values")?;
            }
            other => {
                return Err(cursor.fault_before(format!("\"{other}\" is no option of a table"), "write type addr or type iface"));
            }
        }
    }
    Ok(TableChange::Create { of_links })
}

/// A prefix, or else the name of an interface.
fn key(cursor: &mut Cursor<'_>) -> Result<Key, Error> {
    let is_address = cursor.peek().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()) || word.contains(':'));
    if is_address { prefix(cursor).map(Key::Prefix) } else { link_name(cursor).map(Key::Link) }
}
