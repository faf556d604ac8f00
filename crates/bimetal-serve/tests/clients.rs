//! Independent NBD clients against a server over files: under every scheme, they read the data that
//! they wrote.

mod common;

use std::fs;
use std::os::unix::fs::FileExt;

use bimetal_device::drive::Engine;
use common::{Plan, Running, has, noise, run, serve};

const SSD_ONLY: Plan = Plan { scheme: "ssd-only", settings: &[], ssd_mib: 64, hdd_mib: 0, engine: Engine::Auto };

/// Schemes of these tests. Caches are smaller than the written data, and Griffin migrates all the
/// time.
const PLANS: [Plan; 5] = [
    SSD_ONLY,
    Plan { engine: Engine::Pool, ..SSD_ONLY },
    Plan {
        scheme: "smart-response",
        settings: &[("mode", "maximized")],
        ssd_mib: 24,
        hdd_mib: 64,
        engine: Engine::Auto,
    },
    Plan { scheme: "hybrid-disk", settings: &[], ssd_mib: 24, hdd_mib: 64, engine: Engine::Auto },
    Plan { scheme: "griffin", settings: &[("timeout", "100ms")], ssd_mib: 64, hdd_mib: 40, engine: Engine::Auto },
];

fn export_bytes(running: &Running) -> u64 {
    running.handle.snapshot().unwrap().exports[0].1.0
}

/// Stops a server, which must have answered every request without an error.
fn stop_clean(running: Running) {
    let statistics = running.handle.snapshot().unwrap().statistics;
    assert_eq!(statistics.failed, 0);
    let (summary, _) = running.stop();
    assert!(summary.clean);
}

#[test]
fn nbdinfo_sees_what_is_offered() {
    if !has(&["nbdinfo"]) {
        return;
    }
    let running = serve(SSD_ONLY);
    let info: serde_json::Value = serde_json::from_str(&run("nbdinfo", &["--json", &running.uri])).unwrap();
    let export = &info["exports"][0];
    assert_eq!(info["protocol"], "newstyle-fixed");
    assert_eq!(export["export-size"], export_bytes(&running));
    for (key, value) in [("can_flush", true), ("can_fua", true), ("can_trim", true), ("can_zero", true)] {
        assert_eq!(export[key], value, "{key}");
    }
    assert_eq!(export["can_multi_conn"], true);
    assert_eq!(export["can_fast_zero"], false);
    assert_eq!(export["is_read_only"], false);
    assert_eq!(export["block_size_preferred"], 4096);
    assert_eq!(export["contexts"][0], "base:allocation");
    let list = run("nbdinfo", &["--list", &running.uri]);
    assert!(list.contains("disk"), "{list}");
    stop_clean(running);
}

/// Returns offset, length and type of each extent in `nbdinfo --map`.
fn map(running: &Running) -> Vec<(u64, u64, u64)> {
    let map: serde_json::Value = serde_json::from_str(&run("nbdinfo", &["--map", "--json", &running.uri])).unwrap();
    let number = |extent: &serde_json::Value, key: &str| extent[key].as_u64().unwrap();
    let extents = map.as_array().unwrap().iter();
    extents.map(|extent| (number(extent, "offset"), number(extent, "length"), number(extent, "type"))).collect()
}

/// Ranges without stored content are reported as holes under every scheme, also after a discard.
#[test]
fn unwritten_ranges_are_holes_under_every_scheme() {
    if !has(&["nbdinfo", "qemu-img"]) {
        return;
    }
    const HOLE: u64 = 3;
    for plan in PLANS {
        // With a log in use, a discard does not reach home: blocks that a migration has written
        // back would still be stored.
        let settings = if plan.scheme == "griffin" { &[("timeout", "off")] } else { plan.settings };
        let running = serve(Plan { settings, ..plan });
        let bytes = export_bytes(&running);
        assert_eq!(map(&running), [(0, bytes, HOLE)], "{}", plan.scheme);
        let mut disk = running.connect();
        disk.write(4 << 20, &noise(64 << 10, 3));
        disk.write(bytes - 4096, &noise(4096, 4));
        let expected = [
            (0, 4 << 20, HOLE),
            (4 << 20, 64 << 10, 0),
            ((4 << 20) + (64 << 10), bytes - 4096 - (4 << 20) - (64 << 10), HOLE),
            (bytes - 4096, 4096, 0),
        ];
        assert_eq!(map(&running), expected, "{}", plan.scheme);
        disk.flush();
        let told = run("qemu-img", &["map", "--output=json", "-f", "raw", &running.uri]);
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!((&told[0]["zero"], &told[1]["data"]), (&true.into(), &true.into()), "{told}");
        // A discarded range is a hole again.
        disk.ask(4, 4 << 20, 64 << 10, &[]).unwrap();
        disk.flush();
        assert_eq!(map(&running), [(0, bytes - 4096, HOLE), (bytes - 4096, 4096, 0)], "{}", plan.scheme);
        stop_clean(running);
    }
}

#[test]
fn a_copy_there_and_back_is_the_same_under_every_scheme() {
    if !has(&["nbdcopy"]) {
        return;
    }
    for plan in PLANS {
        let running = serve(plan);
        let bytes = export_bytes(&running) as usize;
        let (there, back) = (running.scratch.path("there"), running.scratch.path("back"));
        let content = noise(bytes, 7);
        fs::write(&there, &content).unwrap();
        run("nbdcopy", &["--flush", there.to_str().unwrap(), &running.uri]);
        run("nbdcopy", &[&running.uri, back.to_str().unwrap()]);
        assert!(fs::read(&back).unwrap() == content, "{}: what comes back differs", plan.scheme);
        stop_clean(running);
    }
}

#[test]
fn ssd_only_is_the_plain_drive() {
    if !has(&["nbdcopy"]) {
        return;
    }
    let running = serve(SSD_ONLY);
    let bytes = export_bytes(&running) as usize;
    let there = running.scratch.path("there");
    let content = noise(bytes, 9);
    fs::write(&there, &content).unwrap();
    run("nbdcopy", &["--flush", there.to_str().unwrap(), &running.uri]);
    let (summary, scratch) = running.stop();
    assert!(summary.clean);
    assert!(fs::read(scratch.path("ssd")).unwrap().starts_with(&content));
}

#[test]
fn qemu_io_reads_its_patterns_after_zeroing_and_discarding() {
    if !has(&["qemu-io"]) {
        return;
    }
    for plan in PLANS {
        let running = serve(plan);
        let uri = running.uri.as_str();
        let script = [
            "write -P 0x5a 0 64k",
            "write -P 0x11 512 512",
            "write -f -P 0x77 1M 3k",
            "read -P 0x5a 0 512",
            "read -P 0x11 512 512",
            "read -P 0x5a 1k 63k",
            "read -P 0x77 1M 3k",
            "write -z 4k 8k",
            "read -P 0 4k 8k",
            "write -z 12800 512",
            "read -P 0 12800 512",
            "read -P 0x5a 12288 512",
            "write -P 0x33 2M 1M",
            "discard 2M 512k",
            "read -P 0x33 2560k 512k",
            "flush",
            "read -P 0x5a 16k 48k",
        ];
        let mut arguments = vec!["-f", "raw", "-t", "none"];
        script.iter().for_each(|line| arguments.extend(["-c", line]));
        arguments.push(uri);
        let out = run("qemu-io", &arguments);
        assert!(!out.contains("verification failed"), "{}: {out}", plan.scheme);
        stop_clean(running);
    }
}

#[test]
fn qemu_img_bench_ends() {
    if !has(&["qemu-img"]) {
        return;
    }
    let running = serve(SSD_ONLY);
    for write in [&["-w"][..], &[]] {
        let arguments =
            [&["bench", "-f", "raw", "-c", "2000", "-d", "32", "-s", "4096"], write, &[running.uri.as_str()]];
        run("qemu-img", &arguments.concat());
    }
    stop_clean(running);
}

/// Several jobs at once, each with its own connection and area; their data is verified.
#[test]
fn fio_verifies_what_two_connections_wrote_at_once() {
    if !has(&["fio"]) {
        return;
    }
    for plan in PLANS {
        let running = serve(plan);
        let size = export_bytes(&running) / 2 / (1 << 20);
        let (uri, size) = (format!("--uri={}", running.uri), format!("{size}m"));
        let (limit, offset) = (format!("--size={size}"), format!("--offset_increment={size}"));
        run(
            "fio",
            &[
                "--name=verify",
                "--ioengine=nbd",
                uri.as_str(),
                "--rw=randrw",
                "--bsrange=512-64k",
                "--bs_unaligned=0",
                "--blockalign=512",
                "--iodepth=16",
                "--numjobs=2",
                "--thread",
                limit.as_str(),
                offset.as_str(),
                "--io_size=8m",
                "--verify=crc32c",
                "--verify_state_save=0",
                "--verify_backlog=64",
                "--do_verify=1",
                "--fsync=100",
                "--max_latency=20s",
                "--output-format=terse",
            ],
        );
        stop_clean(running);
    }
}

#[test]
fn griffin_migrates_while_it_serves() {
    if !has(&["qemu-io"]) {
        return;
    }
    let running = serve(PLANS[4]);
    run("qemu-io", &["-f", "raw", "-c", "write -P 0x42 1M 4M", "-c", "flush", running.uri.as_str()]);
    let ssd = fs::File::open(running.scratch.path("ssd")).unwrap();
    let moved = (0..2400).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut byte = [0];
        ssd.read_exact_at(&mut byte, 5 << 20 >> 1).unwrap();
        byte == [0x42]
    });
    assert!(moved, "what was written never came home");
    assert!(running.handle.snapshot().unwrap().statistics.migrations.count >= 1);
    run("qemu-io", &["-f", "raw", "-c", "read -P 0x42 1M 4M", running.uri.as_str()]);
    stop_clean(running);
}
