//! What is printed means the same when it is read, and no text does harm.

use crate::drawn;
use corelane_rules::language::{Command, command, import};
use corelane_rules::{Error, Limits};
use corelane_seam::Random;

fn parsed(text: &str) -> corelane_rules::language::Rule {
    match command(&format!("add {text}"), 1) {
        Ok(Command::Add(_, rule)) => rule,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn what_is_printed_means_the_same_when_it_is_read() {
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        let text = drawn::rule(&mut random);
        let rule = parsed(&text);
        let printed = rule.to_string();
        assert_eq!(parsed(&printed), rule, "{text}\n{printed}");
        assert_eq!(parsed(&printed).to_string(), printed);
    }
}

/// A text with some of its characters changed, left out or doubled.
fn spoiled(random: &mut Random, text: &str) -> String {
    const OTHERS: &[char] =
        &['{', '}', '(', ')', ',', '/', '-', ':', '!', '$', '"', '\'', '\\', '#', '=', ';', '`', '\t', 'ä', '9', 'x', '\n'];
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..random.one_to(4) {
        let at = random.index(chars.len());
        match random.below(3) {
            0 => chars.insert(at, OTHERS[random.index(OTHERS.len())]),
            1 if !chars.is_empty() => drop(chars.remove(at)),
            _ => {
                let word: Vec<char> = chars[at..].iter().take(random.index(12)).copied().collect();
                chars.splice(at..at, word);
            }
        }
    }
    chars.into_iter().collect()
}

fn check(text: &str, error: &Error) {
    let Error::Syntax { place, what, remedy } = error else { panic!("{text}: {error}") };
    assert!(place.line >= 1 && place.line <= text.lines().count().max(1), "{text}: {error}");
    assert!(place.column >= 1 && place.column <= text.chars().count() + 2, "{text}: {error}");
    assert!(!what.is_empty() && !remedy.is_empty());
}

#[test]
fn spoiled_texts_are_refused_where_they_are_spoiled_or_mean_something() {
    let mut random = Random::new(2);
    let (mut refused, mut read) = (0, 0);
    for _ in 0..100_000 {
        let rule = drawn::rule(&mut random);
        let text = spoiled(&mut random, &format!("add {rule}"));
        match command(&text, 1) {
            Ok(_) => read += 1,
            Err(error) => {
                refused += 1;
                check(&text.replace('\n', " "), &error);
            }
        }
    }
    println!("{refused} refused, {read} read");
    assert!(refused > 20_000 && read > 2_000);
}

#[test]
fn spoiled_scripts_are_refused_or_mean_something() {
    let mut random = Random::new(3);
    let script = "#!/bin/sh\nfw=\"ipfw -q\"; net='10.0.0.0/8'\n$fw table t add 10.1.0.0/16 5\n${fw} add count ip from $net to \\\n any in via em0 # x\n";
    let refused = (0..50_000).filter(|_| {
        let text = spoiled(&mut random, script);
        import(&text).map_err(|error| check(&text, &error)).is_err()
    });
    let refused = refused.count();
    assert!(refused > 10_000 && refused < 49_000, "{refused}");
}

#[test]
fn the_drawn_rules_are_of_all_kinds() {
    let rules: Vec<String> = (0..500)
        .flat_map(|seed| {
            let rules = drawn::rules(&mut Random::new(seed), Limits::default());
            rules.all().map(|(_, _, rule)| rule.to_string()).collect::<Vec<_>>()
        })
        .collect();
    for kind in [
        "count",
        "allow",
        "deny",
        "reject",
        "unreach ",
        "unreach6",
        "reset",
        "skipto",
        "check-state",
        "keep-state",
        "limit",
        " log",
        "logamount",
        "set ",
        "not ",
        "{",
        "table(t,",
        "recv",
        "xmit",
        "icmp6types",
        "frag",
        "setup",
    ] {
        assert!(rules.iter().any(|rule| rule.contains(kind)), "{kind}");
    }
}
