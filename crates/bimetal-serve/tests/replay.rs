//! Workload issued to a server over emulated drives: every request is answered, in the time of the
//! models.

mod common;

use bimetal_core::block::BlockSize;
use bimetal_core::layout::{LayoutRequest, MemberId, MemberInfo, Role};
use bimetal_core::operation::OpKind;
use bimetal_core::schemes;
use bimetal_core::settings::Settings;
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange};
use bimetal_core::volume::{self, Recovery, VolumeConfig};
use bimetal_device::drive::Drive;
use bimetal_device::drive::emulated::{Emulated, Player, home_of};
use bimetal_device::drive::file::DriveFile;
use bimetal_serve::replay::{Answered, Connection, Issue, ReplayError};
use bimetal_serve::server::{Endpoint, Handle, Server, ServerOptions, Summary};
use bimetal_serve::snapshot::Snapshot;
use bimetal_trace::Request;
use bimetal_volumes::startup;
use common::Scratch;

struct Running {
    handle: Handle,
    endpoint: Endpoint,
    thread: std::thread::JoinHandle<Summary>,
    _scratch: Scratch,
}

/// Serves a volume over two files that emulate drives.
fn serve(scheme: &str, hdd: &str) -> Running {
    let scratch = Scratch::new();
    let scheme = schemes::find(scheme).unwrap();
    let settings = Settings::new(scheme.name, scheme.parameters, []).unwrap();
    let members = [(Role::Ssd, "samsung-970-evo-plus-500gb", 256), (Role::Hdd, hdd, 512)];
    let infos = members.map(|(role, _, mib)| MemberInfo { role, capacity: Bytes::from_mib(mib).sectors() });
    let layout = LayoutRequest { block: BlockSize::default(), members: &infos, units: &[] };
    let config = VolumeConfig { scheme, settings: &settings, layout, identity: 1, drives: &[] };
    let layout = (scheme.layout)(&settings, &config.layout).unwrap();
    let mut drives: Vec<Box<dyn Drive>> = Vec::new();
    for (at, (role, profile, mib)) in members.into_iter().enumerate() {
        let file = DriveFile::open(&scratch.file(role.name(), mib)).unwrap();
        let player = Player::new(profile, []).unwrap();
        drives.push(Box::new(Emulated::new(file, &player, home_of(&layout, MemberId(at as u16))).unwrap()));
    }
    startup::format(volume::format(&config).unwrap(), &mut drives).unwrap();
    let recovery = Recovery::new(&config, &[]).unwrap();
    let volume = startup::recover(recovery, &mut drives, |_, _| {}).unwrap();
    let mut server = Server::new(volume, drives, ServerOptions { signals: false, ..Default::default() }).unwrap();
    let endpoint = Endpoint::Unix(scratch.path("nbd.sock"));
    server.listen(&endpoint).unwrap();
    let handle = server.handle();
    let thread = std::thread::spawn(move || server.run().unwrap());
    Running { handle, endpoint, thread, _scratch: scratch }
}

impl Running {
    fn replay(&self, requests: &[Request], issue: Issue) -> Vec<Answered> {
        let connection = Connection::open(&self.endpoint).unwrap();
        let mut answers = Vec::new();
        let requests = requests.iter().copied().map(Ok::<_, ReplayError>);
        connection.replay(requests, issue, |answer| answers.push(answer)).unwrap();
        answers
    }

    fn stop(self) -> Snapshot {
        let snapshot = self.handle.snapshot().unwrap();
        self.handle.stop().unwrap();
        assert!(self.thread.join().unwrap().clean);
        snapshot
    }
}

/// Returns reads, writes, flushes and discards at random addresses, one each millisecond.
fn requests(count: u64) -> Vec<Request> {
    let mut state = 7u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let kinds =
        [OpKind::Read, OpKind::Write, OpKind::Read, OpKind::Write, OpKind::Read, OpKind::Flush, OpKind::Discard];
    let request = |number: u64| {
        let kind = kinds[random(7) as usize];
        let range = match kind {
            OpKind::Flush => SectorRange::default(),
            _ => SectorRange::new(random(200_000), 1 + random(64)),
        };
        Request { arrival: Nanoseconds::from_millis(number), device: 0, kind, fua: false, range, response: None }
    };
    (0..count).map(request).collect()
}

/// Open and closed replays answer every request. Both emulated drives take part.
#[test]
fn open_and_closed_replays_answer_every_request() {
    for scheme in ["smart-response", "griffin"] {
        let running = serve(scheme, "seagate-barracuda-7200.12-1tb");
        let requests = requests(200);
        for issue in [Issue::Timed { speedup: 4.0 }, Issue::Closed { depth: 1 }, Issue::Closed { depth: 16 }] {
            let answers = running.replay(&requests, issue);
            assert_eq!(answers.len(), requests.len());
            assert!(answers.iter().all(|answer| answer.error == 0));
            for kind in [OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Discard] {
                let asked = requests.iter().filter(|request| request.kind == kind).count();
                assert_eq!(answers.iter().filter(|answer| answer.kind == kind).count(), asked);
            }
        }
        for member in running.stop().members {
            let played = member.emulation.expect("both drives are emulated");
            assert!(played.operations > 0, "{}", played.profile);
            assert_eq!(played.late.len(), played.operations);
        }
    }
}

/// Regression: a trace with a discard of more than 4 GiB, or with a read that is larger than the
/// server takes, ended the replay. Linux cuts such a request, and so does the replay.
#[test]
fn request_larger_than_the_server_takes_is_answered_once() {
    let running = serve("smart-response", "seagate-barracuda-7200.12-1tb");
    let connection = Connection::open(&running.endpoint).unwrap();
    let mib = |mib: u64| Bytes::from_mib(mib).sectors().0;
    assert!(u64::from(connection.offer().request_bytes_max) < 100 << 20);
    drop(connection);
    let request = |kind, start, sectors| Request {
        arrival: Nanoseconds::ZERO,
        device: 0,
        kind,
        fua: false,
        range: SectorRange::new(start, sectors),
        response: None,
    };
    let requests = [
        request(OpKind::Write, 3, mib(100)),
        request(OpKind::Flush, 0, 0),
        request(OpKind::Read, 3, mib(100)),
        request(OpKind::Discard, 0, mib(300)),
    ];
    let answers = running.replay(&requests, Issue::Closed { depth: 1 });
    let told: Vec<_> = answers.iter().map(|answer| (answer.kind, answer.error, answer.bytes >> 20)).collect();
    let [write, flush, read, discard] = [OpKind::Write, OpKind::Flush, OpKind::Read, OpKind::Discard];
    assert_eq!(told, [(write, 0, 100), (flush, 0, 0), (read, 0, 100), (discard, 0, 0)]);
    let snapshot = running.stop();
    let written: u64 = snapshot.members.iter().map(|member| member.write_bytes.0).sum();
    assert!(written >= 100 << 20, "{written} bytes");
}

/// A slow drive has long response times. In an open replay response times count from the time at
/// which a request was due.
#[test]
fn response_time_counts_from_the_due_time_of_a_request() {
    // A laptop's disk rotates in 11 ms: half a rotation, and some seek.
    let running = serve("smart-response", "hitachi-travelstar-5k500-500gb");
    let mut reads: Vec<Request> = requests(300).into_iter().filter(|request| request.kind == OpKind::Read).collect();
    reads.truncate(40);
    let alone = running.replay(&reads, Issue::Closed { depth: 1 });
    let mean_ns = alone.iter().map(|answer| answer.response.0).sum::<u64>() / alone.len() as u64;
    assert!(mean_ns >= 3_000_000, "{mean_ns}");
    // All at once: the last request waits for all others, which the drive serves in the order of
    // its head's position.
    reads.iter_mut().for_each(|read| read.range.start.0 += 300_000);
    let together = running.replay(&reads, Issue::Timed { speedup: 1e6 });
    let longest = together.iter().map(|answer| answer.response).max().unwrap();
    assert!(longest >= Nanoseconds::from_millis(60), "{longest:?}");
    running.stop();
}

/// A flood of small requests is answered, however far behind the drives are.
#[test]
fn flood_of_small_requests_is_answered_on_slow_drives() {
    // More requests than the server accepts at once, and than it has room to receive.
    let running = serve("griffin", "seagate-barracuda-7200.12-1tb");
    let requests: Vec<Request> = requests(8000)
        .into_iter()
        .map(|request| Request {
            kind: if request.kind == OpKind::Read { OpKind::Read } else { OpKind::Write },
            ..request
        })
        .map(|request| Request { range: SectorRange::new(request.range.start.0, 8), ..request })
        .collect();
    let answers = running.replay(&requests, Issue::Timed { speedup: 1e6 });
    assert_eq!(answers.len(), requests.len());
    assert!(answers.iter().all(|answer| answer.error == 0));
    running.stop();
}

#[test]
fn where_nobody_serves_the_message_says_so() {
    let endpoint = Endpoint::Unix("nowhere/nbd.sock".into());
    let error = Connection::open(&endpoint).err().unwrap().to_string();
    assert!(error.contains("cannot connect to unix:nowhere/nbd.sock") && error.contains("bimetal serve"), "{error}");
}
