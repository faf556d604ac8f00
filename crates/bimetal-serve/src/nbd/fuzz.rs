//! Body of the fuzzer: for any bytes of a client, in pieces of any size, the codec neither panics
//! nor exceeds its limits.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use bimetal_core::operation::OpKind;
use bimetal_core::payload::Payload;
use bimetal_core::units::Sectors;
use bimetal_device::buffer::Buffers;

use super::{Closed, Codec, Export, Extent, Limits, REQUEST_BYTES_MAX, ReplyError, Request, StatusRequest};

/// Handshake that chooses the first export with every option, so that the bytes after it are
/// requests.
pub const HANDSHAKE: &[u8] = b"\0\0\0\x03\
    IHAVEOPT\0\0\0\x08\0\0\0\0\
    IHAVEOPT\0\0\0\x0a\0\0\0\x1c\0\0\0\x01a\0\0\0\x01\0\0\0\x0fbase:allocation\
    IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0";

/// Returns two exports: `a` of 1 MiB in sectors, `b` of 1 GiB in blocks of 4 KiB.
pub fn exports() -> Arc<[Export]> {
    let export = |name: &str, bytes, block_min_bytes| Export {
        name: name.into(),
        description: format!("unit {name}"),
        bytes,
        block_min_bytes,
        block_preferred_bytes: 4096,
    };
    Arc::new([export("a", 1 << 20, 512), export("b", 1 << 30, 4096)])
}

/// Requests and bytes that a connection returned.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Kind, first sector, number of sectors and FUA of each request, and the checksum of its
    /// payload.
    pub requests: Vec<(OpKind, u64, u64, bool, u32)>,
    /// All bytes that were sent.
    pub sent: Vec<u8>,
    /// Reason for which the connection ended, if it ended.
    pub closed: Option<Closed>,
}

/// Feeds `data` to a new connection, in pieces of the sizes in `pieces`, which repeat. Answers
/// every request, the oldest first, a few at a time.
///
/// # Panics
/// Panics if the codec returns a request outside its export, not aligned, too long, or with a wrong
/// payload. Panics if the codec exceeds the memory of its limits.
pub fn converse(data: &[u8], pieces: &[usize], limits: Limits) -> Seen {
    converse_with(Codec::new(exports(), limits), data, pieces, limits)
}

/// Works as [`converse`], with a given connection with these `limits`. If the connection requires
/// TLS, `data` after the start of TLS are the decrypted bytes.
///
/// # Panics
/// Panics for the reasons of [`converse`].
pub fn converse_with(mut codec: Codec, data: &[u8], pieces: &[usize], limits: Limits) -> Seen {
    let exports = exports();
    let mut seen = Seen::default();
    let mut open = VecDeque::new();
    let mut left = data;
    for &piece in pieces.iter().cycle() {
        let fed = feed(&mut codec, &mut left, piece);
        loop {
            while let Some(request) = codec.next_request() {
                check(&request, &exports[usize::from(request.export)]);
                seen.requests.push(note(&request));
                open.push_back(request);
            }
            let Some(status) = codec.next_status() else { break };
            codec.answer_status(status, &extents(&status, &exports[usize::from(status.export)]));
        }
        assert!(open.len() <= limits.requests, "more requests than the limit are under way");
        let bytes_max = limits.bytes + 2 * u64::from(REQUEST_BYTES_MAX);
        assert!(codec.held_bytes() <= bytes_max, "a connection holds {} bytes", codec.held_bytes());
        let stuck = fed == 0;
        let idle = open.is_empty() && codec.outbox().is_empty();
        for _ in 0..if stuck { usize::MAX } else { piece % 3 } {
            let Some(request) = open.pop_front() else { break };
            answer(&mut codec, &request);
        }
        if stuck || piece % 2 == 0 {
            send(&mut codec, &mut seen.sent, if stuck { usize::MAX } else { piece });
            if codec.tls_begins() && codec.outbox().is_empty() {
                codec.tls_has_begun();
            }
        }
        // Replies make room for requests that were received earlier.
        if stuck && idle {
            break;
        }
    }
    seen.closed = codec.closed();
    assert_eq!(codec.requests_under_way(), 0);
    seen
}

fn feed(codec: &mut Codec, left: &mut &[u8], piece: usize) -> usize {
    if !codec.wants_input() {
        return 0;
    }
    let mut fed = 0;
    for mut room in codec.input() {
        let taken = room.len().min(left.len()).min(piece.max(1) - fed);
        room[..taken].copy_from_slice(&left[..taken]);
        *left = &left[taken..];
        fed += taken;
    }
    codec.received(fed);
    fed
}

fn check(request: &Request, export: &Export) {
    let range = request.command.range;
    assert!(range.end().bytes().0 <= export.bytes, "{range:?} is outside");
    assert!(range.start.bytes().0.is_multiple_of(export.block_min_bytes.into()));
    assert!(range.len.bytes().0.is_multiple_of(export.block_min_bytes.into()));
    assert_eq!(range.is_empty(), request.command.kind == OpKind::Flush);
    let carried = if request.command.kind == OpKind::Write { range.len } else { Buffers::empty().sectors() };
    assert_eq!(request.payload.sectors(), carried);
}

/// Answers a request for the block status: the second half of the range is a hole.
fn extents(status: &StatusRequest, export: &Export) -> Vec<Extent> {
    let len = status.range.len;
    assert!(status.range.end().bytes().0 <= export.bytes && len > Sectors(0), "{status:?} is outside");
    let unit = u64::from(export.block_min_bytes) / 512;
    let first = Sectors((len.0 / 2).div_ceil(unit) * unit);
    let both = [Extent { len: first, is_hole: false }, Extent { len: len - first, is_hole: true }];
    both.into_iter().filter(|extent| extent.len > Sectors(0)).take(status.extents_max).collect()
}

fn note(request: &Request) -> (OpKind, u64, u64, bool, u32) {
    let command = request.command;
    (command.kind, command.range.start.0, command.range.len.0, command.fua, request.payload.checksum())
}

/// Answers a read with zeroes; every fifth read fails.
fn answer(codec: &mut Codec, request: &Request) {
    let range = request.command.range;
    let result = match request.command.kind {
        OpKind::Read if range.start.0 % 5 == 4 => Err(ReplyError::Io),
        OpKind::Read => Ok(Buffers::zeroes(range.len)),
        _ => Ok(Buffers::empty()),
    };
    codec.reply(request.ticket, result);
}

fn send(codec: &mut Codec, sent: &mut Vec<u8>, mut limit: usize) {
    while !codec.outbox().is_empty() && limit > 0 {
        let mut slices = [IoSlice::new(&[]); 8];
        let count = codec.outbox().slices(&mut slices);
        let mut taken = 0;
        for slice in &slices[..count] {
            let part = slice.len().min(limit - taken);
            sent.extend_from_slice(&slice[..part]);
            taken += part;
        }
        codec.sent(taken);
        limit = limit.saturating_sub(taken.max(1));
    }
}

/// Runs one input of the fuzzer. The first four bytes choose the limits, the sizes of the pieces, a
/// valid handshake before the other bytes, and whether TLS is required.
pub fn run(data: &[u8]) {
    let Some((head, bytes)) = data.split_at_checked(4) else { return };
    let limits = Limits { requests: usize::from(head[0] % 16) + 1, bytes: 1 << (head[0] / 16 + 8) };
    let pieces = [usize::from(head[1]) + 1, usize::from(head[2]) * 16 + 1];
    let stream = if head[3] % 2 == 0 { bytes.to_vec() } else { [HANDSHAKE, bytes].concat() };
    let codec = Codec::new(exports(), limits);
    let codec = if head[3] & 2 == 0 { codec } else { codec.needing_tls() };
    converse_with(codec, &stream, &pieces, limits);
}
