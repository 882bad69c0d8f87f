//! What HTTP/1.1 is refused for, and what is owed for it.

use super::Status;
use std::fmt;

/// What a refusal comes to.
struct Owed {
    status: Status,
    closes: bool,
    section: &'static str,
    words: &'static str,
}

/// The table of refusals: status, whether the connection must close, where it is said, and who is at fault and should do what.
macro_rules! refusals {
    ($($name:ident = $status:ident $end:ident $section:literal $words:literal;)*) => {
        /// Why bytes of HTTP/1.1 are not acted upon.
        ///
        /// Who sent them is at fault. A client that refuses an answer takes no heed of the status; a gateway would say 502.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Refusal {
            $(#[doc = concat!("RFC ", $section, ": ", $words, ".")] $name,)*
        }

        impl Refusal {
            /// All of them; for counters by kind.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            const fn owed(self) -> Owed {
                match self {
                    $(Self::$name => Owed { status: Status::$status, closes: $end, section: $section, words: $words },)*
                }
            }
        }
    };
}

/// Where the next message begins is not known, or cannot be trusted to be what the client thinks.
const CLOSES: bool = true;
/// The message's end is known: answer, pass its content over, go on.
const STAYS: bool = false;

refusals! {
    EmptyLines = BAD_REQUEST CLOSES "9112 section 2.2" "the client sends empty lines; it must begin with a request line";
    NotHttp = BAD_REQUEST CLOSES "9112 section 3" "the client does not speak HTTP; it must begin with a method";
    Tls = BAD_REQUEST CLOSES "8446 section 5.1" "the client speaks TLS to a port without; it must use http:// here, or another port";
    Http2 = VERSION_NOT_SUPPORTED CLOSES "9113 section 3.4" "the client speaks HTTP/2 unasked; it must use HTTP/1.1 here";
    BareLf = BAD_REQUEST CLOSES "9112 section 2.2" "the peer ends a line with LF alone; it must send CR LF";
    BareCr = BAD_REQUEST CLOSES "9112 section 2.2" "the peer sends CR without LF; it must send CR LF";
    MethodTooLong = NOT_IMPLEMENTED CLOSES "9112 section 3" "the client's method is longer than any here; it must use another";
    TargetTooLong = URI_TOO_LONG CLOSES "9112 section 3" "the client's target is over the limit; shorten it, or raise the limit";
    RequestLine = BAD_REQUEST CLOSES "9112 section 3" "the client's first line is not method, target and version with a space between; it must be";
    Version = VERSION_NOT_SUPPORTED CLOSES "9110 section 2.5" "the peer speaks another HTTP; it must use HTTP/1.1";
    Target = BAD_REQUEST CLOSES "9112 section 3.2" "the client's target has none of the four forms that the method allows; it must have one";
    HeadTooLong = FIELDS_TOO_LARGE CLOSES "6585 section 5" "the peer's head is over the limit in bytes; shorten it, or raise the limit";
    TooManyFields = FIELDS_TOO_LARGE CLOSES "6585 section 5" "the peer's head is over the limit in lines; send fewer, or raise the limit";
    Fold = BAD_REQUEST CLOSES "9112 section 5.2" "the peer folds a field line, or begins it with white space; it must not";
    SpaceBeforeColon = BAD_REQUEST CLOSES "9112 section 5.1" "the peer has white space before a colon; it must not";
    FieldName = BAD_REQUEST CLOSES "9112 section 5" "the peer's field line does not begin with a name and a colon; it must";
    FieldValue = BAD_REQUEST CLOSES "9110 section 5.5" "the peer's field value has control characters; it must not";
    LengthAndCoding = BAD_REQUEST CLOSES "9112 section 6.1" "the peer sends both Content-Length and Transfer-Encoding; it must send one";
    RepeatedLength = BAD_REQUEST CLOSES "9112 section 6.3" "the peer sends more than one Content-Length; it must send one";
    InvalidLength = BAD_REQUEST CLOSES "9112 section 6.3" "the peer's Content-Length is no decimal number; it must be one";
    LengthOverflow = CONTENT_TOO_LARGE CLOSES "9110 section 8.6" "the peer's Content-Length is over 64 bits; it must send less";
    CodingInHttp10 = BAD_REQUEST CLOSES "9112 section 6.1" "the peer sends Transfer-Encoding with HTTP/1.0; it must use HTTP/1.1";
    NotChunkedLast = BAD_REQUEST CLOSES "9112 section 6.3" "the peer's last transfer coding is not chunked; it must be";
    ChunkedTwice = BAD_REQUEST CLOSES "9112 section 6.1" "the peer applies chunked more than once; it must not";
    UnknownCoding = NOT_IMPLEMENTED CLOSES "9112 section 6.1" "the peer uses a transfer coding beside chunked; it must not";
    StatusLine = BAD_GATEWAY CLOSES "9112 section 4" "the server's first line is not version and status; it must be";
    HostMissing = BAD_REQUEST STAYS "9112 section 3.2" "the client sends no Host; with HTTP/1.1 it must";
    HostRepeated = BAD_REQUEST STAYS "9112 section 3.2" "the client sends more than one Host; it must send one";
    HostInvalid = BAD_REQUEST STAYS "9112 section 3.2" "the client's Host is not a name or address with a port at most; it must be";
    Expectation = EXPECTATION_FAILED STAYS "9110 section 10.1.1" "the client expects something else than 100-continue; it must do without";
    Connect = NOT_IMPLEMENTED CLOSES "9110 section 9.3.6" "the client asks for a tunnel; it must ask a proxy for that";
    Unsecured = MISDIRECTED_REQUEST STAYS "9110 section 7.4" "the client asks in plain for what is https; it must use TLS";
    ChunkSize = BAD_REQUEST CLOSES "9112 section 7.1" "the peer's chunk does not begin with its size in hexadecimal digits and CR LF; it must";
    ChunkOverflow = CONTENT_TOO_LARGE CLOSES "9112 section 7.1" "the peer's chunk size is over 64 bits; it must send smaller chunks";
    ChunkExtension = BAD_REQUEST CLOSES "9112 section 7.1.1" "the peer's chunk extension has control characters; it must not";
    ExtensionsTooLong = BAD_REQUEST CLOSES "9112 section 7.1.1" "the peer's chunk extensions are over the limit; it must send fewer";
    ChunkEnd = BAD_REQUEST CLOSES "9112 section 7.1" "the peer's chunk does not end with CR LF; it must";
    ContentTooLong = CONTENT_TOO_LARGE CLOSES "9110 section 15.5.14" "the peer's content is over the limit; send less, or raise the limit";
    CutShort = BAD_REQUEST CLOSES "9112 section 8" "the peer ended the stream inside a message; it must send it whole";
    PercentEncoding = BAD_REQUEST STAYS "3986 section 2.1" "the client's target has a percent sign without two hexadecimal digits; it must encode it";
    Nul = BAD_REQUEST STAYS "3986 section 7.3" "the client's path has a NUL; it must not";
    EncodedSlash = BAD_REQUEST STAYS "3986 section 2.2" "the client's path has an encoded slash, which no name here contains; it must not";
    AboveRoot = BAD_REQUEST STAYS "3986 section 5.2.4" "the client's path leads above the root; it must not";
    PathTooLong = URI_TOO_LONG STAYS "9110 section 15.5.15" "the client's path is over the limit; shorten it, or raise the limit";
}

impl Refusal {
    /// What to answer a client with.
    pub const fn status(self) -> Status {
        self.owed().status
    }

    /// Whether the connection must close after the answer: where the next message begins is not known.
    pub const fn closes(self) -> bool {
        self.owed().closes
    }

    /// The RFC's number and its section.
    pub const fn section(self) -> &'static str {
        self.owed().section
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.owed().words)
    }
}

impl std::error::Error for Refusal {}
