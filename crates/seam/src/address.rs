//! Where something is reached, or who sent it: one type for all families.
//!
//! An address lies on the way of each datagram, and twice in the entry of each connection, so it is no larger than the standard library's for
//! IPv4 and IPv6 alone (asserted below). A name in the file system has up to 107 bytes; it is shared instead, by count: a name lives as
//! long as somebody holds it. To number names instead would make addresses `Copy`, but then either foreigners fill the list of
//! numbers, since each datagram may come from another name, or a number can lose its meaning under its holder. Hence `clone`, which copies 32
//! bytes for IPv4 and IPv6, and counts for a Unix name; drivers keep the names that they have seen, so that a peer's next datagram allocates
//! nothing.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// The most bytes of a path, or of an abstract name behind its zero byte: `sun_path` has 108 (unix(7)).
pub const UNIX_NAME_BYTES_MAX: usize = 107;

/// An address of any family.
///
/// Written as `192.0.2.1:80`, `[2001:db8::1]:80`, `unix:/run/x.sock`, `unix:@name` (abstract, unix(7)) and `link:2/02:00:00:00:00:01`; what has
/// no such letters stands in names as `%` and two digits, and so do `%`, `?` and a path's first `@`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// IPv4 or IPv6, with a port.
    Ip(SocketAddr),
    /// A Unix socket's.
    Unix(Unix),
    /// An interface's, on its own link.
    Link(Link),
}

/// A Unix socket's address (unix(7)), and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Unix {
    /// None for a socket without a name, as most clients have; an abstract one begins with a zero byte.
    name: Option<Arc<[u8]>>,
    /// The user id of the process that a peer is, as the kernel vouches for it (SO_PEERCRED, SCM_CREDENTIALS, unix(7)); none for an address that
    /// is no peer's.
    pub user: Option<u32>,
}

/// A link-layer address (packet(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link {
    /// The interface's index (netdevice(7)).
    pub interface: u32,
    /// The address of its card.
    pub mac: [u8; 6],
}

const _: () = assert!(size_of::<Address>() <= size_of::<SocketAddr>(), "an address lies on the way of each datagram");
const _: () = assert!(size_of::<Option<Address>>() <= size_of::<SocketAddr>());

impl Unix {
    /// A socket without a name.
    pub const UNNAMED: Self = Self { name: None, user: None };

    /// The socket of this path.
    ///
    /// # Errors
    /// [`AddressError`] for a path of no or over [`UNIX_NAME_BYTES_MAX`] bytes, or with a zero byte.
    pub fn path(path: &[u8]) -> Result<Self, AddressError> {
        match path {
            [] => Err(AddressError::UnixEmpty),
            path if path.contains(&0) => Err(AddressError::UnixZero),
            path => Self::named(path.into(), path.len()),
        }
    }

    /// The socket of this abstract name, which is in no file system: `name` without the zero byte before it.
    ///
    /// # Errors
    /// [`AddressError`] for one of over [`UNIX_NAME_BYTES_MAX`] bytes.
    pub fn hidden(name: &[u8]) -> Result<Self, AddressError> {
        Self::named([&[0], name].concat().into(), name.len())
    }

    fn named(name: Arc<[u8]>, bytes: usize) -> Result<Self, AddressError> {
        if bytes > UNIX_NAME_BYTES_MAX {
            return Err(AddressError::UnixLong { got: bytes });
        }
        Ok(Self { name: Some(name), user: None })
    }

    /// The same, of a process of `user`.
    pub fn of_user(self, user: u32) -> Self {
        Self { user: Some(user), ..self }
    }

    /// The name as the kernel has it: an abstract one begins with a zero byte. Empty for a socket without a name.
    pub fn name(&self) -> &[u8] {
        self.name.as_deref().unwrap_or_default()
    }

    /// The path, if it has one.
    pub fn as_path(&self) -> Option<&Path> {
        use std::os::unix::ffi::OsStrExt;
        let is_path = self.name().first().is_some_and(|first| *first != 0);
        is_path.then(|| Path::new(std::ffi::OsStr::from_bytes(self.name())))
    }
}

impl Address {
    /// The standard library's address, if it is IPv4 or IPv6.
    pub fn inet(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            Self::Unix(_) | Self::Link(_) => None,
        }
    }

    /// The IP address, if it has one.
    pub fn ip(&self) -> Option<IpAddr> {
        Some(self.inet()?.ip())
    }

    /// Whether it is IPv4.
    pub fn is_ipv4(&self) -> bool {
        matches!(self, Self::Ip(SocketAddr::V4(_)))
    }

    /// The port; 0 where the family has none.
    pub fn port(&self) -> u16 {
        self.inet().map_or(0, |address| address.port())
    }

    /// The same with another port, where the family has ports.
    pub fn with_port(mut self, port: u16) -> Self {
        if let Self::Ip(address) = &mut self {
            address.set_port(port);
        }
        self
    }

    /// A Unix socket's, if it is one.
    pub fn unix(&self) -> Option<&Unix> {
        match self {
            Self::Unix(unix) => Some(unix),
            Self::Ip(_) | Self::Link(_) => None,
        }
    }

    /// An IPv4 address that is written as IPv6 (`::ffff:192.0.2.1`, RFC 4291 section 2.5.5.2) as IPv4; any other as it is.
    pub fn canonical(self) -> Self {
        match self {
            Self::Ip(address) => Self::Ip(SocketAddr::new(address.ip().to_canonical(), address.port())),
            other => other,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl From<SocketAddrV4> for Address {
    fn from(address: SocketAddrV4) -> Self {
        Self::Ip(address.into())
    }
}

impl From<SocketAddrV6> for Address {
    fn from(address: SocketAddrV6) -> Self {
        Self::Ip(address.into())
    }
}

impl From<Unix> for Address {
    fn from(address: Unix) -> Self {
        Self::Unix(address)
    }
}

impl From<&Self> for Address {
    fn from(address: &Self) -> Self {
        address.clone()
    }
}

impl PartialEq<SocketAddr> for Address {
    fn eq(&self, other: &SocketAddr) -> bool {
        matches!(self, Self::Ip(address) if address == other)
    }
}

impl PartialEq<Address> for SocketAddr {
    fn eq(&self, other: &Address) -> bool {
        other == self
    }
}

/// For the standard library's own sockets, which take IPv4 and IPv6.
impl ToSocketAddrs for Address {
    type Iter = std::option::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        let foreign = || io::Error::new(io::ErrorKind::Unsupported, format!("{self} is no address of IPv4 or IPv6"));
        self.inet().ok_or_else(foreign).map(|address| Some(address).into_iter())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(unix) => unix.fmt(f),
            Self::Link(link) => link.fmt(f),
        }
    }
}

impl fmt::Display for Unix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unix:")?;
        let (mark, name) = match self.name() {
            [0, name @ ..] => ("@", name),
            name => ("", name),
        };
        f.write_str(mark)?;
        for (at, byte) in name.iter().enumerate() {
            let is_plain = byte.is_ascii_graphic() && !matches!(byte, b'%' | b'?') && (at > 0 || *byte != b'@');
            if is_plain { write!(f, "{}", char::from(*byte))? } else { write!(f, "%{byte:02x}")? }
        }
        self.user.map_or(Ok(()), |user| write!(f, " (user {user})"))
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.mac;
        write!(f, "link:{}/{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}", self.interface)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(name) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(name.parse()?));
        }
        match text.strip_prefix("link:") {
            Some(link) => link_of(link).map(Self::Link).ok_or(AddressError::Link),
            None => text.parse().map(Self::Ip).map_err(|_| AddressError::Ip),
        }
    }
}

/// The text behind `unix:`.
impl FromStr for Unix {
    type Err = AddressError;

    fn from_str(name: &str) -> Result<Self, AddressError> {
        match name.strip_prefix('@') {
            Some(name) => Self::hidden(&decoded(name)?),
            None => Self::path(&decoded(name)?),
        }
    }
}

/// The bytes of a name, with `%` and two digits for those that cannot be written.
fn decoded(text: &str) -> Result<Vec<u8>, AddressError> {
    let mut rest = text.as_bytes();
    let mut name = Vec::with_capacity(rest.len().min(UNIX_NAME_BYTES_MAX));
    while let [byte, behind @ ..] = rest {
        rest = behind;
        if *byte != b'%' {
            name.push(*byte);
            continue;
        }
        let digits = behind.split_at_checked(2).and_then(|(digits, behind)| {
            rest = behind;
            std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))
        });
        name.push(digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or(AddressError::UnixDigits)?);
    }
    Ok(name)
}

/// `INTERFACE/MAC`.
fn link_of(text: &str) -> Option<Link> {
    let (interface, card) = text.split_once('/')?;
    let mut mac = [0; 6];
    let mut parts = card.split(':');
    for byte in &mut mac {
        let digits = parts.next().filter(|part| part.len() == 2 && !part.starts_with('+'))?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    let interface = interface.parse().ok()?;
    parts.next().is_none().then_some(Link { interface, mac })
}

/// The fault of an address that somebody wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressError {
    /// Neither IPv4 nor IPv6 with a port.
    Ip,
    /// Not `link:INTERFACE/MAC`.
    Link,
    /// No name behind `unix:`.
    UnixEmpty,
    /// A path with a zero byte.
    UnixZero,
    /// A `%` without two hexadecimal digits.
    UnixDigits,
    /// A name that no socket can have.
    UnixLong {
        /// Its bytes.
        got: usize,
    },
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip => f.write_str("not an address: write 192.0.2.1:80, [2001:db8::1]:80, unix:/run/x.sock or unix:@name"),
            Self::Link => f.write_str("not a link-layer address: write link:INTERFACE/MAC, as link:2/02:00:00:00:00:01"),
            Self::UnixEmpty => f.write_str("unix: without a path: write unix:/run/x.sock, or unix:@name for an abstract name"),
            Self::UnixZero => f.write_str("a path has no zero byte: write unix:@name for an abstract name"),
            Self::UnixDigits => {
                f.write_str("two hexadecimal digits must follow each % in a Unix socket's name: write %25 for % itself")
            }
            Self::UnixLong { got } => {
                write!(
                    f,
                    "a Unix socket's name has at most {UNIX_NAME_BYTES_MAX} bytes, and this has {got}: choose a shorter path"
                )
            }
        }
    }
}

impl std::error::Error for AddressError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Result<Address, AddressError> {
        text.parse()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let texts = [
            "192.0.2.1:80",
            "[2001:db8::1]:80",
            "unix:/run/x.sock",
            "unix:x",
            "unix:@name",
            "unix:@",
            "unix:/a%20b%3fc%25",
            "unix:%40x",
        ];
        for text in texts.into_iter().chain(["link:2/02:00:00:00:00:0f"]) {
            assert_eq!(address(text).map(|address| address.to_string()).as_deref(), Ok(text));
        }
        let all: Vec<u8> = (1..=107).chain([255]).skip(1).collect();
        for unix in [Unix::path(&all), Unix::hidden(&all), Unix::hidden(&[0, 0, b'@'])] {
            let unix = Address::Unix(unix.unwrap());
            assert_eq!(address(&unix.to_string()), Ok(unix));
        }
    }

    #[test]
    fn a_path_and_an_abstract_name_are_told_apart() {
        let path = address("unix:%40x").unwrap();
        assert_eq!(path.unix().and_then(Unix::as_path), Some(Path::new("@x")));
        let hidden = address("unix:@x").unwrap();
        assert_eq!(hidden.unix().map(|unix| (unix.name(), unix.as_path())), Some((&b"\0x"[..], None)));
        assert_eq!((Unix::UNNAMED.name(), Unix::UNNAMED.as_path()), (&b""[..], None));
        assert_eq!(Unix::UNNAMED.of_user(1000).to_string(), "unix: (user 1000)");
        assert_eq!((hidden.port(), hidden.ip(), hidden.clone().with_port(5)), (0, None, hidden));
    }

    #[test]
    fn what_no_socket_can_have_is_refused() {
        let long = |bytes: usize| address(&format!("unix:/{}", "x".repeat(bytes - 1)));
        assert!(long(107).is_ok());
        assert_eq!(long(108), Err(AddressError::UnixLong { got: 108 }));
        assert_eq!(address(&format!("unix:@{}", "x".repeat(108))), Err(AddressError::UnixLong { got: 108 }));
        assert_eq!(address("unix:"), Err(AddressError::UnixEmpty));
        assert_eq!(address("unix:/a%00b"), Err(AddressError::UnixZero));
        for wrong in ["unix:/%", "unix:/%2", "unix:/%+f", "unix:/%zz", "unix:/%é"] {
            assert_eq!(address(wrong), Err(AddressError::UnixDigits), "{wrong}");
        }
        for wrong in
            ["link:2", "link:x/02:00:00:00:00:01", "link:2/02:00:00:00:00", "link:2/02:00:00:00:00:01:02", "link:2/+2:0:0:0:0:1"]
        {
            assert_eq!(address(wrong), Err(AddressError::Link), "{wrong}");
        }
        assert_eq!([address(""), address("192.0.2.1")], [Err(AddressError::Ip), Err(AddressError::Ip)]);
    }

    #[test]
    fn a_mapped_address_is_ipv4() {
        assert_eq!(address("[::ffff:192.0.2.1]:7").map(Address::canonical), address("192.0.2.1:7"));
        assert_eq!(address("192.0.2.1:7").unwrap(), SocketAddr::from(([192, 0, 2, 1], 7)));
    }
}
