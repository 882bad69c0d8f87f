//! ARP for IPv4 on Ethernet (RFC 826).

use super::bytes::{field, set, split, u16_at, v4_at};
use super::ethernet::Mac;
use super::protocol::EtherType;
use crate::Error;
use crate::xdr::Writer;
use std::net::Ipv4Addr;

/// Hardware type of Ethernet.
const ETHERNET: u16 = 1;
/// Lengths of a link address and of a network address.
const LENGTHS: u16 = 0x0604;

/// What a message wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Operation {
    /// Who has the address?
    Request = 1,
    /// Its sender has.
    Reply = 2,
}

/// A message: each value is legal, so it is read as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// What it wants.
    pub operation: Operation,
    /// Link address of who sends.
    pub sender_mac: Mac,
    /// Network address of who sends; unspecified in a probe (RFC 5227).
    pub sender: Ipv4Addr,
    /// Link address of who is meant; not looked at in a request.
    pub target_mac: Mac,
    /// Network address of who is meant.
    pub target: Ipv4Addr,
}

impl Message {
    /// Bytes of a message.
    pub const BYTES: usize = 28;

    /// Reads the message at the front of `bytes`; padding may be behind it.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Unknown`] for another link, another network or another operation.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let (head, _) = split::<{ Self::BYTES }>(bytes)?;
        let wanted =
            |what, got: u16, legal: u16| if got == legal { Ok(()) } else { Err(Error::Unknown { what, got: got.into() }) };
        wanted("hardware type of ARP", u16_at::<0, _>(head), ETHERNET)?;
        wanted("protocol of ARP", u16_at::<2, _>(head), EtherType::IPV4.number())?;
        wanted("lengths of ARP", u16_at::<4, _>(head), LENGTHS)?;
        let operation = match u16_at::<6, _>(head) {
            1 => Operation::Request,
            2 => Operation::Reply,
            got => return Err(Error::Unknown { what: "operation of ARP", got: got.into() }),
        };
        let (sender_mac, target_mac) = (Mac(field::<8, 6, _>(head)), Mac(field::<18, 6, _>(head)));
        Ok(Self { operation, sender_mac, sender: v4_at::<14, _>(head), target_mac, target: v4_at::<24, _>(head) })
    }

    /// Writes it.
    ///
    /// # Errors
    /// [`Error::NoRoom`]; then nothing was written.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let mut head = [0; Self::BYTES];
        set::<0, 2, _>(&mut head, ETHERNET.to_be_bytes());
        set::<2, 2, _>(&mut head, EtherType::IPV4.number().to_be_bytes());
        set::<4, 2, _>(&mut head, LENGTHS.to_be_bytes());
        set::<6, 2, _>(&mut head, (self.operation as u16).to_be_bytes());
        set::<8, 6, _>(&mut head, self.sender_mac.0);
        set::<14, 4, _>(&mut head, self.sender.octets());
        set::<18, 6, _>(&mut head, self.target_mac.0);
        set::<24, 4, _>(&mut head, self.target.octets());
        to.put(&head)
    }
}
