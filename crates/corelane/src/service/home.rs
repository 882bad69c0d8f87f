//! Which lane keeps what belongs to a key.

/// The lane, of `lanes`, that is the home of `key`: the same on all lanes, in all processes and versions, and as likely each of them, however like each other the keys are.
///
/// By FNV-1a (RFC 9923), whose bits depend too little on a key's last bytes to be used as they are; so they are mixed by the finalizer of MurmurHash3, and the product with the number of lanes says which it
/// is. It is no secret: who chooses keys can choose those of one lane. With another number of lanes most keys have another home.
///
/// # Panics
/// If there is no lane.
///
/// ```
/// use corelane::service::home;
///
/// assert_eq!(home(b"apples", 1), 0);
/// let of_the_first = (0..1_000).filter(|number| home(format!("key-{number}").as_bytes(), 2) == 0).count();
/// assert!((400..600).contains(&of_the_first));
/// ```
#[must_use]
pub fn home(key: &[u8], lanes: usize) -> usize {
    assert!(lanes > 0, "a key has a home where there is a lane");
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    // reason: the upper half of the product is less than the number of lanes.
    ((u128::from(finalized(hash)) * lanes as u128) >> 64) as usize
}

/// Has each bit depend on all (MurmurHash3's fmix64).
fn finalized(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No lane has more than half as much again as its share, for keys of every kind that people number.
    #[test]
    fn keys_are_spread_over_any_number_of_lanes() {
        let kinds: [fn(u32) -> Vec<u8>; 5] = [
            |number| format!("key-{number}").into_bytes(),
            |number| format!("{number:08}").into_bytes(),
            |number| format!("user:{number}:profile").into_bytes(),
            |number| number.to_be_bytes().to_vec(),
            |number| number.to_le_bytes().to_vec(),
        ];
        for (kind, key) in kinds.iter().enumerate() {
            for lanes in [2, 3, 4, 7, 16] {
                let mut keys = vec![0; lanes];
                let all = 400 * lanes as u32;
                (0..all).for_each(|number| keys[home(&key(number), lanes)] += 1);
                assert!(keys.iter().all(|&count| (200..600).contains(&count)), "kind {kind}, {lanes} lanes: {keys:?}");
            }
        }
    }

    #[test]
    fn a_key_has_one_home_for_ever() {
        assert_eq!([b"a".as_slice(), b"b", b"", b"key-1"].map(|key| home(key, 1 << 20)), HOMES);
    }

    const HOMES: [usize; 4] = [535082, 452211, 982273, 655406];
}
