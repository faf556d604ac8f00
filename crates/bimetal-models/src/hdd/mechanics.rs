//! The arm and the spindle: when the heads are where, and how long it takes to get there.
//!
//! The spindle turns once in a whole number of nanoseconds, so its phase at any time is the time modulo that number:
//! it is kept between requests without being stored. The index mark is under the heads at time zero.

use super::layout::{Layout, Place};
use super::profile::HddProfile;
use super::seek_curve::SeekCurve;
use crate::profile::BadFigure;

/// The heads on their way over consecutive sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sweep {
    /// The sector that comes next: all before it have passed.
    pub lbn: u64,
    /// When the last one had passed, in nanoseconds.
    pub at_ns: u64,
    /// Where the sector that comes next lies; behind the last of a track, `sector` is their number.
    place: Place,
    /// Whether switches wait for the settling of a write.
    write: bool,
}

/// The arm over the platters.
#[derive(Clone, Debug)]
pub struct Mechanics {
    layout: Layout,
    read_seek: SeekCurve,
    write_seek: SeekCurve,
    head_switch_ns: u64,
    write_settle_ns: u64,
    arm_cylinder: u32,
    arm_head: u32,
    seeks: u64,
    seek_ns: u64,
}

impl Mechanics {
    /// The mechanics that `profile` describes over `layout`; the arm starts on the outermost cylinder.
    ///
    /// # Errors
    /// Seek times that no arm has.
    pub fn new(profile: &HddProfile, layout: Layout) -> Result<Self, BadFigure> {
        const READ: [&str; 3] = ["seek_track_to_track_ms", "seek_average_ms", "seek_full_stroke_ms"];
        const WRITE: [&str; 3] = ["write_seek_track_to_track_ms", "write_seek_average_ms", "write_seek_full_stroke_ms"];
        let cylinders = layout.cylinders();
        Ok(Self {
            read_seek: SeekCurve::fit(profile.read_seek(), cylinders, READ)?,
            write_seek: SeekCurve::fit(profile.write_seek(), cylinders, WRITE)?,
            head_switch_ns: (profile.head_switch_ms * 1e6) as u64,
            write_settle_ns: (profile.write_settle_ms * 1e6) as u64,
            layout,
            arm_cylinder: 0,
            arm_head: 0,
            seeks: 0,
            seek_ns: 0,
        })
    }

    /// The layout under the arm.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Movements of the arm to another cylinder so far, those inside a transfer included.
    pub fn seeks(&self) -> u64 {
        self.seeks
    }

    /// Nanoseconds spent in positionings so far, without rotation.
    pub fn seek_ns(&self) -> u64 {
        self.seek_ns
    }

    /// The cylinder under the heads.
    #[inline]
    pub fn cylinder(&self) -> u32 {
        self.arm_cylinder
    }

    /// Nanoseconds from one track to another: seek and head switch at the same time, then a write settles.
    #[inline]
    fn switch_ns(&self, cylinder: u32, head: u32, to: &Place, write: bool) -> u64 {
        let distance = cylinder.abs_diff(to.cylinder);
        if distance == 0 && head == to.head {
            return 0;
        }
        let curve = if write { &self.write_seek } else { &self.read_seek };
        let seek = curve.time_ns(distance);
        let switch = if head == to.head { 0 } else { self.head_switch_ns };
        seek.max(switch) + if write { self.write_settle_ns } else { 0 }
    }

    /// Nanoseconds until `place` comes under its head, from time `at_ns` on.
    #[inline]
    fn rotation_ns(&self, at_ns: u64, place: &Place) -> u64 {
        let revolution = self.layout.revolution_ns();
        let (angle, phase) = (self.layout.angle_ns(place), at_ns % revolution);
        if angle >= phase { angle - phase } else { angle + revolution - phase }
    }

    /// Nanoseconds from `now_ns` until the first sector at `place` can be read or written: what SPTF compares.
    #[inline]
    pub fn positioning_ns(&self, now_ns: u64, place: &Place, write: bool) -> u64 {
        let switch = self.switch_ns(self.arm_cylinder, self.arm_head, place, write);
        switch + self.rotation_ns(now_ns + switch, place)
    }

    /// Moves the heads to sector `lbn`, from time `now_ns` on, and waits until it is there.
    pub fn position(&mut self, now_ns: u64, lbn: u64, write: bool) -> Sweep {
        let place = self.layout.place(lbn);
        let switch = self.switch_ns(self.arm_cylinder, self.arm_head, &place, write);
        self.move_to(&place, switch);
        let at_ns = now_ns + switch + self.rotation_ns(now_ns + switch, &place);
        Sweep { lbn, at_ns, place, write }
    }

    fn move_to(&mut self, place: &Place, switch_ns: u64) {
        self.seeks += u64::from(self.arm_cylinder != place.cylinder);
        self.seek_ns += switch_ns;
        (self.arm_cylinder, self.arm_head) = (place.cylinder, place.head);
    }

    /// Lets the sectors up to `end` pass, whenever that is.
    #[inline]
    pub fn run_to(&mut self, sweep: &mut Sweep, end: u64) {
        self.run(sweep, end, u64::MAX);
    }

    /// Lets the sectors up to `end` pass, as far as they have all passed at `until_ns`.
    pub fn run(&mut self, sweep: &mut Sweep, end: u64, until_ns: u64) {
        while sweep.lbn < end {
            let sectors_per_track = self.layout.sectors_per_track(&sweep.place);
            if sweep.place.sector == sectors_per_track && !self.switch_track(sweep, until_ns) {
                return;
            }
            let from = sweep.place.sector;
            let wanted = u64::from(self.layout.sectors_per_track(&sweep.place) - from).min(end - sweep.lbn) as u32;
            let passed = self.sectors_until(sweep, wanted, until_ns);
            let start = self.layout.offset_ns(&sweep.place, from);
            sweep.at_ns += self.layout.offset_ns(&sweep.place, from + passed) - start;
            sweep.lbn += u64::from(passed);
            sweep.place.sector += passed;
            if passed < wanted {
                return;
            }
        }
    }

    /// Goes on to the next track, if its first sector is there before `until_ns`.
    fn switch_track(&mut self, sweep: &mut Sweep, until_ns: u64) -> bool {
        let next = self.layout.next_track(&sweep.place);
        let next = next.expect("a sweep ends before the last sector of the drive");
        let switch = self.switch_ns(sweep.place.cylinder, sweep.place.head, &next, sweep.write);
        let ready_ns = sweep.at_ns + switch;
        let start_ns = ready_ns + self.rotation_ns(ready_ns, &next);
        if start_ns > until_ns {
            return false;
        }
        self.move_to(&next, switch);
        (sweep.place, sweep.at_ns) = (next, start_ns);
        true
    }

    /// How many of the `wanted` next sectors of this track have passed at `until_ns`.
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
        // Offsets are rounded to whole nanoseconds: the estimate may be one too many.
        if passed > 0 && passes_at(passed) > until_ns { passed - 1 } else { passed }
    }
}
