//! Bytes to be sent: small headers and shared data in order, passed to the socket without a copy.

use std::collections::VecDeque;
use std::io::IoSlice;

use bimetal_device::buffer::{Buffers, Slice};

/// Size of a part that gathers consecutive headers.
const HEAD_BYTES: usize = 96;

enum Part {
    Head { bytes: [u8; HEAD_BYTES], len: u8 },
    Data(Slice),
}

impl Part {
    fn bytes(&self) -> &[u8] {
        match self {
            Part::Head { bytes, len } => &bytes[..usize::from(*len)],
            Part::Data(slice) => slice.bytes(),
        }
    }
}

/// Bytes on their way to a client.
#[derive(Default)]
pub struct Outbox {
    parts: VecDeque<Part>,
    /// Number of bytes of the first part that were sent.
    sent: usize,
    bytes: u64,
}

impl Outbox {
    /// Returns the number of bytes that were not sent yet.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns true if all bytes were sent.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Fills `slices` with the first parts to be sent. Returns their number.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        for (slice, part) in slices.iter_mut().zip(&self.parts) {
            let skip = if count == 0 { self.sent } else { 0 };
            *slice = IoSlice::new(&part.bytes()[skip..]);
            count += 1;
        }
        count
    }

    /// Records that the client has taken `count` more bytes.
    pub fn sent(&mut self, count: usize) {
        self.bytes = self.bytes.checked_sub(count as u64).expect("the client takes no more bytes than the queue has");
        self.sent += count;
        while let Some(first) = self.parts.front()
            && self.sent >= first.bytes().len()
        {
            self.sent -= first.bytes().len();
            self.parts.pop_front();
        }
    }

    /// Appends a copy of a few bytes.
    pub(super) fn push_head(&mut self, mut more: &[u8]) {
        self.bytes += more.len() as u64;
        while !more.is_empty() {
            if let Some(Part::Head { bytes, len }) = self.parts.back_mut()
                && usize::from(*len) < HEAD_BYTES
            {
                let start = usize::from(*len);
                let taken = more.len().min(HEAD_BYTES - start);
                bytes[start..start + taken].copy_from_slice(&more[..taken]);
                *len += taken as u8;
                more = &more[taken..];
            } else {
                self.parts.push_back(Part::Head { bytes: [0; HEAD_BYTES], len: 0 });
            }
        }
    }

    /// Appends data, which is shared.
    pub(super) fn push_data(&mut self, data: &Buffers) {
        self.bytes += data.bytes();
        self.parts.extend(data.parts().iter().cloned().map(Part::Data));
    }
}
