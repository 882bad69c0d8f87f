//! The dates of answers.

use corelane_wire::http1::Date;

/// A date as it is passed on.
pub(super) type DateText = [u8; Date::BYTES];

/// The date of the last answer of a link. Those of one second have the same, and to read and write one anew costs more than to read all other fields.
#[derive(Default)]
pub(super) struct LastDate(Option<DateText>);

impl LastDate {
    /// A date that has come, as it is passed on; none where it is none.
    pub fn written(&mut self, came: &[u8]) -> Option<DateText> {
        if self.0.is_none_or(|last| last != came) {
            self.0 = Some(Date::parse(came)?.text());
        }
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_written_in_one_form_whatever_came_before() {
        let mut last = LastDate::default();
        let (first, second) = (b"Sun, 06 Nov 1994 08:49:37 GMT", b"Sun, 06 Nov 1994 08:49:38 GMT");
        let table: [(&[u8], _); 7] = [
            (b"yesterday", None),
            (first, Some(first)),
            (first, Some(first)),
            (b"Sunday, 06-Nov-94 08:49:38 GMT", Some(second)),
            (b"Sun Nov  6 08:49:37 1994", Some(first)),
            (b"", None),
            (second, Some(second)),
        ];
        for (came, written) in table {
            assert_eq!(last.written(came), written.copied(), "{came:?}");
        }
    }
}
