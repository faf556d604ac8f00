//! A server that ends, cleanly or not, and the next server over the same drives.

mod common;

use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;

use bimetal_device::drive::Engine;
use common::{Plan, Scratch, has, run, serve, serve_again};

const PLANS: [Plan; 4] = [
    Plan { scheme: "ssd-only", settings: &[], ssd_mib: 32, hdd_mib: 0, engine: Engine::Auto },
    Plan {
        scheme: "smart-response",
        settings: &[("mode", "maximized")],
        ssd_mib: 16,
        hdd_mib: 32,
        engine: Engine::Auto,
    },
    Plan { scheme: "hybrid-disk", settings: &[], ssd_mib: 16, hdd_mib: 32, engine: Engine::Pool },
    Plan { scheme: "griffin", settings: &[], ssd_mib: 32, hdd_mib: 16, engine: Engine::Auto },
];

fn qemu_io(uri: &str, lines: &[&str]) {
    let mut arguments = vec!["-f", "raw", "-t", "none"];
    lines.iter().for_each(|line| arguments.extend(["-c", line]));
    arguments.push(uri);
    let out = run("qemu-io", &arguments);
    assert!(!out.contains("verification failed"), "{out}");
}

#[test]
fn what_was_written_is_there_after_a_restart_under_every_scheme() {
    if !has(&["qemu-io"]) {
        return;
    }
    for plan in PLANS {
        let running = serve(plan);
        qemu_io(&running.uri, &["write -P 0x21 0 256k", "write -P 0x22 5M 512", "write -P 0x23 6M 3M"]);
        let (summary, scratch) = running.stop();
        assert!(summary.clean);
        let running = serve_again(plan, scratch);
        qemu_io(&running.uri, &["read -P 0x21 0 256k", "read -P 0x22 5M 512", "read -P 0x23 6M 3M"]);
        qemu_io(&running.uri, &["write -P 0x24 64k 64k", "flush"]);
        // The server is not asked to make data stable: flushed writes are stable already.
        let scratch = running.stop_at_once();
        let running = serve_again(plan, scratch);
        qemu_io(&running.uri, &["read -P 0x21 0 64k", "read -P 0x24 64k 64k", "read -P 0x21 128k 128k"]);
        running.stop();
    }
}

#[test]
fn stopping_removes_the_socket_and_answers_what_was_asked() {
    let running = serve(PLANS[0]);
    let socket = running.scratch.path("nbd.sock");
    let mut client = UnixStream::connect(&socket).unwrap();
    let mut greeting = [0; 18];
    client.read_exact(&mut greeting).unwrap();
    let (summary, _scratch): (_, Scratch) = running.stop();
    assert!(summary.clean);
    assert!(!fs::exists(&socket).unwrap());
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0, "the connection is closed");
}
