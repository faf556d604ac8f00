//! State of flash drives at the end of a run, from which the next run continues.

use bimetal_models::flash::state::DriveState;

use crate::setup::Setup;

impl Setup {
    /// Returns the state of the flash drives, for the next run.
    pub fn save_states(&mut self) -> Vec<DriveState> {
        let saved = self
            .drives
            .iter_mut()
            .filter_map(|drive| Some(DriveState { drive: drive.id.clone(), tables: drive.model.save_state()? }));
        saved.collect()
    }
}
