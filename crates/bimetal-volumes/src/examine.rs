//! Examination of a volume that is not served: a recovery over drives that discard all changes.

use bimetal_core::volume::Recovery;
use bimetal_device::drive::file::DriveFile;
use bimetal_device::drive::read_only::ReadOnly;
use bimetal_device::drive::{self, Drive, Engine};

use crate::find::{Labelled, Located};
use crate::plan::Plan;
use crate::startup;
use crate::state::is_dirty;
use crate::volume_lock;

/// Returns the number of bytes that are off home only, by a recovery that changes nothing, or the
/// reason for which the recovery fails. Returns `None` if the volume keeps nothing off home, and no
/// table of places.
pub(crate) fn dirty_bytes(located: &Located) -> Option<Result<u64, String>> {
    let plan = Plan::of_label(&located.assembly.label)?;
    if plan.slots_member().is_none() && !plan.has_places() {
        return None;
    }
    let found = look_off_home(located);
    // A server may have started meanwhile.
    volume_lock::owner(&located.assembly.label.name).is_none().then_some(found)
}

/// Returns the number of bytes that are off home only, or the reason for which the recovery fails.
pub(crate) fn look_off_home(located: &Located) -> Result<u64, String> {
    let unknown = || format!("the scheme '{}' is not known", located.assembly.label.scheme);
    let plan = Plan::of_label(&located.assembly.label).ok_or_else(unknown)?;
    let open = |drive: Option<&Labelled>| -> Result<Box<dyn Drive>, String> {
        let drive = drive.ok_or("a drive is missing")?;
        let told = |error: &dyn std::fmt::Display| format!("{}: {error}", drive.probe.path.display());
        let file = DriveFile::open(&drive.probe.canonical).map_err(|error| told(&error))?;
        Ok(Box::new(ReadOnly::new(drive::attach(file, Engine::Pool).map_err(|error| told(&error))?)))
    };
    let mut drives: Vec<_> = located.members().map(open).collect::<Result<_, _>>()?;
    let recovery = Recovery::new(&plan.config(), &[]).map_err(|error| error.to_string())?;
    let volume = match startup::recover(recovery, &mut drives, |_, _| {}) {
        Ok(volume) => volume,
        // A cache that home does not need may begin anew, which these drives do not let it.
        Err(_) if is_dirty(located) == Some(false) && !plan.has_places() => return Ok(0),
        Err(error) => return Err(error.to_string()),
    };
    let view = volume.view();
    Ok(u64::from(view.map.dirty_blocks()) * view.block().bytes().0)
}
