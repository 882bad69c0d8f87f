//! NFS version 3 (RFC 1813): arguments and results of its 22 procedures.
//!
//! Names, targets of links, handles and data are views; times and attributes are values of fixed size. A server reads
//! `call.arguments::<ReadArguments>()` and writes a [`ReadResult`]; where the data goes another way, as a lease, it writes a
//! [`ReadHead`] and lets data and padding follow.
//!
//! The RFC bounds no name, path, or data. The bounds here only keep a peer from naming absurd lengths; a name that is too
//! long for a file system is that file system's to refuse, with [`Status::NameTooLong`].

mod arguments;
mod files;
mod results;

pub use arguments::{
    AccessArguments, CommitArguments, CreateArguments, CreateHow, LinkArguments, LookupArguments, MakeDirectoryArguments,
    MakeNodeArguments, NodeData, ReadArguments, ReadDirectoryArguments, ReadDirectoryPlusArguments, RenameArguments,
    SetAttributesArguments, Stability, SymbolicLinkArguments, WriteArguments,
};
pub use files::{
    Attributes, Cookie, Device, FileType, Guard, Handle, Name, Path, SetAttributes, SetTime, Time, Verifier, Weak, WeakAttributes,
};
pub use results::{
    AccessResult, Commit, CommitResult, Create, CreateResult, Directory, DirectoryPlus, Entry, EntryPlus, FileSystem,
    FileSystemResult, GetAttributesResult, Information, InformationResult, Link, LinkResult, Lookup, LookupResult, PathLimits,
    PathLimitsResult, Read, ReadDirectoryPlusResult, ReadDirectoryResult, ReadHead, ReadLink, ReadLinkResult, ReadResult,
    RemoveResult, Rename, RenameResult, Results, SetAttributesResult, Write, WriteResult,
};

use crate::xdr::xdr_enum;

/// Number of the program (RFC 1813 section 3).
pub const PROGRAM: u32 = 100_003;
/// Its version.
pub const VERSION: u32 = 3;
/// Most bytes in a handle (RFC 1813 section 2.4, `NFS3_FHSIZE`).
pub const HANDLE_BYTES_MAX: u32 = 64;
/// Most bytes in a name.
pub const NAME_BYTES_MAX: u32 = 1024;
/// Most bytes in the target of a symbolic link.
pub const PATH_BYTES_MAX: u32 = 4096;
/// Most bytes of data in one read or write: what the common clients ask for at most.
pub const DATA_BYTES_MAX: u32 = 1 << 20;
/// Most entries in one answer about a directory: as many of the smallest as [`DATA_BYTES_MAX`] holds, rounded up.
pub const ENTRIES_MAX: u32 = 1 << 16;

xdr_enum! {
    /// The procedures (RFC 1813 section 3.3), with the types of their arguments and results.
    Procedure = "NFS procedure" {
        /// Nothing. `()` to `()`.
        Null = 0,
        /// [`Handle`] to [`GetAttributesResult`].
        GetAttributes = 1,
        /// [`SetAttributesArguments`] to [`SetAttributesResult`].
        SetAttributes = 2,
        /// [`LookupArguments`] to [`LookupResult`].
        Lookup = 3,
        /// [`AccessArguments`] to [`AccessResult`].
        Access = 4,
        /// [`Handle`] to [`ReadLinkResult`].
        ReadLink = 5,
        /// [`ReadArguments`] to [`ReadResult`].
        Read = 6,
        /// [`WriteArguments`] to [`WriteResult`].
        Write = 7,
        /// [`CreateArguments`] to [`CreateResult`].
        Create = 8,
        /// [`MakeDirectoryArguments`] to [`CreateResult`].
        MakeDirectory = 9,
        /// [`SymbolicLinkArguments`] to [`CreateResult`].
        SymbolicLink = 10,
        /// [`MakeNodeArguments`] to [`CreateResult`].
        MakeNode = 11,
        /// [`LookupArguments`] to [`RemoveResult`].
        Remove = 12,
        /// [`LookupArguments`] to [`RemoveResult`].
        RemoveDirectory = 13,
        /// [`RenameArguments`] to [`RenameResult`].
        Rename = 14,
        /// [`LinkArguments`] to [`LinkResult`].
        Link = 15,
        /// [`ReadDirectoryArguments`] to [`ReadDirectoryResult`].
        ReadDirectory = 16,
        /// [`ReadDirectoryPlusArguments`] to [`ReadDirectoryPlusResult`].
        ReadDirectoryPlus = 17,
        /// [`Handle`] to [`FileSystemResult`].
        FileSystem = 18,
        /// [`Handle`] to [`InformationResult`].
        Information = 19,
        /// [`Handle`] to [`PathLimitsResult`].
        PathLimits = 20,
        /// [`CommitArguments`] to [`CommitResult`].
        Commit = 21,
    }
}

xdr_enum! {
    /// How a procedure went (RFC 1813 section 2.6, `nfsstat3`).
    Status = "nfsstat3" {
        /// NFS3_OK.
        Ok = 0,
        /// NFS3ERR_PERM: not the owner.
        NotOwner = 1,
        /// NFS3ERR_NOENT: no such file.
        NoEntry = 2,
        /// NFS3ERR_IO: the device failed.
        Io = 5,
        /// NFS3ERR_NXIO: no such device.
        NoDevice = 6,
        /// NFS3ERR_ACCES: not permitted.
        Access = 13,
        /// NFS3ERR_EXIST: there is one already.
        Exists = 17,
        /// NFS3ERR_XDEV: a link across file systems.
        CrossDevice = 18,
        /// NFS3ERR_NODEV: not on this device.
        NotOnDevice = 19,
        /// NFS3ERR_NOTDIR: not a directory.
        NotDirectory = 20,
        /// NFS3ERR_ISDIR: a directory.
        IsDirectory = 21,
        /// NFS3ERR_INVAL: an argument that this object does not take.
        Invalid = 22,
        /// NFS3ERR_FBIG: the file would be too large.
        TooLarge = 27,
        /// NFS3ERR_NOSPC: no space.
        NoSpace = 28,
        /// NFS3ERR_ROFS: a file system to read only.
        ReadOnly = 30,
        /// NFS3ERR_MLINK: too many links.
        TooManyLinks = 31,
        /// NFS3ERR_NAMETOOLONG: the name is too long.
        NameTooLong = 63,
        /// NFS3ERR_NOTEMPTY: the directory is not empty.
        NotEmpty = 66,
        /// NFS3ERR_DQUOT: the quota is used up.
        Quota = 69,
        /// NFS3ERR_STALE: the handle's file is gone.
        Stale = 70,
        /// NFS3ERR_REMOTE: too many levels of remote in the path.
        Remote = 71,
        /// NFS3ERR_BADHANDLE: not a handle of this server.
        BadHandle = 10001,
        /// NFS3ERR_NOT_SYNC: the guard did not match.
        NotSynchronized = 10002,
        /// NFS3ERR_BAD_COOKIE: the cookie is stale.
        BadCookie = 10003,
        /// NFS3ERR_NOTSUPP: not supported.
        NotSupported = 10004,
        /// NFS3ERR_TOOSMALL: the answer does not fit.
        TooSmall = 10005,
        /// NFS3ERR_SERVERFAULT: a failure that no other status says.
        ServerFault = 10006,
        /// NFS3ERR_BADTYPE: a type of file that the server does not make.
        BadType = 10007,
        /// NFS3ERR_JUKEBOX: begun, will take long: ask again later.
        Later = 10008,
    }
}
