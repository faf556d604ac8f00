//! Sizes and prices of the drives of a run.
//!
//! A given size is used as it is. A home drive without a given size is the smallest drive on sale
//! that holds the addresses of the workload and the requested capacity. A cache, and a drive that
//! holds ranges, is the smallest drive on sale that the scheme can use, or a share of a drive
//! ([`DefaultSize`]). If no drive on sale is large enough, several of the largest drive are used as
//! one drive. Each drive costs the whole price of the drives that are bought. A share of a drive
//! costs the same share of the price.

use bimetal_core::block::BlockSize;
use bimetal_core::layout::{LABEL_SECTORS, LayoutError, LayoutRequest, MemberInfo, Role};
use bimetal_core::payload::NoPayload;
use bimetal_core::scheme::{Holds, SchemeError};
use bimetal_core::units::{Bytes, Sectors};
use bimetal_core::volume::{Volume, VolumeConfig, VolumeError};
use bimetal_models::profile::Profile;
use serde::Serialize;

use crate::host::volume_with_host;
use crate::market::{Purchase, is_nominal, price_of_share};
use crate::setup::{Choices, Chosen, DefaultSize, Plan, SetupError, Size, sets_geometry};
use crate::survey::Survey;

/// Share of the requested capacity that a volume may lack, because of its own metadata and because
/// drives sold under one size differ a little.
const CAPACITY_SLACK: f64 = 0.01;

/// Most that a volume may lack of the capacity asked for. Of a hundred drives, the last is bought,
/// too.
const CAPACITY_SLACK_MAX: Bytes = Bytes(10_000_000_000);

/// Address space that a scheme reserves for each block of a cache: the links of a list. Only the
/// pages of used blocks take memory.
const TABLE_BYTES_PER_BLOCK: u64 = 8;

/// Origin of the sizes of a run's drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sizing {
    /// Whole drives on sale.
    Sold,
    /// Drives on sale, and for caches and ranges a tenth of the footprint.
    Share,
    /// A size was given.
    #[default]
    Given,
}

/// Origin of the size of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// The user gave the size.
    Given,
    /// A drive on sale.
    Sold,
    /// A share of the footprint or of the addresses.
    Share,
}

impl Choices {
    /// Returns the origin of the sizes of runs with these choices.
    pub(crate) fn sizing(&self) -> Sizing {
        let drives = [&self.ssd, &self.hdd].into_iter().chain(self.members.iter().map(|(_, drive)| drive));
        let geometry =
            self.settings.iter().any(|(key, _)| key.split_once('.').is_some_and(|(_, figure)| sets_geometry(figure)));
        match self.default_size {
            _ if geometry || drives.into_iter().any(|drive| drive.size.is_some()) => Sizing::Given,
            DefaultSize::OnSale => Sizing::Sold,
            DefaultSize::Share { .. } => Sizing::Share,
        }
    }

    /// Returns the least size of a drive that has every address of a volume for the workload of
    /// `survey`.
    pub fn least_size(&self, survey: &Survey) -> Bytes {
        let addresses: u64 = survey.address_end.values().map(|end| end.0.next_multiple_of(self.block.sectors())).sum();
        let label = if self.capacity.is_some() { 0 } else { LABEL_SECTORS + self.block.sectors() };
        Sectors(addresses + label).bytes().max(self.capacity.unwrap_or_default())
    }

    /// Returns the model of a drive of `role` and perhaps of `size`, if the user names no model.
    /// All schemes of a comparison use one model. The size of the volume decides which, and not the
    /// content that a scheme puts on the drive.
    pub(crate) fn default_model(&self, role: Role, size: Option<Size>, survey: &Survey) -> &'static str {
        let least = match size {
            Some(Size::Bytes(bytes)) => bytes,
            Some(Size::OfFootprint(_)) | None => self.least_size(survey),
        };
        self.market.default_model(role, least.sectors())
    }

    /// Returns the least number of sectors of a volume with the requested capacity; 0 without a
    /// request for a capacity.
    pub fn least_sectors(&self) -> u64 {
        let capacity = self.capacity.unwrap_or_default().0;
        let slack = ((capacity as f64 * CAPACITY_SLACK) as u64).min(CAPACITY_SLACK_MAX.0);
        Bytes(capacity - slack).sectors().0
    }
}

/// Enlarges the last of the units, if all units together do not have the requested capacity.
pub(crate) fn hold_capacity(units: &mut [Sectors], choices: &Choices) {
    let Some((last, before)) = units.split_last_mut() else { return };
    let before: u64 = before.iter().map(|unit| unit.0).sum();
    last.0 = last.0.max(choices.least_sectors().saturating_sub(before));
}

/// Returns the purchase for a drive of `size` whose model has the given name and profile, and the
/// size of the flash that wears. Parts of a drive are not sold: the whole drive is bought, and
/// wears. A share is priced by the byte, as if it were sold.
pub(crate) fn purchase_of(
    (model, profile): (&str, &Profile),
    size: Sectors,
    origin: Origin,
    choices: &Choices,
) -> (Purchase, Sectors) {
    if origin == Origin::Share || choices.price_per_gb {
        let price = price_of_share(profile, size);
        return (Purchase { count: 1, each: size, price, profile: None }, size);
    }
    let purchase = choices.market.smallest(model, profile, size);
    let wears = if choices.market.has_parts(model) { purchase.size().max(size) } else { size };
    (purchase, wears)
}

/// Returns the content by which a drive is sized if no size is given. A log on the SSD costs flash
/// as a cache does, so it is sized like a cache.
fn sized_as(role: Role, holds: Holds) -> Holds {
    if (role, holds) == (Role::Ssd, Holds::Log) { Holds::Cache } else { holds }
}

impl Plan<'_> {
    /// Returns the size with which a drive begins; the size grows until the scheme accepts the
    /// drive.
    pub(crate) fn default_size(&self, role: Role, holds: Holds, drive: (&str, &Profile)) -> (Sectors, Origin) {
        let block = self.choices.block;
        let addresses: u64 = self.units.iter().map(|size| size.0.next_multiple_of(block.sectors())).sum();
        let label = LABEL_SECTORS + block.sectors();
        let of_share = |percent: u64| match sized_as(role, holds) {
            Holds::Cache => Some(self.survey.footprint_blocks * block.sectors() * percent / 100),
            // There is at least one block in front of the label.
            Holds::Ranges => Some((self.survey.footprint_blocks * block.sectors() * percent / 100).max(label)),
            Holds::Home | Holds::Copy | Holds::Log => None,
        };
        let share = match self.choices.default_size {
            DefaultSize::Share { percent } => of_share(percent),
            DefaultSize::OnSale => None,
        };
        if let Some(share) = share {
            return (Sectors(share.next_multiple_of(block.sectors())), Origin::Share);
        }
        let least = match holds {
            // The addresses on each of several drives are not known yet.
            Holds::Home if self.has_further(role) => 0,
            Holds::Home | Holds::Copy if self.tail_beyond().0 > 0 => addresses,
            Holds::Home | Holds::Copy => addresses + label,
            Holds::Log | Holds::Cache | Holds::Ranges => 0,
        };
        (self.bought(drive, Sectors(least)).size(), Origin::Sold)
    }

    /// Gives each drive the figures of the size that was bought, because a data sheet has other
    /// figures for other sizes.
    pub(crate) fn as_bought(&mut self, chosen: Vec<Chosen>, sizes: &[Sectors]) -> Result<Vec<Chosen>, SetupError> {
        let of_size = |(drive, size): (Chosen, &Sectors)| {
            let bought = self.bought((&drive.model, &drive.profile), *size).profile;
            let Some(name) = bought.filter(|_| drive.origin != Origin::Share) else { return Ok(drive) };
            let mut profile = self.configured(&name, drive.role, &drive.id)?;
            profile.name = drive.profile.name;
            Ok(Chosen { profile, ..drive })
        };
        chosen.into_iter().zip(sizes).map(of_size).collect()
    }

    fn bought(&self, (model, profile): (&str, &Profile), least: Sectors) -> Purchase {
        self.choices.market.smallest(model, profile, least)
    }

    /// Returns the room for a label that the volume assumes after the end of its drive, because a
    /// plain drive has no label.
    fn tail_beyond(&self) -> Sectors {
        let is_plain = matches!(self.scheme.members, [(_, Holds::Home)]);
        if is_plain { Sectors(LABEL_SECTORS) } else { Sectors(0) }
    }

    /// Enlarges drives without a given size until the scheme accepts them, and makes the volume.
    pub(crate) fn fit(&mut self, chosen: &[Chosen]) -> Result<(Volume<NoPayload>, Vec<Sectors>), SetupError> {
        let (volume, sizes) = self.fit_with(chosen, &volume_with_host)?;
        self.assume_sizes(chosen, &sizes);
        self.assume_homes(chosen, volume.view());
        Ok((volume, sizes))
    }

    /// Enlarges drives without a given size until `make` accepts them. Returns the result of `make`
    /// and the sizes of the drives.
    pub(crate) fn fit_with<T>(
        &self,
        chosen: &[Chosen],
        make: &dyn Fn(&VolumeConfig<'_>) -> Result<T, VolumeError>,
    ) -> Result<(T, Vec<Sectors>), SetupError> {
        let mut sizes: Vec<Sectors> = chosen.iter().map(|drive| drive.size).collect();
        loop {
            let drives = chosen.iter().zip(&sizes);
            let drives = drives.map(|(drive, size)| (Some((&*drive.id, &drive.profile)), drive.holds, *size));
            check_tables(self.scheme.name, self.choices.block, drives)?;
            let tail = self.tail_beyond();
            let member = |(drive, size): (&Chosen, &Sectors)| MemberInfo { role: drive.role, capacity: *size + tail };
            let members: Vec<MemberInfo> = chosen.iter().zip(&sizes).map(member).collect();
            let layout = LayoutRequest { block: self.choices.block, members: &members, units: self.units };
            let config =
                VolumeConfig { scheme: self.scheme, settings: self.settings, layout, identity: 0, drives: &[] };
            match make(&config) {
                Ok(made) => return Ok((made, sizes)),
                Err(error) => {
                    let error = without_tail(error, tail);
                    let Some((at, needed)) = enlargeable(chosen, &sizes, &error) else {
                        return Err(self.named(chosen, &sizes, error));
                    };
                    let drive = &chosen[at];
                    sizes[at] = match drive.origin {
                        Origin::Share => needed,
                        _ => self.bought((&drive.model, &drive.profile), needed).size(),
                    };
                }
            }
        }
    }

    fn assume_sizes(&mut self, chosen: &[Chosen], sizes: &[Sectors]) {
        for (drive, size) in chosen.iter().zip(sizes) {
            let why = match (drive.origin, sized_as(drive.role, drive.holds)) {
                (Origin::Given, _) => {
                    self.assume_bought(drive, *size);
                    continue;
                }
                (Origin::Share, _) => "10 % of the footprint, or the smallest size that the scheme can use".to_owned(),
                (Origin::Sold, _) => match self.bought((&drive.model, &drive.profile), *size) {
                    Purchase { count: 1, .. } => "the smallest on sale that the scheme can use".to_owned(),
                    Purchase { count, each, .. } => format!(
                        "{count} of {} bytes, the largest on sale, simulated as one drive with the profile's geometry \
                         extended",
                        each.bytes().0
                    ),
                },
            };
            self.assume(format!("{}_size", drive.id), format!("{} ({why})", size.bytes().0));
        }
    }

    /// Notes the drive that is bought for a given size, if only a part of the drive is used.
    fn assume_bought(&mut self, drive: &Chosen, size: Sectors) {
        let bought = purchase_of((&drive.model, &drive.profile), size, drive.origin, self.choices).1.bytes();
        if bought > size.bytes() && !is_nominal(size.bytes(), bought) {
            let why = "the smallest on sale with the given size; its price and its lifetime are shown";
            self.assume(format!("{}_bought", drive.id), format!("{} ({why})", bought.0));
        }
    }
}

/// Refuses members for which no tables can be made, before the volume `name` makes its own. An
/// allocation that fails would end the program. A member has its id and profile if it is a drive,
/// what it holds, and its size. Only a cache reserves tables for each of its blocks: the map of a
/// log grows with the blocks written, and a scheme limits its ranges itself.
pub(crate) fn check_tables<'a>(
    name: &str,
    block: BlockSize,
    members: impl Iterator<Item = (Option<(&'a str, &'a Profile)>, Holds, Sectors)>,
) -> Result<(), SetupError> {
    let mut bytes = 0;
    for (drive, holds, size) in members {
        // Of a drive that is too small, the scheme tells more.
        if let Some((id, profile)) = drive.filter(|(_, profile)| size > profile.capacity) {
            profile.check_capacity(size).map_err(|error| SetupError::of_model(name, id, error))?;
        }
        if holds == Holds::Cache {
            bytes += size.0 / block.sectors() * TABLE_BYTES_PER_BLOCK;
        }
    }
    match Vec::<u8>::new().try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX)) {
        Ok(()) => Ok(()),
        Err(_) => Err(SetupError::Memory { volume: name.to_owned(), needed: Bytes(bytes) }),
    }
}

/// Converts the error of a volume that assumes its drive to be larger by `tail`, so that the error
/// has the real sizes of the drive.
fn without_tail(mut error: VolumeError, tail: Sectors) -> VolumeError {
    if let VolumeError::Scheme(SchemeError::Layout(LayoutError::TooSmall { needed, available, .. })) = &mut error {
        (*needed, *available) = (*needed - tail.bytes(), *available - tail.bytes());
    }
    error
}

/// Returns the drive that was too small, and the size that it needs, if the user gave no size.
fn enlargeable(chosen: &[Chosen], sizes: &[Sectors], error: &VolumeError) -> Option<(usize, Sectors)> {
    let VolumeError::Scheme(SchemeError::Layout(LayoutError::TooSmall { role, needed, available, .. })) = error else {
        return None;
    };
    let is_it = |at: &usize| {
        let drive = &chosen[*at];
        drive.role == *role && sizes[*at].bytes() == *available && drive.origin != Origin::Given
    };
    let at = (0..chosen.len()).rfind(is_it)?;
    Some((at, Sectors(Sectors::covering(*needed).0.next_multiple_of(8))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a log and a copy on a large disk counted like a cache. A comparison with a disk
    /// of 20 TB ended with an error, and on a small machine one with a disk of 4 TB.
    #[test]
    fn only_a_cache_reserves_tables_for_its_blocks() {
        let huge = Bytes(1 << 56).sectors();
        let check = |holds| check_tables("a", BlockSize::default(), std::iter::once((None, holds, huge)));
        for holds in [Holds::Home, Holds::Copy, Holds::Log, Holds::Ranges] {
            assert!(check(holds).is_ok(), "{holds:?}");
        }
        let refused = check(Holds::Cache).expect_err("no system has this address space");
        assert!(matches!(refused, SetupError::Memory { .. }) && refused.is_of_the_drives(), "others can be compared");
    }
}
