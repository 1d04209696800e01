//! Frames on the pipes between a reader process and its parent: the length in eight bytes, little-endian, then the content.

use std::io::{self, Read, Write};

/// Limit of a frame in either direction: the largest indexed file, as JSON.
pub(super) const FRAME_BYTES_MAX: u64 = 128 << 20;

pub(super) fn write(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&(bytes.len() as u64).to_le_bytes())?;
    to.write_all(bytes)?;
    to.flush()
}

/// `None` at the end of the stream.
pub(super) fn read(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 8];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u64::from_le_bytes(length);
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes is longer than {FRAME_BYTES_MAX}")));
    }
    // Grows while bytes arrive: the length alone reserves nothing.
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == length { Ok(Some(bytes)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_decoded_as_encoded_and_lengths_are_bounded() {
        let mut pipe = Vec::new();
        write(&mut pipe, b"one").unwrap();
        write(&mut pipe, b"").unwrap();
        let mut from = pipe.as_slice();
        assert_eq!(read(&mut from).unwrap().as_deref(), Some(&b"one"[..]));
        assert_eq!(read(&mut from).unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(read(&mut from).unwrap(), None);
        assert!(read(&mut &u64::MAX.to_le_bytes()[..]).is_err());
        assert!(read(&mut &[3, 0, 0, 0, 0, 0, 0, 0, b'x'][..]).is_err());
    }
}
