//! Degraded modes: what a program does without, each with a code that stays the same from release to release.
//!
//! ```text
//! what stands in the way --Degraded::note--> Record, shown as "[CL-0001] words" in notes, pages, logs      docs/messages.md: cost and remedy by code
//! ```
//!
//! A code is never given to anything else. Words may change; who watches logs looks for codes.

use corelane_os::{clock, report};
use corelane_seam::{Code, Level, Record};
use corelane_steer::Warning;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

/// A cause says something so many nanoseconds apart at the least.
const APART: u64 = 1_000_000_000;

macro_rules! degraded {
    ($($name:ident $code:literal $meaning:literal,)*) => {
        /// A thing that a program has to do without.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Degraded {
            $(#[doc = $meaning] $name,)*
        }

        impl Degraded {
            /// All, in the order of their codes.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its code.
            pub const fn code(self) -> Code {
                match self {
                    $(Self::$name => const { Code::new($code) },)*
                }
            }
        }
    };
}

degraded! {
    DriverRefused "CL-0001" "The better driver is refused, and the other serves.",
    MoreLanesThanCpus "CL-0002" "Lanes share CPUs.",
    FewerQueuesThanLanes "CL-0003" "The network card has fewer queues than there are lanes.",
    FewerEntriesThanQueues "CL-0004" "The card's table does not name all of its queues.",
    AddressesOnly "CL-0005" "The card hashes some flows by their addresses alone.",
    PacketsSentOn "CL-0006" "The kernel sends packets on to other CPUs.",
    NoSpin "CL-0007" "No lane spins, though it was asked for.",
    LessMemory "CL-0008" "Lanes have less memory, or more than the control group can give.",
    Steering "CL-0009" "Flows are steered by less than the best means.",
    Packet "CL-0010" "An interface's frames come by a slower way.",
    HandedOver "CL-0011" "Lanes share a socket that was handed over.",
    RunDirectory "CL-0012" "The run directory is another than the first choice.",
    NoPage "CL-0013" "There is no counter page that others can read.",
    NoControl "CL-0014" "Nobody can change the table from outside.",
    SharedDescriptors "CL-0015" "A lane has no descriptor table of its own.",
    FilesNotConfined "CL-0016" "Threads are not confined to their files.",
    CallsNotConfined "CL-0017" "Threads are not confined to their calls.",
    ManagerNotTold "CL-0018" "The service manager cannot be told.",
    OtherWarning "CL-0019" "A plan warns of something else.",
    CertificatesKept "CL-0020" "New certificates cannot be used, or changes are not noticed: those before are shown.",
    CertificateOutOfDate "CL-0021" "A certificate that is shown has expired, or is not valid yet.",
    NotRegistered "CL-0022" "rpcbind does not know of the programs that are served.",
    SettingsKept "CL-0023" "Settings that were read again are wrong: those before are in force.",
    LogNotWritten "CL-0024" "A log cannot be written.",
    WorkBroken "CL-0025" "A part of a lane has broken and left it.",
    PortDown "CL-0026" "An interface whose packets lanes have is down, gone, without a carrier or without its program.",
    KernelAnswers "CL-0027" "The kernel answers for addresses of lanes, beside them.",
    QueuesWithoutLane "CL-0028" "Queues of an interface whose packets lanes have belong to no lane.",
    FewerDescriptors "CL-0029" "Lanes may have fewer descriptors than their limits of connections ask for.",
    UnknownVariable "CL-0030" "A variable of the environment looks like a setting, and sets nothing.",
    LoopbackDown "CL-0031" "Something is served at loopback, which is down.",
    AddressConflict "CL-0032" "Another station of the link has an address of lanes.",
    PacketsShort "CL-0033" "An interface carries no packets of the length that the addresses of lanes ask for.",
    NotOverFrames "CL-0034" "What is served at all addresses is not served over frames.",
    KernelSilent "CL-0035" "The kernel has addresses at an interface of which lanes have all packets.",
    RoutesLeftOut "CL-0036" "Routes of the kernel's table that a gateway follows are left out, or it is not followed just now.",
    OtherPages "CL-0037" "A lane's memory has other pages than were asked for.",
    FastPathUnread "CL-0038" "What the programs of a gateway's ports have counted cannot be read.",
    LimitOfEachLane "CL-0039" "Rules of a gateway limit flows on each lane by itself.",
    ReceiveProgram "CL-0040" "A program that passes all was given to an interface whose receiving is to run in threads.",
    ReceiveShare "CL-0041" "Lanes have another user fraction than was asked for.",
    ReceiveThreads "CL-0042" "The receiving of an interface does not keep to the user fraction, or its threads could not be taken back.",
    TurnLong "CL-0043" "A service or tasks had a lane for longer than their share at once while packets waited.",
    NoBridge "CL-0044" "The kernel cannot be had to pass on bytes of pairs, and lanes do it.",
}

impl Degraded {
    /// A note, or a line, of this: somebody should look at it.
    pub fn note(self, words: impl Display) -> Record {
        Record::new(Level::Warn, words.to_string()).with_code(self.code())
    }

    /// Has a line written on standard error, at most once a second; the next one says how many were left out.
    pub fn say(self, words: impl Display) {
        static SAID: Mutex<Vec<Said>> = Mutex::new(Vec::new());
        // Nothing that can panic happens under the lock.
        let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
        let left_out = note_said(&mut said, self, clock::now());
        drop(said);
        if let Some(left_out) = left_out {
            let more = if left_out > 0 { format!(" ({left_out} lines of this cause were left out)") } else { String::new() };
            report::line(self.note(format_args!("{words}{more}")));
        }
    }
}

/// When a cause last said something, and how often it could not since. There is at most one for each cause.
struct Said {
    cause: Degraded,
    /// By the monotonic clock, in nanoseconds.
    at: u64,
    left_out: u64,
}

/// Notes that a line of this cause is to be said: how many were left out, if it may be said now.
fn note_said(said: &mut Vec<Said>, cause: Degraded, now: u64) -> Option<u64> {
    let Some(last) = said.iter_mut().find(|said| said.cause == cause) else {
        said.push(Said { cause, at: now, left_out: 0 });
        assert!(said.len() <= Degraded::ALL.len(), "a cause is noted once");
        return Some(0);
    };
    if now.saturating_sub(last.at) < APART {
        last.left_out += 1;
        return None;
    }
    last.at = now;
    Some(std::mem::take(&mut last.left_out))
}

impl From<&Warning> for Degraded {
    fn from(warning: &Warning) -> Self {
        match warning {
            Warning::MoreLanesThanCpus { .. } => Self::MoreLanesThanCpus,
            Warning::FewerQueuesThanLanes { .. } => Self::FewerQueuesThanLanes,
            Warning::FewerEntriesThanQueues { .. } => Self::FewerEntriesThanQueues,
            Warning::AddressesOnly { .. } => Self::AddressesOnly,
            Warning::PacketsSentOn { .. } => Self::PacketsSentOn,
            // The crate below may come to know more before this one does.
            _ => Self::OtherWarning,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_each_code_once_and_no_other() {
        let page = include_str!("../../../../docs/messages.md");
        let told: Vec<&str> =
            page.lines().filter_map(|line| line.strip_prefix("| `CL-")?.split_once('`')).map(|(code, _)| code).collect();
        let codes: Vec<&str> = Degraded::ALL.iter().map(|degraded| &degraded.code().as_str()["CL-".len()..]).collect();
        assert_eq!(told, codes);
        assert!(codes.is_sorted_by(|one, next| one < next), "each once, in order");
    }

    #[test]
    fn crates_below_say_the_codes_that_stand_here() {
        let said = |source: &str, degraded: Degraded| assert!(source.contains(degraded.code().as_str()), "{degraded:?}");
        said(include_str!("../../../os/src/journal/file.rs"), Degraded::LogNotWritten);
        said(include_str!("../../../lane/src/turn.rs"), Degraded::WorkBroken);
        said(include_str!("../../../lane/src/calls.rs"), Degraded::TurnLong);
        let (of_ports, of_addresses) =
            (include_str!("../../../stack/src/trunk.rs"), include_str!("../../../stack/src/interface/told.rs"));
        [Degraded::PortDown, Degraded::QueuesWithoutLane].into_iter().for_each(|degraded| said(of_ports, degraded));
        [Degraded::AddressConflict, Degraded::PacketsShort].into_iter().for_each(|degraded| said(of_addresses, degraded));
    }

    #[test]
    fn a_cause_says_something_once_a_second_and_then_how_much_was_left_out() {
        let mut said = Vec::new();
        let mut at = |cause, milliseconds: u64| note_said(&mut said, cause, milliseconds * 1_000_000);
        assert_eq!(at(Degraded::NoPage, 0), Some(0));
        assert_eq!((at(Degraded::NoPage, 1), at(Degraded::NoPage, 999)), (None, None));
        assert_eq!(at(Degraded::NoControl, 5), Some(0), "another cause says its own");
        assert_eq!(at(Degraded::NoPage, 1000), Some(2));
        assert_eq!((at(Degraded::NoPage, 1500), at(Degraded::NoPage, 2000)), (None, Some(1)));
    }

    #[test]
    fn a_note_begins_with_its_code() {
        let note = Degraded::DriverRefused.note("uring refused");
        assert_eq!(note.to_string(), "[CL-0001] uring refused");
        assert!(Degraded::ALL.iter().all(|degraded| degraded.note("").level == Level::Warn), "each is to be looked at");
    }
}
