//! The functions in which a thread is, from its registers and a copy of its stack.
//!
//! ```text
//! os::halt::Sampler (a thread of this process), perf::Sampling (of any) -> Stack { registers, bytes }
//! Names::of(process) -> frames(&stack) -> [address] -> describe(address) -> [Function { name, place }]   the innermost first
//! ```
//!
//! Functions need no frame pointers: their stacks are unwound by the tables that a panic uses (`.eh_frame`), which every Rust program has. Names
//! come from the symbols and lines of the files that the process has mapped. All of it happens on the thread that asks, never on the one that is
//! looked at.
#![forbid(unsafe_code)]

mod modules;
pub mod perf;

use addr2line::Loader;
use corelane_os::halt::Stack;
use framehop::{CacheNative, MayAllocateDuringUnwind, Unwinder, UnwinderNative};
use modules::{Mapped, mapped};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Frames of one stack at the most: more are another function that calls itself.
const FRAMES_MAX: usize = 256;
/// The longest name that is told whole.
const NAME_MAX: usize = 200;

/// A function, as an operator reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name without hash; its address where no file tells one.
    pub name: String,
    /// Its file and line, where the file with the program has lines.
    pub place: Option<String>,
}

impl Function {
    /// Whether it is one of the language's own library.
    pub fn is_library(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.starts_with("/rustc/"))
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.place.as_ref().map_or(Ok(()), |place| write!(f, " at {place}"))
    }
}

/// What is known of a process's functions.
pub struct Names {
    unwinder: UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    modules: Vec<Mapped>,
    /// None for a file that cannot be read.
    loaders: HashMap<PathBuf, Option<Loader>>,
}

impl Names {
    /// Reads what the process has mapped, and the tables by which its stacks are unwound. A file that cannot be read gives no frames and no names.
    ///
    /// # Errors
    /// That the process's maps cannot be read, in words (proc_pid_maps(5)).
    pub fn of(process: u32) -> io::Result<Self> {
        let modules = mapped(process)?;
        let mut unwinder = UnwinderNative::new();
        for module in &modules {
            if let Some(module) = module.for_unwinder() {
                unwinder.add_module(module);
            }
        }
        Ok(Self { unwinder, cache: CacheNative::new(), modules, loaders: HashMap::new() })
    }

    /// The addresses at which the thread is, the innermost function's first; of callers the call itself. At most 256.
    pub fn frames(&mut self, stack: &Stack) -> Vec<u64> {
        let registers = stack.registers;
        #[cfg(target_arch = "x86_64")]
        let known = framehop::x86_64::UnwindRegsX86_64::new(registers.ip, registers.sp, registers.fp);
        #[cfg(target_arch = "aarch64")]
        let known = framehop::aarch64::UnwindRegsAarch64::new(registers.lr, registers.sp, registers.fp);
        let mut read = |address: u64| stack.word(address).ok_or(());
        let mut frames = self.unwinder.iter_frames(registers.ip, known, &mut self.cache, &mut read);
        let next = || frames.next().ok().flatten().map(|frame| frame.address_for_lookup());
        std::iter::from_fn(next).take(FRAMES_MAX).collect()
    }

    /// The functions at an address, the innermost first: several where some were inlined.
    pub fn describe(&mut self, address: u64) -> Vec<Function> {
        let unknown = || vec![Function { name: format!("{address:#x}"), place: None }];
        let Some(module) = self.modules.iter().find(|module| module.range.contains(&address)) else { return unknown() };
        let loader = self.loaders.entry(module.path.clone()).or_insert_with(|| Loader::new(&module.path).ok());
        let Some(loader) = loader else { return unknown() };
        let stated = module.stated(address);
        let found = inlined(loader, stated);
        if !found.is_empty() {
            return found;
        }
        let symbol = loader.find_symbol(stated).map(|name| vec![Function { name: readable(name), place: None }]);
        symbol.unwrap_or_else(unknown)
    }
}

fn inlined(loader: &Loader, stated: u64) -> Vec<Function> {
    let Ok(mut frames) = loader.find_frames(stated) else { return Vec::new() };
    let mut found = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        let place = frame.location.and_then(|at| Some(format!("{}:{}", at.file?, at.line?)));
        let name = frame.function.as_ref().and_then(|name| name.raw_name().ok().map(|name| readable(&name)));
        // Files with lines and without functions name the innermost by their symbols.
        let name = name.or_else(|| loader.find_symbol(stated).map(readable));
        found.extend(name.map(|name| Function { name, place }));
    }
    // Lines alone name functions without their modules; the symbol is that of the function into which the others were inlined.
    if let Some((whole, symbol)) = found.last_mut().zip(loader.find_symbol(stated).map(readable))
        && symbol.ends_with(&whole.name)
    {
        whole.name = symbol;
    }
    found
}

/// A name without the compiler's letters and hash, and without the types that a function was made for, which may take a page; cut where it is very
/// long all the same.
fn readable(name: &str) -> String {
    let mut words = without_types(&format!("{:#}", addr2line::demangle_auto(name.into(), None)));
    if let Some((end, _)) = words.char_indices().nth(NAME_MAX) {
        words.truncate(end);
        words.push_str("..");
    }
    words
}

/// A path without what stands in brackets behind its names. Brackets that are a part of the path themselves, as in `<a as b>::c`, stay.
fn without_types(path: &str) -> String {
    let (mut kept, mut depth, mut is_left_out) = (String::new(), 0_usize, false);
    for (at, letter) in path.char_indices() {
        if letter == '<' {
            if depth == 0 {
                is_left_out = at > 0 && !path[..at].ends_with("::");
            }
            depth += 1;
        }
        if depth == 0 || !is_left_out {
            kept.push(letter);
        }
        // An arrow closes nothing.
        if letter == '>' && !path[..at].ends_with('-') {
            depth = depth.saturating_sub(1);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_os::halt::Sampler;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    #[inline(never)]
    fn a_function_that_waits(until: &Receiver<()>) {
        assert!(std::hint::black_box(until).recv().is_err());
    }

    #[inline(never)]
    fn a_function_that_computes(until: &Receiver<()>) {
        while !std::hint::black_box(until).try_recv().is_err_and(|error| error == std::sync::mpsc::TryRecvError::Disconnected) {}
    }

    /// The names of where a thread is that runs `body`.
    fn names_of(body: fn(&Receiver<()>), sampler: &mut Sampler) -> Vec<Function> {
        let ((tell, told), (end, until)) = (channel(), channel());
        let thread = std::thread::spawn(move || {
            tell.send(corelane_os::runner::thread_id()).unwrap();
            body(&until);
        });
        let id = told.recv().unwrap();
        let mut names = Names::of(std::process::id()).unwrap();
        let give_up = corelane_os::clock::now() + 30_000_000_000;
        loop {
            let stack = sampler.look(id, Duration::from_secs(30)).unwrap();
            let found: Vec<Function> = names.frames(&stack).into_iter().flat_map(|address| names.describe(address)).collect();
            // It may still be on its way there.
            if found.iter().any(|function| function.name.contains("a_function_that")) || corelane_os::clock::now() > give_up {
                drop(end);
                thread.join().unwrap();
                return found;
            }
        }
    }

    #[test]
    fn functions_that_wait_and_that_compute_are_named_with_their_callers() {
        let mut sampler = Sampler::new().unwrap();
        type Body = fn(&Receiver<()>);
        let cases: [(Body, &str); 2] =
            [(a_function_that_waits, "a_function_that_waits"), (a_function_that_computes, "a_function_that_computes")];
        for (body, name) in cases {
            let found = names_of(body, &mut sampler);
            let at =
                found.iter().position(|function| function.name.ends_with(name)).unwrap_or_else(|| panic!("{name}: {found:?}"));
            assert!(found[at].place.as_ref().is_some_and(|place| place.contains("crates/unwind/src/lib.rs:")), "{:?}", found[at]);
            let is_runner = |function: &Function| function.name.contains("thread_start") || function.name.contains("Thread::new");
            assert!(found[at..].iter().any(is_runner), "the stack is unwound to its end: {found:?}");
        }
    }

    #[test]
    fn names_are_readable() {
        for (name, words) in [
            ("call<stalls::Kept>", "call"),
            ("<a as b>::c", "<a as b>::c"),
            ("a::Lane<D<fn() -> u8>>::turn", "a::Lane::turn"),
            ("a::<impl b::C<D> for e::F>::look", "a::<impl b::C<D> for e::F>::look"),
            ("_ZN4core3ptr4read17h0123456789abcdefE", "core::ptr::read"),
        ] {
            assert_eq!(readable(name), words);
        }
        assert_eq!(readable(&"x".repeat(300)).len(), NAME_MAX + 2);
    }

    #[test]
    fn an_address_of_nothing_is_told_as_a_number() {
        let mut names = Names::of(std::process::id()).unwrap();
        assert_eq!(names.describe(1), [Function { name: "0x1".to_owned(), place: None }]);
        assert!(names.frames(&Stack::default()).len() <= 1);
    }
}
