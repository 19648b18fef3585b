//! The bytes that a worker has received and nobody has taken yet.

/// A buffer of fixed size that is filled at its end and emptied at its start. Each worker has one; a connection that
/// no worker has keeps only the bytes themselves.
#[derive(Debug)]
pub(super) struct ReadBuffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl ReadBuffer {
    /// An empty buffer for `capacity` bytes.
    pub(super) fn new(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity].into(), start: 0, end: 0 }
    }

    /// Forgets what it holds and takes `bytes`, which fit.
    pub(super) fn load(&mut self, bytes: &[u8]) {
        self.start = 0;
        self.end = bytes.len();
        self.bytes[..bytes.len()].copy_from_slice(bytes);
    }

    /// What has been received and not been taken.
    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Whether nothing waits to be taken.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether there is no room for another byte.
    pub(super) fn is_full(&self) -> bool {
        self.filled().len() == self.bytes.len()
    }

    /// Takes the first `count` bytes off.
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
        if self.is_empty() {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Takes as many bytes off as there are and fit `out`, and says how many.
    pub(super) fn read_into(&mut self, out: &mut [u8]) -> usize {
        let count = self.filled().len().min(out.len());
        out[..count].copy_from_slice(&self.filled()[..count]);
        self.consume(count);
        count
    }

    /// Room for bytes to come; empty only when the buffer is full. What is written there counts after `received`.
    pub(super) fn spare(&mut self) -> &mut [u8] {
        if self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.bytes[self.end..]
    }

    /// The first `count` bytes of the room hold received bytes now.
    pub(super) fn extend_filled(&mut self, count: usize) {
        self.end += count;
        debug_assert!(self.end <= self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(read_buffer: &mut ReadBuffer, bytes: &[u8]) {
        read_buffer.spare()[..bytes.len()].copy_from_slice(bytes);
        read_buffer.extend_filled(bytes.len());
    }

    #[test]
    fn bytes_come_out_in_the_order_they_came_in_and_the_room_comes_back() {
        let mut read_buffer = ReadBuffer::new(8);
        receive(&mut read_buffer, b"abcdef");
        read_buffer.consume(4);
        receive(&mut read_buffer, b"gh");
        assert_eq!(read_buffer.filled(), b"efgh");
        assert!(!read_buffer.is_full());
        receive(&mut read_buffer, b"ijkl");
        assert!(read_buffer.is_full() && read_buffer.spare().is_empty());
        let mut out = [0; 6];
        assert_eq!(read_buffer.read_into(&mut out), 6);
        assert_eq!(&out, b"efghij");
        assert_eq!(read_buffer.read_into(&mut out), 2);
        assert!(read_buffer.is_empty());
        assert_eq!(read_buffer.spare().len(), 8);
    }
}
