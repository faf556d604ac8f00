//! Control requests to a running server: status, drain, detach, while clients write.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bimetal_core::operation::{OpKind, Operation};
use bimetal_core::units::Bytes;
use bimetal_device::buffer::Buffers;

use bimetal_device::drive::Engine;
use bimetal_serve::control::client::Client;
use bimetal_serve::control::message::{Reply, Request};
use bimetal_volumes::status::Status;
use common::failing::Failing;
use common::{Plan, Running, Scratch, serve, serve_again};

const CACHE: Plan = Plan { scheme: "hybrid-disk", settings: &[], ssd_mib: 16, hdd_mib: 64, engine: Engine::Auto };
const GRIFFIN: Plan = Plan {
    scheme: "griffin",
    settings: &[("timeout", "off"), ("read_threshold", "off")],
    ssd_mib: 64,
    hdd_mib: 32,
    engine: Engine::Auto,
};

fn client(running: &Running) -> Client {
    Client::connect(&running.scratch.path("control.sock")).unwrap().expect("the server listens")
}

fn ask(running: &Running, request: Request) -> Reply {
    client(running).ask(&request, |_| {}).unwrap()
}

fn status(running: &Running) -> Status {
    match ask(running, Request::Status {}) {
        Reply::Status { status } => *status,
        other => panic!("{other:?}"),
    }
}

fn done(reply: Reply) -> String {
    match reply {
        Reply::Done(done) => done.message,
        other => panic!("{other:?}"),
    }
}

fn error(reply: Reply) -> String {
    match reply {
        Reply::Error { message } => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn status_has_every_key_of_a_run_that_applies() {
    let running = serve(CACHE);
    let mut disk = running.connect();
    disk.write(0, &[1; 64 << 10]);
    disk.read(0, 64 << 10);
    disk.flush();
    let mut socket = UnixStream::connect(running.scratch.path("control.sock")).unwrap();
    socket.write_all(b"{\"request\":\"status\"}\n").unwrap();
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).unwrap();
    let json: serde_json::Value = serde_json::from_str(&line).unwrap();
    let json = &json["status"];
    assert_eq!((&json["state"], &json["scheme"]), (&"serving".into(), &"hybrid-disk".into()));
    assert_eq!(json["dirty_bytes"], 64 << 10);
    assert!(json["dirty_oldest_s"].as_f64().unwrap() < 60.0);
    for (key, expected) in [("reads", 1), ("writes", 1), ("flushes", 1), ("read_bytes", 64 << 10)] {
        assert_eq!(json["requests"][key], expected, "{key}");
    }
    for percentile in ["mean", "p50", "p90", "p95", "p99", "p999", "p9999", "max"] {
        assert!(json["response_time_ms"]["read"][percentile].as_f64().unwrap() > 0.0, "{percentile}");
    }
    assert_eq!(json["ssd_hit_ratio"]["write"], 1.0);
    assert_eq!((&json["write_savings"], &json["read_penalty"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    let members = json["members"].as_array().unwrap();
    let ids: Vec<_> = members.iter().map(|member| (&member["id"], &member["role"])).collect();
    assert_eq!(ids, [(&"ssd".into(), &"cache".into()), (&"hdd".into(), &"home".into())]);
    assert!(members[0]["write_bytes"].as_u64().unwrap() >= 64 << 10);
    assert!(members[0]["metadata_bytes"].as_u64().unwrap() > 0);
    assert_eq!(members[0]["path"], running.scratch.path("ssd").display().to_string());
    assert!(json["wear"][0]["write_bytes"].as_u64().unwrap() >= 64 << 10);
    for key in ["bypass", "migration", "throughput", "engine", "slots", "settings"] {
        assert!(json[key].is_object(), "{key}");
    }
    running.stop();
}

#[test]
fn a_drain_comes_to_an_end_while_a_client_writes_on() {
    for plan in [CACHE, GRIFFIN] {
        let running = serve(plan);
        let mut disk = running.connect();
        (0..64).for_each(|at| disk.write(at << 16, &[at as u8; 32 << 10]));
        assert!(status(&running).dirty_bytes.unwrap() > 0);
        let mut asker = client(&running);
        let drain =
            std::thread::spawn(move || asker.ask(&Request::Drain { detach: false, force: false }, |_| {}).unwrap());
        let begun = Instant::now();
        while !drain.is_finished() {
            disk.write(5 << 20, &[7; 4096]);
            assert!(begun.elapsed() < Duration::from_secs(30), "{}: it does not end", plan.scheme);
        }
        assert!(done(drain.join().unwrap()).contains("home has everything"));
        disk.flush();
        (0..64).for_each(|at| assert_eq!(disk.read(at << 16, 4096), [at as u8; 4096], "{}", plan.scheme));
        assert_eq!(disk.read(5 << 20, 4096), [7; 4096]);
        running.stop();
    }
}

/// A drain goes on after its client has left. A server that stopped resumes the drain when it
/// starts again.
#[test]
fn drain_continues_without_its_client_and_after_a_restart() {
    let running = serve(GRIFFIN);
    let mut disk = running.connect();
    (0..200).for_each(|at| disk.write(at * 8192, &[at as u8; 4096]));
    disk.flush();
    let mut socket = UnixStream::connect(running.scratch.path("control.sock")).unwrap();
    socket.write_all(b"{\"request\":\"drain\"}\n").unwrap();
    drop(socket);
    let scratch = running.stop_at_once();
    let running = serve_again(GRIFFIN, scratch);
    assert!(done(ask(&running, Request::Drain { detach: true, force: false })).contains("serving ends"));
    let (summary, scratch) = running.wait();
    assert!(summary.clean);
    let home = std::fs::read(scratch.path("ssd")).unwrap();
    for at in 0..200usize {
        assert_eq!(home[at * 8192], at as u8, "a plain disk has it");
    }
}

/// After a cache is detached, home alone serves, and has the newest content after the server's end.
#[test]
fn detached_cache_leaves_home_serving_alone() {
    let running = serve(CACHE);
    let mut disk = running.connect();
    (0..100).for_each(|at| disk.write(at * 8192, &[at as u8; 4096]));
    assert!(done(ask(&running, Request::Detach {})).contains("is detached"));
    (0..100).for_each(|at| assert_eq!(disk.read(at * 8192, 4096), [at as u8; 4096]));
    disk.write(0, &[42; 4096]);
    let now = status(&running);
    assert_eq!((now.state.as_str(), now.dirty_bytes, now.members[0].state.as_str()), ("degraded", Some(0), "failed"));
    assert!(now.meaning.contains("bimetal attach"), "{}", now.meaning);
    assert!(done(ask(&running, Request::Detach {})).contains("missing already"));
    let (_, scratch) = running.stop();
    let home = std::fs::read(scratch.path("hdd")).unwrap();
    assert_eq!((home[0], home[8192]), (42, 1));
}

/// Regression: a drain that stops serving took the device from under a mounted file system. Clients
/// got ENOTCONN, and the file system's next sync got EIO.
#[test]
fn drain_with_detach_is_refused_while_clients_are_connected() {
    let running = serve(CACHE);
    let mut disks = [running.connect(), running.connect()];
    disks[0].write(0, &[1; 4096]);
    let detach = |force| Request::Drain { detach: true, force };
    let message = error(ask(&running, detach(false)));
    assert!(message.contains("2 clients are connected to 'disk'") && message.contains("--force"), "{message}");
    let message = error(ask(&running, Request::Stop { force: false }));
    assert!(message.contains("2 clients are connected"), "{message}");
    // Nothing has changed for the clients, and a drain that continues serving does not disturb
    // them.
    assert!(done(ask(&running, Request::Drain { detach: false, force: false })).contains("home has everything"));
    disks[1].write(8192, &[2; 4096]);
    let [first, second] = disks;
    drop(first);
    let message = error(ask(&running, detach(false)));
    assert!(message.contains("1 client is connected"), "{message}");
    drop(second);
    assert!(done(ask(&running, detach(false))).contains("serving ends"));
    let (summary, scratch) = running.wait();
    assert!(summary.clean && summary.drained);

    let running = serve_again(CACHE, scratch);
    let mut disk = running.connect();
    disk.write(16384, &[3; 4096]);
    assert!(done(ask(&running, detach(true))).contains("serving ends"));
    let (_, scratch) = running.wait();
    let home = std::fs::read(scratch.path("hdd")).unwrap();
    assert_eq!((home[0], home[8192], home[16384]), (1, 2, 3));
}

#[test]
fn what_has_no_cache_has_nothing_to_let_go_and_drains_at_once() {
    let plan = Plan { scheme: "ssd-only", settings: &[], ssd_mib: 16, hdd_mib: 0, engine: Engine::Auto };
    let running = serve(plan);
    assert!(error(ask(&running, Request::Detach {})).contains("no drive of this volume can be detached"));
    assert!(done(ask(&running, Request::Drain { detach: false, force: false })).contains("home has everything"));
    running.stop();
}

/// A line of nonsense is answered with an error. A client that never ends a line is disconnected.
#[test]
fn nonsense_gets_an_error_and_an_endless_line_is_cut_off() {
    let running = serve(CACHE);
    let mut socket = UnixStream::connect(running.scratch.path("control.sock")).unwrap();
    socket.write_all(b"nonsense\n{\"request\":\"status\"}\n").unwrap();
    let mut lines = BufReader::new(socket.try_clone().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("'nonsense' is not a request"));
    assert!(lines.next().unwrap().unwrap().contains("\"reply\":\"status\""));
    // The server closes the connection before it has read all bytes.
    let _ = socket.write_all(&[b'x'; 1 << 20]);
    let mut rest = String::new();
    let _ = BufReader::new(socket).read_to_string(&mut rest);
    assert_eq!(status(&running).state, "serving");
    running.stop();
}

/// A drain that cannot write to home reports the reason. The volume stays attached and readable,
/// and a later drain succeeds.
#[test]
fn drain_with_a_failing_home_reports_the_error() {
    for plan in [CACHE, GRIFFIN] {
        let on = Arc::new(AtomicBool::new(false));
        let home = usize::from(plan.scheme != "griffin");
        let scratch = Scratch::new();
        let (volume, mut drives) = common::volume(plan, &scratch, true);
        let inner = drives.remove(home);
        let switch = Arc::clone(&on);
        let fails = move |operation: &Operation<Buffers>| {
            let is_home = operation.command.range.start.bytes() < Bytes::from_mib(1);
            switch.load(Ordering::SeqCst) && operation.command.kind == OpKind::Write && is_home
        };
        drives.insert(home, Box::new(Failing::new(inner, fails)));
        let running = common::start_with(plan, scratch, volume, drives);
        let mut disk = running.connect();
        (0..40).for_each(|at| disk.write(at * 8192, &[at as u8 + 1; 4096]));
        disk.flush();
        on.store(true, Ordering::SeqCst);
        let Reply::No { message } = ask(&running, Request::Drain { detach: true, force: true }) else {
            panic!("the request was right, and the answer is no");
        };
        assert!(message.contains("163840 bytes are still off home"), "{message}");
        let member = if home == 0 { "ssd" } else { "hdd" };
        assert!(message.contains(&format!("{member}: a write at byte ")), "{message}");
        let now = status(&running);
        assert_eq!((now.state.as_str(), now.dirty_bytes), ("degraded", Some(40 * 4096)), "{}", plan.scheme);
        assert!(now.meaning.contains(&format!("{member} cannot be written")), "{}", now.meaning);
        assert!(now.members[home].errors.unwrap() > 0 && now.members[home].last_error.is_some());
        (0..40).for_each(|at| assert_eq!(disk.read(at * 8192, 4096), [at as u8 + 1; 4096]));
        disk.write(0, &[99; 4096]);
        on.store(false, Ordering::SeqCst);
        assert!(done(ask(&running, Request::Drain { detach: false, force: false })).contains("home has everything"));
        assert_eq!(disk.read(0, 4096), [99; 4096]);
        running.stop();
    }
}
