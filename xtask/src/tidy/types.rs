//! The types of one crate, as its files tell: where the functions of each stand, and of what type the receiver of a call is.
//!
//! A type is known by its name as it is written: of `self`, of parameters, of fields, of what functions return, and of what `let` binds to one of those or takes apart
//! (`let Type { field, .. } =`). References and boxes count as what they lead to.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;

/// A pointer whose methods are those of what it leads to.
const POINTERS: [&str; 3] = ["Box", "Rc", "Arc"];

/// A type and a name of one of its functions or fields.
type Named<'a> = (&'a str, &'a str);

/// The types of one crate.
#[derive(Default)]
pub struct Types<'a> {
    functions: BTreeMap<Named<'a>, Functions<'a>>,
    fields: BTreeMap<Named<'a>, Option<&'a str>>,
    /// Names that more than one type has.
    doubles: BTreeSet<&'a str>,
    declared: BTreeSet<&'a str>,
}

/// The functions of one name that a type has.
#[derive(Default)]
struct Functions<'a> {
    files: BTreeSet<&'a str>,
    returns: Option<&'a str>,
}

/// A call, by the token that names the function.
pub struct Call<'a> {
    /// The file in which the function stands.
    pub home: &'a str,
    /// The line of the call.
    pub line: usize,
}

/// An `impl` block: the tokens of its brackets, the type that it is for, and the trait that it implements, if it does one.
pub struct Block<'a> {
    pub open: usize,
    pub close: usize,
    of: &'a str,
    pub of_trait: Option<&'a str>,
}

/// Reads one function's body: what its names mean there, and what it calls.
struct Body<'a, 'b> {
    types: &'b Types<'a>,
    source: &'a Source,
    names: BTreeMap<&'a str, &'a str>,
    calls: Vec<Call<'a>>,
}

impl<'a> Types<'a> {
    /// The types that `sources` declare.
    pub fn new(sources: impl Iterator<Item = &'a Source> + Clone) -> Self {
        let mut types = Self::default();
        for source in sources.clone() {
            types.declare(source);
        }
        for source in sources {
            for block in blocks(source) {
                types.add_functions(source, &block);
            }
        }
        types
    }

    /// The calls in a file of functions whose type is known, and which stand in one file alone.
    pub fn calls(&self, source: &'a Source) -> Vec<Call<'a>> {
        let blocks: Vec<Block<'a>> = blocks(source).collect();
        let mut calls = Vec::new();
        for index in functions(source, 0, source.tokens()) {
            let of = blocks.iter().find(|block| (block.open..block.close).contains(&index)).map(|block| block.of);
            let mut body = Body { types: self, source, names: BTreeMap::new(), calls: Vec::new() };
            if let Some(of) = of {
                body.names.extend([("self", of), ("Self", of)]);
            }
            body.read(index);
            calls.append(&mut body.calls);
        }
        calls
    }

    fn declare(&mut self, source: &'a Source) {
        for index in 1..source.tokens() {
            let (kind, name) = (source.word(index - 1), source.word(index));
            let declares = matches!(kind, "struct" | "enum" | "union" | "trait") && source.is_identifier(index);
            if !declares || source.beside_product(source.line(index)) {
                continue;
            }
            if !self.declared.insert(name) {
                self.doubles.insert(name);
            }
            let open = source.behind_angles(index + 1);
            if kind == "struct" && source.word(open) == "{" {
                for (field, of) in typed(source, open) {
                    self.fields.insert((name, field), of);
                }
            }
        }
    }

    fn add_functions(&mut self, source: &'a Source, block: &Block<'a>) {
        for index in functions(source, block.open, block.close) {
            let end = source.closing(source.behind_angles(index + 2));
            let returns = match source.has(end + 1, &["-", ">"]) {
                true if source.word(end + 3) == "Self" => Some(block.of),
                true => head(source, end + 3),
                false => None,
            };
            let known = self.functions.entry((block.of, source.word(index + 1))).or_default();
            known.files.insert(&source.path);
            known.returns = returns;
        }
    }

    /// A type of this crate that nothing else is called as.
    fn is_known(&self, name: &str) -> bool {
        self.declared.contains(name) && !self.doubles.contains(name)
    }

    /// The one file in which a type's function stands.
    fn home(&self, of: &'a str, name: &'a str) -> Option<&'a str> {
        let files = &self.functions.get(&(of, name)).filter(|_| self.is_known(of))?.files;
        files.first().filter(|_| files.len() == 1).copied()
    }
}

impl<'a> Body<'a, '_> {
    /// Reads the function whose `fn` stands at `index`.
    fn read(&mut self, index: usize) {
        let open = self.source.behind_angles(index + 2);
        for (name, of) in typed(self.source, open) {
            self.bind(name, of);
        }
        let mut begin = self.source.closing(open);
        while !matches!(self.source.word(begin), "{" | ";" | "") {
            begin += 1;
        }
        if self.source.word(begin) != "{" {
            return;
        }
        for at in begin..self.source.closing(begin) {
            if self.source.word(at) == "let" {
                self.read_binding(at + 1);
            }
            self.value(at);
        }
    }

    /// Reads what a `let` binds, whose pattern begins at `index`.
    fn read_binding(&mut self, index: usize) {
        let source = self.source;
        let at = index + usize::from(source.word(index) == "mut");
        let name = source.word(at);
        match source.word(at + 1) {
            "=" => {
                let of = self.value(at + 2).filter(|(_, end)| matches!(source.word(*end), ";" | "else")).map(|(of, _)| of);
                self.bind(name, of);
            }
            ":" => self.bind(name, head(source, at + 2)),
            "{" => {
                let taken = self.names.get(name).copied().unwrap_or(name);
                for field in (at + 2..source.closing(at + 1)).filter(|&field| matches!(source.word(field - 1), "{" | ",")) {
                    let of = self.types.fields.get(&(taken, source.word(field))).copied().flatten();
                    let renamed = source.word(field + 1) == ":";
                    self.bind(source.word(field + 2 * usize::from(renamed)), of);
                }
            }
            _ => {}
        }
    }

    fn bind(&mut self, name: &'a str, of: Option<&'a str>) {
        match of {
            Some(of) => drop(self.names.insert(name, of)),
            None => drop(self.names.remove(name)),
        }
    }

    /// The type of the value that begins at `index`, and where its text ends; notes what is called for it.
    fn value(&mut self, mut index: usize) -> Option<(&'a str, usize)> {
        let source = self.source;
        while matches!(source.word(index), "&" | "mut") {
            index += 1;
        }
        let before = index.checked_sub(1).map_or("", |before| source.word(before));
        if before == "." || !source.is_identifier(index) {
            return None;
        }
        let name = source.word(index);
        let known = self.names.get(name).copied().filter(|_| before != "::");
        if source.word(index + 1) == "::" {
            let of = known.filter(|_| name == "Self").unwrap_or(name);
            let behind = self.called(of, index + 2)?;
            return self.value_of(behind.0?, behind.1);
        }
        self.value_of(known?, index + 1)
    }

    /// The same of what fields and methods make of a value of type `of`, whose text ends before `at`.
    fn value_of(&mut self, mut of: &'a str, mut at: usize) -> Option<(&'a str, usize)> {
        while self.source.word(at) == "." && self.source.is_identifier(at + 1) {
            let next = match self.called(of, at + 1) {
                Some(behind) => behind,
                None => (self.types.fields.get(&(of, self.source.word(at + 1))).copied().flatten(), at + 2),
            };
            (of, at) = (next.0.filter(|_| self.types.is_known(of))?, next.1);
        }
        Some((of, at))
    }

    /// Notes the call of a function of `of` that is named at `index`: what it returns, and where the call ends. None if it is no call.
    fn called(&mut self, of: &'a str, index: usize) -> Option<(Option<&'a str>, usize)> {
        let source = self.source;
        let turbofish = source.has(index + 1, &["::", "<"]);
        let open = source.behind_angles(index + 1 + usize::from(turbofish));
        if source.word(open) != "(" {
            return None;
        }
        let name = source.word(index);
        if let Some(home) = self.types.home(of, name) {
            self.calls.push(Call { home, line: source.line(index) });
        }
        let returns = self.types.functions.get(&(of, name)).and_then(|known| known.returns);
        Some((returns, source.closing(open) + 1))
    }
}

/// Where functions with a name begin among the tokens from `start` to `end`, those of tests left out.
pub fn functions(source: &Source, start: usize, end: usize) -> impl Iterator<Item = usize> {
    let begins = |index: &usize| source.word(*index) == "fn" && source.is_identifier(index + 1);
    (start..end).filter(begins).filter(|index| !source.beside_product(source.line(*index)))
}

/// The `impl` blocks of a file.
pub fn blocks(source: &Source) -> impl Iterator<Item = Block<'_>> {
    let begins = |index: &usize| {
        let before = index.checked_sub(1).map_or("", |before| source.word(before));
        source.word(*index) == "impl" && matches!(before, "" | "}" | ";" | "]" | "{" | "unsafe")
    };
    (0..source.tokens()).filter(begins).filter_map(|index| block(source, index))
}

fn block(source: &Source, index: usize) -> Option<Block<'_>> {
    let first = source.behind_angles(index + 1);
    let mut at = first;
    let mut of = None;
    while !matches!(source.word(at), "{" | ";" | "where" | "") {
        if source.word(at) == "for" && source.word(at + 1) != "<" {
            of = Some(at + 1);
        }
        at = if source.word(at) == "<" { source.behind_angles(at) } else { at + 1 };
    }
    let of_trait = of.and_then(|_| head(source, first));
    let of = head(source, of.unwrap_or(first))?;
    while !matches!(source.word(at), "{" | "") {
        at += 1;
    }
    Some(Block { open: at, close: source.closing(at), of, of_trait })
}

/// The names with their types between the brackets that open at `open`: parameters or fields.
fn typed(source: &Source, open: usize) -> Vec<(&str, Option<&str>)> {
    let mut found = Vec::new();
    let (mut at, close) = (open + 1, source.closing(open));
    while at < close {
        match source.word(at) {
            "(" | "[" | "{" => at = source.closing(at),
            "<" => at = source.behind_angles(at) - 1,
            ":" => found.push((source.word(at - 1), head(source, at + 1))),
            _ => {}
        }
        at += 1;
    }
    found
}

/// The name of the type that is written at `index`, without what it is borrowed, boxed or made of.
fn head(source: &Source, index: usize) -> Option<&str> {
    let mut at = index;
    loop {
        match source.word(at) {
            "&" | "mut" | "dyn" => at += 1,
            "'" => at += 2,
            _ => break,
        }
    }
    while source.is_identifier(at) && source.word(at + 1) == "::" {
        at += 2;
    }
    match source.word(at) {
        pointer if POINTERS.contains(&pointer) && source.word(at + 1) == "<" => head(source, at + 2),
        name => source.is_identifier(at).then_some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The homes of what the first of `files` calls.
    fn homes(files: &[&str]) -> Vec<String> {
        let sources: Vec<_> = files.iter().enumerate().map(|(at, text)| Source::new(&format!("{at}.rs"), text)).collect();
        let types = Types::new(sources.iter());
        types.calls(&sources[0]).iter().map(|call| format!("{}:{}", call.home, call.line)).collect()
    }

    const OTHER: &str = "struct S { t: Box<T> } impl<A: Fn() -> u8> S { fn go(&self) -> &T { } } struct T; impl fmt::Display for T { fn end(&self) {} }";

    #[test]
    fn the_receiver_says_whose_function_is_called() {
        assert_eq!(homes(&["impl S { fn a(&self) { self.go(); } }", OTHER]), ["1.rs:1"]);
        assert_eq!(homes(&["impl S { fn a(&self) { Self::go(self)\n.end() } }", OTHER]), ["1.rs:1", "1.rs:2"]);
        assert_eq!(homes(&["fn a(s: &mut S, b: u8) { assert!(s.t.end()) }", OTHER]), ["1.rs:1"]);
        assert_eq!(homes(&["fn a() { S::go(1) }", OTHER]), ["1.rs:1"]);
        assert!(homes(&["fn a(s: u8) { s.go(); go(); x.go() }", OTHER]).is_empty(), "of another type");
        assert!(homes(&["impl S { fn a(&self) { self.go } }", OTHER]).is_empty(), "no call");
        assert!(homes(&["impl S { fn go(&self) { self.go() } }", OTHER]).is_empty(), "of two files");
        assert!(homes(&["struct S; impl S { fn a(&self) { self.go() } }", OTHER]).is_empty(), "of two types");
        assert!(homes(&["#[cfg(test)]\nmod t {\nfn a(s: S) { s.go() }\n}", OTHER]).is_empty(), "a test");
    }

    #[test]
    fn what_is_bound_has_the_type_of_its_value() {
        assert_eq!(homes(&["impl S { fn a(&self) { let mut x = self.go(); x.end() } }", OTHER]), ["1.rs:1", "1.rs:1", "1.rs:1"]);
        assert_eq!(homes(&["fn a(s: S) { let S { t, .. } = s; t.end(); let S { t: u } = s; u.end() }", OTHER]).len(), 2);
        assert_eq!(homes(&["fn a() { let x: &'a T = b; x.end() }", OTHER]), ["1.rs:1"]);
        assert!(homes(&["fn a(s: S) { let s = 1; s.go() }", OTHER]).is_empty(), "another of that name");
        assert!(homes(&["fn a(s: S) { let x = s.t.other(); x.end() }", OTHER]).is_empty(), "unknown");
    }

    #[test]
    fn unfinished_text_is_accepted() {
        let text = "struct A<T> { b: Box<C> } impl<T: Fn() -> u8> X for A<T> where T: Y { fn d(&self, e: &'a A<u8>) -> Self { let A { b, c: d } = self.b::<u8>(e); } }";
        for end in 0..=text.len() {
            homes(&[&text[..end], text]);
            homes(&[text, &text[..end]]);
        }
    }
}
