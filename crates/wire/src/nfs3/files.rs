//! What files are made of (RFC 1813 sections 2.4 to 2.6).

use super::{HANDLE_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX};
use crate::Error;
use crate::xdr::{Decode, Encode, Opaque, Reader, Writer, xdr_enum, xdr_struct};

/// What a server knows a file by (`nfs_fh3`). Its bytes mean nothing to anybody else.
pub type Handle<'a> = Opaque<'a, HANDLE_BYTES_MAX>;
/// Name of a file in its directory (`filename3`): any bytes.
pub type Name<'a> = Opaque<'a, NAME_BYTES_MAX>;
/// Target of a symbolic link (`nfspath3`): any bytes.
pub type Path<'a> = Opaque<'a, PATH_BYTES_MAX>;
/// A place in a directory (`cookie3`); 0 is its begin.
pub type Cookie = u64;
/// Tells whether what was said before still holds (`cookieverf3`, `writeverf3`, `createverf3`).
pub type Verifier = [u8; 8];
/// The change time that an object must have for its attributes to be set (`sattrguard3`).
pub type Guard = Option<Time>;

xdr_enum! {
    /// Type of a file (`ftype3`).
    FileType = "ftype3" {
        /// NF3REG: regular file.
        Regular = 1,
        /// NF3DIR: directory.
        Directory = 2,
        /// NF3BLK: block device.
        Block = 3,
        /// NF3CHR: character device.
        Character = 4,
        /// NF3LNK: symbolic link.
        SymbolicLink = 5,
        /// NF3SOCK: socket.
        Socket = 6,
        /// NF3FIFO: named pipe.
        Pipe = 7,
    }
}

xdr_struct! {
    /// Numbers of a device (`specdata3`).
    Device {
        /// Major.
        major: u32,
        /// Minor.
        minor: u32,
    }
}

xdr_struct! {
    /// Time since 1970 (`nfstime3`).
    Time {
        /// Seconds.
        seconds: u32,
        /// Nanoseconds.
        nanoseconds: u32,
    }
}

xdr_struct! {
    /// All attributes of a file (`fattr3`).
    Attributes {
        /// Type.
        file_type: FileType,
        /// Permissions, the low twelve bits.
        mode: u32,
        /// Number of names.
        links: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Size in bytes.
        size: u64,
        /// Bytes that it takes on disk.
        used: u64,
        /// Which device, where it is one.
        device: Device,
        /// File system.
        file_system: u64,
        /// Number in the file system.
        file_id: u64,
        /// Last read.
        accessed: Time,
        /// Last written.
        modified: Time,
        /// Attributes last changed.
        changed: Time,
    }
}

xdr_struct! {
    /// The attributes that tell whether a file has changed (`wcc_attr`).
    WeakAttributes {
        /// Size in bytes.
        size: u64,
        /// Last written.
        modified: Time,
        /// Attributes last changed.
        changed: Time,
    }
}

xdr_struct! {
    /// A file before and after an operation (`wcc_data`), so that a client knows whether others changed it too.
    Weak {
        /// Before.
        before: Option<WeakAttributes>,
        /// After (`post_op_attr`).
        after: Option<Attributes>,
    }
}

xdr_struct! {
    /// Attributes to be set (`sattr3`); what is none stays as it is.
    SetAttributes {
        /// Permissions.
        mode: Option<u32>,
        /// Owner.
        uid: Option<u32>,
        /// Group.
        gid: Option<u32>,
        /// Size in bytes: cuts the file, or extends it with zeros.
        size: Option<u64>,
        /// Last read.
        accessed: SetTime,
        /// Last written.
        modified: SetTime,
    }
}

/// A time to be set (`set_atime`, `set_mtime`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// DONT_CHANGE.
    Keep,
    /// SET_TO_SERVER_TIME.
    Now,
    /// SET_TO_CLIENT_TIME.
    To(Time),
}

impl Decode<'_> for SetTime {
    fn decode(from: &mut Reader<'_>) -> Result<Self, Error> {
        match from.u32()? {
            0 => Ok(Self::Keep),
            1 => Ok(Self::Now),
            2 => from.read().map(Self::To),
            got => Err(Error::Unknown { what: "time_how", got }),
        }
    }
}

impl Encode for SetTime {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        match self {
            Self::Keep => to.u32(0),
            Self::Now => to.u32(1),
            Self::To(time) => {
                to.u32(2)?;
                time.encode(to)
            }
        }
    }
}
