//! Time and randomness, from the system.

use std::fs::File;
use std::io::{self, Read};
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns random bytes of the system.
///
/// # Errors
/// Fails if the system gives no random bytes.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes))?;
    Ok(bytes)
}

/// Returns a random recovery epoch for [`format_again`](bimetal_core::volume::format_again).
///
/// # Errors
/// Fails if the system gives no random bytes.
pub(crate) fn random_life() -> io::Result<u32> {
    Ok(u32::from_le_bytes(random()?) >> 1)
}

/// Returns the time of the system, in seconds since 1970.
pub fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
