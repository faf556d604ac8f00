//! Gain of a placement: simulations of a trace with the files where they lie, and with the chosen
//! files on the SSD.

use std::path::Path;
use std::sync::Arc;

use bimetal_core::block::BlockSize;
use bimetal_core::scheme::FileExtent;
use bimetal_core::schemes::combo;
use bimetal_core::units::{Bytes, SECTOR_BYTES, SectorRange};
use bimetal_sim::experiment::{Experiment, NoProgress};
use bimetal_sim::setup::{Choices, DefaultSize, DriveChoice, Size};
use bimetal_trace::file_system::PlacedFile;
use serde::Serialize;

use super::relocated::{Piece, Relocated};
use crate::error::Error;
use crate::options::TraceOptions;
use crate::options::replay::choose_replay;
use crate::options::simulation::default_market;
use crate::trace_workload::{Played, TraceWorkload};

/// Mean response times of a trace.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Gain {
    /// Mean with the files where they lie.
    pub(super) mean_ms_now: f64,
    /// Mean with the chosen files on the SSD.
    pub(super) mean_ms_placed: f64,
}

/// Files, free space and their drive.
pub(super) struct Placement<'a> {
    pub(super) files: &'a [PlacedFile],
    /// First byte and length of each free range.
    pub(super) free: &'a [(u64, u64)],
    /// Numbers of the files that should lie on the SSD, the most important first.
    pub(super) chosen: &'a [usize],
    pub(super) ssd: Bytes,
    /// Former ranges of files that have moved since the trace was recorded.
    pub(super) pieces: &'a [Piece],
}

impl Placement<'_> {
    /// Returns the map of files for the simulator, with the places of the chosen files in the list.
    fn extents(&self) -> Vec<FileExtent> {
        let mut line = vec![None; self.files.len()];
        (0..).zip(self.chosen).for_each(|(number, &file)| line[file] = Some(number));
        let extent = |&(start, length): &(u64, u64), path: &str, listed| {
            let first = start / SECTOR_BYTES;
            let sectors = SectorRange::new(first, (start + length).div_ceil(SECTOR_BYTES) - first);
            FileExtent { path: path.to_owned(), sectors, listed }
        };
        let of_file = |(file, &listed): (&PlacedFile, &Option<u32>)| {
            file.extents.iter().map(|at| extent(at, &file.path, listed)).collect::<Vec<_>>()
        };
        let files = self.files.iter().zip(&line).flat_map(of_file);
        files.chain(self.free.iter().map(|at| extent(at, "", None))).collect()
    }

    /// Simulates the trace at `path` with the default models of drives, at the present places of
    /// the files. If `is_placed` is set, each file lies on the drive on which it belongs.
    ///
    /// # Errors
    /// The trace cannot be read, or a simulation fails.
    pub(super) fn gain(&self, path: &Path, options: &TraceOptions, is_placed: bool) -> Result<Gain, Error> {
        let mut workload = TraceWorkload::of_file(path.to_owned(), options)?;
        let replay = choose_replay(None, 1.0, &workload.header()?)?;
        let block = BlockSize::default();
        let is_timed = replay.speedup().is_some();
        workload.play(Played { align: None, times: None, block, seed: 0, is_timed })?;
        let workload = Relocated::new(&workload, self.pieces);
        let files = self.extents();
        let mean = |settings: &[(&str, &str)], files: Vec<FileExtent>| {
            let settings = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
            let choices = self.choices(settings, files, block, options.limit.is_some());
            let (schemes, trees) = (vec![(&combo::INFO).into()], Vec::new());
            let experiment =
                Experiment { workload: &workload, schemes, trees, choices, replay, warmup: 0.0, keep: None };
            let document = experiment.run(&NoProgress, |_, summary| summary)?;
            let run = document.runs.first().ok_or_else(|| Error::new("no scheme could be simulated"))?;
            Ok::<f64, Error>(run.response_time_ms.all.mean.unwrap_or(0.0))
        };
        let mean_ms_now = mean(&[], Vec::new())?;
        if is_placed {
            return Ok(Gain { mean_ms_now, mean_ms_placed: mean_ms_now });
        }
        let mean_ms_placed = mean(&[("combo.strategy", "list"), ("combo.moves", "instant")], files)?;
        Ok(Gain { mean_ms_now, mean_ms_placed })
    }

    fn choices(
        &self,
        settings: Vec<(String, String)>,
        files: Vec<FileExtent>,
        block: BlockSize,
        is_part: bool,
    ) -> Choices {
        Choices {
            ssd: DriveChoice { profile: None, size: Some(Size::Bytes(self.ssd)) },
            default_size: DefaultSize::OnSale,
            market: Arc::new(default_market()),
            settings,
            block,
            files,
            is_part,
            ..Choices::default()
        }
    }
}
