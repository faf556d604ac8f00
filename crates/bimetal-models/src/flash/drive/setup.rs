//! Makes a drive from a profile, and restores a drive from a saved state.

use std::collections::BinaryHeap;

use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES, SectorRange, Sectors};

use super::{Flash, Idle};
use crate::flash::dies::Dies;
use crate::flash::ftl::Setup;
use crate::flash::geometry::Geometry;
use crate::flash::intensity::Intensity;
use crate::flash::precondition::Precondition;
use crate::flash::profile::FlashProfile;
use crate::flash::state::archive::Archive;
use crate::flash::state::{Origin, RestoreError};
use crate::flash::statistics::Meter;
use crate::flash::timing::Parallelism;
use crate::flash::wear::WearLevellingKind;
use crate::flash::write_buffer::{Epochs, WriteBuffer};
use crate::hdd::profile::Switch;
use crate::profile::BadFigure;

impl Flash {
    /// Makes the drive of a checked `profile`, with its `capacity` or with the requested `size`.
    /// The sectors of `used` start in the state `precondition`, the others clean. `seed` determines
    /// the places of data in the random state.
    ///
    /// # Errors
    /// Returns the key of the profile that makes the drive impossible.
    pub fn new(
        profile: &FlashProfile,
        capacity: Sectors,
        size: Option<Sectors>,
        precondition: Precondition,
        used: SectorRange,
        seed: u64,
    ) -> Result<Self, BadFigure> {
        let own = capacity;
        let (geometry, capacity) = shape(profile, own, size)?;
        let per_unit = u64::from(geometry.unit_bytes) / SECTOR_BYTES;
        let end = used.end().0.min(capacity.0).div_ceil(per_unit) as u32;
        let start = ((used.start.0 / per_unit) as u32).min(end);
        let origin = Origin::new(profile, &geometry, precondition, (start, end - start), seed);
        Self::of(profile, geometry, (own, capacity), origin, false)
    }

    /// Restores the drive of `profile`, with its `capacity` or with the requested `size`, from
    /// tables that [`save`](Self::save) returned.
    ///
    /// # Errors
    /// Refuses an impossible drive, a drive other than the saved one, and tables that do not fit.
    pub fn restore(
        profile: &FlashProfile,
        capacity: Sectors,
        size: Option<Sectors>,
        tables: &[u8],
    ) -> Result<Self, RestoreError> {
        let own = capacity;
        let (geometry, capacity) = shape(profile, own, size)?;
        let mut origin = Origin::new(profile, &geometry, Precondition::Clean, (0, 0), 0);
        let mut archive = Archive::Reading(tables);
        origin.transfer(&mut archive)?;
        if u64::from(origin.start) + u64::from(origin.units) > geometry.logical_units.into() {
            return Err(RestoreError::Damaged("a table of the drive was filled beyond its end".to_owned()));
        }
        let mut drive = Self::of(profile, geometry, (own, capacity), origin, true)?;
        drive.layer.transfer(&mut archive)?;
        if let Archive::Reading(rest) = archive
            && !rest.is_empty()
        {
            return Err(RestoreError::Damaged(format!("{} bytes are left over", rest.len())));
        }
        if let Some(buffer) = &mut drive.buffer {
            buffer.take(drive.layer.waiting_units());
        }
        Ok(drive)
    }

    /// Returns the tables of the FTL, for [`restore`](Self::restore). The tables leave out writes
    /// that are not done yet.
    pub fn save(&mut self) -> Vec<u8> {
        let mut archive = Archive::Writing(Vec::new());
        let saved = self.origin.transfer(&mut archive).and_then(|()| Ok(self.layer.transfer(&mut archive)?));
        match (saved, archive) {
            (Ok(()), Archive::Writing(tables)) => tables,
            (result, _) => unreachable!("tables that agree are written down: {result:?}"),
        }
    }

    /// Builds a drive of `capacity` whose profile describes a drive of `own` sectors.
    fn of(
        profile: &FlashProfile,
        geometry: Geometry,
        (own, capacity): (Sectors, Sectors),
        origin: Origin,
        restored: bool,
    ) -> Result<Self, BadFigure> {
        let Origin { precondition, start, units, seed, .. } = origin;
        let setup = Setup { profile, geometry, precondition, start, units, seed, restored };
        let layer = (profile.ftl.0.make)(&setup)?;
        Ok(Self {
            capacity,
            geometry,
            origin,
            timing: profile.host_timing(),
            protected: profile.power_loss_protection == Switch::On,
            serial: profile.timing == Parallelism::Serial,
            layer,
            dies: Dies::new(&geometry, profile.nand_timing(&geometry)),
            buffer: write_buffer(profile, &geometry)?,
            epochs: Epochs::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            events: BinaryHeap::new(),
            event_count: 0,
            link_in: Nanoseconds::ZERO,
            link_out: Nanoseconds::ZERO,
            meter: Meter::new(profile, &geometry),
            intensity: intensity(profile, own, capacity),
            idle: Idle::No,
            operations: Vec::new(),
            flushed: Vec::new(),
        })
    }
}

/// Returns the geometry of a drive, and the sectors that it offers.
fn shape(profile: &FlashProfile, capacity: Sectors, size: Option<Sectors>) -> Result<(Geometry, Sectors), BadFigure> {
    let geometry = profile.geometry(capacity, size)?;
    let capacity = match size {
        Some(size) => Sectors(size.0.min(geometry.logical_bytes().sectors().0)),
        None => profile.capacity(capacity)?,
    };
    Ok((geometry, capacity))
}

fn intensity(profile: &FlashProfile, own: Sectors, capacity: Sectors) -> Option<Intensity> {
    let adapts = profile.wear_levelling == WearLevellingKind::Adaptive;
    profile.expected_bytes_per_second(own, capacity).filter(|_| adapts).map(Intensity::new)
}

fn write_buffer(profile: &FlashProfile, geometry: &Geometry) -> Result<Option<WriteBuffer>, BadFigure> {
    let Some(size) = profile.write_buffer.0 else { return Ok(None) };
    let units = size.0 / u64::from(geometry.unit_bytes);
    let least = 2 * geometry.units_per_row();
    match u32::try_from(units) {
        Ok(units) if units >= least => Ok(Some(WriteBuffer::new(units))),
        _ => {
            let least = Bytes(u64::from(least) * u64::from(geometry.unit_bytes));
            let expected = format!("\"off\", or at least {least}, two rows of pages of a die, and below 16TiB");
            Err(BadFigure::new("write_buffer", size, expected))
        }
    }
}
