//! One Rust file as the rules see it: tokens, comments, which lines are test code, which functions there are.

use super::finding::{Finding, Rule};
use super::lexer::{Lexed, is_word};

/// A Rust file.
#[derive(Debug, Default)]
pub struct Source {
    /// Path relative to the root, with slashes.
    pub path: String,
    /// How many lines the file has.
    pub lines: usize,
    /// Every function with a body.
    pub functions: Vec<Function>,
    /// Names of the modules that `#[cfg(test)] mod name;` declares.
    pub test_modules: Vec<String>,
    lexed: Lexed,
    test_lines: Vec<bool>,
}

/// A function with a body.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`.
    pub line: usize,
    /// The line of its closing brace.
    pub end: usize,
}

impl Function {
    /// Lines from `fn` to the closing brace, both counted.
    pub fn length(&self) -> usize {
        self.end - self.line + 1
    }
}

impl Source {
    /// Reads `text` as the file at `path`.
    pub fn new(path: &str, text: &str) -> Self {
        let lines = text.lines().count();
        let mut source =
            Self { path: path.to_owned(), lines, lexed: Lexed::new(text), test_lines: vec![false; lines], ..Self::default() };
        source.find_tests();
        source.find_functions();
        source
    }

    /// How many tokens the code has.
    pub fn tokens(&self) -> usize {
        self.lexed.tokens.len()
    }

    /// The token at `index`; empty past the end.
    pub fn word(&self, index: usize) -> &str {
        self.lexed.word(index)
    }

    /// Whether the token at `index` can be an identifier.
    pub fn is_identifier(&self, index: usize) -> bool {
        self.word(index).starts_with(|c: char| is_word(c) && !c.is_numeric())
    }

    /// Whether the tokens from `index` on are `words`.
    pub fn has(&self, index: usize, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(i, word)| self.word(index + i) == *word)
    }

    /// Line of the token at `index`, from 1; the last line past the end.
    pub fn line(&self, index: usize) -> usize {
        self.lexed.tokens.get(index).map_or(self.lines, |token| token.line)
    }

    /// The comment on `line`, empty if there is none.
    pub fn comment(&self, line: usize) -> &str {
        let index = line.wrapping_sub(1);
        self.lexed.comments.get(index).map_or("", |comment| comment.trim())
    }

    /// Whether `accepts` holds for the comment on `line` or one of the comment lines right above it.
    pub fn noted(&self, line: usize, accepts: impl Fn(&str) -> bool) -> bool {
        let above = (1..line).rev().take_while(|&above| self.only_comment(above));
        std::iter::once(line).chain(above).any(|line| accepts(self.comment(line)))
    }

    /// Whether `line` lies in the tests: in a tests folder or under `#[cfg(test)]` or `#[test]`.
    pub fn in_test(&self, line: usize) -> bool {
        self.test_lines.get(line - 1) == Some(&true) || self.in_folder(&["tests", "fuzz"])
    }

    /// Whether `line` is no part of the product: a test, a bench or an example.
    pub fn beside_product(&self, line: usize) -> bool {
        self.in_test(line) || self.in_folder(&["benches", "examples"])
    }

    /// Marks the whole file as test code.
    pub fn mark_test(&mut self) {
        self.test_lines.fill(true);
    }

    /// A finding in this file.
    pub fn finding(&self, line: usize, rule: Rule, what: String, remedy: &str) -> Finding {
        Finding { path: self.path.clone(), line, rule, what, remedy: remedy.to_owned() }
    }

    /// Index of the bracket that closes the one at `open`; the last token if none does.
    pub fn closing(&self, open: usize) -> usize {
        let mut depth = 0;
        for index in open..self.tokens() {
            match self.word(index) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return index;
            }
        }
        self.tokens().saturating_sub(1)
    }

    /// The index behind the angle brackets that open at `index`, or `index` where none do.
    pub fn behind_angles(&self, index: usize) -> usize {
        let mut depth = 0;
        for at in index..self.tokens() {
            match self.word(at) {
                "<" => depth += 1,
                ">" if !matches!(self.word(at - 1), "-" | "=") => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at + usize::from(at > index);
            }
        }
        self.tokens().max(index)
    }

    fn in_folder(&self, names: &[&str]) -> bool {
        let folders = self.path.rsplit_once('/').map_or("", |(folders, _)| folders);
        folders.split('/').any(|folder| names.contains(&folder))
    }

    fn only_comment(&self, line: usize) -> bool {
        let first = self.lexed.tokens.partition_point(|token| token.line < line);
        !self.comment(line).is_empty() && self.line(first) != line
    }

    fn find_tests(&mut self) {
        for index in 0..self.tokens() {
            if self.has(index, &["#", "!", "["]) && self.is_test_attribute(index + 2) {
                self.mark_test();
            } else if self.has(index, &["#", "["]) && self.is_test_attribute(index + 1) {
                self.mark_test_item(index);
            }
        }
    }

    fn mark_test_item(&mut self, attribute: usize) {
        let end = self.item_end(self.closing(attribute + 1) + 1);
        let lines = self.line(attribute) - 1..self.line(end);
        self.test_lines[lines].fill(true);
        if end >= 2 && self.word(end) == ";" && self.word(end - 2) == "mod" {
            self.test_modules.push(self.word(end - 1).to_owned());
        }
    }

    /// Whether the attribute that opens at `open` is `[test]` or a `cfg` that only test builds satisfy. A feature beside `test` is
    /// what the tests of other crates ask for.
    fn is_test_attribute(&self, open: usize) -> bool {
        let mut within = Vec::new();
        for index in open + 1..self.closing(open) {
            match self.word(index) {
                "(" => within.push(self.word(index - 1)),
                ")" => drop(within.pop()),
                "test" if within.is_empty() => return self.has(index - 1, &["[", "test", "]"]),
                "test" if self.has(index - 2, &["any", "(", "test", ",", "feature", "=", "\"", "\"", ")"]) => {
                    return within == ["cfg", "any"];
                }
                "test" => return within[0] == "cfg" && within[1..].iter().all(|w| *w == "all"),
                _ => {}
            }
        }
        false
    }

    fn find_functions(&mut self) {
        for index in 0..self.tokens() {
            if self.word(index) != "fn" || !self.is_identifier(index + 1) {
                continue;
            }
            let end = self.item_end(index);
            if self.word(end) == "}" {
                let (line, end) = (self.line(index), self.line(end));
                self.functions.push(Function { name: self.word(index + 1).to_owned(), line, end });
            }
        }
    }

    /// Index of the token that ends the item, field, arm or statement at `start`: its `;`, its `,` or its closing brace.
    fn item_end(&self, start: usize) -> usize {
        let mut angles = 0;
        let mut bounds = false;
        let mut index = start;
        while index < self.tokens() {
            match self.word(index) {
                ";" => return index,
                "{" => return self.closing(index),
                "}" | ")" | "]" => return index - 1,
                "(" | "[" => index = self.closing(index),
                "<" => angles += 1,
                ">" if !matches!(self.word(index - 1), "-" | "=") => angles -= 1,
                "where" => bounds = true,
                "," if angles == 0 && !bounds => return index,
                _ => {}
            }
            index += 1;
        }
        self.tokens().saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_lines(text: &str) -> Vec<usize> {
        let source = Source::new("crates/lane/src/turn.rs", text);
        (1..=source.lines).filter(|&line| source.in_test(line)).collect()
    }

    fn lengths(text: &str) -> Vec<(String, usize)> {
        let source = Source::new("a.rs", text);
        source.functions.iter().map(|f| (f.name.clone(), f.length())).collect()
    }

    #[test]
    fn test_modules_and_functions_are_test_code() {
        assert_eq!(test_lines("fn a() {}\n#[cfg(test)]\nmod tests {\n}\nfn b() {}"), [2, 3, 4]);
        assert_eq!(test_lines("#[test]\n#[ignore]\nfn a() {\n}\nfn b() {}"), [1, 2, 3, 4]);
        assert_eq!(test_lines("#[cfg(all(test, not(loom)))]\nmod tests {}\nfn b() {}"), [1, 2]);
        assert_eq!(test_lines("#![cfg(all(test, loom))]\nfn b() {}"), [1, 2]);
        assert_eq!(test_lines("#[cfg(any(test, feature = \"testing\"))]\nmod a;\nfn b() {}"), [1, 2]);
    }

    #[test]
    fn other_conditions_are_product_code() {
        assert!(test_lines("#[cfg(not(test))]\nfn a() {}").is_empty());
        assert!(test_lines("#[cfg(any(test, loom))]\nfn a() {}").is_empty());
        assert!(test_lines("#[cfg(any(test, feature = \"a\", loom))]\nfn a() {}").is_empty());
        assert!(test_lines("#[cfg_attr(test, derive(Debug))]\nstruct A;").is_empty());
        assert!(test_lines("#[path = \"test\"]\nmod a;").is_empty());
    }

    #[test]
    fn a_test_item_ends_where_it_ends() {
        assert_eq!(test_lines("struct A {\n#[cfg(test)]\na: u8,\nb: u8,\n}"), [2, 3]);
        assert_eq!(test_lines("struct A {\n#[cfg(test)]\na: u8\n}\nfn f() {}"), [2, 3]);
        let bounds = "#[cfg(test)]\nfn f<A, B>(a: [u8; 3]) -> A\nwhere A: X, B: Y\n{\n}\nfn g() {}";
        assert_eq!(test_lines(bounds), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn test_modules_in_other_files_are_named() {
        let source = Source::new("a.rs", "#[cfg(test)]\nmod model;\nmod real;");
        assert_eq!(source.test_modules, ["model"]);
    }

    #[test]
    fn folders_decide_too() {
        assert!(Source::new("crates/os/tests/suite.rs", "fn f() {}").in_test(1));
        let example = Source::new("crates/corelane/examples/echo.rs", "fn f() {}");
        assert!(example.beside_product(1) && !example.in_test(1));
        assert!(!Source::new("xtask/src/test/tests.rs", "fn f() {}").beside_product(1));
    }

    #[test]
    fn functions_are_measured() {
        let text = "fn a() {\n}\ntrait T {\n fn b(&self);\n fn c(&self) -> u8 {\n  { 1 }\n }\n}";
        assert_eq!(lengths(text), [("a".to_owned(), 2), ("c".to_owned(), 3)]);
        assert_eq!(lengths("type F = fn(u8) -> u8;"), []);
        assert_eq!(lengths("fn a() -> impl Fn(A) -> Result<B, C> { }")[0].1, 1);
        assert_eq!(lengths("fn unclosed() {\n"), []);
    }

    #[test]
    fn any_text_is_accepted() {
        let text = "#![cfg(all(test))]#[cfg(test)] mod a; fn f<'a>(b: &'a [u8; 2]) -> R<A, B> where A: B, {\n\
                    r#\"x\"# '\\'' \"\\\"\" /* /* */ é */ } ) ] ; , > #[test";
        let chars: Vec<char> = text.chars().collect();
        for start in 0..chars.len() {
            for end in start..=chars.len() {
                let part: String = chars[start..end].iter().collect();
                let source = Source::new("a.rs", &part);
                assert!(source.functions.iter().all(|f| f.end <= source.lines.max(1)));
            }
        }
    }

    #[test]
    fn notes_stand_on_the_line_or_right_above() {
        let source = Source::new("a.rs", "// one\n// two\nlet a; // three\nlet b;");
        assert!(source.noted(3, |c| c.contains("one")) && source.noted(3, |c| c.contains("three")));
        assert!(!source.noted(4, |c| c.contains("three")));
    }
}
