//! No scheme is faster than the places that hold its content: memory, and each drive's own model,
//! alone and idle.

use std::sync::{Arc, Mutex};

use bimetal_core::block::BlockSize;
use bimetal_core::operation::{Command, OpKind, Token};
use bimetal_core::scheme::SchemeInfo;
use bimetal_core::schemes;
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange, Sectors};
use bimetal_measure::response_time::ResponseTimes;
use bimetal_models::flash::Precondition;
use bimetal_models::profile::Profile;
use bimetal_models::{DeviceModel, DeviceStatistics, Finished, Wear};
use bimetal_sim::setup::{Choices, DriveChoice, Setup, Size};
use bimetal_sim::simulator::{Play, Replay, simulate};
use bimetal_sim::survey::Survey;
use bimetal_sim::workload::Workload;
use bimetal_trace::Request;
use proptest::prelude::*;

use crate::common::{read, write};

/// Size of the workloads' address space, in blocks of 4 KiB.
const BLOCKS: u64 = 16_384;

/// An operation on a drive, with its duration.
#[derive(Clone, Copy, Debug)]
struct Operation {
    command: Command,
    from: Nanoseconds,
    took: Option<Nanoseconds>,
}

/// A drive that records its operations, in the order of their submission.
struct Watched {
    drive: Box<dyn DeviceModel>,
    operations: Arc<Mutex<Vec<Operation>>>,
    under_way: Vec<(Token, usize)>,
}

impl DeviceModel for Watched {
    fn capacity(&self) -> Sectors {
        self.drive.capacity()
    }

    fn submit(&mut self, now: Nanoseconds, token: Token, command: Command) {
        let mut operations = self.operations.lock().unwrap();
        self.under_way.push((token, operations.len()));
        operations.push(Operation { command, from: now, took: None });
        self.drive.submit(now, token, command);
    }

    fn next_event(&self) -> Option<Nanoseconds> {
        self.drive.next_event()
    }

    fn advance(&mut self, now: Nanoseconds, finished: &mut Vec<Finished>) {
        let before = finished.len();
        self.drive.advance(now, finished);
        let mut operations = self.operations.lock().unwrap();
        for Finished { token, at, .. } in &finished[before..] {
            let place = self.under_way.iter().position(|(of, _)| of == token).expect("an operation under way");
            let operation = &mut operations[self.under_way.swap_remove(place).1];
            operation.took = Some(*at - operation.from);
        }
    }

    fn wear(&self) -> Option<Wear> {
        self.drive.wear()
    }

    fn statistics(&self, now: Nanoseconds) -> DeviceStatistics {
        self.drive.statistics(now)
    }
}

/// The shortest times in which an idle drive reads or writes a range.
trait Fastest {
    fn read(&mut self, range: SectorRange, is_in_its_memory: bool) -> Nanoseconds;
    fn write(&mut self, range: SectorRange) -> Nanoseconds;
}

/// A drive that serves one operation at a time, each long after the operation before.
struct Idle {
    drive: Box<dyn DeviceModel>,
    now: Nanoseconds,
}

impl Idle {
    fn new(drive: Box<dyn DeviceModel>) -> Self {
        Self { drive, now: Nanoseconds::ZERO }
    }

    fn read(&mut self, range: SectorRange) -> Nanoseconds {
        self.serve(OpKind::Read, range)
    }

    /// Returns the duration of an operation.
    fn serve(&mut self, kind: OpKind, range: SectorRange) -> Nanoseconds {
        let from = self.now + Nanoseconds::from_seconds(10);
        let mut finished = Vec::new();
        self.drive.advance(from, &mut finished);
        self.drive.submit(from, Token(1), Command { kind, range, fua: false });
        while finished.is_empty() {
            self.now = self.drive.next_event().expect("an operation ends");
            self.drive.advance(self.now, &mut finished);
        }
        finished[0].at - from
    }
}

/// Three equal flash drives. Of the two that are only read, one was written everywhere before, the
/// other nowhere. The third is only written.
struct Flash {
    written: Idle,
    clean: Idle,
    for_writes: Idle,
}

impl Fastest for Flash {
    fn read(&mut self, range: SectorRange, is_in_its_memory: bool) -> Nanoseconds {
        if is_in_its_memory { self.clean.read(range) } else { self.written.read(range) }
    }

    fn write(&mut self, range: SectorRange) -> Nanoseconds {
        self.for_writes.serve(OpKind::Write, range)
    }
}

/// A disk, which reads 4 and 64 KiB twice; its buffer holds them the second time. The part of a
/// longer read that the buffer holds depends on earlier operations, so a longer read takes at least
/// the time of its transfer from the buffer.
struct Disk(Idle);

impl Disk {
    fn read_buffered(&mut self, start: Sectors, sectors: u64) -> Nanoseconds {
        let range = SectorRange::new(start.0, sectors);
        let first = self.0.read(range);
        first.min(self.0.read(range))
    }
}

impl Fastest for Disk {
    fn read(&mut self, range: SectorRange, _: bool) -> Nanoseconds {
        let (block, long) = (range.len.0.min(8), range.len.0.min(128));
        let least = self.read_buffered(range.start, block);
        if long == block {
            return least;
        }
        // Both times are whole nanoseconds.
        let transfer = self.read_buffered(range.start, long).saturating_sub(least + Nanoseconds(1));
        least + Nanoseconds(transfer.0 * (range.len.0 - block) / (long - block))
    }

    fn write(&mut self, range: SectorRange) -> Nanoseconds {
        self.0.serve(OpKind::Write, range)
    }
}

fn fastest(profile: &Profile, size: Sectors) -> Box<dyn Fastest> {
    let build = |state| {
        let all = SectorRange::new(0, size.0);
        Idle::new(profile.build_preconditioned(Some(size), state, all, 0).expect("a profile makes a drive"))
    };
    match profile.kind() {
        "flash" => Box::new(Flash {
            written: build(Precondition::Sequential),
            clean: build(Precondition::Clean),
            for_writes: build(Precondition::Clean),
        }),
        _ => Box::new(Disk(build(Precondition::Clean))),
    }
}

fn choices(settings: &[(&str, &str)]) -> Choices {
    let settings = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    Choices { settings, ..Choices::default() }
}

/// Sets the SSD to a quarter of the addresses. An SSD that is home has to hold all addresses.
fn small_ssd(scheme: &SchemeInfo, choices: Choices) -> Choices {
    use bimetal_core::scheme::Holds;
    let is_home = scheme.members.iter().any(|(role, holds)| role.name() == "ssd" && *holds == Holds::Home);
    let size = (!is_home).then_some(Size::Bytes(Bytes(BLOCKS * 1024)));
    Choices { ssd: DriveChoice { size, ..DriveChoice::default() }, ..choices }
}

/// Result of a run: the operations of its drives, the shortest times of each drive alone, and the
/// response times.
struct Witnessed {
    drives: Vec<(String, Vec<Operation>, Box<dyn Fastest>)>,
    response: ResponseTimes,
}

fn witness(scheme: &'static SchemeInfo, workload: &Vec<Request>, choices: &Choices, replay: Replay) -> Witnessed {
    let survey = Survey::of(workload, BlockSize::default(), &|_| {}).expect("a workload in memory");
    let mut setup = Setup::new(scheme, choices, &survey).unwrap_or_else(|error| panic!("{error}"));
    let mut drives = Vec::new();
    for drive in &mut setup.drives {
        let operations = Arc::new(Mutex::new(Vec::new()));
        let (watched, under_way) = (operations.clone(), Vec::new());
        let inner = std::mem::replace(&mut drive.model, Box::new(Nothing));
        drive.model = Box::new(Watched { drive: inner, operations: watched, under_way });
        drives.push((drive.id.clone(), operations, fastest(&drive.profile, drive.size.sectors())));
    }
    let play = Play { replay, warmup_requests: 0, block_layer: None };
    let requests = workload.open().expect("a workload in memory");
    let measured = simulate(&mut setup, requests, play, &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    let drives = drives.into_iter().map(|(id, operations, fastest)| {
        let operations = operations.lock().unwrap().clone();
        (id, operations, fastest)
    });
    Witnessed { drives: drives.collect(), response: measured.response.response_times() }
}

/// Placeholder for a drive while its wrapper is made.
struct Nothing;

impl DeviceModel for Nothing {
    fn capacity(&self) -> Sectors {
        Sectors(0)
    }

    fn submit(&mut self, _: Nanoseconds, _: Token, _: Command) {}

    fn next_event(&self) -> Option<Nanoseconds> {
        None
    }

    fn advance(&mut self, _: Nanoseconds, _: &mut Vec<Finished>) {}

    fn statistics(&self, _: Nanoseconds) -> DeviceStatistics {
        unreachable!("nobody asks for the statistics of a drive that is not there")
    }
}

/// Compares each operation of a drive with the same operation of that drive alone and idle. Content
/// that the run wrote may be in the drive's memory.
fn check_operations(scheme: &str, id: &str, operations: &[Operation], fastest: &mut dyn Fastest) {
    let mut written: Vec<SectorRange> = Vec::new();
    for operation in operations {
        let Operation { command, took, .. } = *operation;
        let touches = |other: &SectorRange| other.start < command.range.end() && command.range.start < other.end();
        match (command.kind, took) {
            (OpKind::Write, took) => {
                let least = fastest.write(command.range);
                assert!(took.is_none_or(|took| took >= least), "{scheme}: {operation:?} on the {id}, {least} alone");
                written.push(command.range);
            }
            (OpKind::WriteZeroes, _) => written.push(command.range),
            (OpKind::Read, Some(took)) => {
                let least = fastest.read(command.range, written.iter().any(touches));
                assert!(took >= least, "{scheme}: {operation:?} on the {id} took less than {least} alone");
            }
            _ => {}
        }
    }
}

/// Generates reads and writes of some blocks at random, and a read of the last block, which the
/// drives are to reach.
fn requests() -> impl Strategy<Value = Vec<Request>> {
    let request = (0u64..30, any::<bool>(), 0u64..512, 0..=3u64, 1u64..=16);
    proptest::collection::vec(request, 20..150).prop_map(|steps| {
        let mut at = 0;
        let mut all: Vec<Request> = Vec::new();
        for (pause, writes, place, region, blocks) in steps {
            at += pause;
            let block = region * (BLOCKS / 4) + place;
            all.push(if writes { write(at, block, blocks) } else { read(at, block, blocks) });
        }
        all.push(read(at, BLOCKS - 1, 1));
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Regression: HDDBoost and HyperDuo read ten times as fast as their SSD, because the copies
    /// that they begin with were on no flash.
    #[test]
    fn no_operation_ends_sooner_than_its_drive_alone(workload in requests(), depth in 1u32..8, timed in any::<bool>()) {
        let replay = if timed { Replay::Timed { speedup: 1.0 } } else { Replay::Closed { depth } };
        for scheme in schemes::ALL {
            let witnessed = witness(scheme, &workload, &small_ssd(scheme, choices(&[])), replay);
            for (id, operations, mut fastest) in witnessed.drives {
                check_operations(scheme.name, &id, &operations, fastest.as_mut());
            }
            // A copy of 4 KiB through memory takes 1.9 us.
            let times = witnessed.response;
            let least = [times.read.mean, times.write.mean].into_iter().flatten().fold(f64::MAX, f64::min);
            prop_assert!(least >= 0.0018, "{} serves requests in {least} ms", scheme.name);
        }
    }

    /// A block that was not touched before is in no memory, so a drive has to be read for this
    /// block.
    #[test]
    fn no_first_read_of_a_block_ends_sooner_than_the_fastest_drive(seed in 0u64..BLOCKS, writes in 0u64..64) {
        let touched = (0..96).map(|at| (at * 8, (seed + at * 4099) % (BLOCKS - 1)));
        let workload: Vec<Request> = touched
            .map(|(at, block)| if at / 8 < writes { write(at, block, 1) } else { read(at, block, 1) })
            .chain([read(96 * 8, BLOCKS - 1, 1)])
            .collect();
        for scheme in schemes::ALL {
            let replay = Replay::Timed { speedup: 1.0 };
            let witnessed = witness(scheme, &workload, &small_ssd(scheme, choices(&[])), replay);
            let one = SectorRange::new(0, 8);
            let drives = witnessed.drives.into_iter().map(|(.., mut fastest)| fastest.read(one, false));
            let least = drives.min().expect("a scheme has drives").as_millis_f64();
            let mean = witnessed.response.read.mean.expect("there are reads");
            prop_assert!(mean >= least, "{} reads in {mean} ms, its fastest drive in {least} ms", scheme.name);
        }
    }

    /// The workload has reads only, one at a time. No drive has memory, and all flash was written
    /// before. If no drive has memory and all flash was written, a scheme cannot gain anything over
    /// the fastest drive alone.
    #[test]
    fn no_mean_of_reads_is_below_the_fastest_drive_alone(places in proptest::collection::vec(0..BLOCKS, 30..120)) {
        let mut workload: Vec<Request> = places.into_iter().map(|block| read(0, block, 1)).collect();
        workload.push(read(0, BLOCKS - 1, 1));
        let no_memory = [("ssd.write_buffer", "off"), ("hdd.cache", "0"), ("hdd.write_cache", "off"), ("hdd.read_ahead", "0")];
        let choices = Choices { precondition: Some(Precondition::Sequential), ..choices(&no_memory) };
        let mean = |scheme: &'static SchemeInfo| {
            let witnessed = witness(scheme, &workload, &small_ssd(scheme, choices.clone()), Replay::Closed { depth: 1 });
            witnessed.response.read.mean.expect("there are reads")
        };
        let alone = ["ssd-only", "hdd-only"].map(|name| mean(schemes::find(name).expect("a scheme")));
        let fastest = alone[0].min(alone[1]);
        for scheme in schemes::ALL {
            let mean = mean(scheme);
            prop_assert!(mean >= fastest * (1.0 - 1e-9), "{} reads in {mean} ms, a drive in {fastest} ms", scheme.name);
        }
    }
}
