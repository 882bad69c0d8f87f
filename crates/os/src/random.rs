//! What nobody can guess.

use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// A random number of the kernel's (getrandom(2)).
///
/// # Errors
/// What the system says.
pub fn secret() -> io::Result<u128> {
    let mut bytes = [0; 16];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty())?;
    // Up to 256 bytes come whole.
    assert_eq!(filled, bytes.len(), "so few bytes come together");
    Ok(u128::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_two_are_the_same() {
        assert_ne!(super::secret().unwrap(), super::secret().unwrap());
    }
}
