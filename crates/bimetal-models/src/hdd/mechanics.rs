//! Arm and spindle: positions of the heads over time, and the time to reach a position.
//!
//! The spindle turns once in a whole number of nanoseconds, so its phase at any time is the time
//! modulo that number. The phase thus persists between requests without being stored. The index
//! mark is under the heads at time zero.

use super::layout::{Layout, Place};
use super::profile::HddProfile;
use super::seek_curve::SeekCurve;
use crate::profile::BadFigure;

/// Passage of the heads over consecutive sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sweep {
    /// Sector that passes next: all sectors before it have passed.
    pub lbn: u64,
    /// Time in nanoseconds at which the last sector had passed.
    pub at_ns: u64,
    /// Place of the next sector; without sectors left, the place after the last.
    place: Place,
    /// Number of consecutive sectors from `place` on.
    left: u64,
    /// Set if the heads settle for a write, which takes longer, after each switch to another track.
    write: bool,
}

/// Arm over the platters.
#[derive(Clone, Debug)]
pub struct Mechanics {
    layout: Layout,
    read_seek: SeekCurve,
    write_seek: SeekCurve,
    head_switch_ns: u64,
    /// Additional time that the head settles on a track before a write. A negative time: a write
    /// may start before the head has settled for a read.
    write_settle_ns: i64,
    arm_cylinder: u32,
    arm_head: u32,
    seeks: u64,
    seek_ns: u64,
}

impl Mechanics {
    /// Builds the mechanics that `profile` describes over `layout`. The arm starts on the outermost
    /// cylinder.
    ///
    /// # Errors
    /// Refuses seek times that no arm can have.
    pub fn new(profile: &HddProfile, layout: Layout) -> Result<Self, BadFigure> {
        let cylinders = layout.cylinders();
        Ok(Self {
            read_seek: SeekCurve::new(profile, false, cylinders)?,
            write_seek: SeekCurve::new(profile, true, cylinders)?,
            head_switch_ns: (profile.head_switch_ms * 1e6) as u64,
            write_settle_ns: (profile.write_settle_ms * 1e6) as i64,
            layout,
            arm_cylinder: 0,
            arm_head: 0,
            seeks: 0,
            seek_ns: 0,
        })
    }

    /// Returns the layout under the arm.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the number of movements of the arm to another cylinder so far, including those
    /// inside a transfer.
    pub fn seeks(&self) -> u64 {
        self.seeks
    }

    /// Returns the nanoseconds that the arm has spent in positioning so far, without rotation.
    pub fn seek_ns(&self) -> u64 {
        self.seek_ns
    }

    /// Returns the cylinder under the heads.
    #[inline]
    pub fn cylinder(&self) -> u32 {
        self.arm_cylinder
    }

    /// Returns the nanoseconds from one track to another: seek and head switch at the same time,
    /// then a write settles.
    #[inline]
    fn switch_ns(&self, cylinder: u32, head: u32, to: &Place, write: bool) -> u64 {
        let distance = cylinder.abs_diff(to.cylinder);
        if distance == 0 && head == to.head {
            return 0;
        }
        let curve = if write { &self.write_seek } else { &self.read_seek };
        let seek = curve.time_ns(distance);
        let switch = if head == to.head { 0 } else { self.head_switch_ns };
        let moved = seek.max(switch);
        if write && moved > 0 { moved.saturating_add_signed(self.write_settle_ns) } else { moved }
    }

    /// Returns the nanoseconds until `place` comes under its head, from time `at_ns` on.
    #[inline]
    fn rotation_ns(&self, at_ns: u64, place: &Place) -> u64 {
        let revolution = self.layout.revolution_ns();
        let (angle, phase) = (self.layout.angle_ns(place), at_ns % revolution);
        if angle >= phase { angle - phase } else { angle + revolution - phase }
    }

    /// Returns the nanoseconds from `now_ns` until the first sector at `place` can be read or
    /// written. The scheduler SPTF compares the positioning times of commands.
    #[inline]
    pub fn positioning_ns(&self, now_ns: u64, place: &Place, write: bool) -> u64 {
        let switch = self.switch_ns(self.arm_cylinder, self.arm_head, place, write);
        switch + self.rotation_ns(now_ns + switch, place)
    }

    /// Moves the heads to sector `lbn`, from time `now_ns` on, and waits until the sector is under
    /// its head.
    pub fn position(&mut self, now_ns: u64, lbn: u64, write: bool) -> Sweep {
        let place = self.layout.place(lbn);
        let switch = self.switch_ns(self.arm_cylinder, self.arm_head, &place, write);
        self.move_to(&place, switch);
        let at_ns = now_ns + switch + self.rotation_ns(now_ns + switch, &place);
        Sweep { lbn, at_ns, place, left: self.layout.consecutive(&place, lbn), write }
    }

    /// Returns the nanoseconds until the arm is over the track of sector `lbn`.
    pub fn arm_ns(&self, lbn: u64, write: bool) -> u64 {
        self.switch_ns(self.arm_cylinder, self.arm_head, &self.layout.place(lbn), write)
    }

    /// Moves the heads as [`position`](Self::position) does, but on the first track the sectors up
    /// to `end` are transferred in any order. Returns the sweep, and the number of sectors that
    /// have passed early; these are the last of the sectors on the track.
    pub fn position_anywhere(&mut self, now_ns: u64, lbn: u64, end: u64, write: bool) -> (Sweep, u64) {
        let place = self.layout.place(lbn);
        let switch = self.switch_ns(self.arm_cylinder, self.arm_head, &place, write);
        let sweep = self.position(now_ns, lbn, write);
        let on_track = sweep.left.min(end - lbn);
        let waited_ns = sweep.at_ns - now_ns - switch;
        // If the heads arrive outside the request, the remaining turn behind the request passes
        // first.
        let outside = u64::from(self.layout.sectors_per_track(&place)) - on_track;
        let outside_ns = (outside as f64 * self.layout.sector_ns(&place)) as u64;
        let early_ns = waited_ns.saturating_sub(outside_ns);
        let early = (early_ns as f64 / self.layout.sector_ns(&place)) as u64;
        (sweep, early.min(on_track - 1))
    }

    /// Returns the number of sectors on the track of `sweep` that have passed right before its
    /// first sector, since the arm arrived at `from_ns`.
    pub fn passed_before(&self, sweep: &Sweep, from_ns: u64) -> u64 {
        (sweep.at_ns.saturating_sub(from_ns) as f64 / self.layout.sector_ns(&sweep.place)) as u64
    }

    /// Lets the sectors up to `end` pass as far as they are consecutive, after a change of track if
    /// necessary. Returns the time at which the first sector began to pass, and the number of
    /// sectors passed.
    pub fn run_piece(&mut self, sweep: &mut Sweep, end: u64) -> (u64, u64) {
        if sweep.left == 0 {
            self.go_on(sweep, u64::MAX);
        }
        let (start_ns, first) = (sweep.at_ns, sweep.lbn);
        let piece_end = end.min(sweep.lbn + sweep.left);
        self.run_to(sweep, piece_end);
        (start_ns, piece_end - first)
    }

    /// Returns the time at which the sectors up to `end` will have passed. The arm does not move.
    pub fn passing_ns(&mut self, sweep: &mut Sweep, end: u64) -> u64 {
        let before = (self.arm_cylinder, self.arm_head, self.seeks, self.seek_ns);
        self.run_to(sweep, end);
        (self.arm_cylinder, self.arm_head, self.seeks, self.seek_ns) = before;
        sweep.at_ns
    }

    /// Returns the nanoseconds that a sector takes to pass on the track of `sweep`.
    pub fn sector_ns(&self, sweep: &Sweep) -> u64 {
        self.layout.sector_ns(&sweep.place) as u64
    }

    /// Returns the time at which the arm is free, if the arm is needed at `now_ns`, the time up to
    /// which the sweep has run: at the end of the current sector, or at once with `in_sector`. A
    /// movement is completed in any case.
    pub fn interrupt(&mut self, sweep: &mut Sweep, now_ns: u64, in_sector: bool) -> u64 {
        if sweep.left > 0 {
            let sector_end_ns = sweep.at_ns + self.layout.sector_ns(&sweep.place) as u64;
            return if in_sector { now_ns } else { sector_end_ns.max(now_ns) };
        }
        let next = self.layout.place_behind(&sweep.place, sweep.lbn);
        let switch = self.switch_ns(sweep.place.cylinder, sweep.place.head, &next, sweep.write);
        self.move_to(&next, switch);
        (sweep.at_ns + switch).max(now_ns)
    }

    fn move_to(&mut self, place: &Place, switch_ns: u64) {
        self.seeks += u64::from(self.arm_cylinder != place.cylinder);
        self.seek_ns += switch_ns;
        (self.arm_cylinder, self.arm_head) = (place.cylinder, place.head);
    }

    /// Lets the sectors up to `end` pass, without a limit of time.
    #[inline]
    pub fn run_to(&mut self, sweep: &mut Sweep, end: u64) {
        self.run(sweep, end, u64::MAX);
    }

    /// Lets the sectors up to `end` pass, as far as they have all passed at `until_ns`.
    pub fn run(&mut self, sweep: &mut Sweep, end: u64, until_ns: u64) {
        while sweep.lbn < end {
            if sweep.left == 0 && !self.go_on(sweep, until_ns) {
                return;
            }
            let wanted = sweep.left.min(end - sweep.lbn) as u32;
            let passed = self.sectors_until(sweep, wanted, until_ns);
            let from = sweep.place.sector;
            let start = self.layout.offset_ns(&sweep.place, from);
            sweep.at_ns += self.layout.offset_ns(&sweep.place, from + passed) - start;
            sweep.lbn += u64::from(passed);
            sweep.place.sector += passed;
            sweep.left -= u64::from(passed);
            if passed < wanted {
                return;
            }
        }
    }

    /// Moves on to the next sector on another track, or after bad sectors, if that sector begins
    /// before `until_ns`.
    fn go_on(&mut self, sweep: &mut Sweep, until_ns: u64) -> bool {
        let next = self.layout.place_behind(&sweep.place, sweep.lbn);
        let switch = self.switch_ns(sweep.place.cylinder, sweep.place.head, &next, sweep.write);
        let ready_ns = sweep.at_ns + switch;
        let start_ns = ready_ns + self.rotation_ns(ready_ns, &next);
        if start_ns > until_ns {
            return false;
        }
        self.move_to(&next, switch);
        sweep.left = self.layout.consecutive(&next, sweep.lbn);
        (sweep.place, sweep.at_ns) = (next, start_ns);
        true
    }

    /// Returns the number of the `wanted` next sectors of this track that have passed at
    /// `until_ns`.
    #[inline]
    fn sectors_until(&self, sweep: &Sweep, wanted: u32, until_ns: u64) -> u32 {
        let from = sweep.place.sector;
        let start = self.layout.offset_ns(&sweep.place, from);
        let passes_at = |sectors: u32| sweep.at_ns + (self.layout.offset_ns(&sweep.place, from + sectors) - start);
        if until_ns >= passes_at(wanted) {
            return wanted;
        }
        let elapsed_ns = until_ns.saturating_sub(sweep.at_ns) as f64;
        let passed = (elapsed_ns / self.layout.sector_ns(&sweep.place)) as u32;
        // Offsets are rounded to whole nanoseconds: the estimate may be one sector too high.
        if passed > 0 && passes_at(passed) > until_ns { passed - 1 } else { passed }
    }
}

#[cfg(test)]
mod tests {
    use rand_core::Rng;
    use rand_pcg::Pcg64Mcg;

    use super::*;
    use crate::profile::{DEFAULT_HDD, Profile};

    fn default_drive() -> Mechanics {
        let profile = Profile::load(DEFAULT_HDD).unwrap();
        let hdd = profile.hdd().unwrap();
        Mechanics::new(hdd, Layout::new(hdd, profile.capacity, profile.capacity).unwrap()).unwrap()
    }

    /// Random seeks take the average of the data sheet. The rotation after a seek takes half a turn
    /// on average.
    #[test]
    fn random_accesses_take_the_average_seek_and_half_a_turn() {
        let mut mechanics = default_drive();
        let mut random = Pcg64Mcg::new(7);
        let revolution = mechanics.layout().revolution_ns() as f64;
        let (mut now_ns, mut rotation_ns) = (0, 0);
        let rounds = 200_000;
        for _ in 0..rounds {
            // Cylinders are uniformly distributed, as for a data sheet's average.
            let cylinder = random.next_u32() % mechanics.layout().cylinders();
            let lbn = mechanics.layout().lbn(cylinder, random.next_u32() % 4, random.next_u32() % 100).unwrap();
            let seek_before_ns = mechanics.seek_ns();
            let sweep = mechanics.position(now_ns, lbn, false);
            rotation_ns += sweep.at_ns - now_ns - (mechanics.seek_ns() - seek_before_ns);
            now_ns = sweep.at_ns;
        }
        let seek_ms = mechanics.seek_ns() as f64 / 1e6 / f64::from(rounds);
        let turns = rotation_ns as f64 / revolution / f64::from(rounds);
        assert!((seek_ms / 8.5 - 1.0).abs() < 0.01, "mean seek {seek_ms} ms");
        assert!((turns / 0.5 - 1.0).abs() < 0.01, "mean rotation {turns} of a turn");
    }

    #[test]
    fn consecutive_sectors_pass_without_waiting_for_a_turn() {
        for write in [false, true] {
            let mut mechanics = default_drive();
            let sectors = u64::from(mechanics.layout().sectors_per_track(&mechanics.layout().place(0))) * 4 * 50;
            // One run, and pieces of 8 sectors with nothing between them, take the same time to the
            // nanosecond.
            let mut whole = mechanics.position(123_456, 0, write);
            mechanics.run_to(&mut whole, sectors);
            let mut pieces = mechanics.position(0, 0, write);
            for end in (8..=sectors).step_by(8) {
                mechanics.run_to(&mut pieces, end);
            }
            mechanics.run_to(&mut pieces, sectors);
            let turn = mechanics.layout().revolution_ns();
            assert_eq!(whole.at_ns % turn, pieces.at_ns % turn);
            let turns = pieces.at_ns as f64 / turn as f64;
            assert!(turns < 200.0 * 1.2, "{turns} turns for 200 tracks");
        }
    }

    /// A sweep that is advanced in steps ends at the same place and time as a sweep without steps.
    #[test]
    fn watched_sweep_ends_as_an_unwatched_one() {
        let mut mechanics = default_drive();
        let start = mechanics.position(0, 1000, false);
        let mut at_once = start;
        mechanics.run_to(&mut at_once, 50_000);
        let mut watched = start;
        let mut now_ns = 0;
        while watched.lbn < 50_000 {
            now_ns += 77_777;
            let before = watched;
            mechanics.run(&mut watched, 50_000, now_ns);
            assert!(watched.lbn >= before.lbn && watched.at_ns >= before.at_ns);
            assert!(watched == before || watched.at_ns <= now_ns, "only what has passed is counted");
        }
        assert_eq!(watched.lbn, at_once.lbn);
        assert_eq!(watched.at_ns, at_once.at_ns);
    }
}
