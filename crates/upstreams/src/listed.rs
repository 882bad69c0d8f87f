//! A target as the table keeps it: which one it is, and what is known of its name.

use crate::reach::named;
use crate::targets::{Place, Target};
use corelane::Instant;
use corelane::service::Learned;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How much is kept of why a name or a source is not known.
const FAULT_CHARS_MAX: usize = 300;

/// Before any turn of a lane.
pub(crate) const AT_ONCE: Instant = Instant::from_nanoseconds(0);

/// A target in the table, or one that has gone and whose place is kept.
#[derive(Debug)]
pub(crate) struct Listed {
    pub target: Target,
    /// The number of the source that names it, if one does.
    pub of: Option<u16>,
    /// Of a source, by which its last answer is known.
    pub stamp: Option<u64>,
    /// By which name it is asked for in TLS.
    pub asked: Option<Arc<Learned>>,
    /// When its name is resolved next.
    pub resolve_at: Instant,
    /// It has had addresses.
    pub is_known: bool,
    /// Why it was not resolved the last time.
    pub fault: Option<String>,
    /// The operator has taken it out.
    pub is_drained: bool,
    /// The settings name it no more, and it stays until those in its place are known.
    pub is_replaced: bool,
    /// A source that was named while others served: until it was read, those that are replaced stay.
    pub replaces: bool,
    /// It is none of the targets any more; its place is kept as long as something is under way there.
    pub is_gone: bool,
}

impl Listed {
    /// Notes why it was not resolved. Returns that for the operator, who was told before where it is the same.
    pub fn failed(&mut self, why: &str) -> Option<String> {
        let why: String = why.chars().take(FAULT_CHARS_MAX).collect();
        let before = self.fault.replace(why.clone());
        (before.as_ref() != Some(&why)).then_some(why)
    }

    /// Whether its name is asked for, and nothing was ever said of it.
    pub fn is_awaited(&self) -> bool {
        !self.is_known && self.fault.is_none()
    }

    pub fn new(target: &Target, of: Option<u16>) -> Self {
        Self {
            target: target.clone(),
            of,
            stamp: None,
            asked: target.tls().map(named),
            resolve_at: if matches!(target.place(), Place::At(_)) { Instant::NEVER } else { AT_ONCE },
            is_known: false,
            fault: None,
            is_drained: false,
            is_replaced: false,
            replaces: false,
            is_gone: false,
        }
    }
}

/// The groups of what the settings name now: which of them wait for an upstream.
#[derive(Debug)]
pub(crate) struct Groups(BTreeMap<u32, Group>);

#[derive(Debug, Default)]
struct Group {
    /// A source that was named while others served is still to be read.
    is_unread: bool,
    /// One is known. A source that was read is none of those that it names.
    is_known: bool,
}

impl Groups {
    pub fn of(all: &[Listed]) -> Self {
        let mut groups = BTreeMap::<u32, Group>::new();
        let is_new = |listed: &Listed| !listed.is_gone && listed.of.is_none() && !listed.is_replaced;
        for listed in all {
            let (is_there, is_source) = match listed.of {
                Some(source) => (!listed.is_gone && is_new(&all[usize::from(source)]), false),
                None => (is_new(listed), matches!(listed.target.place(), Place::Source(_))),
            };
            if is_there {
                let group = groups.entry(listed.target.group()).or_default();
                group.is_unread |= listed.replaces && !listed.is_known;
                group.is_known |= listed.is_known && !is_source;
            }
        }
        Self(groups)
    }

    /// Whether one of them has no upstream yet.
    pub fn are_waiting(&self) -> bool {
        self.0.values().any(Group::is_waiting)
    }

    /// Whether what the settings name no more of this group can go. Where they name nothing else of it, others have its clients, whoever these are.
    pub fn have_others(&self, group: u32) -> bool {
        self.0.get(&group).map_or_else(|| !self.are_waiting(), |group| !group.is_waiting())
    }
}

impl Group {
    fn is_waiting(&self) -> bool {
        self.is_unread || !self.is_known
    }
}
