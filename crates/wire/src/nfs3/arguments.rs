//! Arguments of the procedures (RFC 1813 section 3.3).

use super::{Cookie, DATA_BYTES_MAX, Device, FileType, Guard, Handle, Name, Path, SetAttributes, Verifier};
use crate::Error;
use crate::xdr::{Decode, Encode, Opaque, Reader, Writer, xdr_enum, xdr_struct};

xdr_struct! {
    /// SETATTR (section 3.3.2).
    SetAttributesArguments<'a> {
        /// The file.
        object: Handle<'a>,
        /// What to set.
        attributes: SetAttributes,
        /// Only if its change time is this.
        guard: Guard,
    }
}

xdr_struct! {
    /// A name in a directory (`diropargs3`): LOOKUP, REMOVE, RMDIR (sections 3.3.3, 3.3.12, 3.3.13).
    LookupArguments<'a> {
        /// The directory.
        directory: Handle<'a>,
        /// The name.
        name: Name<'a>,
    }
}

xdr_struct! {
    /// ACCESS (section 3.3.4).
    AccessArguments<'a> {
        /// The file.
        object: Handle<'a>,
        /// Bits asked for: 1 read, 2 lookup, 4 modify, 8 extend, 16 delete, 32 execute.
        access: u32,
    }
}

xdr_struct! {
    /// READ (section 3.3.6).
    ReadArguments<'a> {
        /// The file.
        file: Handle<'a>,
        /// First byte.
        offset: u64,
        /// Number of bytes; a server may return fewer.
        count: u32,
    }
}

xdr_enum! {
    /// How firmly data is to be written (`stable_how`).
    Stability = "stable_how" {
        /// UNSTABLE: at leisure, until a COMMIT.
        Unstable = 0,
        /// DATA_SYNC: the data before the reply.
        Data = 1,
        /// FILE_SYNC: data and attributes before the reply.
        File = 2,
    }
}

xdr_struct! {
    /// WRITE (section 3.3.7).
    WriteArguments<'a> {
        /// The file.
        file: Handle<'a>,
        /// First byte.
        offset: u64,
        /// Number of bytes. Nothing makes it that of `data`; where they differ the server answers `Status::Invalid`.
        count: u32,
        /// How firmly.
        stable: Stability,
        /// The data.
        data: Opaque<'a, DATA_BYTES_MAX>,
    }
}

/// How a file is made (`createhow3`, section 3.3.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateHow {
    /// UNCHECKED: a file that is there is taken.
    Unchecked(SetAttributes),
    /// GUARDED: a file that is there is an error.
    Guarded(SetAttributes),
    /// EXCLUSIVE: as guarded, and the same call again is none.
    Exclusive(Verifier),
}

impl Decode<'_> for CreateHow {
    fn decode(from: &mut Reader<'_>) -> Result<Self, Error> {
        match from.u32()? {
            0 => from.read().map(Self::Unchecked),
            1 => from.read().map(Self::Guarded),
            2 => from.read().map(Self::Exclusive),
            got => Err(Error::Unknown { what: "createmode3", got }),
        }
    }
}

impl Encode for CreateHow {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        match self {
            Self::Unchecked(attributes) => write_arm(to, 0, attributes),
            Self::Guarded(attributes) => write_arm(to, 1, attributes),
            Self::Exclusive(verifier) => write_arm(to, 2, verifier),
        }
    }
}

fn write_arm(to: &mut Writer<'_>, discriminant: u32, arm: &impl Encode) -> Result<(), Error> {
    to.u32(discriminant)?;
    arm.encode(to)
}

xdr_struct! {
    /// CREATE (section 3.3.8).
    CreateArguments<'a> {
        /// Where.
        place: LookupArguments<'a>,
        /// How.
        how: CreateHow,
    }
}

xdr_struct! {
    /// MKDIR (section 3.3.9).
    MakeDirectoryArguments<'a> {
        /// Where.
        place: LookupArguments<'a>,
        /// Its attributes.
        attributes: SetAttributes,
    }
}

xdr_struct! {
    /// SYMLINK (section 3.3.10).
    SymbolicLinkArguments<'a> {
        /// Where.
        place: LookupArguments<'a>,
        /// Its attributes.
        attributes: SetAttributes,
        /// What it leads to.
        target: Path<'a>,
    }
}

/// What node to make (`mknoddata3`, section 3.3.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeData {
    /// NF3CHR.
    Character(SetAttributes, Device),
    /// NF3BLK.
    Block(SetAttributes, Device),
    /// NF3SOCK.
    Socket(SetAttributes),
    /// NF3FIFO.
    Pipe(SetAttributes),
    /// Another type, which has no arm with data: the server answers `Status::BadType`.
    Other(FileType),
}

impl Decode<'_> for NodeData {
    fn decode(from: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(match from.read()? {
            FileType::Character => Self::Character(from.read()?, from.read()?),
            FileType::Block => Self::Block(from.read()?, from.read()?),
            FileType::Socket => Self::Socket(from.read()?),
            FileType::Pipe => Self::Pipe(from.read()?),
            other => Self::Other(other),
        })
    }
}

impl Encode for NodeData {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let (file_type, attributes, device) = match self {
            Self::Character(attributes, device) => (FileType::Character, Some(attributes), Some(device)),
            Self::Block(attributes, device) => (FileType::Block, Some(attributes), Some(device)),
            Self::Socket(attributes) => (FileType::Socket, Some(attributes), None),
            Self::Pipe(attributes) => (FileType::Pipe, Some(attributes), None),
            Self::Other(file_type) => (*file_type, None, None),
        };
        file_type.encode(to)?;
        attributes.map_or(Ok(()), |attributes| attributes.encode(to))?;
        device.map_or(Ok(()), |device| device.encode(to))
    }
}

xdr_struct! {
    /// MKNOD (section 3.3.11).
    MakeNodeArguments<'a> {
        /// Where.
        place: LookupArguments<'a>,
        /// What.
        node: NodeData,
    }
}

xdr_struct! {
    /// RENAME (section 3.3.14).
    RenameArguments<'a> {
        /// Old place.
        from: LookupArguments<'a>,
        /// New place.
        to: LookupArguments<'a>,
    }
}

xdr_struct! {
    /// LINK (section 3.3.15).
    LinkArguments<'a> {
        /// The file.
        file: Handle<'a>,
        /// Its further place.
        place: LookupArguments<'a>,
    }
}

xdr_struct! {
    /// READDIR (section 3.3.16).
    ReadDirectoryArguments<'a> {
        /// The directory.
        directory: Handle<'a>,
        /// Where to go on.
        cookie: Cookie,
        /// Tells whether the cookie still holds.
        verifier: Verifier,
        /// Most bytes in the result.
        count: u32,
    }
}

xdr_struct! {
    /// READDIRPLUS (section 3.3.17).
    ReadDirectoryPlusArguments<'a> {
        /// The directory.
        directory: Handle<'a>,
        /// Where to go on.
        cookie: Cookie,
        /// Tells whether the cookie still holds.
        verifier: Verifier,
        /// Most bytes of names, numbers and cookies.
        directory_count: u32,
        /// Most bytes in the result.
        count_max: u32,
    }
}

xdr_struct! {
    /// COMMIT (section 3.3.21).
    CommitArguments<'a> {
        /// The file.
        file: Handle<'a>,
        /// First byte.
        offset: u64,
        /// Number of bytes; 0 means to the end.
        count: u32,
    }
}
