//! Rules as ipfw(8) prints them.

use crate::order::Numbered;
use crate::records::Count;
use crate::verdict::RuleId;

/// `ipfw list`.
pub fn list(rules: &[Numbered]) -> Vec<String> {
    rules.iter().map(|numbered| format!("{:05} {}", numbered.number, numbered.rule)).collect()
}

/// `ipfw show`: packets and bytes in columns as wide as the widest.
pub fn show(rules: &[Numbered], count: impl Fn(RuleId) -> Count) -> Vec<String> {
    let counts: Vec<Count> = rules.iter().map(|numbered| count(numbered.id)).collect();
    let width = |of: fn(&Count) -> u64| counts.iter().map(|count| of(count).to_string().len()).max().unwrap_or(0);
    let (packets, bytes) = (width(|count| count.packets), width(|count| count.bytes));
    let line = |(numbered, count): (&Numbered, &Count)| {
        format!("{:05} {:>packets$} {:>bytes$} {}", numbered.number, count.packets, count.bytes, numbered.rule)
    };
    rules.iter().zip(&counts).map(line).collect()
}
