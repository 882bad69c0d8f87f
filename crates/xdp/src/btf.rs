//! The kernel's own description of its types and functions (`/sys/kernel/btf/vmlinux`, `Documentation/bpf/btf.rst`), as far as it takes to find functions
//! that a program may call.

use corelane_os::netlink::{half, word};

/// Where it stands.
pub const KERNEL: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;
/// Bytes of what each type begins with (`struct btf_type`).
const TYPE_BYTES: usize = 12;
const FUNCTION: u32 = 12;

/// The number of each function of these names, in their order; none if one is missing, or the description is not read so.
pub fn functions<const N: usize>(bytes: &[u8], names: [&str; N]) -> Option<[u32; N]> {
    if half(bytes, 0)? != MAGIC {
        return None;
    }
    let number = |at: usize| word(bytes, at).map(|number| number as usize);
    let front = number(4)?;
    let part = |at: usize| -> Option<&[u8]> {
        let start = front.checked_add(number(at)?)?;
        bytes.get(start..start.checked_add(number(at + 4)?)?)
    };
    let (mut types, strings) = (part(8)?, part(16)?);
    let (mut found, mut number) = ([0; N], 0_u32);
    while !types.is_empty() {
        number += 1;
        let (name, info) = (word(types, 0)? as usize, word(types, 4)?);
        if info >> 24 & 0x1f == FUNCTION {
            let words = strings.get(name..)?;
            let is = |name: &&str| words.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0));
            if let Some(place) = names.iter().position(is) {
                found[place] = number;
            }
        }
        types = types.get(TYPE_BYTES + behind(info)?..)?;
    }
    found.iter().all(|number| *number > 0).then_some(found)
}

/// Bytes that follow what a type begins with; none for a kind that is not known.
fn behind(info: u32) -> Option<usize> {
    let several = (info & 0xffff) as usize;
    Some(match info >> 24 & 0x1f {
        // Pointers, forward declarations, other names, functions, floats and tags of types.
        2 | 7..=12 | 16 | 18 => 0,
        // Integers, variables and tags of declarations.
        1 | 14 | 17 => 4,
        // An array.
        3 => 12,
        // Members of structures and unions, parts of sections, and values of 64 bits.
        4 | 5 | 15 | 19 => 12 * several,
        // Values, and parameters.
        6 | 13 => 8 * several,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_os::testing::skip;

    /// A description with these types, of which each is a name's place, what it is, and what follows.
    fn description(types: &[(u32, u32, &[u32])], strings: &[u8]) -> Vec<u8> {
        let words = types.iter().flat_map(|(name, info, rest)| [&[*name, *info, 0][..], rest].concat());
        let types: Vec<u8> = words.flat_map(u32::to_ne_bytes).collect();
        let front = [24, 0, types.len() as u32, types.len() as u32, strings.len() as u32];
        let front: Vec<u8> = front.into_iter().flat_map(u32::to_ne_bytes).collect();
        [&MAGIC.to_ne_bytes()[..], &[1, 0], &front, &types, strings].concat()
    }

    const STRINGS: &[u8] = b"\0one\0onemore\0two\0";

    #[test]
    fn functions_are_found_by_their_whole_names() {
        let kind = |kind: u32, several: u32| kind << 24 | several;
        // A structure of that name, with two members, comes first; a function whose name only begins so, next.
        let types: [(u32, u32, &[u32]); 5] = [
            (1, kind(4, 2), &[9; 6]),
            (5, kind(FUNCTION, 1), &[]),
            (13, kind(FUNCTION, 1), &[]),
            (0, kind(13, 1), &[9; 2]),
            (1, kind(FUNCTION, 1), &[]),
        ];
        let bytes = description(&types, STRINGS);
        assert_eq!(functions(&bytes, ["one", "two"]), Some([5, 3]));
        assert_eq!(functions(&bytes, ["one", "three"]), None);
        for length in 0..bytes.len() {
            assert_eq!(functions(&bytes[..length], ["one", "two"]), None, "cut off at {length}");
        }
    }

    #[test]
    fn a_kind_that_is_not_known_is_no_description() {
        assert_eq!(functions(&description(&[(1, 31 << 24, &[])], STRINGS), ["one"]), None);
    }

    #[test]
    fn this_kernel_is_read() {
        match std::fs::read(KERNEL) {
            Ok(bytes) => assert!(functions(&bytes, ["bpf_cast_to_kern_ctx"]).is_some_and(|[number]| number > 0)),
            Err(error) => skip("btf::tests::this_kernel_is_read", &format!("{KERNEL}: {error}")),
        }
    }
}
