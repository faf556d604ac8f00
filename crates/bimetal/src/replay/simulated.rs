//! Simulation of a live volume: its scheme and settings, and the drives that its members emulate,
//! at their sizes.

use bimetal_core::label::Label;
use bimetal_core::layout::MemberId;
use bimetal_core::settings::Settings;
use bimetal_device::drive::emulated::Player;
use bimetal_measure::response_time::ResponseTimeRecorder;
use bimetal_sim::setup::{Existing, ExistingDrive, Setup};
use bimetal_sim::simulator::{Play, Replay, simulate};
use bimetal_sim::workload::Workload;

use crate::error::Error;
use crate::names::schemes_named;
use crate::progress::Progress;

/// Returns a simulated volume, empty as at its creation.
///
/// # Errors
/// A member emulates no drive, so its times are unknown.
pub(crate) fn setup(label: &Label) -> Result<Setup, Error> {
    let scheme = schemes_named(&label.scheme)?[0];
    let settings = Settings::new(scheme.name, scheme.parameters, label.scheme_settings())?;
    let mut drives = Vec::new();
    for (at, (member, size)) in label.member_infos().into_iter().zip(&label.members).enumerate() {
        let id = MemberId(at as u16);
        let Some(player) = Player::of_member(label, id)? else {
            return Err(Error::new(format!(
                "--against-simulator: {} of volume '{}' is a real drive, which has no model: expected a volume of \
                 emulated drives (bimetal create … --hdd emulate:PROFILE:FILE)",
                label.member_name(id),
                label.name
            )));
        };
        drives.push(ExistingDrive { member, profile: player.profile, size: size.size });
    }
    Ok(Setup::of_existing(Existing { scheme, settings, block: label.block, units: &label.units, drives })?)
}

/// Returns the response times of `workload` on the simulated volume.
///
/// # Errors
/// The workload cannot be read, or the simulation fails.
pub(crate) fn play(
    mut setup: Setup,
    workload: &dyn Workload,
    replay: Replay,
    requests: u64,
) -> Result<ResponseTimeRecorder, Error> {
    let progress = std::cell::RefCell::new(Progress::new(Some(requests), "requests"));
    let requests = workload.open().map_err(|error| Error::new(error.to_string()))?;
    let play = Play { replay, warmup_requests: 0, block_layer: None };
    let measured = simulate(&mut setup, requests, play, &|issued| progress.borrow_mut().set(issued))?;
    Ok(measured.response)
}
