//! One die that stands for all dies of a drive with page mapping.
//!
//! Page mapping writes rows to the dies in turn, and each die collects independently. So a die gets
//! one row of each group of as many rows as the drive has dies. A long write is cut into such
//! rows: little of the write lies in each block, and blocks of a die mix more writes than blocks of
//! a drive of one die would. A die with whole writes would wear less than half as much.

use bimetal_core::operation::{Command, OpKind};
use bimetal_core::units::{Nanoseconds, SECTOR_BYTES, SectorRange, Sectors};
use bimetal_models::flash::FlashProfile;
use bimetal_models::flash::geometry::Geometry;
use bimetal_models::profile::Body;

use super::chunks::{Held, hash};
use super::record::{Member, Stream};
use super::small::of_one_die;

/// The rows that a die gets.
pub(super) struct OneDie {
    dies: u64,
    row_sectors: u64,
    unit_sectors: u64,
    sample: u64,
}

impl OneDie {
    /// Returns the rows of a die of `geometry`. Each sample has other rows.
    pub(super) fn of(geometry: &Geometry, sample: u64) -> Self {
        let unit_sectors = u64::from(geometry.unit_bytes) / SECTOR_BYTES;
        let row_sectors = u64::from(geometry.units_per_row()) * unit_sectors;
        Self { dies: geometry.dies().into(), row_sectors, unit_sectors, sample }
    }

    /// Returns the number of sectors of the die before `sector` of the drive.
    fn position(&self, sector: u64) -> u64 {
        let group_sectors = self.dies * self.row_sectors;
        let (group, within) = (sector / group_sectors, sector % group_sectors);
        let first = hash(group, self.sample) % self.dies * self.row_sectors;
        group * self.row_sectors + within.saturating_sub(first).min(self.row_sectors)
    }

    fn part(&self, range: SectorRange) -> SectorRange {
        let (start, end) = (self.position(range.start.0), self.position(range.end().0));
        SectorRange::new(start, end - start)
    }

    /// Returns the commands of `stream` that the die gets, and its share of the flushes.
    pub(super) fn part_of(&self, stream: &[(Nanoseconds, Command)]) -> Stream {
        let mut flushes = 0;
        let part = stream.iter().filter_map(|&(at, command)| {
            if command.kind == OpKind::Flush {
                flushes += 1;
                return (flushes % self.dies == 0).then_some((at, command));
            }
            let range = self.part(command.range);
            (!range.is_empty()).then_some((at, Command { range, ..command }))
        });
        part.collect()
    }

    /// Returns the die as a drive; `None` if such a drive cannot be.
    pub(super) fn member(&self, member: &Member, (flash, geometry): (&FlashProfile, &Geometry)) -> Option<Member> {
        let row_units = u64::from(geometry.units_per_row());
        let units = u64::from(geometry.logical_units).div_ceil(self.dies * row_units) * row_units;
        let profile = of_one_die(&member.profile, flash, geometry, units);
        let Body::Flash(flash) = &profile.body else { return None };
        let size = flash.geometry(profile.capacity, None).ok()?.logical_bytes().sectors();
        let mut held = Held::default();
        for range in member.held().ranges(self.unit_sectors) {
            let write = Command { kind: OpKind::Write, range: self.part(range), fua: false };
            held.note(&write, self.unit_sectors);
        }
        let used = self.part(member.used);
        let used = SectorRange::new(used.start.0, Sectors(size.0 - used.start.0).min(used.len).0);
        Some(member.part(profile, size, used, held))
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::units::Bytes;
    use bimetal_models::profile::Profile;

    use super::*;

    /// Each sector of a range lies in one of the dies, and a die has its share of a long range.
    #[test]
    fn die_gets_one_row_of_each_group_of_rows() {
        let die = OneDie { dies: 4, row_sectors: 8, unit_sectors: 8, sample: 1 };
        for group in 0..100 {
            let part = die.part(SectorRange::new(group * 32, 32));
            assert_eq!((part.start.0, part.len.0), (group * 8, 8));
            let rows: Vec<u64> = (0..4).map(|row| die.part(SectorRange::new(group * 32 + row * 8, 8)).len.0).collect();
            assert_eq!(rows.iter().filter(|&&sectors| sectors == 8).count(), 1, "{rows:?}");
            assert_eq!(rows.iter().sum::<u64>(), 8);
        }
        let firsts: Vec<u64> = (0..100).map(|group| hash(group, 1) % 4).collect();
        assert!((0..4).all(|row| firsts.contains(&row)), "rows at every place: no pattern of addresses is left out");
    }

    #[test]
    fn die_has_its_share_of_the_drive() {
        let profile = Profile::load("intel-x25-m-80gb").unwrap();
        let member = Member::home(&profile, Bytes::from_mib(640).sectors());
        let Body::Flash(flash) = &profile.body else { panic!("it is flash") };
        let geometry = flash.geometry(profile.capacity, Some(member.size)).unwrap();
        let die = OneDie::of(&geometry, 0).member(&member, (flash, &geometry)).unwrap();
        let Body::Flash(flash) = &die.profile.body else { panic!("it is flash") };
        let one = flash.geometry(die.profile.capacity, None).unwrap();
        assert_eq!((one.dies(), one.blocks_per_plane), (1, geometry.blocks_per_plane));
        assert!((one.logical_units * 10).abs_diff(geometry.logical_units) <= 10, "{one:?}");
        assert_eq!(die.used.len.0, die.size.0);
    }
}
