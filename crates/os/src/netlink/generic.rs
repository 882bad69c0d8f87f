//! Families of messages whose numbers the kernel gives out as it makes them (generic netlink, `linux/genetlink.h`).

use super::{Attributes, Request, half, malformed};
use std::ffi::CStr;
use std::io;

/// Bytes before a message's attributes (`struct genlmsghdr`): command, version, reserved.
pub const HEAD_BYTES: usize = 4;
/// The only version that any family has had.
const VERSION: u8 = 1;
/// The family that knows the numbers of the others (`GENL_ID_CTRL`), what to ask it, and what it answers.
const CONTROL: Family = Family(16);
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// A family that the kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family(u16);

impl Family {
    /// The family of this name.
    ///
    /// # Errors
    /// `NotFound` if the kernel has none, and what else it says.
    pub fn find(name: &CStr) -> io::Result<Self> {
        let bodies = ask(CONTROL.one(GET_FAMILY).attribute(FAMILY_NAME, name.to_bytes_with_nul()))?;
        let attributes = attributes(bodies.first().ok_or_else(malformed)?)?;
        attributes.get(FAMILY_ID).and_then(|value| half(value, 0)).map(Self).ok_or_else(malformed)
    }

    /// A question that is answered by one message.
    pub fn one(self, command: u8) -> Request {
        Request::one(self.0, &[command, VERSION, 0, 0])
    }

    /// A question that is answered by a list.
    pub fn list(self, command: u8) -> Request {
        Request::list(self.0, &[command, VERSION, 0, 0])
    }
}

/// Asks the kernel: the bodies of all messages that answer.
///
/// # Errors
/// As [`Request::ask`].
pub fn ask(request: Request) -> io::Result<Vec<Vec<u8>>> {
    request.ask(libc::NETLINK_GENERIC)
}

/// The attributes of a message.
///
/// # Errors
/// As [`Attributes::of`].
pub fn attributes(body: &[u8]) -> io::Result<Attributes<'_>> {
    Attributes::behind(body, HEAD_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_found_by_its_name() {
        assert_eq!(Family::find(c"nlctrl").unwrap(), CONTROL);
        assert_eq!(Family::find(c"no such one").unwrap_err().kind(), io::ErrorKind::NotFound);
        let families = ask(CONTROL.list(GET_FAMILY)).unwrap();
        let names: Vec<_> = families.iter().map(|body| attributes(body).unwrap().text(FAMILY_NAME)).collect();
        assert!(names.contains(&Some("nlctrl".to_owned())), "{names:?}");
        assert!(attributes(&[0; HEAD_BYTES - 1]).is_err());
    }
}
