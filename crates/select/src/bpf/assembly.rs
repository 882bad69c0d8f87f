//! Programs of the kernel's virtual machine as data: instructions, and labels instead of distances
//! (`Documentation/bpf/standardization/instruction-set.rst`, RFC 9669).

/// One instruction, as bpf(2) takes it (`struct bpf_insn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

impl Instruction {
    fn new(code: u8, to: Register, from: u8, offset: i16, immediate: i32) -> Self {
        // Two bit fields of a byte, whose order is that of the machine's bytes.
        let registers = if cfg!(target_endian = "little") { to as u8 | from << 4 } else { (to as u8) << 4 | from };
        Self { code, registers, offset, immediate }
    }
}

/// A register. R1 to R5 hold the arguments of a call, which destroys them; R0 its answer, and the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // their names say it
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    /// The end of the 512 bytes of stack: read only.
    R10,
}

/// A second operand.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    /// What the register holds.
    Register(Register),
    /// The number, its sign extended to 64 bits.
    Number(i32),
}

impl From<Register> for Operand {
    fn from(register: Register) -> Self {
        Self::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Self {
        Self::Number(number)
    }
}

/// What a 64-bit operation does with its target.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
#[allow(missing_docs)] // their names say it
pub enum Alu {
    Add = 0x00,
    Subtract = 0x10,
    Multiply = 0x20,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Xor = 0xa0,
    Move = 0xb0,
}

/// Bytes of a load or store.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
#[allow(missing_docs)] // their names say it
pub enum Width {
    Four = 0x00,
    Two = 0x08,
    One = 0x10,
    Eight = 0x18,
}

/// When a branch is taken; numbers have no sign.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
#[allow(missing_docs)] // their names say it
pub enum When {
    Equal = 0x10,
    Greater = 0x20,
    NotEqual = 0x50,
    Less = 0xa0,
}

/// What a wide load brings.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Wide {
    Number = 0,
    /// The map of a descriptor (`BPF_PSEUDO_MAP_FD`).
    Map = 1,
    /// The only value of an array (`BPF_PSEUDO_MAP_VALUE`).
    Value = 2,
}

const CLASS_LOAD: u8 = 0x00;
const CLASS_LOAD_REGISTER: u8 = 0x01;
const CLASS_STORE: u8 = 0x02;
const CLASS_STORE_REGISTER: u8 = 0x03;
const CLASS_JUMP: u8 = 0x05;
const CLASS_ALU64: u8 = 0x07;
const MODE_WIDE: u8 = 0x18;
const MODE_MEMORY: u8 = 0x60;
const MODE_ATOMIC: u8 = 0xc0;
const SOURCE_REGISTER: u8 = 0x08;
const JUMP_ALWAYS: u8 = 0x00;
const JUMP_CALL: u8 = 0x80;
const JUMP_EXIT: u8 = 0x90;
/// What is called has its number in the kernel's description (`BPF_PSEUDO_KFUNC_CALL`).
const DESCRIBED: u8 = 2;
const TO_BIG_ENDIAN: u8 = 0xdc;
/// What an atomic operation does: adds, and brings what was there before. One that brings something keeps its place among all loads and stores around it.
const ATOMIC_FETCH_ADD: i32 = 0x01;

/// A place in a program.
#[derive(Clone, Copy, Debug)]
pub struct Label(usize);

/// Puts a program together. Jumps go forward only.
#[derive(Debug, Default)]
pub struct Assembler {
    instructions: Vec<Instruction>,
    /// Where each label is, once it is placed.
    places: Vec<Option<usize>>,
    /// Instructions whose distance is not known yet, and where they go.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// An empty program.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A label, to be placed once.
    pub fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// Places a label before the next instruction.
    ///
    /// # Panics
    /// If it has been placed.
    pub fn place(&mut self, label: Label) {
        let former = self.places[label.0].replace(self.instructions.len());
        assert!(former.is_none(), "a label has one place");
    }

    /// 64-bit arithmetic.
    pub fn alu(&mut self, what: Alu, to: Register, operand: impl Into<Operand>) {
        self.with_operand(CLASS_ALU64 | what as u8, to, 0, operand.into());
    }

    /// Lets the low 16 bits be in network byte order, and clears the others.
    pub fn to_big_endian_16(&mut self, to: Register) {
        self.push(Instruction::new(TO_BIG_ENDIAN, to, 0, 0, 16));
    }

    /// Lets all 64 bits be in network byte order.
    pub fn to_big_endian_64(&mut self, to: Register) {
        self.push(Instruction::new(TO_BIG_ENDIAN, to, 0, 0, 64));
    }

    /// Lets the low 32 bits be in network byte order, and clears the others.
    pub fn to_big_endian_32(&mut self, to: Register) {
        self.push(Instruction::new(TO_BIG_ENDIAN, to, 0, 0, 32));
    }

    /// Instructions so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.instructions.len()
    }

    /// Whether there are none yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty()
    }

    /// Loads from `from` + `offset`, filled up with zeros.
    pub fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        self.push(Instruction::new(CLASS_LOAD_REGISTER | MODE_MEMORY | width as u8, to, from as u8, offset, 0));
    }

    /// Stores at `to` + `offset`.
    pub fn store(&mut self, width: Width, to: Register, offset: i16, value: impl Into<Operand>) {
        let code = MODE_MEMORY | width as u8;
        match value.into() {
            Operand::Register(from) => self.push(Instruction::new(CLASS_STORE_REGISTER | code, to, from as u8, offset, 0)),
            Operand::Number(number) => self.push(Instruction::new(CLASS_STORE | code, to, 0, offset, number)),
        }
    }

    /// Adds the 64 bits of `value` to those at `to` + `offset` at once, and leaves in `value` what was there before. All that comes before it is seen by others before what comes behind it (kernel 5.12).
    pub fn fetch_add(&mut self, to: Register, offset: i16, value: Register) {
        let code = CLASS_STORE_REGISTER | MODE_ATOMIC | Width::Eight as u8;
        self.push(Instruction::new(code, to, value as u8, offset, ATOMIC_FETCH_ADD));
    }

    /// Loads all 64 bits of a number.
    pub fn wide(&mut self, to: Register, number: u64) {
        self.load_wide(to, Wide::Number, number);
    }

    /// Loads the map that an open descriptor stands for.
    pub fn map(&mut self, to: Register, map: std::os::fd::BorrowedFd) {
        use std::os::fd::AsRawFd;
        self.load_wide(to, Wide::Map, u64::from(map.as_raw_fd().unsigned_abs()));
    }

    /// Loads the address of the first value of an array (kernel 5.2).
    pub fn map_value(&mut self, to: Register, map: std::os::fd::BorrowedFd) {
        use std::os::fd::AsRawFd;
        // The high half is where in the value it points.
        self.load_wide(to, Wide::Value, u64::from(map.as_raw_fd().unsigned_abs()));
    }

    /// Calls a function of the kernel by its number (bpf-helpers(7)).
    pub fn call(&mut self, function: i32) {
        self.push(Instruction::new(CLASS_JUMP | JUMP_CALL, Register::R0, 0, 0, function));
    }

    /// Calls a function of the kernel by its number in the kernel's own description (`/sys/kernel/btf/vmlinux`; a kfunc).
    pub fn call_kernel(&mut self, function: u32) {
        self.push(Instruction::new(CLASS_JUMP | JUMP_CALL, Register::R0, DESCRIBED, 0, function.cast_signed()));
    }

    /// Goes to `label`.
    pub fn jump(&mut self, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(Instruction::new(CLASS_JUMP | JUMP_ALWAYS, Register::R0, 0, 0, 0));
    }

    /// Goes to `label` if `left` compares so with the operand.
    pub fn branch(&mut self, when: When, left: Register, right: impl Into<Operand>, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.with_operand(CLASS_JUMP | when as u8, left, 0, right.into());
    }

    /// Ends with R0 as the answer.
    pub fn exit(&mut self) {
        self.push(Instruction::new(CLASS_JUMP | JUMP_EXIT, Register::R0, 0, 0, 0));
    }

    /// The finished program.
    ///
    /// # Panics
    /// If a jump goes to a label that was never placed, goes back, or over more than 32,767 instructions.
    #[must_use]
    pub fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let distance = self.places[label.0].and_then(|place| place.checked_sub(at + 1));
            let distance = distance.and_then(|distance| i16::try_from(distance).ok());
            assert!(distance.is_some(), "instruction {at} jumps to a place ahead");
            assert!(self.instructions[at].offset == 0, "a jump is told its distance once");
            self.instructions[at].offset = distance.unwrap_or_default();
        }
        self.instructions
    }

    fn with_operand(&mut self, code: u8, to: Register, offset: i16, operand: Operand) {
        self.push(match operand {
            Operand::Register(from) => Instruction::new(code | SOURCE_REGISTER, to, from as u8, offset, 0),
            Operand::Number(number) => Instruction::new(code, to, 0, offset, number),
        });
    }

    fn load_wide(&mut self, to: Register, what: Wide, number: u64) {
        self.push(Instruction::new(CLASS_LOAD | MODE_WIDE, to, what as u8, 0, number as i32));
        self.push(Instruction { code: 0, registers: 0, offset: 0, immediate: (number >> 32) as i32 });
    }

    fn push(&mut self, instruction: Instruction) {
        self.instructions.push(instruction);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Register::{R0, R1, R2, R6, R10};
    use std::os::fd::AsFd;

    fn bytes(program: &[Instruction]) -> Vec<[u8; 8]> {
        let one = |i: &Instruction| {
            let ([a, b], [c, d, e, f]) = (i.offset.to_le_bytes(), i.immediate.to_le_bytes());
            [i.code, i.registers, a, b, c, d, e, f]
        };
        program.iter().map(one).collect()
    }

    /// The encodings are those that RFC 9669 gives, worked out by hand.
    #[test]
    #[cfg(target_endian = "little")]
    fn instructions_are_encoded_as_the_standard_says() {
        let mut a = Assembler::new();
        a.alu(Alu::Move, R6, R1);
        a.alu(Alu::Move, R0, 1);
        a.alu(Alu::Add, R2, -8);
        a.alu(Alu::Xor, R0, R2);
        a.alu(Alu::Subtract, R0, R2);
        a.load(Width::Eight, R2, R6, 48);
        a.load(Width::Four, R1, R6, 20);
        a.load(Width::One, R1, R6, 23);
        a.store(Width::Four, R10, -4, R0);
        a.store(Width::Two, R10, -12, 7);
        a.fetch_add(R6, 8, R1);
        a.to_big_endian_16(R2);
        a.to_big_endian_32(R2);
        a.to_big_endian_64(R2);
        a.wide(R1, 0x1122_3344_5566_7788);
        a.call(82);
        a.call_kernel(0x1_2345);
        a.exit();
        let expected = [
            [0xbf, 0x16, 0, 0, 0, 0, 0, 0],
            [0xb7, 0x00, 0, 0, 1, 0, 0, 0],
            [0x07, 0x02, 0, 0, 0xf8, 0xff, 0xff, 0xff],
            [0xaf, 0x20, 0, 0, 0, 0, 0, 0],
            [0x1f, 0x20, 0, 0, 0, 0, 0, 0],
            [0x79, 0x62, 48, 0, 0, 0, 0, 0],
            [0x61, 0x61, 20, 0, 0, 0, 0, 0],
            [0x71, 0x61, 23, 0, 0, 0, 0, 0],
            [0x63, 0x0a, 0xfc, 0xff, 0, 0, 0, 0],
            [0x6a, 0x0a, 0xf4, 0xff, 7, 0, 0, 0],
            [0xdb, 0x16, 8, 0, 0x01, 0, 0, 0],
            [0xdc, 0x02, 0, 0, 16, 0, 0, 0],
            [0xdc, 0x02, 0, 0, 32, 0, 0, 0],
            [0xdc, 0x02, 0, 0, 64, 0, 0, 0],
            [0x18, 0x01, 0, 0, 0x88, 0x77, 0x66, 0x55],
            [0x00, 0x00, 0, 0, 0x44, 0x33, 0x22, 0x11],
            [0x85, 0x00, 0, 0, 82, 0, 0, 0],
            [0x85, 0x20, 0, 0, 0x45, 0x23, 1, 0],
            [0x95, 0x00, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(bytes(&a.finish()), expected);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn labels_become_distances_from_the_next_instruction() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&file) as u8;
        let mut a = Assembler::new();
        let [end, middle] = [a.label(), a.label()];
        a.branch(When::NotEqual, R0, 0, end);
        a.branch(When::Greater, R1, R2, middle);
        a.jump(end);
        a.place(middle);
        a.map(R1, file.as_fd());
        a.place(end);
        a.map_value(R2, file.as_fd());
        a.exit();
        let program = bytes(&a.finish());
        assert_eq!(program[0], [0x55, 0x00, 4, 0, 0, 0, 0, 0], "over the wide load, which counts twice");
        assert_eq!(program[1], [0x2d, 0x21, 1, 0, 0, 0, 0, 0]);
        assert_eq!(program[2], [0x05, 0x00, 2, 0, 0, 0, 0, 0]);
        assert_eq!(program[3], [0x18, 0x11, 0, 0, number, 0, 0, 0]);
        assert_eq!(program[5..7], [[0x18, 0x22, 0, 0, number, 0, 0, 0], [0; 8]]);
    }

    #[test]
    #[should_panic(expected = "jumps to a place ahead")]
    fn a_label_without_a_place_is_noticed() {
        let mut a = Assembler::new();
        let nowhere = a.label();
        a.jump(nowhere);
        let _ = a.finish();
    }
}
