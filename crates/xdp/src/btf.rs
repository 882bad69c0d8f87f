//! The kernel's own description of its types and functions (`/sys/kernel/btf/vmlinux`, `Documentation/bpf/btf.rst`), as far as it takes to find functions
//! that a program may call, and what it may look on at.

use corelane_os::netlink::{half, word};

/// Where it stands.
pub const KERNEL: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;
/// Bytes of what each type begins with (`struct btf_type`).
const TYPE_BYTES: usize = 12;
const FUNCTION: u32 = 12;

/// Another name of a type.
const NAME: u32 = 8;
const STRUCTURE: u32 = 4;
/// Bytes of a member: name, type, where it stands in bits.
const MEMBER_BYTES: usize = 12;

/// The number of each function of these names, in their order; none if one is missing, or the description is not read so.
pub fn functions<const N: usize>(bytes: &[u8], names: [&str; N]) -> Option<[u32; N]> {
    numbers(bytes, FUNCTION, names)
}

/// The same of what programs may look on at: each has a type's other name (`btf_trace_*`).
pub fn traces<const N: usize>(bytes: &[u8], names: [&str; N]) -> Option<[u32; N]> {
    numbers(bytes, NAME, names)
}

/// Where in a structure a member stands, in bytes.
pub fn member(bytes: &[u8], structure: &str, member: &str) -> Option<u32> {
    let mut found = None;
    walk(bytes, |_, kind, name, several, rest| {
        if kind != STRUCTURE || !name.is(structure) {
            return Some(());
        }
        for index in 0..several {
            let at = MEMBER_BYTES * index;
            if name.of(word(rest, at)?)?.is(member) {
                // Where members may have fewer bits than a byte, their number stands in front.
                found = found.or(Some((word(rest, at + 8)? & 0x00ff_ffff) / 8));
            }
        }
        Some(())
    })?;
    found
}

fn numbers<const N: usize>(bytes: &[u8], wanted: u32, names: [&str; N]) -> Option<[u32; N]> {
    let mut found = [0; N];
    walk(bytes, |number, kind, name, _, _| {
        if kind == wanted
            && let Some(place) = names.iter().position(|wanted| name.is(wanted))
        {
            found[place] = number;
        }
        Some(())
    })?;
    found.iter().all(|number| *number > 0).then_some(found)
}

/// A name among all strings.
#[derive(Clone, Copy)]
struct Name<'a> {
    strings: &'a [u8],
    at: u32,
}

impl<'a> Name<'a> {
    fn of(self, at: u32) -> Option<Name<'a>> {
        self.strings.get(at as usize..).map(|_| Self { at, ..self })
    }

    fn is(self, text: &str) -> bool {
        let words = self.strings.get(self.at as usize..).unwrap_or_default();
        words.strip_prefix(text.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    }
}

/// Goes through all types: their number, kind, name, how many things follow, and these.
fn walk<'a>(bytes: &'a [u8], mut each: impl FnMut(u32, u32, Name<'a>, usize, &'a [u8]) -> Option<()>) -> Option<()> {
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
    let mut number = 0_u32;
    while !types.is_empty() {
        number += 1;
        let (name, info) = (Name { strings, at: 0 }.of(word(types, 0)?)?, word(types, 4)?);
        let rest = types.get(TYPE_BYTES..TYPE_BYTES + behind(info)?)?;
        each(number, info >> 24 & 0x1f, name, (info & 0xffff) as usize, rest)?;
        types = types.get(TYPE_BYTES + rest.len()..)?;
    }
    Some(())
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
        assert_eq!(traces(&bytes, ["one"]), None);
        for length in 0..bytes.len() {
            assert_eq!(functions(&bytes[..length], ["one", "two"]), None, "cut off at {length}");
        }
    }

    #[test]
    fn members_and_traces_are_found() {
        let kind = |kind: u32, several: u32| kind << 24 | several;
        // A union of that name comes first; and the member's bits may have their number in front.
        let types: [(u32, u32, &[u32]); 3] =
            [(1, kind(5, 1), &[13, 9, 8]), (1, kind(4, 2), &[5, 9, 0, 13, 9, 3 << 24 | 96]), (1, kind(8, 0), &[])];
        let bytes = description(&types, STRINGS);
        assert_eq!((member(&bytes, "one", "two"), member(&bytes, "one", "onemore")), (Some(12), Some(0)));
        assert_eq!((member(&bytes, "one", "one"), member(&bytes, "two", "two")), (None, None));
        assert_eq!(traces(&bytes, ["one"]), Some([3]));
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
