//! The checksum of a whole file.

use std::io;

use super::File;
use crate::base::digest::Crc32;
use crate::base::limits::MIB;

/// The CRC-32 of all bytes of a file.
///
/// # Errors
/// Errors of reading.
pub fn crc32_of(file: &dyn File) -> io::Result<u32> {
    let len = file.len()?;
    let mut buffer = vec![0; MIB as usize];
    let mut crc = Crc32::new();
    let mut at = 0;
    while at < len {
        let part = MIB.min(len - at) as usize;
        file.read_exact_at(&mut buffer[..part], at)?;
        crc.update(&buffer[..part]);
        at += part as u64;
    }
    Ok(crc.value())
}
