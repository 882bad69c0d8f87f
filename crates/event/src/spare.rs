//! Memory that must be there before something is begun: what is not is ENOMEM, and not the end of the program in the middle.
//!
//! The large tables are made larger by calls that can fail. What is small is allocated as ever, after it was seen that there is more than enough for it.

use corelane_os::events::number;

use crate::refused::Refused;

/// What a new interest takes beside its places in the tables, and more; bytes.
pub const INTEREST: usize = 16 << 10;

/// What a new queue takes, and more; bytes.
pub const QUEUE: usize = 64 << 10;

pub const NONE: Refused = Refused::new(number::ENOMEM, "there is no memory for this: allow the process more, or ask for less");

/// ENOMEM where so many bytes are not there.
pub fn check(bytes: usize) -> Result<(), Refused> {
    let mut place: Vec<u8> = Vec::new();
    let reserved = place.try_reserve_exact(bytes);
    // It is allocated, though nobody looks at it.
    std::hint::black_box(place.as_ptr());
    reserved.map_err(|_| NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_refused() {
        assert_eq!((check(INTEREST), check(QUEUE)), (Ok(()), Ok(())));
        assert_eq!(check(isize::MAX as usize), Err(NONE));
    }
}
