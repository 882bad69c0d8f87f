//! Conditional requests (RFC 9110 section 13).

use super::{Date, Fields, Method, Tag};

/// What tells one state of a resource from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validators<'a> {
    /// Its entity tag.
    pub tag: Option<Tag<'a>>,
    /// When it was last changed.
    pub modified: Option<Date>,
    /// When it came to be what it is, where that is known and later than `modified` may say: who puts an older state in its place puts that state's date there as well.
    pub changed: Option<Date>,
    /// Whether that date is a strong validator: it lies far enough back that no second change can bear the same (section 8.8.2.2).
    pub is_modified_strong: bool,
}

/// What the conditions of a request come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Carry the request out.
    Holds,
    /// Answer 304 (Not Modified).
    NotModified,
    /// Answer 412 (Precondition Failed).
    Failed,
}

impl Validators<'_> {
    /// Whether it is what it was at that time; none where that cannot be said. The date that was told of it names it, whenever it came to be; any other date counts for
    /// what had come to be by then.
    fn is_unmodified_since(&self, asked: Date) -> Option<bool> {
        let modified = self.modified?;
        Some(modified == asked || modified < asked && self.changed.is_none_or(|changed| changed <= asked))
    }
}

/// Evaluates the conditions of a request in their order (section 13.2.2), but for [`range_applies`]. `current`: what is there now; none if nothing is. To be
/// asked where the request without conditions would be answered with 2xx (section 13.2.1).
pub fn condition(fields: Fields<'_>, method: Method<'_>, current: Option<&Validators<'_>>) -> Condition {
    let reads = matches!(method, Method::Get | Method::Head);
    let tag = current.and_then(|current| current.tag);
    let holds = match Asked::of(fields, "if-match") {
        Asked::Nothing => {
            let asked = fields.once("if-unmodified-since").and_then(Date::parse);
            asked.zip(current).and_then(|(asked, current)| current.is_unmodified_since(asked)).unwrap_or(true)
        }
        asked => asked.names(fields, "if-match", current.is_some(), |one| tag.is_some_and(|tag| tag.is_strongly(one))),
    };
    if !holds {
        return Condition::Failed;
    }
    let changed = match Asked::of(fields, "if-none-match") {
        Asked::Nothing if reads => {
            let asked = fields.once("if-modified-since").and_then(Date::parse);
            !asked.zip(current).and_then(|(asked, current)| current.is_unmodified_since(asked)).unwrap_or(false)
        }
        Asked::Nothing => true,
        asked => !asked.names(fields, "if-none-match", current.is_some(), |one| tag.is_some_and(|tag| tag.is_weakly(one))),
    };
    match (changed, reads) {
        (true, _) => Condition::Holds,
        (false, true) => Condition::NotModified,
        (false, false) => Condition::Failed,
    }
}

/// Whether the range of a request is to be looked at (section 13.1.5): there is no If-Range, or what it names is what is there now. Otherwise all is
/// sent.
pub fn range_applies(fields: Fields<'_>, current: &Validators<'_>) -> bool {
    let mut all = fields.all("if-range");
    let Some(value) = all.next() else { return true };
    if all.next().is_some() {
        return false;
    }
    match Tag::parse(value) {
        Some(asked) => current.tag.is_some_and(|tag| tag.is_strongly(asked)),
        None => current.is_modified_strong && current.modified.is_some_and(|modified| Date::parse(value) == Some(modified)),
    }
}

/// What If-Match or If-None-Match asks for.
#[derive(Clone, Copy)]
enum Asked {
    /// The field is missing.
    Nothing,
    /// `*`: whether there is anything.
    Anything,
    /// One of these tags.
    Tags,
}

impl Asked {
    fn of(fields: Fields<'_>, name: &str) -> Self {
        match fields.get(name) {
            None => Self::Nothing,
            Some(b"*") => Self::Anything,
            Some(_) => Self::Tags,
        }
    }

    /// Whether what is there now is asked for. What is no tag names nothing.
    fn names<'a>(self, fields: Fields<'a>, name: &str, exists: bool, is: impl Fn(Tag<'a>) -> bool) -> bool {
        match self {
            Self::Nothing => false,
            Self::Anything => exists,
            Self::Tags => fields.tags(name).filter_map(Tag::parse).any(is),
        }
    }
}
