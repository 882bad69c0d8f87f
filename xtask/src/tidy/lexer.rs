//! Splits Rust source into code and comments, and code into tokens.
//!
//! It knows only what the house rules need: line and nested block comments, strings with escapes and with hashes,
//! character literals against lifetimes (the Rust Reference, "Comments" and "Tokens"). The inside of a literal is
//! blanked, its quotes stay. Any text is accepted; an unclosed comment or literal ends with the file.

/// A word, `::` or a single other character of the code.
#[derive(Debug, Clone, Copy)]
pub struct Token {
    start: usize,
    end: usize,
    /// Line that the token stands on, from 1.
    pub line: usize,
}

/// Source text taken apart.
#[derive(Debug, Default)]
pub struct Lexed {
    code: String,
    /// The comments of each line, from line 1 at index 0.
    pub comments: Vec<String>,
    /// The code as tokens.
    pub tokens: Vec<Token>,
}

impl Lexed {
    /// Takes `text` apart.
    pub fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let kinds = classify(&chars);
        let code = keep(&chars, &kinds, Kind::Code);
        let comments = keep(&chars, &kinds, Kind::Comment).lines().map(str::to_owned).collect();
        let tokens = tokens(&code);
        Self { code, comments, tokens }
    }

    /// The text of the token at `index`; empty past the end.
    pub fn word(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| &self.code[token.start..token.end])
    }
}

/// Whether `c` can be part of an identifier or a number.
pub fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// A stretch of text: `open` characters of code, `inner` of `kind`, `close` of code.
struct Span {
    open: usize,
    inner: usize,
    close: usize,
    kind: Kind,
}

impl Span {
    fn code(open: usize) -> Self {
        Self { open, inner: 0, close: 0, kind: Kind::Code }
    }

    fn comment(inner: usize) -> Self {
        Self { open: 0, inner, close: 0, kind: Kind::Comment }
    }

    fn literal(open: usize, inner: usize, close: usize) -> Self {
        Self { open, inner, close, kind: Kind::Literal }
    }
}

fn classify(chars: &[char]) -> Vec<Kind> {
    let mut kinds = Vec::with_capacity(chars.len());
    while kinds.len() < chars.len() {
        let span = next_span(&chars[kinds.len()..]);
        kinds.extend(std::iter::repeat_n(Kind::Code, span.open));
        kinds.extend(std::iter::repeat_n(span.kind, span.inner));
        kinds.extend(std::iter::repeat_n(Kind::Code, span.close));
    }
    kinds.truncate(chars.len());
    kinds
}

fn next_span(rest: &[char]) -> Span {
    match rest {
        ['/', '/', ..] => Span::comment(length_until(rest, |r| r[0] == '\n')),
        ['/', '*', ..] => Span::comment(block_comment(rest)),
        ['"', ..] => string(rest, 1),
        ['\'', ..] => character(rest),
        [c, ..] if is_word(*c) => word(rest),
        _ => Span::code(1),
    }
}

/// Characters before the place where `found` holds, or all of them.
fn length_until(rest: &[char], found: impl Fn(&[char]) -> bool) -> usize {
    (0..rest.len()).find(|&at| found(&rest[at..])).unwrap_or(rest.len())
}

fn block_comment(rest: &[char]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => depth += 1,
            ['*', '/', ..] => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            break;
        }
    }
    at
}

fn string(rest: &[char], open: usize) -> Span {
    let mut at = open;
    while at < rest.len() && rest[at] != '"' {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    Span::literal(open, at - open, 1)
}

fn character(rest: &[char]) -> Span {
    match rest {
        ['\'', '\\', _, tail @ ..] => Span::literal(1, 2 + length_until(tail, |r| r[0] == '\''), 1),
        ['\'', _, '\'', ..] => Span::literal(1, 1, 1),
        _ => Span::code(1), // a lifetime or a label
    }
}

/// A word, or the string that it is the prefix of.
fn word(rest: &[char]) -> Span {
    let length = length_until(rest, |r| !is_word(r[0]));
    let word: String = rest[..length].iter().collect();
    let hashes = length_until(&rest[length..], |r| r[0] != '#');
    let quoted = rest.get(length + hashes) == Some(&'"');
    match word.as_str() {
        "b" | "c" if quoted && hashes == 0 => string(rest, length + 1),
        "r" | "br" | "cr" if quoted => raw_string(rest, length + hashes + 1, hashes),
        _ => Span::code(length),
    }
}

fn raw_string(rest: &[char], open: usize, hashes: usize) -> Span {
    let ends = |r: &[char]| r[0] == '"' && r.len() > hashes && r[1..=hashes].iter().all(|&c| c == '#');
    Span::literal(open, length_until(&rest[open..], ends), 1 + hashes)
}

/// The text with everything but `kind` and the line ends blanked.
fn keep(chars: &[char], kinds: &[Kind], kind: Kind) -> String {
    let blank = |(&c, &k): (&char, &Kind)| if k == kind || c == '\n' { c } else { ' ' };
    chars.iter().zip(kinds).map(blank).collect()
}

fn tokens(code: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut start = 0;
    while let Some(first) = code[start..].chars().next() {
        let end = start + token_length(&code[start..], first);
        if first == '\n' {
            line += 1;
        } else if !first.is_whitespace() {
            tokens.push(Token { start, end, line });
        }
        start = end;
    }
    tokens
}

fn token_length(rest: &str, first: char) -> usize {
    if is_word(first) {
        rest.find(|c| !is_word(c)).unwrap_or(rest.len())
    } else if rest.starts_with("::") {
        2
    } else {
        first.len_utf8()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        let lexed = Lexed::new(text);
        (0..lexed.tokens.len()).map(|i| lexed.word(i)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_leave_the_code() {
        assert_eq!(code("a // b\nc"), "a c");
        assert_eq!(code("a /* b /* c */ d */ e"), "a e");
        assert_eq!(code("a /* never closed"), "a");
        assert_eq!(code("/**/ a"), "a");
    }

    #[test]
    fn comments_are_kept_by_line() {
        let lexed = Lexed::new("a // one\n/* two\nthree */ b\n");
        let comments: Vec<_> = lexed.comments.iter().map(|c| c.trim()).collect();
        assert_eq!(comments, ["// one", "/* two", "three */"]);
        assert_eq!(lexed.tokens[1].line, 3);
    }

    #[test]
    fn strings_are_blanked() {
        assert_eq!(code(r#"f("a // b", c)"#), "f ( \" \" , c )");
        assert_eq!(code(r#"f("a \" b", c)"#), "f ( \" \" , c )");
        assert_eq!(code(r#"f("a \\", c)"#), "f ( \" \" , c )");
        assert_eq!(code("b\"x\" c\"y\""), "b \" \" c \" \"");
        assert_eq!(code("\"never closed"), "\"");
        assert_eq!(code("\"never closed \\"), "\"");
    }

    #[test]
    fn raw_strings_end_at_their_hashes() {
        assert_eq!(code(r###"r#"a " b"# c"###), "r # \" \" # c");
        assert_eq!(code(r####"br##"a "# b"## c"####), "br # # \" \" # # c");
        assert_eq!(code("r\"a \\\" c"), "r \" \" c");
        assert_eq!(code("r#type + 1"), "r # type + 1");
    }

    #[test]
    fn characters_are_not_lifetimes() {
        assert_eq!(code(r"f('a', '\'', '\\', '\u{41}', '(')"), "f ( ' ' , ' ' , ' ' , ' ' , ' ' )");
        assert_eq!(code("fn f<'a>(x: &'a str)"), "fn f < ' a > ( x : & ' a str )");
        assert_eq!(code("b'\"' x"), "b ' ' x");
        assert_eq!(code("'\"' 'é' x"), "' ' ' ' x");
    }

    #[test]
    fn paths_and_lines_are_tokens() {
        assert_eq!(code("std::time::Instant"), "std :: time :: Instant");
        let lexed = Lexed::new("a\n\n\"x\ny\" b");
        assert_eq!(lexed.tokens.last().unwrap().line, 4);
    }
}
