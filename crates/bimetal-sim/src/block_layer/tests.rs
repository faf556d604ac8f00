//! Tests of the block layer alone: the requests that a drive receives, and their order.

use super::*;

struct Bench {
    layer: BlockLayer,
    now: Nanoseconds,
    queued: u64,
    issued: u64,
}

impl Bench {
    fn new(scheduler: Scheduler, max_sectors: u64, queue_depth: u32) -> Self {
        let settings = BlockLayerSettings { max_sectors, scheduler, queue_depth };
        Self { layer: BlockLayer::new(settings), now: Nanoseconds::ZERO, queued: 0, issued: 0 }
    }

    fn arrive(&mut self, kind: OpKind, start: u64, sectors: u64, more: bool) {
        self.queued += 1;
        let range = SectorRange::new(start, sectors);
        let request = Request { arrival: self.now, device: 0, kind, fua: false, range, response: None };
        self.layer.arrive(self.now, self.queued, &request, more);
    }

    fn dispatch(&mut self) -> Option<(OpKind, u64, u64)> {
        let (_, command) = self.layer.dispatch(self.now, self.issued + 1)?;
        self.issued += 1;
        Some((command.kind, command.range.start.0, command.range.len.0))
    }

    /// Returns start and sectors of all requests that are dispatched now.
    fn all(&mut self) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| self.dispatch()).map(|(_, start, sectors)| (start, sectors)).collect()
    }

    fn complete(&mut self, number: u64) -> Vec<u64> {
        let mut done = Vec::new();
        assert!(self.layer.complete(self.now, number, Status::Done, |number, _| done.push(number)));
        done
    }
}

#[test]
fn plugged_requests_that_are_adjacent_become_one() {
    for scheduler in [Scheduler::MqDeadline, Scheduler::None] {
        let mut bench = Bench::new(scheduler, 2560, 32);
        bench.arrive(OpKind::Write, 100, 8, true);
        bench.arrive(OpKind::Write, 108, 8, true);
        assert!(bench.all().is_empty(), "nothing goes out while the task goes on");
        bench.arrive(OpKind::Write, 92, 8, false);
        assert_eq!(bench.all(), [(92, 24)], "{scheduler}");
        assert_eq!(bench.complete(1), [1, 2, 3], "all end with the one that carries them");
    }
}

#[test]
fn lone_requests_go_out_at_once_and_are_not_merged_later() {
    let mut bench = Bench::new(Scheduler::MqDeadline, 2560, 32);
    bench.arrive(OpKind::Read, 0, 8, false);
    assert_eq!(bench.all(), [(0, 8)]);
    bench.arrive(OpKind::Read, 8, 8, false);
    assert_eq!(bench.all(), [(8, 8)]);
}

#[test]
fn requests_merge_while_they_wait_for_a_place_on_the_drive() {
    let mut bench = Bench::new(Scheduler::MqDeadline, 2560, 1);
    bench.arrive(OpKind::Read, 1000, 8, false);
    assert_eq!(bench.all(), [(1000, 8)]);
    for start in [16, 0, 8] {
        bench.arrive(OpKind::Read, start, 8, false);
    }
    assert!(bench.all().is_empty());
    assert_eq!(bench.complete(1), [1]);
    assert_eq!(bench.all(), [(0, 24)], "the last one closes the gap between the others");
    assert_eq!(bench.complete(2).len(), 3);
}

#[test]
fn different_kinds_and_forced_writes_stay_apart() {
    let mut bench = Bench::new(Scheduler::None, 2560, 32);
    bench.arrive(OpKind::Write, 0, 8, true);
    bench.arrive(OpKind::Read, 8, 8, true);
    bench.arrive(OpKind::Discard, 16, 8, true);
    bench.arrive(OpKind::Discard, 24, 8, false);
    assert_eq!(bench.all(), [(0, 8), (8, 8), (16, 8), (24, 8)]);
}

#[test]
fn long_requests_are_split_and_end_with_their_last_piece() {
    let mut bench = Bench::new(Scheduler::MqDeadline, 1024, 32);
    bench.arrive(OpKind::Write, 0, 2500, false);
    assert_eq!(bench.all(), [(0, 1024), (1024, 1024), (2048, 452)]);
    assert!(bench.complete(2).is_empty());
    assert!(bench.complete(1).is_empty());
    assert_eq!(bench.complete(3), [1]);
}

#[test]
fn merged_requests_are_no_longer_than_the_drive_takes() {
    let mut bench = Bench::new(Scheduler::MqDeadline, 16, 32);
    (0..5).for_each(|at| bench.arrive(OpKind::Write, at * 8, 8, at < 4));
    assert_eq!(bench.all(), [(0, 16), (16, 16), (32, 8)]);
}

/// Reads are dispatched before writes, each in order of address from the end of the last request.
/// Two batches of reads precede one batch of writes.
#[test]
fn deadline_sorts_and_lets_writes_starve_twice() {
    let mut bench = Bench::new(Scheduler::MqDeadline, 2560, 1);
    bench.arrive(OpKind::Read, 500, 1, false);
    assert_eq!(bench.dispatch(), Some((OpKind::Read, 500, 1)));
    for start in [900, 100, 700] {
        bench.arrive(OpKind::Read, start, 1, false);
        bench.arrive(OpKind::Write, start + 50, 1, false);
    }
    let mut order = Vec::new();
    for number in 1..=6 {
        bench.complete(number);
        let (kind, start, _) = bench.dispatch().unwrap();
        order.push((kind == OpKind::Write, start));
    }
    let expected = [(false, 700), (false, 900), (false, 100), (true, 150), (true, 750), (true, 950)];
    assert_eq!(order, expected);
}

#[test]
fn deadline_serves_an_expired_read_out_of_order() {
    let mut bench = Bench::new(Scheduler::MqDeadline, 2560, 1);
    bench.arrive(OpKind::Read, 500, 1, false);
    bench.dispatch().unwrap();
    bench.arrive(OpKind::Read, 100, 1, false);
    bench.now = Nanoseconds::from_millis(600);
    (0..20).for_each(|at| bench.arrive(OpKind::Read, 600 + 10 * at, 1, false));
    bench.complete(1);
    // The batch under way is completed first.
    let served: Vec<u64> = (2..=18)
        .map(|number| {
            let (_, start, _) = bench.dispatch().unwrap();
            bench.complete(number);
            start
        })
        .collect();
    assert_eq!(served.iter().position(|&start| start == 100), Some(15));
}

#[test]
fn flushes_go_ahead_of_what_waits() {
    let mut bench = Bench::new(Scheduler::MqDeadline, 2560, 1);
    bench.arrive(OpKind::Write, 0, 8, false);
    bench.dispatch().unwrap();
    bench.arrive(OpKind::Write, 80, 8, false);
    bench.arrive(OpKind::Flush, 0, 0, false);
    bench.complete(1);
    assert_eq!(bench.dispatch().unwrap().0, OpKind::Flush);
}
