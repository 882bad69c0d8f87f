//! Status codes (RFC 9110 section 15).

/// A status code, 100 to 599.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(u16);

/// Codes by name, and their reason phrases.
macro_rules! statuses {
    ($($name:ident = $code:literal $phrase:literal;)*) => {
        impl Status {
            $(#[doc = concat!(stringify!($code), " ", $phrase, ".")] pub const $name: Self = Self($code);)*

            /// The reason phrase; empty for codes that this module does not name (RFC 9112 section 4: a client ignores it).
            pub const fn phrase(self) -> &'static str {
                match self.0 {
                    $($code => $phrase,)*
                    _ => "",
                }
            }
        }
    };
}

statuses! {
    CONTINUE = 100 "Continue";
    EARLY_HINTS = 103 "Early Hints";
    SWITCHING_PROTOCOLS = 101 "Switching Protocols";
    OK = 200 "OK";
    CREATED = 201 "Created";
    ACCEPTED = 202 "Accepted";
    NO_CONTENT = 204 "No Content";
    RESET_CONTENT = 205 "Reset Content";
    PARTIAL_CONTENT = 206 "Partial Content";
    MOVED_PERMANENTLY = 301 "Moved Permanently";
    FOUND = 302 "Found";
    SEE_OTHER = 303 "See Other";
    NOT_MODIFIED = 304 "Not Modified";
    TEMPORARY_REDIRECT = 307 "Temporary Redirect";
    PERMANENT_REDIRECT = 308 "Permanent Redirect";
    BAD_REQUEST = 400 "Bad Request";
    UNAUTHORIZED = 401 "Unauthorized";
    FORBIDDEN = 403 "Forbidden";
    NOT_FOUND = 404 "Not Found";
    METHOD_NOT_ALLOWED = 405 "Method Not Allowed";
    NOT_ACCEPTABLE = 406 "Not Acceptable";
    REQUEST_TIMEOUT = 408 "Request Timeout";
    CONFLICT = 409 "Conflict";
    GONE = 410 "Gone";
    LENGTH_REQUIRED = 411 "Length Required";
    PRECONDITION_FAILED = 412 "Precondition Failed";
    CONTENT_TOO_LARGE = 413 "Content Too Large";
    URI_TOO_LONG = 414 "URI Too Long";
    UNSUPPORTED_MEDIA_TYPE = 415 "Unsupported Media Type";
    RANGE_NOT_SATISFIABLE = 416 "Range Not Satisfiable";
    EXPECTATION_FAILED = 417 "Expectation Failed";
    MISDIRECTED_REQUEST = 421 "Misdirected Request";
    UNPROCESSABLE_CONTENT = 422 "Unprocessable Content";
    UPGRADE_REQUIRED = 426 "Upgrade Required";
    TOO_MANY_REQUESTS = 429 "Too Many Requests";
    FIELDS_TOO_LARGE = 431 "Request Header Fields Too Large";
    INTERNAL_SERVER_ERROR = 500 "Internal Server Error";
    NOT_IMPLEMENTED = 501 "Not Implemented";
    BAD_GATEWAY = 502 "Bad Gateway";
    SERVICE_UNAVAILABLE = 503 "Service Unavailable";
    GATEWAY_TIMEOUT = 504 "Gateway Timeout";
    VERSION_NOT_SUPPORTED = 505 "HTTP Version Not Supported";
}

impl Status {
    /// The status of this code; none if it is not from 100 to 599.
    pub const fn new(code: u16) -> Option<Self> {
        if code >= 100 && code < 600 { Some(Self(code)) } else { None }
    }

    /// The number.
    pub const fn code(self) -> u16 {
        self.0
    }

    /// Whether another answer to the same request follows (RFC 9110 section 15.2); 101 is the last of its connection's HTTP.
    pub const fn is_interim(self) -> bool {
        self.0 < 200 && self.0 != 101
    }

    /// Whether an answer with this status has no content whatever its fields say (RFC 9112 section 6.3, rule 1).
    pub const fn is_without_content(self) -> bool {
        self.0 < 200 || matches!(self.0, 204 | 304)
    }

    /// Its three digits.
    pub(super) const fn digits(self) -> [u8; 3] {
        let Self(code) = self;
        [b'0' + (code / 100) as u8, b'0' + (code / 10 % 10) as u8, b'0' + (code % 10) as u8]
    }
}

impl std::fmt::Debug for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}
