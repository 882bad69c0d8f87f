//! The software hash of tuples and packets, and the rule when the hash of a device is kept.

use crate::cause::Cause;
use crate::packet::Packet;
use crate::tuple::Addresses;
use crate::{FlowId, HashType, HashTypes, Key, Toeplitz, Tuple};

/// A flow id and what it was computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hashed {
    /// The hash.
    pub flow: FlowId,
    /// The fields that it covers.
    pub hash_type: HashType,
}

/// What to do with a packet that may carry the hash of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The hash that is there is the one that is wanted.
    Keep(HashType),
    /// There was none, or another; this is the one that is wanted.
    Computed(Hashed),
    /// There is no hash for this packet.
    Cannot(Cause),
}

/// One key and one set of hash types: the same everywhere, or flows end on different lanes in different places.
#[derive(Clone, Debug)]
pub struct FlowHasher {
    toeplitz: Toeplitz,
    types: HashTypes,
}

impl FlowHasher {
    /// The hasher of `key` for flows of `types`.
    #[must_use]
    pub fn new(key: &Key, types: HashTypes) -> Self {
        Self { toeplitz: Toeplitz::new(key), types }
    }

    /// The tables of the key.
    #[must_use]
    pub fn toeplitz(&self) -> &Toeplitz {
        &self.toeplitz
    }

    /// The enabled hash types.
    #[must_use]
    pub fn types(&self) -> HashTypes {
        self.types
    }

    /// The hash of a received flow: with ports where the type for its protocol is enabled, else by addresses; none if
    /// that is not enabled either.
    #[must_use]
    pub fn tuple(&self, tuple: &Tuple) -> Option<Hashed> {
        let is_v6 = matches!(tuple.addresses, Addresses::V6(_));
        let hash_type = HashType::wanted(self.types, is_v6, tuple.protocol, true)?;
        Some(Hashed { flow: self.flow(tuple, hash_type), hash_type })
    }

    /// The hash of a flow that is sent: the one that its replies will arrive with.
    #[must_use]
    pub fn transmit(&self, tuple: &Tuple) -> Option<Hashed> {
        self.tuple(&tuple.reversed())
    }

    /// What to do with a received packet whose IP header is at the start of `bytes` and that has a hash of type
    /// `present`, if any.
    ///
    /// That hash is kept only if it is of exactly the wanted type: one by addresses is not trusted for a whole TCP
    /// segment while TCP is hashed with its ports. Fragments are hashed by addresses, the first as well, so that all
    /// go the same way; an atomic fragment counts as whole (RFC 6946). Where ports are hashed, the whole header of TCP
    /// or UDP must be there. Reads no more than 9 headers.
    #[must_use]
    pub fn packet(&self, bytes: &[u8], present: Option<HashType>) -> Verdict {
        self.judge(bytes, present).unwrap_or_else(Verdict::Cannot)
    }

    /// The hash that the replies to a sent packet will arrive with. Fragments and cut packets: see
    /// [`FlowHasher::packet`].
    ///
    /// # Errors
    /// Why there is none.
    pub fn transmit_packet(&self, bytes: &[u8]) -> Result<Hashed, Cause> {
        let packet = Packet::read(bytes)?;
        let hash_type = self.wanted(&packet)?;
        Ok(Hashed { flow: self.flow(&tuple_of(&packet, hash_type)?.reversed(), hash_type), hash_type })
    }

    fn judge(&self, bytes: &[u8], present: Option<HashType>) -> Result<Verdict, Cause> {
        let packet = Packet::read(bytes)?;
        let hash_type = self.wanted(&packet)?;
        if present == Some(hash_type) {
            return Ok(Verdict::Keep(hash_type));
        }
        let flow = self.flow(&tuple_of(&packet, hash_type)?, hash_type);
        Ok(Verdict::Computed(Hashed { flow, hash_type }))
    }

    fn wanted(&self, packet: &Packet<'_>) -> Result<HashType, Cause> {
        HashType::wanted(self.types, packet.is_v6(), packet.protocol, packet.whole).ok_or(Cause::Disabled)
    }

    fn flow(&self, tuple: &Tuple, hash_type: HashType) -> FlowId {
        // Zeros add nothing to the hash: without ports is the same as with ports of 0.
        let [from, to] = if hash_type.takes_ports() { tuple.ports.map(u16::to_be_bytes) } else { [[0; 2]; 2] };
        match tuple.addresses {
            Addresses::V4([source, destination]) => {
                let ([a, b, c, d], [e, f, g, h]) = (source.octets(), destination.octets());
                self.toeplitz.fixed(&[a, b, c, d, e, f, g, h, from[0], from[1], to[0], to[1]])
            }
            Addresses::V6([source, destination]) => {
                let mut input = [0; 36];
                input[..16].copy_from_slice(&source.octets());
                input[16..32].copy_from_slice(&destination.octets());
                input[32..].copy_from_slice([from, to].as_flattened());
                self.toeplitz.fixed(&input)
            }
        }
    }
}

fn tuple_of(packet: &Packet<'_>, hash_type: HashType) -> Result<Tuple, Cause> {
    let ports = if hash_type.takes_ports() { packet.ports()? } else { [0; 2] };
    Ok(Tuple { addresses: packet.addresses, ports, protocol: packet.protocol })
}
