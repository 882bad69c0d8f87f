//! Cases that kevent of 2007 has no words for: they do not run on its faces.

use crate::{Case, GROUPS, full_name};

/// Why, and which: each by its full name.
const REASONS: &[(&str, &[&str])] = &[
    (
        "kevent has no such kind: there is none for EMPTY, PROCDESC and NAMES",
        &[
            "close: closing removes every filter's interest (Q-01)",
            "core: a descriptor that is not open is refused (Q-06)",
            "core: completions of files cannot be registered by hand (Q-21)",
            "empty: CLEAR tells once that it is empty (Q-15)",
            "empty: EMPTY, WRITE and READ of one socket are three interests (Q-01)",
            "empty: ONESHOT tells once that it is empty (Q-15)",
            "empty: a TCP connection is empty once all has left (Q-15)",
            "empty: a TCP connection whose peer takes nothing is not empty (Q-15)",
            "empty: a connection that has written nothing is empty (Q-15)",
            "empty: a listener is always empty (Q-15)",
            "empty: a local socket is empty once its peer has read (Q-15)",
            "empty: a local socket that has written nothing is empty (Q-15)",
            "empty: a local socket whose peer has not read is not empty (Q-15)",
            "limits: without a descriptor left a registration says so, and leaves nothing behind (Q-06)",
            "names: names of entries come with their changes (K-23)",
            "names: names that nobody asked for are refused, and bad arguments too (K-23)",
            "names: the longest name is told whole (K-23)",
        ],
    ),
    (
        "a kevent cannot be disabled, nor forced: what is removed for that time hears of nothing that comes meanwhile",
        &[
            "aio: an operation's end cannot be deleted, and can be put off (Q-21)",
            "close: closing removes what was disabled (Q-01)",
            "core: FORCEONESHOT tells what is not active, and deletes it (Q-08)",
            "core: a disabled interest is not told (Q-07)",
            "core: a second ADD enables (Q-05)",
            "core: what became active while disabled is told once enabled (Q-07)",
            "proc: a disabled process is told once enabled (Q-07)",
            "signal: DISPATCH of a signal waits for ENABLE (Q-08)",
            "signal: a disabled signal is told once enabled (Q-07)",
            "threading: an interest that another thread enables ends the wait (Q-22)",
            "user: DISABLE holds a trigger back (Q-07)",
            "user: DISPATCH of a trigger waits for ENABLE (Q-08)",
            "vnode: DISPATCH of a file waits for ENABLE (Q-08)",
            "vnode: a disabled file is told once enabled (Q-07)",
        ],
    ),
    (
        "of files kevent tells new and lost entries of folders alone, and regular files cannot be polled",
        &[
            "read: a file read past its end says so with a negative distance (Q-13)",
            "read: a file says how far its end is (Q-13)",
            "read: a file that grows again is told again (Q-13)",
            "read: a file that grows is told (Q-13)",
            "read: a file that is polled is always told (Q-13)",
            "read: a file with ONESHOT is told once (Q-13)",
            "read: a file's distance shrinks as it is read (Q-13)",
            "vnode: CLEAR forgets what was told (Q-16)",
            "vnode: ONESHOT of a file is told once (Q-08)",
            "vnode: READ and VNODE of one file are two interests (Q-01)",
            "vnode: a change of mode is no change of names (Q-16)",
            "vnode: a change of mode is told (Q-16)",
            "vnode: a change of times is told (Q-16)",
            "vnode: a close by a reader is none by a writer (Q-16)",
            "vnode: a close by a reader is told (Q-16)",
            "vnode: a close by a writer is told (Q-16)",
            "vnode: a cut is told as a write (Q-16)",
            "vnode: a file that another replaces is an end (Q-16)",
            "vnode: a file that nobody touches is silent (Q-16)",
            "vnode: a file that was replaced by name is watched for itself (Q-16)",
            "vnode: a folder in a folder is told as a link (Q-16)",
            "vnode: a name less is told (Q-16)",
            "vnode: a new name for the file is told (Q-16)",
            "vnode: a new name is told (Q-16)",
            "vnode: a read is told (Q-16)",
            "vnode: a removed file is told (Q-16)",
            "vnode: a removed name of a file that has another is no end (Q-16)",
            "vnode: a renamed file is still watched (Q-16)",
            "vnode: a second ADD changes the notes (Q-05)",
            "vnode: a write in its middle is no growth (Q-16)",
            "vnode: a write is no change of mode (Q-16)",
            "vnode: a write is told (Q-16)",
            "vnode: a write through the watched descriptor is told (Q-16)",
            "vnode: an open is told (Q-16)",
            "vnode: growth is a write too (Q-16)",
            "vnode: growth is told (Q-16)",
            "vnode: notes gather until they are told (Q-16)",
            "vnode: only what was asked for is told (Q-16)",
            "vnode: two descriptors of one file are two interests (Q-01)",
            "vnode: two queues watch one file (Q-01)",
            "vnode: udata comes with the change (Q-05)",
            "vnode: without CLEAR notes stay (Q-16)",
        ],
    ),
    (
        "kevent has no low-water mark of its own",
        &[
            "core: a failed change is answered where there is room (Q-04)",
            "core: a second ADD replaces the filter's flags and value (Q-05)",
            "read: a low-water mark above the bytes is silent (Q-12)",
            "read: a low-water mark is not reached again once bytes are read (Q-12)",
            "read: a low-water mark is raised and lowered (Q-12)",
            "read: a low-water mark of zero is one byte (Q-12)",
            "read: a low-water mark reached is told (Q-12)",
            "read: an end is told below the low-water mark (Q-12)",
            "read: each queue has a low-water mark of its own (Q-12)",
            "write: a low-water mark above the room is silent (Q-14)",
            "write: a low-water mark reached is told (Q-14)",
        ],
    ),
    (
        "a mark (KEVENT_CTL_READY) is told once, carries nothing, and is forgotten by a modification",
        &[
            "core: a call tells as much as there is room for (Q-02)",
            "core: a second ADD leaves what is triggered (Q-05)",
            "core: a watched queue says how many triggers it has to tell (Q-13)",
            "core: any change replaces udata (Q-05)",
            "user: CLEAR forgets the trigger, not the caller's flags (Q-20)",
            "user: FFAND keeps the common flags (Q-20)",
            "user: FFCOPY replaces the caller's flags (Q-20)",
            "user: FFNOP leaves the caller's flags (Q-20)",
            "user: FFOR adds the caller's flags (Q-20)",
            "user: all 24 bits are the caller's (Q-20)",
            "user: flags change without a trigger (Q-20)",
            "user: registered and triggered in one change (Q-20)",
            "user: the told flags carry no control bits (Q-20)",
            "user: the trigger itself is not told (Q-20)",
            "user: the value of the last trigger is told (Q-20)",
            "user: the value of the trigger is told (Q-20)",
            "user: without CLEAR a trigger stays (Q-20)",
        ],
    ),
    (
        "a timer is its time, which is not 0, no instant, and one of its kind",
        &[
            "limits: timer 4,097 is refused, and one that is deleted makes room (Q-19)",
            "timer: a period of zero is the shortest (Q-19)",
            "timer: a thousand timers are told, each once (Q-19)",
            "timer: a time of day far away is silent (Q-19)",
            "timer: a time of day is not told before (Q-19)",
            "timer: a time of day is told once in its life (Q-19)",
            "timer: a time of day that is past is told at once (Q-19)",
            "timer: there is a limit to timers (Q-19)",
            "timer: zero with ONESHOT is told at once (Q-19)",
        ],
    ),
    (
        "a process is polled by its descriptor: its end is told, and nothing else",
        &[
            "proc: a child that cannot be followed is told as such (Q-17)",
            "proc: a fork is told of, or asking for it is refused (Q-17)",
            "proc: a new program is told of, or asking for it is refused (Q-17)",
            "proc: a process descriptor tells the wait status (Q-17)",
            "proc: a process descriptor that lives is silent (Q-17)",
            "proc: children are followed, or asking for it is refused (Q-17)",
            "proc: children whose ends nobody asks for are followed until then (Q-17)",
            "proc: where the kernel does not tell of forks, asking is refused and leaves nothing (Q-17)",
        ],
    ),
    (
        "an end is told as something to receive, or room to send, and with no mark of its own",
        &[
            "close: nothing holds a watched connection open (Q-01)",
            "close: nothing holds a watched pipe open (Q-01)",
            "read: CLEAR tells a peer's end once (Q-12)",
            "read: CLEAR tells a pipe's end once (Q-13)",
            "read: a local peer that has closed is an end (Q-12)",
            "read: a named pipe opens, ends and opens again (Q-13)",
            "read: a peer that has finished is an end (Q-12)",
            "read: a pipe's end is told after one of two writers has gone too (Q-13)",
            "read: a pipe's end is told when its last writer closes (Q-13)",
            "read: a refused connection is an end with its errno (Q-12)",
            "read: a reset is an end with its errno (Q-12)",
            "read: bytes remain to be read behind a peer's end (Q-12)",
            "read: bytes remain to be read behind a pipe's end (Q-13)",
            "read: one's own shutdown of reading is an end (Q-12)",
            "read: telling of an error leaves it to the program (Q-12)",
            "write: a full pipe without readers is an end (Q-14)",
            "write: a local peer that has closed is an end (Q-14)",
            "write: a pipe without readers is an end (Q-14)",
            "write: a refused connection is an end (Q-14)",
            "write: a reset is an end (Q-14)",
            "write: one's own shutdown of both is an end (Q-14)",
        ],
    ),
    (
        "kevent counts the bytes that can be received of sockets and pipes alone",
        &["read: a terminal says how many bytes it holds (Q-13)", "write: an empty pipe has room for what it takes (Q-14)"],
    ),
    (
        "a socket that is not connected is told as poll(2) tells it",
        &["write: a TCP socket that is not connected is never told (Q-14)"],
    ),
    (
        "the end of a list says how many members failed, and is itself never broken",
        &["aio: the end of a list is told after that of all its members (Q-21)"],
    ),
    ("negative seconds mean for ever", &["core: negative seconds are refused (Q-03)"]),
    (
        "kevent_get_events hands out 1,024 at once where no more are waited for",
        &["limits: a call tells as many as there is room for, also more than a thousand (Q-02)"],
    ),
    (
        "the adapter's own books are in the way",
        &[
            "fork: a child has queues of its own, whatever its parent's threads were doing (Q-23)",
            "limits: interests that come and go leave no memory behind (Q-01)",
        ],
    ),
];

/// Whether a case runs on kevent's faces.
pub fn is_said(name: &str) -> bool {
    REASONS.iter().all(|(_, names)| !names.contains(&name))
}

/// Names that no case has, or that stand here twice.
pub fn superfluous() -> Vec<&'static str> {
    let has_case =
        |name: &str| GROUPS.iter().any(|(group, cases): &(_, &[Case])| cases.iter().any(|case| full_name(group, case) == name));
    let mut names: Vec<_> = REASONS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    names.sort_unstable();
    let double: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    names.retain(|name| !has_case(name));
    names.extend(double);
    names
}
