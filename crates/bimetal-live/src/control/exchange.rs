//! Bytes that come from a socket and bytes that wait to go to it, bounded.

/// Bytes received, and bytes to send.
#[derive(Debug, Default)]
pub struct Exchange {
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
}

impl Exchange {
    /// Takes what was received.
    pub fn received(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// What was received and not taken yet.
    pub fn input(&self) -> &[u8] {
        &self.input
    }

    /// Takes the first `count` bytes that were received.
    pub fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.input.split_off(count);
        std::mem::replace(&mut self.input, rest)
    }

    /// Where to write what is to be sent.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// What is still to be sent.
    pub fn unsent(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// Takes note that the first `count` bytes of it were sent.
    pub fn sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        }
    }
}
