//! The same selection as a program of the classic kind, which everybody may attach (SO_ATTACH_REUSEPORT_CBPF, socket(7);
//! `Documentation/networking/filter.rst`): no maps, no calls, no loops. Its answer is the index of a socket in the order in which
//! the group's sockets were bound, or began to listen; any other leaves the choice to the kernel's own hash. So the table is part
//! of the program, and a new table is a new program.

use crate::errors::Error;
use crate::parity::{Family, Mask, masks};
use corelane_rss::{FlowHasher, HashType, Protocol, Table};
use libc::sock_filter;

/// The answer that leaves the choice to the kernel.
const LEAVE: u32 = u32::MAX;
/// Extension headers that are walked at most, as in user space; behind more of them the ports are not found.
const MOST_HEADERS: usize = 8;
/// Bytes of the IPv6 header, and where it says what follows (RFC 8200, section 3).
const HEADER_V6: u32 = 40;
const NEXT_HEADER: u32 = 6;
/// Places for words: those of the input, what has been packed, the bucket, and where the walk is.
const PACKED: u32 = 9;
const BUCKET: u32 = 10;
const OFFSET: u32 = 11;

/// Offsets from this count from the IP header; the packet is behind its transport header here.
const NETWORK: u32 = libc::SKF_NET_OFF as u32;
const ETHER_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PROTOCOL) as u32;

/// The program for flows of one protocol. `order` is the lane of each socket, in the order of binding; flows of other lanes
/// are left to the kernel.
///
/// # Errors
/// [`Error::ProgramLength`], for a table whose lanes alternate in no order, with 1,024 buckets.
pub(super) fn program(
    hasher: &FlowHasher,
    table: &Table,
    protocol: Protocol,
    order: &[usize],
) -> Result<Vec<sock_filter>, Error> {
    let masks = masks(hasher.toeplitz().key(), table.buckets().bits());
    let mut filter = Filter::default();
    let [v4, v6, select, leave] = [(); 4].map(|()| filter.label());
    filter.one(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, ETHER_TYPE);
    filter.go_if(Family::V4.ether_type().into(), v4);
    filter.go_if(Family::V6.ether_type().into(), v6);
    filter.go(leave);
    for (family, label) in [(Family::V4, v4), (Family::V6, v6)] {
        filter.place(label);
        match family.hash_type(hasher, protocol) {
            Some(hash_type) => filter.hash(family, hash_type, &masks, leave),
            None => filter.go(leave),
        }
        filter.go(select);
    }
    filter.place(leave);
    filter.one(libc::BPF_RET | libc::BPF_K, LEAVE);
    filter.place(select);
    let index = |lane| order.iter().position(|joined| *joined == lane).map_or(LEAVE, |index| index as u32);
    let answers: Vec<u32> = table.buckets().all().map(|bucket| index(table.lane(bucket))).collect();
    let choices = choices(&answers, 1);
    assert!(answers.iter().all(|answer| *answer == LEAVE || (*answer as usize) < order.len()), "answers are places of the group");
    filter.instructions.extend(choices);
    filter.finish()
}

/// The answer to each bucket, which is in the accumulator: asks for one bit after the other, lowest first, since neighbouring buckets
/// tend to have different lanes. Where the rest makes no difference, it asks no more.
fn choices(answers: &[u32], bit: u32) -> Vec<sock_filter> {
    assert!(answers.len().is_power_of_two() && bit.is_power_of_two(), "each bit of the bucket halves what is left");
    let same = answers.iter().all(|answer| *answer == answers[0]);
    if same {
        return vec![instruction(libc::BPF_RET | libc::BPF_K, 0, 0, answers[0])];
    }
    let half = |odd: usize| choices(&answers.iter().skip(odd).step_by(2).copied().collect::<Vec<_>>(), bit << 1);
    let (even, odd) = (half(0), half(1));
    let test = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    let mut choices = match u8::try_from(even.len()) {
        Ok(distance) => vec![instruction(test, distance, 0, bit)],
        Err(_) => {
            let over = instruction(libc::BPF_JMP | libc::BPF_JA, 0, 0, even.len() as u32);
            vec![instruction(test, 0, 1, bit), over]
        }
    };
    choices.extend(even);
    choices.extend(odd);
    choices
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

#[derive(Clone, Copy)]
struct ClassicLabel(usize);

/// Puts a program together. A conditional jump reaches over 255 instructions only, so it steps over one that reaches further.
#[derive(Default)]
struct Filter {
    instructions: Vec<sock_filter>,
    places: Vec<usize>,
    jumps: Vec<(usize, ClassicLabel)>,
}

impl Filter {
    fn label(&mut self) -> ClassicLabel {
        self.places.push(0);
        ClassicLabel(self.places.len() - 1)
    }

    fn place(&mut self, label: ClassicLabel) {
        assert!(self.places[label.0] == 0, "a label has one place");
        self.places[label.0] = self.instructions.len();
    }

    fn one(&mut self, code: u32, k: u32) {
        self.instructions.push(instruction(code, 0, 0, k));
    }

    fn go(&mut self, label: ClassicLabel) {
        self.jumps.push((self.instructions.len(), label));
        self.one(libc::BPF_JMP | libc::BPF_JA, 0);
    }

    /// Goes there if the accumulator is `k`.
    fn go_if(&mut self, k: u32, label: ClassicLabel) {
        self.instructions.push(instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, k));
        self.go(label);
    }

    /// Loads the word, or with `BPF_B` the byte, at `offset` of the IP header.
    fn load(&mut self, width: u32, offset: u32) {
        self.one(libc::BPF_LD | width | libc::BPF_ABS, NETWORK + offset);
    }

    /// The same, behind the offset that X holds.
    fn load_behind(&mut self, width: u32, offset: u32) {
        self.one(libc::BPF_LD | width | libc::BPF_IND, NETWORK + offset);
    }

    fn keep(&mut self, place: u32) {
        self.one(libc::BPF_ST, place);
    }

    fn recall(&mut self, place: u32) {
        self.one(libc::BPF_LD | libc::BPF_W | libc::BPF_MEM, place);
    }

    fn alu(&mut self, what: u32, k: u32) {
        self.one(libc::BPF_ALU | what | libc::BPF_K, k);
    }

    fn alu_x(&mut self, what: u32) {
        self.one(libc::BPF_ALU | what | libc::BPF_X, 0);
    }

    fn set_x(&mut self) {
        self.one(libc::BPF_MISC | libc::BPF_TAX, 0);
    }

    /// From the packet to its bucket in the accumulator.
    fn hash(&mut self, family: Family, hash_type: HashType, masks: &[Mask], leave: ClassicLabel) {
        let mut words = (family.addresses_bytes() / 4) as u32;
        for word in 0..words {
            self.load(libc::BPF_W, family.addresses_offset() + 4 * word);
            self.keep(word);
        }
        if hash_type.takes_ports() {
            match family {
                // The length of the IPv4 header, in units of 4 bytes, is in the low half of its first byte.
                Family::V4 => self.one(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, NETWORK),
                Family::V6 => self.walk(leave),
            }
            self.load_behind(libc::BPF_W, 0);
            self.keep(words);
            words += 1;
        }
        assert!(words <= PACKED, "the words of the input have places of their own");
        self.alu(libc::BPF_AND, 0);
        self.keep(BUCKET);
        for (group, masks) in masks.chunks(4).enumerate() {
            self.parities(words, masks);
            self.alu(libc::BPF_LSH, 4 * group as u32);
            self.set_x();
            self.recall(BUCKET);
            self.alu_x(libc::BPF_OR);
            self.keep(BUCKET);
        }
        self.recall(BUCKET);
    }

    /// The parities of the words under each of up to 4 masks, in the low bits of the accumulator.
    fn parities(&mut self, words: u32, masks: &[Mask]) {
        assert!((1..=4).contains(&masks.len()), "a word has a byte for each");
        for (bit, mask) in masks.iter().enumerate() {
            self.masked(words, mask);
            self.fold([16, 8]);
            self.alu(libc::BPF_AND, 0xff);
            self.alu(libc::BPF_LSH, 8 * bit as u32);
            if bit > 0 {
                self.set_x();
                self.recall(PACKED);
                self.alu_x(libc::BPF_OR);
            }
            self.keep(PACKED);
        }
        self.fold([4, 2]);
        self.fold([1]);
        self.alu(libc::BPF_AND, 0x0101_0101);
        // The product moves the lowest bits of the bytes side by side; no two of its terms meet.
        self.alu(libc::BPF_MUL, 0x0020_4081);
        self.alu(libc::BPF_RSH, 21);
        self.alu(libc::BPF_AND, 0xf);
    }

    /// The exclusive or of all words under the mask.
    fn masked(&mut self, words: u32, mask: &Mask) {
        for word in 0..words {
            let at = 4 * word as usize;
            let [a, b, c, d] = [mask[at], mask[at + 1], mask[at + 2], mask[at + 3]];
            if word > 0 {
                self.set_x();
            }
            self.recall(word);
            self.alu(libc::BPF_AND, u32::from_be_bytes([a, b, c, d]));
            if word > 0 {
                self.alu_x(libc::BPF_XOR);
            }
        }
    }

    fn fold<const N: usize>(&mut self, distances: [u32; N]) {
        for distance in distances {
            self.set_x();
            self.alu(libc::BPF_RSH, distance);
            self.alu_x(libc::BPF_XOR);
        }
    }

    /// Walks over the extension headers of IPv6 (RFC 8200, section 4; RFC 4302) and leaves the offset of what follows in X. A
    /// fragment has been put together; only the header of one that was alone is still there (RFC 6946).
    fn walk(&mut self, leave: ClassicLabel) {
        let done = self.label();
        self.one(libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM, HEADER_V6);
        self.load(libc::BPF_B, NEXT_HEADER);
        for _ in 0..MOST_HEADERS {
            self.step(done);
        }
        for kind in [0, 43, 44, 51, 60] {
            self.go_if(kind, leave);
        }
        self.place(done);
    }

    /// One header of the walk: its kind is in the accumulator, its offset in X.
    fn step(&mut self, done: ClassicLabel) {
        let [options, authentication, fragment, add] = [(); 4].map(|()| self.label());
        for (kind, label) in [(0, options), (43, options), (60, options), (51, authentication), (44, fragment)] {
            self.go_if(kind, label);
        }
        self.go(done);
        for (label, shift) in [(options, 3), (authentication, 2)] {
            self.place(label);
            self.load_behind(libc::BPF_B, 1);
            self.alu(libc::BPF_LSH, shift);
            self.go(add);
        }
        self.place(fragment);
        self.alu(libc::BPF_AND, 0);
        self.place(add);
        self.alu(libc::BPF_ADD, 8);
        self.alu_x(libc::BPF_ADD);
        self.keep(OFFSET);
        self.load_behind(libc::BPF_B, 0);
        self.one(libc::BPF_LDX | libc::BPF_W | libc::BPF_MEM, OFFSET);
    }

    fn finish(mut self) -> Result<Vec<sock_filter>, Error> {
        for (at, label) in self.jumps {
            let place = self.places[label.0];
            assert!(place > at, "a program goes forward");
            self.instructions[at].k = (place - at - 1) as u32;
        }
        let ends = |last: &sock_filter| u32::from(last.code) == libc::BPF_RET | libc::BPF_K;
        assert!(self.instructions.last().is_some_and(ends), "a program ends with an answer");
        let most = libc::BPF_MAXINSNS as usize;
        let got = self.instructions.len();
        if got > most { Err(Error::ProgramLength { got, most }) } else { Ok(self.instructions) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_rss::{Buckets, HashTypes, Key, Verdict};

    const LANES: usize = 5;

    /// Runs a program on a packet as the kernel would.
    fn run(program: &[sock_filter], packet: &[u8]) -> u32 {
        let (mut a, mut x, mut memory, mut at) = (0_u32, 0_u32, [0_u32; 16], 0);
        let load = |code: u32, offset: u32| {
            let offset = offset.wrapping_sub(NETWORK) as usize;
            match code & 0x18 {
                libc::BPF_B => packet.get(offset).map(|byte| u32::from(*byte)),
                _ => packet.get(offset..)?.first_chunk().map(|word| u32::from_be_bytes(*word)),
            }
        };
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            let code = u32::from(code);
            at += 1;
            match (code & 7, code & 0xe0) {
                (libc::BPF_LD, libc::BPF_ABS) if k == ETHER_TYPE => a = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd },
                (libc::BPF_LD, libc::BPF_ABS) => a = load(code, k).unwrap(),
                (libc::BPF_LD, libc::BPF_IND) => a = load(code, k.wrapping_add(x)).unwrap(),
                (libc::BPF_LD, libc::BPF_MEM) => a = memory[k as usize],
                (libc::BPF_LDX, libc::BPF_MSH) => x = 4 * (load(libc::BPF_B, k).unwrap() & 0xf),
                (libc::BPF_LDX, libc::BPF_MEM) => x = memory[k as usize],
                (libc::BPF_LDX, libc::BPF_IMM) => x = k,
                (libc::BPF_ST, _) => memory[k as usize] = a,
                (libc::BPF_MISC, _) => x = a,
                (libc::BPF_RET, _) => return k,
                (libc::BPF_ALU, _) => a = alu(code & 0xf0, a, if code & 8 == 0 { k } else { x }),
                (libc::BPF_JMP, _) => {
                    at += match code & 0xf0 {
                        libc::BPF_JA => k as usize,
                        libc::BPF_JEQ => usize::from(if a == k { jt } else { jf }),
                        libc::BPF_JSET => usize::from(if a & k != 0 { jt } else { jf }),
                        _ => unreachable!("no other jumps"),
                    }
                }
                _ => unreachable!("no other instructions"),
            }
        }
    }

    fn alu(what: u32, a: u32, b: u32) -> u32 {
        match what {
            libc::BPF_ADD => a.wrapping_add(b),
            libc::BPF_MUL => a.wrapping_mul(b),
            libc::BPF_OR => a | b,
            libc::BPF_AND => a & b,
            libc::BPF_LSH => a << b,
            libc::BPF_RSH => a >> b,
            libc::BPF_XOR => a ^ b,
            _ => unreachable!("no other arithmetic"),
        }
    }

    /// Numbers without order (Knuth's multiplier).
    fn noise(seed: u32) -> impl Iterator<Item = u8> {
        (1..).map(move |at: u32| (seed.wrapping_mul(31).wrapping_add(at).wrapping_mul(2_654_435_761) >> 13) as u8)
    }

    /// A UDP packet of IPv4 with so many words of options.
    fn v4(seed: u32, options: u8) -> Vec<u8> {
        let mut packet: Vec<u8> = noise(seed).take(28 + 4 * usize::from(options)).collect();
        let length = packet.len() as u16;
        (packet[0], packet[9]) = (0x45 + options, 17);
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet[6..8].fill(0);
        packet
    }

    /// A UDP packet of IPv6 with these extension headers, of two sizes in turn.
    fn v6(seed: u32, kinds: &[u8]) -> Vec<u8> {
        let mut headers = Vec::new();
        for (at, kind) in kinds.iter().enumerate() {
            let units = if *kind == 44 { 0 } else { at as u8 % 3 };
            let bytes = match kind {
                44 => 8,
                51 => 4 * usize::from(units) + 8,
                _ => 8 * usize::from(units) + 8,
            };
            let first = headers.len();
            headers.extend([kinds.get(at + 1).copied().unwrap_or(17), units]);
            headers.resize(first + bytes, 0);
        }
        let mut packet: Vec<u8> = noise(seed).take(40).collect();
        packet[0] = 0x60;
        packet[4..6].copy_from_slice(&(headers.len() as u16 + 8).to_be_bytes());
        packet[6] = kinds.first().copied().unwrap_or(17);
        packet.extend(headers);
        packet.extend(noise(seed ^ 77).take(8));
        packet
    }

    fn tables() -> [Table; 3] {
        let mut irregular = Table::even(Buckets::DEFAULT, LANES).unwrap();
        for bucket in irregular.buckets().all() {
            irregular.set(bucket, (bucket.index() * bucket.index() / 3) % LANES).unwrap();
        }
        let one = Table::even(Buckets::new(1).unwrap(), 1).unwrap();
        [irregular, Table::even(Buckets::new(1_024).unwrap(), LANES).unwrap(), one]
    }

    /// Each packet goes where its headers say by the crate that defines it. The lanes entered in reverse.
    #[test]
    fn packets_go_where_their_headers_say() {
        let order: Vec<usize> = (0..LANES).rev().collect();
        let chains: [&[u8]; 7] = [&[], &[0], &[60, 60], &[43, 44], &[51], &[0, 60, 43, 51, 44, 60, 60, 60], &[51, 51, 44]];
        for (types, table) in
            [HashTypes::ALL, HashTypes::DEFAULT].into_iter().flat_map(|types| tables().map(|table| (types, table)))
        {
            let hasher = FlowHasher::new(&Key::MICROSOFT, types);
            let program = program(&hasher, &table, Protocol::UDP, &order).unwrap();
            for seed in 0..200 {
                let v6 = v6(seed, chains[seed as usize % chains.len()]);
                for packet in [v4(seed, (seed % 11) as u8), v6] {
                    let Verdict::Computed(hashed) = hasher.packet(&packet, None) else { panic!("{packet:?}") };
                    let expected = LANES - 1 - table.lane_of(hashed.flow);
                    assert_eq!(run(&program, &packet), expected as u32, "{types} {packet:x?}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_hashed_and_whose_lane_has_no_socket_is_left() {
        let [table, ..] = tables();
        let order: Vec<usize> = (0..LANES).collect();
        let none = program(&FlowHasher::new(&Key::MICROSOFT, HashTypes::NONE), &table, Protocol::UDP, &order).unwrap();
        let all = FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL);
        let alone = program(&all, &table, Protocol::UDP, &[]).unwrap();
        assert!([&none, &alone].iter().all(|program| run(program, &v4(1, 0)) == LEAVE && run(program, &v6(1, &[])) == LEAVE));
        let whole = program(&all, &table, Protocol::UDP, &order).unwrap();
        assert_eq!(run(&whole, &v6(1, &[60; 9])), LEAVE, "more headers than are walked");
        assert_ne!(run(&whole, &v6(1, &[60; 8])), LEAVE);
    }

    #[test]
    fn the_largest_table_fits() {
        let mut table = Table::even(Buckets::new(1_024).unwrap(), 256).unwrap();
        for bucket in table.buckets().all() {
            table.set(bucket, (bucket.index() * bucket.index() / 3) % 256).unwrap();
        }
        let hasher = FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL);
        let order: Vec<usize> = (0..256).collect();
        let largest = program(&hasher, &table, Protocol::TCP, &order).unwrap().len();
        let usual = program(&hasher, &tables()[0], Protocol::TCP, &order).unwrap().len();
        println!("{usual} instructions for 128 buckets, {largest} for 1,024");
        assert!(usual < largest && largest <= libc::BPF_MAXINSNS as usize);
    }
}
