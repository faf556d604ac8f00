//! The tester's clock: calls of the volume at its timers, and time without requests.

use bimetal_core::units::Nanoseconds;

use super::Tester;
use crate::drive::Drive;

/// Largest number of operations that moves may start after the last request has finished. After
/// this largest number of operations the case ends.
const IDLE_OPERATIONS_MAX: u64 = 3000;
/// Largest number of timers that fire while all drives are idle, before the tester goes on.
const IDLE_TIMERS_MAX: u32 = 100;
/// Longest delay of a timer.
const PATIENCE_MAX: Nanoseconds = Nanoseconds::from_seconds(10);

impl Tester {
    pub(super) fn call_at_timer(&mut self, timer: Nanoseconds) {
        self.now = timer;
        self.volume.advance(self.now);
        self.patience = Nanoseconds((2 * self.patience.0 + 1).min(PATIENCE_MAX.0));
    }

    /// Returns the time at which the volume's timer fires. If the volume was called early many
    /// times in a row, the tester delays the next call.
    pub(super) fn timeout(&self) -> Option<Nanoseconds> {
        let timeout = self.volume.next_timeout()?;
        Some(timeout.max(self.now + self.patience))
    }

    /// Lets time pass without requests. A timer that fires for ever is not waited for.
    pub(super) fn idle(&mut self) -> Result<(), String> {
        let before = self.report.operations;
        self.patience = Nanoseconds::ZERO;
        for _ in 0..IDLE_TIMERS_MAX {
            while !self.is_cut()
                && self.drives.iter().any(|drive| drive.busy() > 0)
                && self.report.operations < before + IDLE_OPERATIONS_MAX
            {
                let due = self.now.max(self.drives.iter().filter_map(Drive::next_due).min().unwrap_or(self.now));
                match self.timeout().filter(|&at| at < due) {
                    Some(timer) => self.call_at_timer(timer),
                    None => {
                        self.now = due;
                        self.volume.advance(self.now);
                        self.answer();
                    }
                }
                self.after_event()?;
            }
            let Some(timeout) = self.volume.next_timeout().filter(|_| !self.is_cut()) else { break };
            self.now = self.now.max(timeout);
            self.volume.advance(self.now);
            self.after_event()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use bimetal_core::block::BlockSize;
    use bimetal_core::layout::{MemberInfo, Role};
    use bimetal_core::operation::OpKind;
    use bimetal_core::scheme::{Holds, Scheme, SchemeInfo, View, Work};
    use bimetal_core::schemes;
    use bimetal_core::settings::Settings;
    use bimetal_core::units::{SectorRange, Sectors};
    use bimetal_core::volume::Volume;

    use super::super::Options;
    use super::super::crash::Power;
    use super::*;
    use crate::case::{Arrival, Case, Faults, Scale, Setup, Workload};
    use crate::drive::Plan;
    use crate::random::Random;

    const SECOND: Nanoseconds = Nanoseconds::from_seconds(1);

    thread_local! {
        /// Times of the alarms to come, in order.
        static ALARMS: RefCell<Vec<Nanoseconds>> = const { RefCell::new(Vec::new()) };
        /// Time from a call to the next alarm, if alarms never end.
        static EVERY: Cell<Option<Nanoseconds>> = const { Cell::new(None) };
        /// Calls at alarms: the time, and true if the drive was working for a request.
        static CALLS: RefCell<Vec<(Nanoseconds, bool)>> = const { RefCell::new(Vec::new()) };
    }

    /// The disk alone, with alarms. The volume must be called at each alarm.
    static ALARM: SchemeInfo = SchemeInfo {
        name: "alarm",
        summary: "the disk alone, with alarms",
        source: "this test",
        members: &[(Role::Hdd, Holds::Home)],
        parameters: &[],
        worst_crash: "",
        ssd_loss: "",
        hdd_loss: "",
        bypass: &[],
        memory_bytes_per_block: 0.0,
        takes_only_what_is_accessed: false,
        linux_counterpart: |_| None,
        layout: |_, request| Ok(request.concatenated(&[request.only(Role::Hdd)?])?),
        build: |_, _| Ok(Box::new(Alarm)),
    };

    struct Alarm;

    impl Scheme for Alarm {
        fn next_timeout(&self, _: &View) -> Option<Nanoseconds> {
            ALARMS.with_borrow(|alarms| alarms.first().copied())
        }

        fn work(&mut self, view: &View) -> Work {
            ALARMS.with_borrow_mut(|alarms| {
                alarms.retain(|&at| at > view.now);
                alarms.extend(EVERY.get().map(|every| view.now + every));
            });
            CALLS.with_borrow_mut(|calls| calls.push((view.now, view.members[0].foreground > 0)));
            Work::Nothing
        }
    }

    fn times(count: u64, time: Nanoseconds) -> Nanoseconds {
        Nanoseconds(count * time.0)
    }

    /// Returns the tester of a volume whose drives work for around `latency` at a time.
    fn tester(scheme: &'static SchemeInfo, settings: &[(&str, &str)], latency: Nanoseconds) -> Tester {
        let mut random = Random::new(1);
        let settings = Settings::new(scheme.name, scheme.parameters, settings.iter().copied()).unwrap();
        let member = |&(role, _): &(Role, Holds)| MemberInfo { role, capacity: Sectors(40_000) };
        let members: Vec<MemberInfo> = scheme.members.iter().map(member).collect();
        let block = BlockSize::default();
        let setup = Setup { scheme, settings, block, members, units: Vec::new(), records_until_commit: None };
        let volume = Volume::new(&setup.config()).unwrap();
        let drives = setup.members.len();
        let mut workload = Workload::draw(&volume, Scale::Small, &mut random);
        workload.left = 0;
        let case = Case {
            description: String::new(),
            workload,
            setup,
            volume,
            capacities: vec![40_000; drives],
            plans: vec![Plan::default(); drives],
            latencies: vec![latency; drives],
            faults: Faults { decay: 0, vanishes: None },
            refuses: false,
            refuses_alone: None,
        };
        Tester::new(case, random, Options::default())
    }

    fn write(tester: &mut Tester, block: u64) {
        let range = SectorRange::new(8 * block, 8);
        tester.submit(Arrival { unit: 0, kind: OpKind::Write, range, fua: false, flat: Some(range) });
    }

    /// Returns the tester of a disk alone that works for a write, and the end of the write.
    fn busy(latency: Nanoseconds) -> (Tester, Nanoseconds) {
        let mut tester = tester(&ALARM, &[], latency);
        write(&mut tester, 0);
        tester.after_event().unwrap();
        let due = tester.drives[0].next_due().unwrap();
        (tester, due)
    }

    /// Regression: while a drive was stuck, the volume was not called at its timers.
    #[test]
    fn timer_fires_while_a_drive_works() {
        let (mut tester, due) = busy(SECOND);
        let (early, late) = (Nanoseconds(due.0 / 2), times(2, due));
        ALARMS.set(vec![early, due, late]);
        // The patience of earlier calls does not count.
        tester.patience = PATIENCE_MAX;
        tester.idle().unwrap();
        assert_eq!(CALLS.take(), [(early, true), (due, true), (late, false)]);
        assert_eq!((tester.now, tester.report.operations, tester.open.len()), (late, 1, 0));
        // A timer that fires at the end of an operation is no early call.
        assert_eq!(tester.patience, Nanoseconds(1));
    }

    /// Each call without an operation doubles the time until the next call, up to a bound.
    #[test]
    fn timer_that_fires_for_ever_fires_ever_later() {
        let (mut tester, due) = busy(times(60, SECOND));
        ALARMS.set(vec![Nanoseconds(1)]);
        EVERY.set(Some(Nanoseconds(1)));
        while tester.timeout().is_some_and(|at| at < due) {
            let timer = tester.timeout().unwrap();
            tester.call_at_timer(timer);
            tester.after_event().unwrap();
        }
        let times: Vec<u64> = CALLS.take().iter().map(|(at, _)| at.0).collect();
        assert_eq!(times[..5], [1, 2, 5, 12, 27]);
        let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert_eq!(longest, Some(PATIENCE_MAX.0));
    }

    #[test]
    fn idle_time_ends_in_spite_of_a_timer_that_fires_for_ever() {
        let mut tester = tester(&ALARM, &[], SECOND);
        tester.idle().unwrap();
        assert_eq!((CALLS.take(), tester.now), (Vec::new(), Nanoseconds::ZERO), "no timer");
        ALARMS.set(vec![SECOND]);
        EVERY.set(Some(SECOND));
        tester.idle().unwrap();
        let every_second: Vec<_> = (1..=100).map(|second| (times(second, SECOND), false)).collect();
        assert_eq!((CALLS.take(), tester.now), (every_second, times(100, SECOND)));
    }

    /// Timers and operations may be due before the idle time begins. The clock does not go back.
    #[test]
    fn late_timers_and_operations_are_handled_now() {
        let (mut tester, due) = busy(SECOND);
        tester.now = times(2, due);
        ALARMS.set(vec![Nanoseconds(due.0 / 2)]);
        tester.idle().unwrap();
        assert_eq!(
            (CALLS.take(), tester.now, tester.report.operations),
            (vec![(times(2, due), true)], times(2, due), 1)
        );
        tester.now = times(4, due);
        ALARMS.set(vec![times(3, due)]);
        tester.idle().unwrap();
        assert_eq!((CALLS.take(), tester.now), (vec![(times(4, due), false)], times(4, due)));
        write(&mut tester, 0);
        tester.after_event().unwrap();
        let due = tester.drives[0].next_due().unwrap();
        tester.now = due + SECOND;
        let timer = tester.now - Nanoseconds(1);
        ALARMS.set(vec![timer]);
        assert_eq!(tester.timeout(), Some(tester.now), "a late timer fires now");
    }

    /// Moves that never end would keep the drives busy for ever.
    #[test]
    fn idle_time_ends_after_a_number_of_operations() {
        let mut tester = tester(&ALARM, &[], SECOND);
        tester.report.operations = 500;
        (0..3200).for_each(|block| write(&mut tester, block));
        tester.after_event().unwrap();
        tester.idle().unwrap();
        assert_eq!(tester.report.operations, 3500);
        assert!(tester.drives[0].busy() > 0);
    }

    #[test]
    fn nothing_happens_after_a_power_cut() {
        let (mut tester, due) = busy(SECOND);
        ALARMS.set(vec![Nanoseconds(due.0 / 2)]);
        tester.power = Some(Power::default());
        tester.power().cut = true;
        tester.idle().unwrap();
        assert_eq!((CALLS.take(), tester.now, tester.report.operations), (Vec::new(), Nanoseconds::ZERO, 0));
    }

    /// The drives get the operations that a timer starts, and those that follow from their answers.
    #[test]
    fn moves_of_idle_time_run_to_their_end() {
        let scheme = schemes::find("smart-response").unwrap();
        let mut tester = tester(scheme, &[("mode", "maximized"), ("idle", "5s")], Nanoseconds::from_millis(1));
        write(&mut tester, 0);
        tester.after_event().unwrap();
        tester.idle().unwrap();
        assert_eq!((tester.open.len(), tester.volume.view().map.dirty_blocks()), (0, 0));
        assert!(tester.drives.iter().all(|drive| drive.busy() == 0));
        assert!(tester.now > times(5, SECOND), "{}", tester.now);
    }
}
