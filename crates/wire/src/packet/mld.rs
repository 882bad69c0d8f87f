//! Multicast listener discovery (RFC 2710, RFC 3810): routers and switches ask which groups of IPv6 are listened for, and are told. Whoever acts on a query checks first
//! that its packet came with one hop, from an address of the link, and behind an option for routers.

use super::bytes::{split, u16_at, v6_at};
use super::checksum::Addresses;
use super::protocol::IpProtocol;
use crate::Error;
use crate::xdr::Writer;
use std::net::Ipv6Addr;

/// Types of ICMPv6.
const QUERY: u8 = 130;
const REPORT_V1: u8 = 131;
const REPORT_V2: u8 = 143;
/// Bytes of a query of the first version, and of the shortest of the second.
const QUERY_BYTES_V1: usize = 24;
const QUERY_BYTES_V2: usize = 28;
/// From here on a delay is a number with an exponent (RFC 3810, section 5.1.3).
const EXPONENT_FROM: u32 = 0x8000;
/// A record of a group that is listened for, whoever sends to it (RFC 3810, section 5.2.12).
const MODE_IS_EXCLUDE: u8 = 2;
const CHANGE_TO_EXCLUDE: u8 = 4;
/// Bytes in front of the records, and of each record without sources.
const HEAD_BYTES: usize = 8;
const RECORD_BYTES: usize = 20;

/// Where reports of the second version go to: all routers that know it (RFC 3810, section 5.2.14).
pub const ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// A header for all routers on the way, in front of ICMPv6, that has them look at the packet (RFC 2711), and padding.
pub const ROUTER_ALERT: [u8; 8] = [IpProtocol::ICMPV6.0, 0, 5, 2, 0, 0, 1, 0];

/// A question for those who listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// The group that is asked for; unspecified for all.
    pub group: Ipv6Addr,
    /// Milliseconds within which to answer.
    pub delay: u32,
    /// Whether its sender knows the first version alone.
    pub is_v1: bool,
}

impl Query {
    /// Whether ICMPv6 messages of type `kind` are queries.
    #[must_use]
    pub const fn is_kind(kind: u8) -> bool {
        kind == QUERY
    }

    /// Reads the message in `bytes`, which are all that the packet carries, from its type on.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Malformed`] for a length that neither version has (RFC 3810, section 8.1).
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let (head, rest) = split::<QUERY_BYTES_V1>(bytes)?;
        let is_v1 = rest.is_empty();
        if !is_v1 && bytes.len() < QUERY_BYTES_V2 {
            return Err(Error::Malformed { what: "length of a query for listeners" });
        }
        let code = u32::from(u16_at::<4, _>(head));
        let delay = match code {
            code if is_v1 || code < EXPONENT_FROM => code,
            code => (code & 0xfff | 0x1000) << ((code >> 12 & 7) + 3),
        };
        Ok(Self { group: v6_at::<8, _>(head), delay, is_v1 })
    }
}

/// Bytes of a report of so many groups.
#[must_use]
pub const fn report_bytes(groups: usize) -> usize {
    HEAD_BYTES + RECORD_BYTES * groups
}

/// Writes a report of the second version: that these groups are listened for, which is new or is an answer.
///
/// # Errors
/// [`Error::NoRoom`]; [`Error::Oversized`] for more groups than a packet holds. What was written then is of no use.
pub fn emit_report(groups: &[Ipv6Addr], is_new: bool, addresses: &Addresses, to: &mut Writer<'_>) -> Result<(), Error> {
    let count = u16::try_from(groups.len()).map_err(|_| Error::Malformed { what: "number of groups of a report" })?;
    let mode = if is_new { CHANGE_TO_EXCLUDE } else { MODE_IS_EXCLUDE };
    let record = [mode, 0, 0, 0];
    let [high, low] = count.to_be_bytes();
    let mut head = [REPORT_V2, 0, 0, 0, 0, 0, high, low];
    let mut sum = addresses.pseudo(IpProtocol::ICMPV6, report_bytes(groups.len()))?.and(&head);
    for group in groups {
        sum = sum.and(&record).and(&group.octets());
    }
    head[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
    to.put(&head)?;
    groups.iter().try_for_each(|group| {
        to.put(&record)?;
        to.put(&group.octets())
    })
}

/// Writes a report of the first version: that the group is listened for. It goes to the group itself.
///
/// # Errors
/// [`Error::NoRoom`].
pub fn emit_report_v1(group: Ipv6Addr, addresses: &Addresses, to: &mut Writer<'_>) -> Result<(), Error> {
    let mut head = [REPORT_V1, 0, 0, 0, 0, 0, 0, 0];
    let sum = addresses.pseudo(IpProtocol::ICMPV6, QUERY_BYTES_V1)?.and(&head).and(&group.octets());
    head[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
    to.put(&head)?;
    to.put(&group.octets())
}

#[cfg(test)]
mod tests {
    use super::super::icmpv6;
    use super::*;

    const OURS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);

    fn query(code: u16, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[0] = QUERY;
        bytes[4..6].copy_from_slice(&code.to_be_bytes());
        bytes[8..24].copy_from_slice(&OURS.octets());
        bytes.truncate(length);
        bytes
    }

    /// RFC 3810, sections 5.1.3 and 8.1: the length says which version it is, and large delays have an exponent.
    #[test]
    fn a_query_says_within_which_time_to_answer() {
        let delay = |code, length| Query::parse(&query(code, length)).map(|query| (query.delay, query.is_v1));
        assert_eq!(delay(10_000, 24), Ok((10_000, true)));
        assert_eq!(delay(0x8000, 24), Ok((0x8000, true)), "the first version has no exponent");
        assert_eq!(delay(0x7fff, 28), Ok((0x7fff, false)));
        assert_eq!(delay(0x8000, 28), Ok((0x8000, false)));
        assert_eq!(delay(0xffff, 44), Ok((0x1fff << 10, false)));
        for length in [0, 4, 23, 25, 27] {
            assert!(delay(0, length).is_err(), "{length}");
        }
        assert_eq!(Query::parse(&query(0, 28)).unwrap().group, OURS);
    }

    #[test]
    fn a_report_names_each_group_with_a_right_checksum() {
        let addresses = Addresses::V6 { source: Ipv6Addr::UNSPECIFIED, destination: ROUTERS };
        let mut bytes = [0; 200];
        for (is_new, mode) in [(true, 4), (false, 2)] {
            let mut writer = Writer::new(&mut bytes);
            emit_report(&[OURS, ROUTERS], is_new, &addresses, &mut writer).unwrap();
            let written = writer.written();
            assert_eq!((written.len(), written[0], &written[6..8]), (report_bytes(2), 143, &[0, 2][..]));
            assert_eq!((written[8], &written[12..28], written[28]), (mode, &OURS.octets()[..], mode));
            assert!(icmpv6::View::new(written).unwrap().is_checksum_right(&addresses));
        }
        let mut writer = Writer::new(&mut bytes);
        let addresses = Addresses::V6 { source: Ipv6Addr::UNSPECIFIED, destination: OURS };
        emit_report_v1(OURS, &addresses, &mut writer).unwrap();
        assert_eq!((writer.written().len(), writer.written()[0]), (24, 131));
        assert!(icmpv6::View::new(writer.written()).unwrap().is_checksum_right(&addresses));
        assert!(emit_report(&[OURS], true, &addresses, &mut Writer::new(&mut [0; 27])).is_err());
    }
}
