//! What a request says, as values of types: places of its path, its query, its fields, its content.

use crate::application::{Application, Handled};
use crate::matched::Matched;
use crate::request::Request;
use crate::unfit::{Unfit, parsed, parsed_place};
use corelane_wire::http1::percent;
use std::fmt::Display;
use std::str::FromStr;

/// What a handler is given of a request beside the request itself ([`Routes::typed`](crate::Routes::typed)): read before the handler is called, which is not if it is unfit.
///
/// Tuples are what the places of the path say, in their order: `(u32,)` for `/items/{id}`, `(String, u32)` for `/shops/{name}/items/{id}`. Types of your own read whatever they want of head and content.
///
/// ```
/// use corelane_http::{FromRequest, Matched, Unfit};
///
/// struct Page { of: u32, number: u32 }
///
/// impl FromRequest for Page {
///     fn from_request(request: &Matched<'_, '_>) -> Result<Self, Unfit> {
///         Ok(Self { of: request.parse("of")?, number: request.parse_query("page")?.unwrap_or(1) })
///     }
/// }
/// ```
pub trait FromRequest: Sized {
    /// Bytes of content that it reads, at the most: that is collected before ([`Handled::Collect`](crate::Handled::Collect)), and longer content refused with 413 (Content Too Large).
    /// None of it is collected by default.
    const CONTENT_BYTES_MAX: u64 = 0;
    /// How many places the path must name; none if it need not name any, or as many as it likes.
    const PLACES: Option<usize> = None;

    /// Reads it.
    ///
    /// # Errors
    /// What is unfit, which the client is told.
    fn from_request(request: &Matched<'_, '_>) -> Result<Self, Unfit>;
}

macro_rules! places {
    ($count:literal $($place:ident)+) => {
        impl<$($place),+> FromRequest for ($($place,)+)
        where
            $($place: FromStr, $place::Err: Display),+
        {
            const PLACES: Option<usize> = Some($count);

            fn from_request(request: &Matched<'_, '_>) -> Result<Self, Unfit> {
                let mut places = request.places();
                Ok(($(next_place::<$place>(&mut places)?,)+))
            }
        }
    };
}

places!(1 A);
places!(2 A B);
places!(3 A B C);
places!(4 A B C D);

fn next_place<'p, T: FromStr<Err: Display>>(places: &mut impl Iterator<Item = (&'p str, &'p str)>) -> Result<T, Unfit> {
    // reason: it was counted when the route was added.
    let (name, text) = places.next().expect("a path names as many places as its handler takes");
    parsed_place(name, text)
}

impl Request<'_> {
    /// The first value that the query has for `name`, decoded as forms are, as a `T`; none if it has none.
    ///
    /// # Errors
    /// It is not well encoded, or no `T`.
    pub fn parse_query<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Unfit> {
        let what = || format!("{name} of the query");
        let form = |text: &[u8]| percent::decode_form(text, &mut vec![0; text.len()]).map(<[u8]>::to_vec);
        let mut pairs = percent::pairs(self.query().unwrap_or_default());
        let Some((_, value)) = pairs.find(|(key, _)| form(key).is_ok_and(|key| key == name.as_bytes())) else { return Ok(None) };
        let value = form(value).map_err(|_| Unfit::new(what(), "is not well encoded"))?;
        parsed(what, &value).map(Some)
    }

    /// The value of the first field line of this name, in any case, as a `T`; none if there is none.
    ///
    /// # Errors
    /// It is no `T`.
    pub fn parse_field<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Unfit> {
        self.field(name).map(|value| parsed(|| format!("the field {name}"), value)).transpose()
    }

    /// The whole content, once it was collected, as a `T`: a `String` is any text.
    ///
    /// # Errors
    /// It is no UTF-8, or no `T`; or nothing was collected.
    pub fn parse_content<T: FromStr<Err: Display>>(&self) -> Result<T, Unfit> {
        match self.content() {
            Some(content) => parsed(|| "the content".to_owned(), content),
            None => Err(Unfit::new("the content", "was not collected")),
        }
    }
}

/// What a typed handler is called with; or else how the request goes on.
pub(crate) enum Read<T, H> {
    Whole(T),
    Content(H),
}

/// Reads a `T`, for which content is collected first if it wants any.
pub(crate) fn read<T: FromRequest, A: Application>(request: &Matched<'_, '_>) -> Result<Read<T, Handled<A>>, Unfit> {
    if T::CONTENT_BYTES_MAX > 0 && request.content().is_none() {
        return Ok(Read::Content(Handled::Collect(T::CONTENT_BYTES_MAX)));
    }
    T::from_request(request).map(Read::Whole)
}
