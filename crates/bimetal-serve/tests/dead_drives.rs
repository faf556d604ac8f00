//! Drives that fail every operation: the server's operations on them, its status, and the data
//! after the drives recover.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bimetal_device::drive::Engine;
use bimetal_serve::control::client::Client;
use bimetal_serve::control::message::{Reply, Request};
use bimetal_volumes::status::Status;
use common::failing::Failing;
use common::{Disk, Plan, Running, Scratch};

struct Case {
    running: Running,
    is_dead: Arc<AtomicBool>,
    failed: Arc<AtomicU64>,
}

/// Serves a volume whose member with this number can fail.
fn serve(plan: Plan, member: usize) -> Case {
    let scratch = Scratch::new();
    let (volume, mut drives) = common::volume(plan, &scratch, true);
    let (is_dead, failed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let inner = drives.remove(member);
    let (switch, count) = (Arc::clone(&is_dead), Arc::clone(&failed));
    let dying = Failing::new(inner, move |_| {
        let fails = switch.load(Ordering::SeqCst);
        count.fetch_add(u64::from(fails), Ordering::SeqCst);
        fails
    });
    drives.insert(member, Box::new(dying));
    Case { running: common::start_with(plan, scratch, volume, drives), is_dead, failed }
}

impl Case {
    /// Returns the number of failed operations in each of `seconds` seconds, while `client` runs
    /// every 50 ms.
    fn failures(&self, seconds: usize, mut client: impl FnMut()) -> Vec<u64> {
        let second = |_| {
            let before = self.failed.load(Ordering::SeqCst);
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(1) {
                client();
                std::thread::sleep(Duration::from_millis(50));
            }
            self.failed.load(Ordering::SeqCst) - before
        };
        (0..seconds).map(second).collect()
    }

    fn status(&self) -> Status {
        let mut client = Client::connect(&self.running.scratch.path("control.sock")).unwrap().unwrap();
        match client.ask(&Request::Status {}, |_| {}).unwrap() {
            Reply::Status { status } => *status,
            other => panic!("{other:?}"),
        }
    }
}

fn plan(scheme: &'static str) -> Plan {
    let settings: &[_] = if scheme == "griffin" { &[("timeout", "1s")] } else { &[] };
    Plan { scheme, settings, ssd_mib: 64, hdd_mib: 64, engine: Engine::Auto }
}

fn fill(disk: &mut Disk) {
    (0..3000).for_each(|at| disk.write(at * 8192, &[(at % 250) as u8 + 1; 4096]));
    disk.flush();
}

/// Regression: a dead SSD got thousands of operations a second for as long as it was dead, and
/// `status` reported that it "is read on". The cache of hybrid-disk failed 3,220 operations a
/// second while a client sent 40 requests. The log of griffin failed 15,417 operations a second
/// without a client.
fn is_asked_once_a_second(scheme: &'static str, member: usize, needed: bool) {
    let case = serve(plan(scheme), member);
    let mut disk = case.running.connect();
    fill(&mut disk);
    case.is_dead.store(true, Ordering::SeqCst);
    // The server gets a second to notice that the drive fails.
    case.failures(1, || drop((disk.ask(1, 4096, 4096, &[9; 4096]), disk.ask(3, 0, 0, &[]))));
    case.failures(2, || {});
    let idle = case.failures(5, || {});
    println!("{scheme}, member {member}: failing operations a second {idle:?}");
    // A migration that is under way when the drive dies writes a few runs of blocks at once, and
    // tries them again once a second.
    assert!(idle.iter().sum::<u64>() <= 40, "{scheme}, member {member}: {idle:?}");
    let mut asked = 0;
    let busy = case.failures(4, || {
        asked += 2;
        let _ = disk.ask(1, 4096 + 8192 * (asked % 2048), 4096, &[9; 4096]);
        let _ = disk.ask(3, 0, 0, &[]);
    });
    println!("{scheme}, member {member}: while {asked} requests come {busy:?}");
    assert!(busy.iter().sum::<u64>() <= 3 * asked + 6, "{scheme}, member {member}: {busy:?}");
    let status = case.status();
    assert_eq!(status.state, "degraded", "{scheme}");
    assert!(!status.meaning.contains("are being written back"), "{}", status.meaning);
    assert!(!needed || status.meaning.contains("cannot be read"), "{}", status.meaning);

    // Once the drive works again, all data is readable, and refused writes are written back.
    case.is_dead.store(false, Ordering::SeqCst);
    for at in 0..3000 {
        let begun = Instant::now();
        let expected = vec![(at % 250) as u8 + 1; 4096];
        assert_eq!(disk.ask(0, at * 8192, 4096, &[]), Ok(expected), "{scheme}, member {member}: block {at}");
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    let begun = Instant::now();
    while needed && case.status().dirty_bytes != Some(0) {
        assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", case.status());
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(disk);
    drop(case.running.stop_at_once());
}

#[test]
fn dead_cache_is_asked_once_a_second() {
    is_asked_once_a_second("hybrid-disk", 0, true);
}

#[test]
fn dead_log_is_asked_once_a_second() {
    is_asked_once_a_second("griffin", 1, true);
}

#[test]
fn dead_home_is_asked_once_a_second() {
    is_asked_once_a_second("griffin", 0, false);
}
