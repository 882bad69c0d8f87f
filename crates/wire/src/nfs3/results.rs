//! Results of the procedures (RFC 1813 section 3.3).

use super::{Attributes, Cookie, DATA_BYTES_MAX, ENTRIES_MAX, Handle, Name, Path, Stability, Status, Time, Verifier, Weak};
use crate::Error;
use crate::xdr::{Decode, Encode, List, Opaque, Reader, Writer, xdr_struct};

/// What every result is: a union over the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Results<T, F> {
    /// The procedure was carried out.
    Ok(T),
    /// It was not, and never with [`Status::Ok`]: such a value is refused when it is written.
    Failed(Status, F),
}

impl<'a, T: Decode<'a>, F: Decode<'a>> Decode<'a> for Results<T, F> {
    fn decode(from: &mut Reader<'a>) -> Result<Self, Error> {
        match from.read()? {
            Status::Ok => from.read().map(Self::Ok),
            status => Ok(Self::Failed(status, from.read()?)),
        }
    }
}

impl<T: Encode, F: Encode> Encode for Results<T, F> {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        match self {
            Self::Ok(results) => {
                Status::Ok.encode(to)?;
                results.encode(to)
            }
            Self::Failed(Status::Ok, _) => Err(Error::Malformed { what: "failure with status NFS3_OK" }),
            Self::Failed(status, rest) => {
                status.encode(to)?;
                rest.encode(to)
            }
        }
    }
}

/// Attributes after an operation (`post_op_attr`), none where the server has them not at hand.
type After = Option<Attributes>;

/// GETATTR (section 3.3.1).
pub type GetAttributesResult = Results<Attributes, ()>;
/// SETATTR (section 3.3.2).
pub type SetAttributesResult = Results<Weak, Weak>;
/// LOOKUP (section 3.3.3); the directory's attributes where it failed.
pub type LookupResult<'a> = Results<Lookup<'a>, After>;
/// ACCESS (section 3.3.4): attributes, and the bits that are granted.
pub type AccessResult = Results<(After, u32), After>;
/// READLINK (section 3.3.5).
pub type ReadLinkResult<'a> = Results<ReadLink<'a>, After>;
/// READ (section 3.3.6).
pub type ReadResult<'a> = Results<Read<'a>, After>;
/// WRITE (section 3.3.7).
pub type WriteResult = Results<Write, Weak>;
/// CREATE, MKDIR, SYMLINK, MKNOD (sections 3.3.8 to 3.3.11); the directory where it failed.
pub type CreateResult<'a> = Results<Create<'a>, Weak>;
/// REMOVE, RMDIR (sections 3.3.12 and 3.3.13): the directory.
pub type RemoveResult = Results<Weak, Weak>;
/// RENAME (section 3.3.14).
pub type RenameResult = Results<Rename, Rename>;
/// LINK (section 3.3.15).
pub type LinkResult = Results<Link, Link>;
/// READDIR (section 3.3.16).
pub type ReadDirectoryResult<'a> = Results<Directory<'a>, After>;
/// READDIRPLUS (section 3.3.17).
pub type ReadDirectoryPlusResult<'a> = Results<DirectoryPlus<'a>, After>;
/// FSSTAT (section 3.3.18).
pub type FileSystemResult = Results<FileSystem, After>;
/// FSINFO (section 3.3.19).
pub type InformationResult = Results<Information, After>;
/// PATHCONF (section 3.3.20).
pub type PathLimitsResult = Results<PathLimits, After>;
/// COMMIT (section 3.3.21).
pub type CommitResult = Results<Commit, Weak>;

xdr_struct! {
    /// What LOOKUP finds.
    Lookup<'a> {
        /// The file.
        object: Handle<'a>,
        /// Its attributes.
        attributes: After,
        /// Those of the directory.
        directory: After,
    }
}

xdr_struct! {
    /// What READLINK finds.
    ReadLink<'a> {
        /// Attributes of the link.
        attributes: After,
        /// What it leads to.
        target: Path<'a>,
    }
}

xdr_struct! {
    /// What READ returns.
    Read<'a> {
        /// Attributes of the file.
        attributes: After,
        /// Number of bytes.
        count: u32,
        /// Whether the file ends with them.
        is_end: bool,
        /// The bytes.
        data: Opaque<'a, DATA_BYTES_MAX>,
    }
}

xdr_struct! {
    /// What stands in a [`Read`] before the bytes, which follow with their padding.
    ReadHead {
        /// Attributes of the file.
        attributes: After,
        /// Number of bytes.
        count: u32,
        /// Whether the file ends with them.
        is_end: bool,
        /// Number of bytes again: the length of the opaque data that follows.
        length: u32,
    }
}

xdr_struct! {
    /// What WRITE returns.
    Write {
        /// The file.
        file: Weak,
        /// Number of bytes written.
        count: u32,
        /// How firmly.
        committed: Stability,
        /// Changes when the server has lost what was written at leisure.
        verifier: Verifier,
    }
}

xdr_struct! {
    /// What the procedures return that make a file.
    Create<'a> {
        /// The file.
        object: Option<Handle<'a>>,
        /// Its attributes.
        attributes: After,
        /// The directory.
        directory: Weak,
    }
}

xdr_struct! {
    /// What RENAME returns.
    Rename {
        /// The old directory.
        from: Weak,
        /// The new one.
        to: Weak,
    }
}

xdr_struct! {
    /// What LINK returns.
    Link {
        /// Attributes of the file.
        attributes: After,
        /// The directory.
        directory: Weak,
    }
}

xdr_struct! {
    /// An entry of a directory (`entry3`).
    Entry<'a> {
        /// Number of the file.
        file_id: u64,
        /// Its name.
        name: Name<'a>,
        /// The place behind it.
        cookie: Cookie,
    }
}

xdr_struct! {
    /// What READDIR returns.
    Directory<'a> {
        /// Attributes of the directory.
        attributes: After,
        /// Tells whether cookies still hold.
        verifier: Verifier,
        /// Entries.
        entries: List<'a, Entry<'a>, ENTRIES_MAX>,
        /// Whether these were the last.
        is_end: bool,
    }
}

xdr_struct! {
    /// An entry with attributes and handle (`entryplus3`).
    EntryPlus<'a> {
        /// Number of the file.
        file_id: u64,
        /// Its name.
        name: Name<'a>,
        /// The place behind it.
        cookie: Cookie,
        /// Its attributes.
        attributes: After,
        /// The file.
        handle: Option<Handle<'a>>,
    }
}

xdr_struct! {
    /// What READDIRPLUS returns.
    DirectoryPlus<'a> {
        /// Attributes of the directory.
        attributes: After,
        /// Tells whether cookies still hold.
        verifier: Verifier,
        /// Entries.
        entries: List<'a, EntryPlus<'a>, ENTRIES_MAX>,
        /// Whether these were the last.
        is_end: bool,
    }
}

xdr_struct! {
    /// What FSSTAT returns: how full a file system is.
    FileSystem {
        /// Attributes of the file.
        attributes: After,
        /// Bytes in all.
        bytes: u64,
        /// Bytes free.
        bytes_free: u64,
        /// Bytes free for the caller.
        bytes_available: u64,
        /// Files in all.
        files: u64,
        /// Files that can still be made.
        files_free: u64,
        /// Files that the caller can still make.
        files_available: u64,
        /// Seconds for which nothing of this is expected to change.
        unchanging_seconds: u32,
    }
}

xdr_struct! {
    /// What FSINFO returns: what a server takes. All in bytes.
    Information {
        /// Attributes of the file.
        attributes: After,
        /// Most in a READ.
        read_max: u32,
        /// Best in a READ.
        read_preferred: u32,
        /// Multiple that a READ should be of.
        read_multiple: u32,
        /// Most in a WRITE.
        write_max: u32,
        /// Best in a WRITE.
        write_preferred: u32,
        /// Multiple that a WRITE should be of.
        write_multiple: u32,
        /// Best in a READDIR.
        directory_preferred: u32,
        /// Most in a file.
        file_max: u64,
        /// Grain of times.
        time_grain: Time,
        /// Bits: 1 hard links, 2 symbolic links, 8 all files alike, 16 times can be set.
        properties: u32,
    }
}

xdr_struct! {
    /// What PATHCONF returns.
    PathLimits {
        /// Attributes of the file.
        attributes: After,
        /// Most links to a file.
        links_max: u32,
        /// Most bytes in a name.
        name_max: u32,
        /// Whether longer names are refused and not cut.
        no_truncation: bool,
        /// Whether only the superuser gives files away.
        chown_restricted: bool,
        /// Whether case does not matter.
        case_insensitive: bool,
        /// Whether case is kept.
        case_preserving: bool,
    }
}

xdr_struct! {
    /// What COMMIT returns.
    Commit {
        /// The file.
        file: Weak,
        /// Changes when the server has lost what was written at leisure.
        verifier: Verifier,
    }
}
