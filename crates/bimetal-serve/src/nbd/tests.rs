//! Conversations: bytes of a client, and the bytes that it must receive.

use bimetal_core::operation::OpKind;
use proptest::prelude::*;

use super::fuzz::{HANDSHAKE, Seen, converse, converse_with, exports, run};
use super::protocol::{self as nbd, command, option_reply};
use super::{Closed, Codec, Limits};

fn talk(data: &[u8]) -> Seen {
    converse(data, &[1 << 20], Limits::default())
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT".as_slice(), &number.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
}

fn request(command: u16, flags: u16, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = nbd::REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(77u64.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}

/// Returns the bytes sent in answer to `tail`, after a handshake that chooses every option.
fn behind_handshake(tail: &[u8]) -> (Seen, Vec<u8>) {
    let before = talk(HANDSHAKE).sent.len();
    let seen = talk(&[HANDSHAKE, tail].concat());
    let sent = seen.sent[before..].to_vec();
    (seen, sent)
}

/// Returns the type of each reply to an option.
fn option_replies(sent: &[u8]) -> Vec<u32> {
    let mut rest = &sent[18..];
    let mut kinds = Vec::new();
    while rest.starts_with(&nbd::OPTION_REPLY_MAGIC.to_be_bytes()) {
        let number = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
        kinds.push(number(12));
        rest = &rest[20 + number(16) as usize..];
    }
    kinds
}

const FLAGS: &[u8] = &[0, 0, 0, 3];

#[test]
fn handshake_answers_known_options_and_refuses_others() {
    use option_reply::*;
    let cases: [(&[u8], &[u32]); 9] = [
        (&option(3, b""), &[SERVER, SERVER, ACK]),
        (&option(3, b"x"), &[ERR_INVALID]),
        (&option(5, b""), &[ERR_UNSUP]),
        (&option(11, b""), &[ERR_UNSUP]),
        (&option(6, b"\0\0\0\x01b\0\x02\0\x01\0\x02"), &[INFO, INFO, INFO, INFO, ACK]),
        (&option(7, b"\0\0\0\x01c\0\0"), &[ERR_UNKNOWN]),
        (&option(7, b"\0\0\0\x09c\0\0"), &[ERR_INVALID]),
        (&option(9, b"\0\0\0\x01a\0\0\0\0"), &[ERR_INVALID]),
        (&option(99, &[7; 40_000]), &[ERR_TOO_BIG]),
    ];
    for (bytes, expected) in cases {
        let seen = talk(&[FLAGS, bytes, &option(2, b"")].concat());
        assert_eq!(option_replies(&seen.sent), [expected, &[ACK]].concat(), "{bytes:?}");
        assert_eq!(seen.closed, Some(Closed::Disconnected));
    }
}

#[test]
fn where_tls_is_needed_nothing_is_told_before_it() {
    use option_reply::*;
    let talk = |parts: &[&[u8]], piece| {
        let codec = Codec::new(exports(), Limits::default()).needing_tls();
        converse_with(codec, &[&[FLAGS], parts].concat().concat(), &[piece], Limits::default())
    };
    let (list, go, old) = (option(3, b""), option(7, b"\0\0\0\x01a\0\0"), option(1, b"a"));
    let (start_tls, abort) = (option(5, b""), option(2, b""));
    let seen = talk(&[&list, &go, &option(8, b""), &option(5, b"x"), &abort], 1 << 20);
    assert_eq!(option_replies(&seen.sent), [ERR_TLS_REQD, ERR_TLS_REQD, ERR_TLS_REQD, ERR_INVALID, ACK]);
    assert_eq!(talk(&[&old], 1 << 20).closed, Some(Closed::NeedsTls));
    // Byte by byte, so that no byte follows the option when it is parsed.
    let seen = talk(&[&start_tls, &list, &start_tls, &go, &request(command::READ, 0, 0, 512)], 1);
    assert_eq!(option_replies(&seen.sent)[..5], [ACK, SERVER, SERVER, ACK, ERR_INVALID]);
    assert_eq!(seen.requests.len(), 1);
    // Bytes in one piece with the option precede the encryption: an attacker may have inserted
    // them.
    let seen = talk(&[&start_tls, &list], 1 << 20);
    assert!(matches!(seen.closed, Some(Closed::Protocol(_))) && option_replies(&seen.sent).is_empty(), "{seen:?}");
}

#[test]
fn the_old_way_to_choose_an_export_works_too() {
    let seen = talk(&[&[0, 0, 0, 0], option(1, b"").as_slice(), &request(command::READ, 0, 0, 512)].concat());
    assert_eq!(seen.requests.len(), 1);
    // Greeting, size, flags, zeroes, and a simple reply with its data.
    assert_eq!(seen.sent.len(), 18 + 8 + 2 + 124 + 16 + 512);
    let seen = talk(&[FLAGS, option(1, b"nobody").as_slice()].concat());
    assert_eq!(seen.closed, Some(Closed::UnknownExport));
}

#[test]
fn garbage_closes_the_connection_and_gives_no_request() {
    let garbage: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7],
        &[255; 64],
        &[[0, 0, 0, 3].as_slice(), &option(1, &[b'x'; 20_000])].concat(),
    ];
    for bytes in garbage {
        let seen = talk(bytes);
        assert!(matches!(seen.closed, Some(Closed::Protocol(_))), "{bytes:?}: {:?}", seen.closed);
        assert!(seen.requests.is_empty());
    }
    let (seen, _) = behind_handshake(&[9; 28]);
    assert_eq!(seen.closed, Some(Closed::Protocol("a request without its magic number")));
}

#[test]
fn requests_become_commands_and_writes_keep_their_payload() {
    let write = [request(command::WRITE, 1, 4096, 1024), vec![5; 1024]].concat();
    let trim = request(command::TRIM, 0, 512, 512);
    let zero = request(command::WRITE_ZEROES, 2, 0, 1 << 20);
    let flush = request(command::FLUSH, 0, 0, 0);
    let (seen, sent) = behind_handshake(&[write, trim, zero, flush].concat());
    assert_eq!(
        seen.requests,
        [
            (OpKind::Write, 8, 2, true, crc32c::crc32c(&[5; 1024])),
            (OpKind::Discard, 1, 1, false, 0),
            (OpKind::WriteZeroes, 0, 2048, false, 0),
            (OpKind::Flush, 0, 0, false, 0),
        ]
    );
    assert_eq!(sent.len(), 4 * 16);
}

/// An impossible request is answered with an error. The connection stays, so the flush after it is
/// served.
#[test]
fn impossible_request_gets_an_error_and_the_connection_stays() {
    const EINVAL: u32 = 22;
    const ENOSPC: u32 = 28;
    let cases = [
        (request(command::TRIM, 0, 1, 512), EINVAL),
        (request(command::TRIM, 0, 0, 100), EINVAL),
        (request(command::TRIM, 0, 1 << 20, 512), EINVAL),
        (request(command::TRIM, 0, u64::MAX - 511, 512), EINVAL),
        (request(command::TRIM, 0, 0, 0), EINVAL),
        // Fast zeroes, which were not offered.
        (request(command::WRITE_ZEROES, 16, 0, 512), EINVAL),
        (request(99, 0, 0, 512), EINVAL),
        ([request(command::WRITE, 0, 1 << 20, 512), vec![1; 512]].concat(), ENOSPC),
        ([request(command::WRITE, 0, 3, 100), vec![1; 100]].concat(), EINVAL),
        ([request(command::WRITE, 0, 0, 33 << 20), vec![1; 33 << 20]].concat(), EINVAL),
    ];
    for (bytes, expected) in cases {
        let flush = request(command::FLUSH, 0, 0, 0);
        let (seen, sent) = behind_handshake(&[bytes, flush].concat());
        assert_eq!(sent[4..8], expected.to_be_bytes());
        assert_eq!(sent.len(), 32);
        assert_eq!(seen.requests.len(), 1, "the flush behind it");
        assert_eq!(seen.closed, None);
    }
}

#[test]
fn reads_get_structured_replies_once_negotiated() {
    let (_, sent) = behind_handshake(&request(command::READ, 4, 512, 1024));
    assert_eq!(sent[..4], nbd::STRUCTURED_REPLY_MAGIC.to_be_bytes());
    assert_eq!(sent.len(), 20 + 8 + 1024);
    assert_eq!(sent[20..28], 512u64.to_be_bytes());
    // The test answers a read of sector 4 with an error.
    let (_, sent) = behind_handshake(&request(command::READ, 0, 4 * 512, 512));
    assert_eq!(sent[20..], [&5u32.to_be_bytes()[..], &[0, 0]].concat());
    let (_, sent) = behind_handshake(&request(command::READ, 0, 0, 33 << 20));
    assert_eq!(sent[20..24], 22u32.to_be_bytes());
}

#[test]
fn block_status_tells_holes_and_no_more_extents_than_asked_for() {
    let (_, sent) = behind_handshake(&request(command::BLOCK_STATUS, 0, 512, 4096));
    assert_eq!(sent[20..], [1u32, 2048, 0, 2048, 3].map(u32::to_be_bytes).concat());
    let (_, sent) = behind_handshake(&request(command::BLOCK_STATUS, 8, 512, 4096));
    assert_eq!(sent[20..], [1u32, 2048, 0].map(u32::to_be_bytes).concat());
    let (_, sent) = behind_handshake(&request(command::BLOCK_STATUS, 8, 1 << 20, 4096));
    assert_eq!(sent[6..8], [0x80, 1]);
}

#[test]
fn no_more_requests_than_the_limit_are_under_way() {
    let reads: Vec<u8> = (0..500).flat_map(|_| request(command::READ, 0, 0, 65536)).collect();
    let seen = converse(&[HANDSHAKE, &reads].concat(), &[4000], Limits { requests: 4, bytes: 100_000 });
    assert_eq!(seen.requests.len(), 500);
}

/// Generates requests of all kinds, valid and invalid.
fn any_request() -> impl Strategy<Value = Vec<u8>> {
    let offset = prop_oneof![0..2048u64, Just(u64::MAX / 512)].prop_map(|sector| sector.wrapping_mul(512));
    let len = prop_oneof![4 => (1..64u32).prop_map(|sectors| sectors * 512), 1 => 0..3000u32];
    (0..10u16, 0..32u16, offset, len, any::<u8>()).prop_map(|(number, flags, offset, len, byte)| {
        let number = if number == command::DISC { command::WRITE } else { number };
        let payload = if number == command::WRITE { len as usize } else { 0 };
        [request(number, flags, offset, len), vec![byte; payload]].concat()
    })
}

/// A codec whose input buffer is full takes no more input until a held-back request is taken.
#[test]
fn full_codec_wants_no_input_until_a_request_is_taken() {
    let export = super::fuzz::exports();
    let mut codec = super::Codec::new(export, Limits { requests: 1, ..Limits::default() });
    let receive = |codec: &mut super::Codec, mut bytes: &[u8]| {
        let mut count = 0;
        for mut room in codec.input() {
            let taken = room.len().min(bytes.len());
            room[..taken].copy_from_slice(&bytes[..taken]);
            (bytes, count) = (&bytes[taken..], count + taken);
        }
        assert!(bytes.is_empty(), "{} bytes found no room", bytes.len());
        codec.received(count);
    };
    receive(&mut codec, HANDSHAKE);
    assert!(codec.next_request().is_none());
    // A write with half of its payload; then the rest, with as many bytes after it as there is room
    // for.
    receive(&mut codec, &[request(command::WRITE, 0, 0, 1024).as_slice(), &[7; 512]].concat());
    assert!(codec.next_request().is_none());
    let mut behind = request(command::READ, 0, 0, 512).repeat(3000);
    behind.truncate(64 << 10);
    receive(&mut codec, &[&[7; 512], behind.as_slice()].concat());
    let write = codec.next_request().expect("the write is whole");
    assert!(codec.next_request().is_none() && !codec.wants_input());
    codec.reply(write.ticket, Ok(bimetal_device::buffer::Buffers::default()));
    assert!(codec.can_go_on() && !codec.wants_input(), "there is no room to receive into");
    assert!(codec.next_request().is_some());
}

proptest! {
    #[test]
    fn how_the_bytes_are_cut_changes_nothing(
        requests in prop::collection::vec(any_request(), 1..20),
        pieces in prop::collection::vec(1..5000usize, 1..8),
    ) {
        let stream = [HANDSHAKE, &requests.concat()].concat();
        let whole = talk(&stream);
        let cut = converse(&stream, &pieces, Limits::default());
        prop_assert_eq!(whole.requests, cut.requests);
        prop_assert_eq!(whole.sent.len(), cut.sent.len());
        prop_assert_eq!(whole.closed, cut.closed);
    }

    #[test]
    fn nothing_that_a_client_sends_breaks_the_codec(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        run(&bytes);
    }

    #[test]
    fn nothing_in_a_damaged_conversation_breaks_the_codec(
        requests in prop::collection::vec(any_request(), 0..6),
        hurts in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<[u8; 3]>(),
    ) {
        let mut stream = [HANDSHAKE, &requests.concat()].concat();
        for (at, byte) in hurts {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        run(&[&cut[..], &[0], &stream].concat());
    }
}
