//! Bytes of a trace, handed out from a bounded buffer. The content, never the file's name, decides
//! on decompression.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Largest number of bytes held at a time. Recognition of the format looks at no further bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// Longest line that a text format may have.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 10;

/// Bytes of an overlong line that an error may show.
const EXCERPT_BYTES: usize = 256;

/// Memory that an xz stream may use; `xz -9` needs 65 MiB.
const XZ_MEMORY_BYTES_MAX: u64 = 1 << 30;

/// Reader that counts the bytes taken from the file itself, before decompression, for progress
/// bars.
struct Counting<R> {
    inner: R,
    bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(out)?;
        self.bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// A decompressed stream with a look-ahead buffer.
pub(crate) struct Input {
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// First byte of `buffer` that is read but not consumed; `end` is the position after the last
    /// such byte.
    start: usize,
    end: usize,
    ended: bool,
    /// Number of decompressed bytes consumed so far.
    offset: u64,
    file_bytes: Arc<AtomicU64>,
    /// Beginning of the last overlong line.
    excerpt: [u8; EXCERPT_BYTES],
}

/// Result of [`Input::line`].
pub(crate) enum Line<'a> {
    /// A line, without its end.
    Text(&'a [u8]),
    /// The beginning of a line longer than [`LINE_BYTES_MAX`]. The rest of the line was skipped.
    TooLong(&'a [u8]),
}

impl Input {
    /// Looks at the first bytes of `reader`, and decompresses gzip, bzip2, xz and zstd with all
    /// their members.
    ///
    /// # Errors
    /// Fails if the first bytes cannot be read or the decompressor cannot be set up.
    pub(crate) fn new(reader: impl Read + Send + 'static) -> io::Result<Self> {
        let file_bytes = Arc::new(AtomicU64::new(0));
        let mut reader = Counting { inner: reader, bytes: Arc::clone(&file_bytes) };
        let mut head = [0; 6];
        let mut filled = 0;
        while filled < head.len() {
            match reader.read(&mut head[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let whole = io::Cursor::new(head).take(filled as u64).chain(reader);
        Ok(Self {
            source: decompressed(&head[..filled], whole)?,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            ended: false,
            offset: 0,
            file_bytes,
            excerpt: [0; EXCERPT_BYTES],
        })
    }

    /// Returns the counter of bytes taken from the file, before decompression.
    pub(crate) fn file_bytes(&self) -> &Arc<AtomicU64> {
        &self.file_bytes
    }

    /// Returns the number of decompressed bytes consumed so far.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns true if the end of the stream is in the buffer.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// Returns the next bytes: at least `wanted` (at most the buffer's size), unless the stream
    /// ends earlier.
    ///
    /// # Errors
    /// Fails if reading or decompressing fails. Bytes read before the error are kept.
    #[inline]
    pub(crate) fn peek(&mut self, wanted: usize) -> io::Result<&[u8]> {
        if self.end - self.start < wanted && !self.ended {
            self.fill(wanted)?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        assert!(wanted <= BUFFER_BYTES, "a reader wants {wanted} bytes at once");
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < wanted && !self.ended {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(n) => self.end += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Fills the buffer and returns all of it, for recognition.
    pub(crate) fn peek_all(&mut self) -> io::Result<&[u8]> {
        self.peek(BUFFER_BYTES)
    }

    /// Consumes `n` bytes that [`peek`](Self::peek) returned.
    #[inline]
    pub(crate) fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.end - self.start);
        self.start += n;
        self.offset += n as u64;
    }

    /// Consumes the next line, without its line feed and the carriage return before it. The last
    /// line needs no line feed.
    ///
    /// # Errors
    /// Fails if reading or decompressing fails.
    #[inline]
    pub(crate) fn line(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut scanned = 0;
        loop {
            let held = &self.buffer[self.start..self.end];
            if let Some(at) = find_line_feed(&held[scanned..]) {
                if scanned + at > LINE_BYTES_MAX {
                    return self.long_line().map(Some);
                }
                let (from, to) = (self.start, self.start + scanned + at);
                self.consume(scanned + at + 1);
                return Ok(Some(Line::Text(without_carriage_return(&self.buffer[from..to]))));
            }
            scanned = held.len();
            if scanned > LINE_BYTES_MAX {
                return self.long_line().map(Some);
            }
            if self.ended {
                let from = self.start;
                self.consume(scanned);
                let line = without_carriage_return(&self.buffer[from..from + scanned]);
                return Ok((scanned > 0).then_some(Line::Text(line)));
            }
            self.fill(scanned + 1)?;
        }
    }

    fn long_line(&mut self) -> io::Result<Line<'_>> {
        self.excerpt.copy_from_slice(&self.buffer[self.start..self.start + EXCERPT_BYTES]);
        loop {
            let held = &self.buffer[self.start..self.end];
            if let Some(at) = find_line_feed(held) {
                self.consume(at + 1);
                break;
            }
            self.consume(held.len());
            if self.ended {
                break;
            }
            self.fill(1)?;
        }
        Ok(Line::TooLong(&self.excerpt))
    }
}

/// Returns the position of the first line feed. The search compares eight bytes at a time.
#[inline]
pub(crate) fn find_line_feed(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let mut chunks = bytes.chunks_exact(8);
    let mut at = 0;
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        let flipped = u64::from_le_bytes(word) ^ (ONES * b'\n' as u64);
        let zeroes = flipped.wrapping_sub(ONES) & !flipped & HIGHS;
        if zeroes != 0 {
            return Some(at + zeroes.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    chunks.remainder().iter().position(|&byte| byte == b'\n').map(|position| at + position)
}

/// Returns `line` without a carriage return at its end.
pub(crate) fn without_carriage_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn decompressed(head: &[u8], whole: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    // A skippable zstd frame may come first: its magic is 0x184D2A50 to 0x184D2A5F.
    let skippable = head.len() >= 4 && head[0] & 0xf0 == 0x50 && head[1..4] == [0x2a, 0x4d, 0x18];
    Ok(if head.starts_with(&[0x1f, 0x8b]) {
        Box::new(flate2::read::MultiGzDecoder::new(whole))
    } else if head.starts_with(b"BZh") && head.get(3).is_some_and(|level| (b'1'..=b'9').contains(level)) {
        Box::new(bzip2::read::MultiBzDecoder::new(whole))
    } else if head.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
        let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY_BYTES_MAX, liblzma::stream::CONCATENATED)?;
        Box::new(liblzma::read::XzDecoder::new_stream(whole, stream))
    } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || skippable {
        Box::new(zstd::stream::read::Decoder::new(whole)?)
    } else {
        Box::new(whole)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn lines(reader: impl Read + Send + 'static) -> Vec<String> {
        let mut input = Input::new(reader).unwrap();
        let mut all = Vec::new();
        while let Some(line) = input.line().unwrap() {
            all.push(match line {
                Line::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
                Line::TooLong(head) => format!("long:{}", head.len()),
            });
        }
        all
    }

    #[test]
    fn lines_end_with_a_line_feed_a_carriage_return_or_the_file() {
        assert_eq!(lines(&b"one\r\ntwo\n\nfour"[..]), ["one", "two", "", "four"]);
        assert_eq!(lines(&b""[..]), Vec::<String>::new());
        assert_eq!(lines(&b"\n"[..]), [""]);
    }

    #[test]
    fn a_line_without_end_is_read_past_in_bounded_memory() {
        for length in [LINE_BYTES_MAX + 1, 3 * BUFFER_BYTES, 5 * BUFFER_BYTES + 7] {
            let mut text = vec![b'x'; length];
            text.extend_from_slice(b"\nnext\n");
            assert_eq!(lines(io::Cursor::new(text)), ["long:256", "next"]);
        }
    }

    /// Every compression is recognised by its content and read with all its members.
    #[test]
    fn every_compression_is_recognised_with_all_its_members() {
        let mut gz = Vec::new();
        let mut bz2 = Vec::new();
        let mut xz = Vec::new();
        let mut zst = Vec::new();
        for member in ["one\ntw", "o\nthree\n"] {
            let bytes = member.as_bytes();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            gz.extend(encoder.finish().unwrap());
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            bz2.extend(encoder.finish().unwrap());
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
            encoder.write_all(bytes).unwrap();
            xz.extend(encoder.finish().unwrap());
            zst.extend(zstd::encode_all(bytes, 1).unwrap());
        }
        for compressed in [gz, bz2, xz, zst] {
            assert_eq!(lines(io::Cursor::new(compressed)), ["one", "two", "three"]);
        }
    }

    #[test]
    fn a_cut_off_compressed_file_is_an_error() {
        let whole = zstd::encode_all(&[7u8; 5000][..], 1).unwrap();
        let mut input = Input::new(io::Cursor::new(whole[..whole.len() - 3].to_vec())).unwrap();
        assert!(input.peek_all().is_err());
    }

    #[test]
    fn the_line_feed_is_found_wherever_it_stands() {
        for length in 0..40 {
            for at in 0..length {
                let mut bytes = vec![b'\r'; length];
                bytes[at] = b'\n';
                assert_eq!(find_line_feed(&bytes), Some(at));
            }
            assert_eq!(find_line_feed(&vec![0x8a; length]), None);
        }
    }
}
