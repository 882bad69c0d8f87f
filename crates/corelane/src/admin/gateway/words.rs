//! The requests to a gateway and its answers: JSON behind the word `gateway`, on one line each way.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::ops::AddAssign;

/// Rows of a page at the most, and bytes from which on it has no more.
pub(super) const ROWS_MAX: usize = 1_000;
const PAGE_BYTES: usize = 96 << 10;

/// A request. Where the answer has pages, `from` is the number of the first row that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Request {
    /// Commands of ipfw(8), all of them or none.
    Change {
        commands: Vec<String>,
    },
    /// A shell script of such commands, all of them or none; it may be looked at only.
    Import {
        script: String,
        only_checks: bool,
    },
    /// Rules with numbers in these ranges, all if there are none.
    Rules {
        numbers: Vec<(u16, u16)>,
        from: usize,
    },
    Sets {},
    Tables {
        from: usize,
    },
    Keys {
        table: String,
        from: usize,
    },
    /// Changes of routes, each with the line of the file that it stands in, or 0: all of them or none.
    ChangeRoutes {
        changes: Vec<(usize, String)>,
    },
    /// Routes to networks within that one, all if there is none.
    Routes {
        within: Option<String>,
        from: usize,
    },
    Way {
        to: IpAddr,
    },
    Trace {
        packet: String,
        from: usize,
    },
    Interfaces {
        from: usize,
    },
    Totals {},
}

/// A part of a list that may change between two parts, which the version tells.
#[derive(Debug, Deserialize)]
pub(super) struct Page<T> {
    pub version: u64,
    pub rows: Vec<T>,
    /// The number of the row that follows, if one does.
    pub next: Option<usize>,
}

/// The page of these rows, of which the first has the number `from`.
pub(super) fn page<T: Serialize>(version: u64, from: usize, rows: impl Iterator<Item = T>) -> Result<String, String> {
    let mut rows = rows.peekable();
    let (mut text, mut count) = (format!("{{\"version\":{version},\"rows\":["), 0);
    while let Some(row) = rows.next_if(|_| count < ROWS_MAX && text.len() < PAGE_BYTES) {
        if count > 0 {
            text.push(',');
        }
        text += &json(&row)?;
        count += 1;
    }
    let next = rows.peek().map(|_| from + count);
    Ok(text + &format!("],\"next\":{}}}", json(&next)?))
}

/// One line of JSON.
pub(super) fn json(value: &impl Serialize) -> Result<String, String> {
    serde_json::to_string(value).map_err(|why| format!("an error of this program: the answer cannot be written as JSON: {why}"))
}

/// The effect of commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Changed {
    /// How many rules were added.
    pub added: usize,
    /// These rules as they are listed, as far as they fit.
    pub lines: Vec<String>,
    /// How many rules there are now, or would be, the last one included.
    pub rules: usize,
    /// The change is in force on all lanes. False if it was looked at only, or a lane has not finished its turn yet: it has the change when it does.
    pub is_in_force: bool,
}

/// A rule with its counts on all lanes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RuleRow {
    /// Its number.
    pub number: u16,
    /// The set that it is in.
    pub set: u8,
    /// Whether that set is switched off.
    pub is_off: bool,
    /// Packets that it has matched.
    pub packets: u64,
    /// Bytes of these, from the IP header on.
    pub bytes: u64,
    /// How long ago it matched last, in nanoseconds; none if never.
    pub idle_nanoseconds: Option<u64>,
    /// Its text, as ipfw(8) prints it.
    pub rule: String,
}

/// Which sets of rules are switched off, and on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sets {
    /// These are off.
    pub disabled: Vec<u8>,
    /// These are on.
    pub enabled: Vec<u8>,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TableRow {
    /// Its name.
    pub name: String,
    /// The kind of its keys: `addr` or `iface`.
    pub kind: String,
    /// How many it has.
    pub keys: usize,
}

/// A key of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KeyRow {
    /// The key: a prefix, or the name of an interface.
    pub key: String,
    /// Its value.
    pub value: u32,
}

/// The effect of changes of routes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RoutesChanged {
    /// How many were added.
    pub added: usize,
    /// How many were to be added and were there already.
    pub known: usize,
    /// How many were deleted.
    pub deleted: usize,
    /// How many there are now.
    pub routes: usize,
    /// As [`Changed::is_in_force`].
    pub is_in_force: bool,
}

/// A way through a router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RouteRow {
    /// The network that it leads to.
    pub prefix: String,
    /// The router.
    pub router: IpAddr,
    /// The interface that is named for it, if one is.
    pub interface: Option<String>,
    /// It is of the kernel's table that is followed, and none of the gateway's own.
    #[serde(default)]
    pub is_followed: bool,
}

/// How packets get to an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Way {
    /// The interface that they leave by; none if no way leads there.
    pub interface: Option<String>,
    /// The router that gets them; none if the address is a neighbour's.
    pub router: Option<IpAddr>,
    /// Whether the address is the gateway's own.
    pub is_own: bool,
    /// The state of the neighbour that gets them, as one lane knows it, in the words of RFC 4861, section 7.3.2; none if nothing.
    pub neighbour: Option<String>,
    /// The neighbour's link address, if it is known.
    pub link_address: Option<String>,
}

/// Packets that went no further: each is one of these, once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Losses {
    /// Packets that rules refused: that came by the interface, or that the gateway itself was to send by it.
    pub refused: u64,
    /// Packets that came damaged: malformed, with a wrong checksum, or longer than the port takes.
    pub errors: u64,
    /// Frames that came and were for nobody here: another station, another address, or VLAN tags of no network.
    pub not_ours: u64,
    /// Packets that came and went no further for any other reason.
    pub drops: u64,
    /// Packets that were to leave by the interface and did not: nobody answered for their neighbour, or the port did not send them.
    pub unsent: u64,
}

impl AddAssign for Losses {
    fn add_assign(&mut self, other: Self) {
        let Self { refused, errors, not_ours, drops, unsent } = other;
        self.refused += refused;
        self.errors += errors;
        self.not_ours += not_ours;
        self.drops += drops;
        self.unsent += unsent;
    }
}

/// Packets that were forwarded at an interface, and those that were not, on all lanes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InterfaceRow {
    /// Its name.
    pub name: String,
    /// Packets that came by it and went on.
    pub packets_in: u64,
    /// Bytes of these, without the link's headers.
    pub bytes_in: u64,
    /// Packets that left by it.
    pub packets_out: u64,
    /// Bytes of these.
    pub bytes_out: u64,
    /// Packets that went no further. Losses of the port itself are among those of its network without tags.
    #[serde(flatten)]
    pub losses: Losses,
    /// Packets that programs have forwarded by its port and the system did not send. None of VLANs, for the port's network without tags has those of all; and where it is not known.
    #[serde(default)]
    pub redirect_lost: Option<u64>,
    /// Neighbours that are known to the lane that knows most. Lanes tell each other, so others know nearly as many.
    pub neighbours: usize,
    /// Neighbours that are asked for, of the lane that asks for most.
    pub asked: usize,
    /// The system's number of its port; none of a VLAN's.
    #[serde(skip)]
    pub(crate) device: Option<u32>,
}

/// Translation of addresses on all lanes, since their start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Translated {
    /// Packets that were translated.
    pub packets: u64,
    /// Sessions that there are.
    pub sessions: usize,
    /// External ports that are given out.
    pub ports: usize,
    /// Sessions that began.
    pub begun: u64,
    /// Packets that were refused for what they are.
    pub refused_unfit: u64,
    /// Packets that were refused because there were as many sessions as may be.
    pub refused_sessions: u64,
    /// Packets that were refused because their sender had its share.
    pub refused_source: u64,
    /// Packets that were refused because no port was free.
    pub refused_ports: u64,
}

/// The state of a gateway, and what packets have left behind on all lanes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Totals {
    /// Lanes that answered.
    pub lanes: usize,
    /// Interfaces.
    pub interfaces: usize,
    /// Rules, those that are switched off too.
    pub rules: usize,
    /// How they are carried out: `flat`, `skipto` or `tree`.
    pub execution: String,
    /// The shape of the tree, in words; none if there is none.
    pub report: Option<String>,
    /// Tables.
    pub tables: usize,
    /// Keys of all tables.
    pub keys: usize,
    /// Routes.
    pub routes: usize,
    /// States of flows.
    pub states: usize,
    /// States that were not made because a bound was met.
    pub states_refused: u64,
    /// Lines of rules with `log` that were not kept because of a bound.
    pub lines_refused: u64,
    /// Translation of addresses; none if nothing is translated.
    pub translated: Option<Translated>,
    /// Packets that went no further, at all interfaces.
    #[serde(default)]
    pub losses: Losses,
    /// The packets that the ports' programs forward by themselves; none where no port has such a program.
    pub fast_path: Option<FastPath>,
}

/// Packets that the ports' programs forward without a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FastPath {
    /// They carry out the rules.
    pub is_on: bool,
    /// Why they do not.
    pub why_not: Option<String>,
    /// Packets that they have forwarded and the system did not send; none where that is not known.
    pub lost: Option<u64>,
    /// Packets that they have forwarded.
    pub forwarded: u64,
    /// Packets that rules had them drop.
    pub denied: u64,
    /// Interfaces that send nothing of what programs redirect: lanes forward what leaves by them.
    pub refusing: Vec<String>,
    /// Why what they have counted could not be read the last time, and so is missing; none where it was.
    #[serde(default)]
    pub unread: Option<String>,
}

/// A gateway in one moment, for those who watch it: see [`LiveGateway::shown`](crate::lanes::LiveGateway::shown).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Shown {
    /// The first interfaces.
    pub interfaces: Vec<InterfaceRow>,
    /// The first rules.
    pub rules: Vec<RuleRow>,
    /// Tables, by their names.
    pub tables: Vec<ShownTable>,
    /// Another number after each change of routes.
    pub routes_version: u64,
    /// The totals.
    pub totals: Totals,
}

/// A table as it is shown to those who watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShownTable {
    /// Its name.
    pub name: String,
    /// How many keys it has.
    pub keys: usize,
    /// Another number after each change of its keys or their values.
    pub version: u64,
}

/// Interfaces, and rules, that are shown so at the most.
pub const SHOWN_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_bounded_and_go_on_where_they_ended() {
        let read = |text: &str| serde_json::from_str::<Page<String>>(text).unwrap();
        let rows = || (0..2_500).map(|number: usize| number.to_string());
        let mut all = Vec::new();
        let mut from = Some(0);
        while let Some(first) = from {
            let got = read(&page(7, first, rows().skip(first)).unwrap());
            assert!(got.version == 7 && got.rows.len() <= ROWS_MAX);
            all.extend(got.rows);
            from = got.next;
        }
        assert!(all.iter().eq(rows().collect::<Vec<_>>().iter()));
        let wide = page(1, 0, (0..100).map(|_| "é".repeat(8_192))).unwrap();
        assert!(wide.len() < PAGE_BYTES + 16_500 && read(&wide).next.is_some_and(|next| next < 10), "{}", wide.len());
        assert_eq!(page(1, 3, std::iter::empty::<u8>()).unwrap(), "{\"version\":1,\"rows\":[],\"next\":null}");
    }

    #[test]
    fn requests_are_of_one_line_and_of_known_words() {
        let request = Request::Import { script: "ipfw flush\nipfw zero".to_owned(), only_checks: true };
        let line = json(&request).unwrap();
        assert!(!line.contains('\n') && serde_json::from_str::<Request>(&line).unwrap() == request);
        for bad in ["", "{}", "{\"sets\":{\"more\":1}}", "{\"all\":{}}", "{\"rules\":{\"numbers\":[],\"from\":-1}}"] {
            assert!(serde_json::from_str::<Request>(bad).is_err(), "{bad}");
        }
    }
}
