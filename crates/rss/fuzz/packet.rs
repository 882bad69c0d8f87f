//! What must hold for any packet. The fuzzer and the tests run the same function.

use corelane_rss::{FlowHasher, HashTypes, Key, Verdict};

/// A packet behind the 16 bits of the mask of types: reading it ends, and what it says is of one piece.
pub fn target(data: &[u8]) {
    let Some((mask, bytes)) = data.split_first_chunk() else { return };
    let mask = u32::from(u16::from_be_bytes(*mask)) & HashTypes::ALL.mask();
    let types = HashTypes::from_mask(mask).expect("no other bits are left");
    let hasher = FlowHasher::new(&Key::SYMMETRIC, types);
    match hasher.packet(bytes, None) {
        Verdict::Computed(hashed) => {
            assert!(types.contains(hashed.hash_type) && hashed.hash_type.places());
            assert_eq!(hasher.packet(bytes, Some(hashed.hash_type)), Verdict::Keep(hashed.hash_type));
            // With the symmetric key both directions are one flow.
            assert_eq!(hasher.transmit_packet(bytes), Ok(hashed));
            grow(&hasher, bytes, Verdict::Computed(hashed));
        }
        Verdict::Cannot(cause) => assert_eq!(hasher.transmit_packet(bytes), Err(cause)),
        Verdict::Keep(hash_type) => panic!("there is no {hash_type} to keep"),
    }
}

/// What follows a packet is not read, unless the packet leaves its length out.
fn grow(hasher: &FlowHasher, bytes: &[u8], verdict: Verdict) {
    let length = if bytes[0] >> 4 == 4 { &bytes[2..4] } else { &bytes[4..6] };
    if length != [0, 0] {
        assert_eq!(hasher.packet(&[bytes, &[0xff; 64]].concat(), None), verdict);
    }
}
