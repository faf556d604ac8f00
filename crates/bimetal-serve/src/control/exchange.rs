//! Bytes received from a socket and bytes that wait to be sent to the socket.

/// Buffers for received bytes and for bytes to be sent.
#[derive(Debug, Default)]
pub struct Exchange {
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
}

impl Exchange {
    /// Takes bytes that were received.
    pub fn received(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Returns bytes that were received and not taken yet.
    pub fn input(&self) -> &[u8] {
        &self.input
    }

    /// Takes the first `count` bytes that were received.
    pub fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.input.split_off(count);
        std::mem::replace(&mut self.input, rest)
    }

    /// Returns the buffer for bytes to be sent.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Returns the bytes that are still to be sent.
    pub fn unsent(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// Records that the first `count` unsent bytes were sent.
    pub fn sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        }
    }
}
