//! What a card does with a frame before the lane has it: it takes a VLAN tag out, and looks at the checksum of the transport.

use corelane_seam::VlanTag;

/// Bytes of an Ethernet header: two addresses and a type (IEEE 802.3).
pub(super) const ETHERNET_BYTES: usize = 14;

/// Tags (IEEE 802.1Q): of a customer and of a provider.
const TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
const TAG_BYTES: usize = 4;
const TRANSPORTS: [u8; 2] = [6, 17];

/// Bytes of a frame's outermost tag.
pub(crate) fn tag_bytes(frame: &[u8]) -> usize {
    let kind = frame.get(ETHERNET_BYTES - 2..ETHERNET_BYTES);
    if kind.is_some_and(|kind| TAGS.iter().any(|tag| kind == tag)) { TAG_BYTES } else { 0 }
}

/// Takes the outermost tag out.
pub(super) fn take_tag(bytes: &mut Vec<u8>) -> Option<VlanTag> {
    let at = ETHERNET_BYTES - 2;
    let &[a, b, c, d] = bytes.get(at..)?.first_chunk::<TAG_BYTES>()?;
    let is_whole = TAGS.contains(&[a, b]) && bytes.len() >= ETHERNET_BYTES + TAG_BYTES;
    is_whole.then(|| {
        bytes.drain(at..at + TAG_BYTES);
        VlanTag { protocol: u16::from_be_bytes([a, b]), control: u16::from_be_bytes([c, d]) }
    })
}

/// Whether the checksums of an IPv4 header and of TCP or UDP in it, or in IPv6 without further headers, are there and right (RFC 1071). Of others cards
/// do not know, and of fragments they cannot.
pub(super) fn is_good(frame: &[u8]) -> bool {
    let Some((ethernet, packet)) = frame.split_at_checked(ETHERNET_BYTES) else { return false };
    match ethernet[12..] {
        [0x08, 0x00] => is_good_v4(packet).unwrap_or(false),
        [0x86, 0xdd] => is_good_v6(packet).unwrap_or(false),
        _ => false,
    }
}

fn is_good_v4(packet: &[u8]) -> Option<bool> {
    let (header, length) = (usize::from(packet.first()? & 0x0f) * 4, half(packet, 2)?);
    let (head, body) = packet.get(..usize::from(length))?.split_at_checked(header)?;
    let is_part = half(head, 6)? & 0x3fff != 0;
    let protocol = *head.get(9)?;
    let addresses = head.get(12..20)?;
    Some(!is_part && sum(&[head]) == 0xffff && is_transport_good(addresses, protocol, body))
}

fn is_good_v6(packet: &[u8]) -> Option<bool> {
    let body = packet.get(40..)?.get(..usize::from(half(packet, 4)?))?;
    Some(is_transport_good(packet.get(8..40)?, *packet.get(6)?, body))
}

/// The addresses, the protocol and the length stand in a header of their own in front of what is summed.
fn is_transport_good(addresses: &[u8], protocol: u8, body: &[u8]) -> bool {
    let is_there = protocol != 17 || half(body, 6).is_some_and(|checksum| checksum != 0);
    let length = (body.len() as u32).to_be_bytes();
    TRANSPORTS.contains(&protocol) && is_there && sum(&[addresses, &length, &[0, protocol], body]) == 0xffff
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// The sum of words of 16 bits, with what overflows added below. Each part but the last has an even number of bytes.
fn sum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let total: u64 = words.map(|word| u64::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]))).sum();
    let folded = (0..4).fold(total, |total, _| (total & 0xffff) + (total >> 16));
    folded as u16
}
