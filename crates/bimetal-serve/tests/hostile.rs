//! Hostile or broken clients harm neither the server nor other clients.

mod common;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use bimetal_device::drive::Engine;
use bimetal_serve::nbd::fuzz::HANDSHAKE;
use bimetal_serve::server::ServerOptions;
use common::{Plan, Running, Scratch, noise, serve, start};

const PLAN: Plan = Plan { scheme: "ssd-only", settings: &[], ssd_mib: 48, hdd_mib: 0, engine: Engine::Auto };

/// Returns a handshake with the empty name for everything, so that it fits any export.
fn handshake() -> Vec<u8> {
    let mut bytes = HANDSHAKE[..4].to_vec();
    bytes.extend(b"IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0");
    bytes
}

fn request(command: u16, offset: u64, len: u32) -> Vec<u8> {
    let head = [0x2560_9513u32.to_be_bytes().as_slice(), &[0, 0], &command.to_be_bytes(), &[7; 8]].concat();
    [head, offset.to_be_bytes().to_vec(), len.to_be_bytes().to_vec()].concat()
}

fn connect(running: &Running) -> UnixStream {
    let client = UnixStream::connect(running.scratch.path("nbd.sock")).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    client.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    client
}

/// Connects a client that has chosen the export.
fn chosen(running: &Running) -> UnixStream {
    let mut client = connect(running);
    client.write_all(&handshake()).unwrap();
    // Greeting, two information replies with their heads, and the acknowledgement.
    client.read_exact(&mut [0; 18 + 20 + 12 + 20 + 14 + 20]).unwrap();
    client
}

/// Reads a block as a valid client does.
fn assert_serves(running: &Running) {
    let mut client = chosen(running);
    client.write_all(&request(0, 4096, 4096)).unwrap();
    let mut reply = [0; 16 + 4096];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
}

fn assert_closed(mut client: UnixStream) {
    let mut rest = Vec::new();
    // A reset is an end, too.
    let _ = client.read_to_end(&mut rest);
}

#[test]
fn garbage_in_any_phase_ends_that_connection_only() {
    let running = serve(PLAN);
    for (seed, begin) in [Vec::new(), HANDSHAKE[..4].to_vec(), handshake()].into_iter().enumerate() {
        let mut client = connect(&running);
        client.write_all(&begin).unwrap();
        // The server may close the connection before all bytes are written.
        let _ = client.write_all(&noise(100_000, seed as u64 + 1));
        assert_closed(client);
        assert_serves(&running);
    }
    running.stop();
}

#[test]
fn a_write_that_ends_half_way_changes_nothing() {
    let running = serve(PLAN);
    let mut client = chosen(&running);
    client.write_all(&request(1, 0, 1 << 20)).unwrap();
    client.write_all(&[0xee; 600_000]).unwrap();
    drop(client);
    assert_serves(&running);
    let (summary, scratch) = running.stop();
    assert!(summary.clean);
    let bytes = std::fs::read(scratch.path("ssd")).unwrap();
    assert!(bytes[..1 << 20].iter().all(|&byte| byte == 0));
}

/// A client that never takes its replies holds little memory. Such a client delays neither other
/// clients nor the end of the server.
#[test]
fn client_that_takes_no_replies_blocks_no_other_client() {
    let running = serve(PLAN);
    let mut greedy = chosen(&running);
    greedy.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let reads: Vec<u8> = (0..2000).flat_map(|_| request(0, 0, 32 << 20)).collect();
    // The server stops reading long before all requests are written.
    let _ = greedy.write_all(&reads);
    assert_serves(&running);
    let begun = running.handle.snapshot().unwrap().statistics.arrived;
    assert!(begun < 100, "{begun} requests of 32 MiB were taken from one client");
    // The client does not prevent the server from stopping either.
    let before = Instant::now();
    let (summary, _) = running.stop();
    assert!(summary.clean);
    assert!(before.elapsed() < Duration::from_secs(15));
}

#[test]
fn requests_for_what_cannot_be_are_answered_with_an_error() {
    let running = serve(PLAN);
    let mut client = chosen(&running);
    let cases =
        [(0, 0, 33 << 20, 22), (0, 1, 512, 22), (4, u64::MAX - 511, 512, 22), (77, 0, 512, 22), (0, 1 << 40, 512, 22)];
    for (command, offset, len, error) in cases {
        client.write_all(&request(command, offset, len)).unwrap();
        let mut reply = [0; 16];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(reply[4..8], i32::to_be_bytes(error), "command {command}, {len} bytes at {offset}");
    }
    running.stop();
}

/// Regression: a client beyond the maximum waited forever without an answer.
#[test]
fn client_is_refused_where_all_places_are_taken() {
    let options = ServerOptions { clients_max: 3, ..ServerOptions::default() };
    let running = start(PLAN, Scratch::new(), true, options);
    let first = [chosen(&running), chosen(&running), chosen(&running)];
    let mut refused = connect(&running);
    refused.write_all(&handshake()).unwrap();
    let mut answer = [0; 18 + 20];
    refused.read_exact(&mut answer).unwrap();
    // NBD_REP_ERR_POLICY to NBD_OPT_GO.
    assert_eq!(answer[18 + 8..18 + 16], [0, 0, 0, 7, 0x80, 0, 0, 2]);
    // `NBD_OPT_EXPORT_NAME` has no error reply: the connection is closed.
    let mut old = connect(&running);
    old.write_all(&[&handshake()[..4], b"IHAVEOPT\0\0\0\x01\0\0\0\0"].concat()).unwrap();
    assert_closed(old);
    let snapshot = running.handle.snapshot().unwrap();
    assert_eq!((snapshot.clients, snapshot.clients_max, snapshot.clients_refused), (3, 3, 2));
    drop(first);
    // The same connection is accepted as soon as another client has left.
    refused.write_all(&handshake()[4..]).unwrap();
    let mut rest = vec![0; u32::from_be_bytes(answer[34..].try_into().unwrap()) as usize];
    refused.read_exact(&mut rest).unwrap();
    refused.read_exact(&mut answer[..20]).unwrap();
    assert_eq!(answer[8..16], [0, 0, 0, 7, 0, 0, 0, 3], "NBD_REP_INFO");
    assert_serves(&running);
    running.stop();
}

/// Regression: silent connections used up the maximum of clients, so no other client could connect.
#[test]
fn silent_connections_keep_no_client_away() {
    let options = ServerOptions { clients_max: 2, ..ServerOptions::default() };
    let running = start(PLAN, Scratch::new(), true, options);
    let silent: Vec<UnixStream> = (0..300).map(|_| connect(&running)).collect();
    let before = Instant::now();
    assert_serves(&running);
    assert!(before.elapsed() < Duration::from_secs(5));
    // The oldest connections were closed for newer ones.
    silent.into_iter().take(100).for_each(assert_closed);
    running.stop();
}

#[test]
fn half_a_handshake_is_ended_after_a_while() {
    let running = serve(PLAN);
    let mut slow = connect(&running);
    slow.write_all(&HANDSHAKE[..10]).unwrap();
    let before = Instant::now();
    assert_closed(slow);
    assert!(before.elapsed() > Duration::from_secs(5));
    assert_serves(&running);
    running.stop();
}
