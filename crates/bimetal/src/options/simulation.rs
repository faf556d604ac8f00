//! Options for the simulation of a workload: drives, settings, the trace and its replay.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use bimetal_core::block::BlockSize;
use bimetal_core::block_map::BLOCK_LIMIT;
use bimetal_core::units::Bytes;
use bimetal_measure::json::{FIGURE_DIGITS, round_to_digits};
use bimetal_measure::text::decimal;
use bimetal_models::flash::Precondition;
use bimetal_models::flash::state::{self, DriveState};
use bimetal_models::profile::Profile;
use bimetal_plan::catalogue::{Catalogue, DEFAULT_HDDS, DEFAULT_SSD, SIZE_MIN};
use bimetal_plan::drives::model::sizes_on_sale;
use bimetal_sim::findings::Finding;
use bimetal_sim::market::Market;
use bimetal_sim::outside::{OutsideDirector, OutsidePolicies};
use bimetal_sim::ownership::Terms;
use bimetal_sim::setup::{Choices, DefaultSize, DriveChoice, Size};
use bimetal_sim::simulator::Replay;
use bimetal_sim::tree::VolumeChoice;
use bimetal_sim::workload::{Workload, WorkloadError};
use bimetal_trace::Hints;
use bimetal_trace::analysis::MapCheck;
use clap::Args;

use super::parse::{
    WarmUpOption, above_zero, capacity, member, on_or_off, precondition, rounds, runs, setting, size, warmup,
    whole_number, zero_or_more,
};
use super::replay::{choose_replay, replay, replay_with_times, speedup};
use super::{BlockOption, ConfigOption, TraceOptions, heading};
use crate::error::Error;
use crate::files::{end_of, file_extents, file_map, refuse_map_beyond, refuse_other_map};
use crate::output::note;
use crate::trace_workload::{Alignment, Header, Played, Times, TraceWorkload};
use crate::trees;

/// Options for the simulation of a workload.
#[derive(Debug, Clone, Args)]
pub(crate) struct SimulationOptions {
    #[command(flatten)]
    pub(crate) trace: TraceOptions,
    #[command(flatten)]
    block: BlockOption,
    /// The SSD: a built-in profile, a drive on sale like 'Samsung 990 Pro 1TB', or a TOML file
    /// [default: wd-blue-sn5000]; see `bimetal profiles` and `bimetal catalog show`
    #[arg(long, help_heading = heading::DRIVES, value_name = "PROFILE")]
    ssd: Option<String>,
    /// The HDD: a built-in profile, a drive on sale, or a TOML file [default: wd-red-plus or
    /// seagate-ironwolf-pro, whichever holds the volume for less]
    #[arg(long, help_heading = heading::DRIVES, value_name = "PROFILE")]
    hdd: Option<String>,
    /// Size of the SSD, like 32GiB, or a share of the footprint, like 20% [default: the smallest on
    /// sale that the scheme can use]
    #[arg(long, help_heading = heading::DRIVES, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    ssd_size: Option<Size>,
    /// Size of the HDD [default: the smallest on sale that holds the trace's addresses]
    #[arg(long, help_heading = heading::DRIVES, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    hdd_size: Option<Size>,
    /// Size that the volume must have, even if the trace touches less, like 8TB
    #[arg(long, help_heading = heading::DRIVES, value_name = "SIZE", value_parser = capacity, allow_hyphen_values = true)]
    capacity: Option<Bytes>,
    /// Price a drive of a given size by its share of the profile's price [default: the price of
    /// whole drives]
    #[arg(long, help_heading = heading::DRIVES)]
    pub(crate) price_per_gb: bool,
    /// Number of years for which the volume is kept, for the cost of a year
    #[arg(long, help_heading = heading::DRIVES, value_name = "YEARS", value_parser = above_zero, default_value = "5", allow_hyphen_values = true)]
    years: f64,
    /// Price of a kilowatt-hour in dollars, for the cost of a year
    #[arg(long, help_heading = heading::DRIVES, value_name = "USD", value_parser = zero_or_more, default_value = "0.15", allow_hyphen_values = true)]
    power_price: f64,
    /// Set if each scheme also runs with an SSD of a share of the working set.
    #[arg(skip)]
    pub(crate) also_share: bool,
    /// Set if each scheme also runs with SSDs of several shares of the working set.
    #[arg(skip)]
    pub(crate) over_share: bool,
    /// Policy of another program that chooses the blocks to evict.
    #[arg(skip)]
    pub(crate) outside: Option<OutsidePolicies>,
    /// Program that chooses the blocks that enter the cache.
    #[arg(skip)]
    pub(crate) director: Option<OutsideDirector>,
    /// Number of runs of each scheme, of which all except the first are disturbed.
    #[arg(skip)]
    pub(crate) runs: u32,
    /// Number of rounds in which the trace is played; 0 stands for one.
    #[arg(skip)]
    pub(crate) repeat: u64,
    /// A separate drive for a role; log=PROFILE: the drive of Griffin's log; ssd2=PROFILE: a second
    /// SSD behind Griffin's log
    #[arg(long, help_heading = heading::DRIVES, value_name = "ID=PROFILE[:SIZE]", value_parser = member)]
    member: Vec<(String, DriveChoice)>,
    /// A parameter of a scheme (timeout=30s, griffin.timeout=30s) or of a drive (ssd.gc=greedy,
    /// hdd.scheduler=sptf)
    #[arg(long, help_heading = heading::DRIVES, value_name = "KEY=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// timed: at the times of the trace; closed: DEPTH requests under way; think: after the answers
    /// that the recorded host waited for, and its think time [default: timed, or closed if the
    /// trace has no times]
    #[arg(long, help_heading = heading::RUN, value_name = "timed|closed[:DEPTH]|think", value_parser = replay)]
    pub(crate) replay: Option<Replay>,
    /// Speed factor of the times of the trace, or of the think times; 2: twice as fast
    #[arg(long, help_heading = heading::RUN, value_name = "X", value_parser = speedup, allow_hyphen_values = true, default_value = "1")]
    pub(crate) speedup: f64,
    /// Share of the requests that are played before the measurement begins, from 0 to 1; auto, in
    /// simulate and compare: until the caches are warm
    #[arg(long, help_heading = heading::RUN, value_name = "FRACTION|auto", value_parser = warmup, allow_hyphen_values = true, default_value = "0")]
    pub(crate) warmup: WarmUpOption,
    /// State of the flash before the trace [default: sequential if flash is home or begins with
    /// copies, clean if flash is a cache]
    #[arg(long, help_heading = heading::DRIVES, value_name = "clean|sequential|random", value_parser = precondition)]
    pub(crate) precondition: Option<Precondition>,
    /// Map the touched address ranges densely, so that a trace of a large drive fits a small drive
    #[arg(long, help_heading = heading::TRACE)]
    compact: bool,
    /// Merge requests as the block layer of Linux does [default: on for queue events]
    #[arg(long, help_heading = heading::RUN, value_name = "on|off", value_parser = on_or_off)]
    merge: Option<bool>,
    /// Sector of the trace at which the grid of blocks begins; auto: where most requests are
    /// aligned [default: 0]
    #[arg(long, help_heading = heading::TRACE, value_name = "SECTOR|auto", conflicts_with = "files", allow_hyphen_values = true)]
    pub(crate) align: Option<Alignment>,
    /// Times of requests in a trace of whole seconds; as-is: unchanged; spread or poisson: at
    /// random in each second; equal: at equal distances in each second [default: spread if several
    /// requests share a second]
    #[arg(long, help_heading = heading::TRACE, value_name = "as-is|spread|equal")]
    times: Option<Times>,
    /// Map of files, as offset,length,path in bytes, for combo, dataplex and os-managed
    #[arg(long, help_heading = heading::TRACE, value_name = "MAP.csv", conflicts_with = "compact")]
    files: Option<PathBuf>,
    /// List of the map's files that belong on the SSD, a path a line, the most wanted first, for
    /// combo with strategy=list
    #[arg(long, help_heading = heading::TRACE, value_name = "LIST", requires = "files")]
    list: Option<PathBuf>,
    /// Seed of everything random in a drive
    #[arg(long, help_heading = heading::RUN, value_name = "N", value_parser = whole_number, allow_hyphen_values = true, default_value = "0")]
    seed: u64,
    #[command(flatten)]
    config: ConfigOption,
}

impl SimulationOptions {
    /// Returns a trace, played with these options, and the way in which its requests are issued.
    ///
    /// # Errors
    /// The trace cannot be opened, or a timed replay is asked for and the trace has no times.
    pub(crate) fn open(&self, mut workload: TraceWorkload) -> Result<(TraceWorkload, Replay), Error> {
        let replay = choose_replay(self.replay, self.speedup, &workload.header()?)?;
        let findings = workload.play(self.played(replay)?)?;
        findings
            .iter()
            .chain(&no_response_times(&workload, replay)?)
            .for_each(|finding| workload.tell(finding.advice()));
        Ok((workload, replay))
    }

    /// Returns the way in which the requests of a trace are played.
    ///
    /// # Errors
    /// A block size is not possible.
    pub(crate) fn played(&self, replay: Replay) -> Result<Played, Error> {
        let block = self.block.size()?;
        let is_timed = replay.speedup().is_some();
        Ok(Played { align: self.align, times: self.times, block, seed: self.seed, is_timed })
    }

    /// Returns the way in which the requests of a described (not recorded) workload are issued.
    ///
    /// # Errors
    /// A speed is given for a closed replay, which has no times.
    pub(crate) fn replay_of_described(&self) -> Result<Replay, Error> {
        replay_with_times(self.replay, self.speedup)
    }

    /// Returns the least size of the volume: the given size, or otherwise the size of the device
    /// that was recorded, which a note names. A compacted trace does not need the size of its
    /// device.
    pub(crate) fn capacity_of(&self, workload: &TraceWorkload, header: &Header) -> Option<Bytes> {
        let recorded = self.recorded_capacity(header)?;
        let size = recorded.rounded_down();
        workload.tell(format_args!(
            "the volume holds {size}, the size of the recorded device (--capacity SIZE overrides it)"
        ));
        Some(recorded)
    }

    /// Returns the size of the device that was recorded, if the volume is to have that size.
    pub(crate) fn recorded_capacity(&self, trace: &Header) -> Option<Bytes> {
        trace.capacity.filter(|_| self.capacity.is_none() && !self.compact)
    }

    /// Returns the options that were given, by name and in one spelling: equal simulations have
    /// equal options. The settings of `--set` are not among these options.
    pub(crate) fn in_one_spelling(&self) -> BTreeMap<String, String> {
        // Each field is named, so that a new option cannot be forgotten here.
        let Self {
            trace,
            block,
            ssd,
            hdd,
            ssd_size,
            hdd_size,
            capacity,
            price_per_gb,
            years,
            power_price,
            also_share: _,
            over_share: _,
            outside: _,
            director: _,
            runs: _,
            repeat: _,
            member,
            set: _,
            replay,
            speedup,
            warmup,
            precondition,
            compact,
            merge,
            align,
            times,
            files,
            list,
            seed,
            config: _,
        } = self;
        let TraceOptions { format, event, device, limit, skip_bad_lines } = trace;
        let bytes = |size: &Bytes| size.0.to_string();
        let size = |size: &Size| match size {
            Size::Bytes(size) => bytes(size),
            Size::OfFootprint(share) => format!("{}%", round_to_digits(share * 100.0, FIGURE_DIGITS)),
        };
        let drive = |(id, drive): &(String, DriveChoice)| {
            format!(
                "{id}={}:{}",
                drive.profile.as_deref().unwrap_or_default(),
                drive.size.map_or_else(String::new, |of| size(&of))
            )
        };
        let switch = |on: &bool| on.then(|| "true".to_owned());
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let name = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
        let given = [
            (
                "align",
                align.map(|align| if let Alignment::Sector(at) = align { at.to_string() } else { "auto".to_owned() }),
            ),
            ("block", (block.block != Bytes::from_kib(4)).then(|| bytes(&block.block))),
            ("capacity", capacity.as_ref().map(bytes)),
            ("compact", switch(compact)),
            ("device", device.map(|device| device.to_string())),
            ("event", event.clone()),
            ("files", path(files)),
            ("format", format.clone()),
            ("hdd", hdd.clone()),
            ("hdd-size", hdd_size.as_ref().map(size)),
            ("limit", limit.map(|limit| limit.to_string())),
            ("list", path(list)),
            ("member", (!member.is_empty()).then(|| member.iter().map(drive).collect::<Vec<_>>().join(","))),
            ("merge", merge.map(|on| on.to_string())),
            ("power-price", (*power_price != Terms::default().usd_per_kwh).then(|| power_price.to_string())),
            ("precondition", precondition.map(|state| name(&state))),
            ("price-per-gb", switch(price_per_gb)),
            ("replay", replay.map(Replay::spelled)),
            ("seed", Some(seed.to_string())),
            ("skip-bad-lines", switch(skip_bad_lines)),
            ("speedup", (*speedup != 1.0).then(|| speedup.to_string())),
            ("ssd", ssd.clone()),
            ("ssd-size", ssd_size.as_ref().map(size)),
            ("times", times.map(|times| name(&times))),
            (
                "warmup",
                match warmup {
                    WarmUpOption::Fraction(fraction) => (*fraction != 0.0).then(|| fraction.to_string()),
                    WarmUpOption::Auto => Some("auto".to_owned()),
                },
            ),
            ("years", (*years != Terms::default().years).then(|| years.to_string())),
        ];
        given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    /// Returns the paths of the files that these options name, in addition to the trace.
    pub(crate) fn named_files(&self) -> BTreeSet<PathBuf> {
        let drives = [&self.ssd, &self.hdd].into_iter().chain(self.member.iter().map(|(_, drive)| &drive.profile));
        let profiles = drives.flatten().filter(|name| !Profile::is_builtin(name)).map(PathBuf::from);
        profiles.chain(self.files.clone()).chain(self.list.clone()).collect()
    }

    /// Returns the seed of everything random.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the largest number of requests that are read.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.trace.limit
    }

    /// Returns the trees of volumes in the file of `--config`.
    ///
    /// # Errors
    /// The file cannot be read, or its tables are not a tree of volumes.
    pub(crate) fn trees(&self) -> Result<Vec<VolumeChoice>, Error> {
        self.config.config.as_deref().map_or_else(|| Ok(Vec::new()), trees::read)
    }

    /// Refuses drives that flags name where only trees run: a tree names its own drives.
    pub(crate) fn refuse_drives_without_schemes(&self) -> Result<(), Error> {
        let given = [
            ("ssd", self.ssd.is_some()),
            ("hdd", self.hdd.is_some()),
            ("ssd-size", self.ssd_size.is_some()),
            ("hdd-size", self.hdd_size.is_some()),
            ("capacity", self.capacity.is_some()),
            ("member", !self.member.is_empty()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Error::new(format!(
                "--{flag}: only volumes of --config run, and its [drive.NAME] tables set their drives: change those tables"
            ))),
            None => Ok(()),
        }
    }

    /// Refuses a map of files that is another device's than the trace's.
    ///
    /// # Errors
    /// The map cannot belong to the trace, or one of the two cannot be read.
    pub(crate) fn refuse_other_map(&self, workload: &TraceWorkload, header: &Header) -> Result<(), Error> {
        let Some(path) = &self.files else { return Ok(()) };
        let mut check = MapCheck::new(&file_map(path)?);
        let unreadable = |error: WorkloadError| Error::new(error.to_string());
        for request in workload.open().map_err(unreadable)?.take(MapCheck::REQUESTS_MAX) {
            check.count(&request.map_err(unreadable)?);
        }
        refuse_other_map(&check, path, &header.name, header.capacity)
    }

    /// Returns true if a model or a size of the SSD is asked for, and true if one of the HDD is.
    pub(crate) fn asks_for_drives(&self) -> (bool, bool) {
        (self.ssd.is_some() || self.ssd_size.is_some(), self.hdd.is_some() || self.hdd_size.is_some())
    }

    /// Returns the least size of the volume for `given` choices: the given size, or otherwise the
    /// size of the device that was `recorded`, or the end of the map of files.
    ///
    /// # Errors
    /// The map of files ends beyond the given size.
    pub(crate) fn least_capacity(&self, given: &Choices, recorded: Option<Bytes>) -> Result<Option<Bytes>, Error> {
        if let (Some(path), Some(capacity)) = (&self.files, given.capacity) {
            refuse_map_beyond(&given.files, path, capacity)?;
        }
        Ok(given.capacity.or(recorded).or_else(|| end_of(&given.files)))
    }

    /// Returns two values: true if a map of files is given, and true if a list of files is given.
    pub(crate) fn has_files(&self) -> [bool; 2] {
        [self.files.is_some(), self.list.is_some()]
    }

    /// Returns true if a block layer merges the requests: by default queue events are merged.
    pub(crate) fn merges(&self, queue_events: bool) -> bool {
        self.merge.unwrap_or(queue_events)
    }

    /// Returns the share of the requests that is played before the measurement begins.
    ///
    /// # Errors
    /// The share would have to be found from the run; only `simulate` and `compare` do this.
    pub(crate) fn warmup(&self) -> Result<f64, Error> {
        match self.warmup {
            WarmUpOption::Fraction(fraction) => Ok(fraction),
            WarmUpOption::Auto => Err(Error::new(
                "--warmup auto: expected a fraction, like 0.5; `bimetal compare TRACE --warmup auto` finds one",
            )),
        }
    }
}

/// Number of requests that are examined for response times.
const EXAMINED: usize = 1 << 16;

/// Returns a finding if the replay rests on response times that the first requests do not have.
fn no_response_times(workload: &TraceWorkload, replay: Replay) -> Result<Option<Finding>, Error> {
    if !matches!(replay, Replay::Think { .. }) {
        return Ok(None);
    }
    let text = |error: WorkloadError| Error::new(error.to_string());
    let (mut requests, mut answered) = (0, 0);
    for request in workload.open().map_err(text)?.take(EXAMINED) {
        requests += 1;
        answered += u64::from(request.map_err(text)?.response.is_some());
    }
    Ok(Finding::no_response_times(requests, answered))
}

/// Information about the host.
#[derive(Debug, Clone, Args)]
pub(crate) struct HintsOption {
    /// Evictions of the host's buffer cache, for griffin: lines time_ns,device,lba,sectors. Or pins
    /// to flash (1) and their ends (0), for hybrid-disk: lines time_ns,device,lba,sectors,pin
    #[arg(long, help_heading = heading::TRACE, value_name = "FILE.csv", conflicts_with = "compact")]
    pub(crate) hints: Option<PathBuf>,
}

impl HintsOption {
    /// Returns true if a file of hints was named.
    pub(crate) fn is_given(&self) -> bool {
        self.hints.is_some()
    }

    /// Returns the hints of the file, for the device that is read.
    ///
    /// # Errors
    /// The file cannot be read, or the replay does not keep to the times of the hints.
    pub(crate) fn read(&self, replay: Replay, trace: &TraceOptions, rounds: u64) -> Result<Hints, Error> {
        let Some(path) = &self.hints else { return Ok(Hints::default()) };
        if !matches!(replay, Replay::Timed { .. }) {
            return Err(Error::new(format!(
                "--hints: a host evicts or pins blocks at times of the trace, which --replay {} does not keep: expected \
                 --replay timed",
                replay.spelled()
            )));
        }
        if rounds > 1 {
            return Err(Error::new(
                "--hints: the hints are of one round of the trace: expected --hints or --repeat, but not both",
            ));
        }
        let hints = Hints::open(path)?;
        Ok(trace.device.map_or_else(|| hints.clone(), |device| hints.of_device(device)))
    }
}

/// Number of rounds in which a trace is played.
#[derive(Debug, Clone, Args)]
pub(crate) struct RepeatOption {
    /// Play the trace N times in a row. Each round begins one mean gap between requests after the
    /// last arrival of the round before; figures are over all rounds
    #[arg(long, help_heading = heading::RUN, value_name = "N", value_parser = rounds, allow_hyphen_values = true, default_value = "1")]
    pub(crate) repeat: u64,
}

/// Number of runs, for the uncertainty of the figures.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunsOption {
    /// Runs of each scheme. The figures of the first run are printed. Further runs are disturbed at
    /// random (places of data, phase of the platters), and give the ± beside each figure [default:
    /// 5 in compare, 1 in simulate]
    #[arg(long, help_heading = heading::RUN, value_name = "N", value_parser = runs, allow_hyphen_values = true)]
    pub(crate) runs: Option<u32>,
}

/// State of the flash drives at the start.
#[derive(Debug, Clone, Args)]
pub(crate) struct RestoreOption {
    /// Start with the state of the flash that `simulate --save-state` wrote to this file
    #[arg(long, help_heading = heading::DRIVES, value_name = "FILE", conflicts_with = "precondition")]
    pub(crate) restore_state: Option<PathBuf>,
}

impl RestoreOption {
    /// Returns the states of the flash drives in the file; no states if no file was named.
    ///
    /// # Errors
    /// The file cannot be read, or has no states.
    pub(crate) fn read(&self) -> Result<Arc<[DriveState]>, Error> {
        let Some(path) = &self.restore_state else { return Ok(Arc::default()) };
        let refuse = |reason: String| Error::new(format!("--restore-state {}: {reason}", path.display()));
        let bytes = std::fs::read(path).map_err(|error| refuse(error.to_string()))?;
        state::decode(&bytes).map(Arc::from).map_err(|error| refuse(error.to_string()))
    }
}

/// Returns the models that serve where no drive is named.
fn default_models() -> impl Iterator<Item = &'static str> {
    std::iter::once(DEFAULT_SSD).chain(DEFAULT_HDDS)
}

/// Returns the drives on sale for simulations without named drives: the models with a built-in
/// profile, and the default models in all sizes.
pub(crate) fn default_market() -> Market {
    let mut market = Catalogue::of_profiles().market();
    market.drives.extend(default_models().flat_map(sizes_on_sale));
    market
}

/// Returns the drives on sale: those of the default market, and the drives that the options name.
fn market(options: &SimulationOptions) -> Market {
    let mut market = default_market();
    let members = options.member.iter().filter_map(|(_, drive)| drive.profile.as_ref());
    let mut named: Vec<&str> = options.ssd.iter().chain(&options.hdd).chain(members).map(String::as_str).collect();
    named.retain(|name| default_models().all(|default| default != *name));
    named.sort_unstable();
    named.dedup();
    let unlisted: Vec<_> =
        named.into_iter().filter(|name| !Profile::builtin_names().any(|known| known == *name)).collect();
    market.drives.extend(unlisted.into_iter().flat_map(sizes_on_sale));
    market
}

/// Refuses a capacity that no volume with blocks of size `block` has.
fn check_capacity(capacity: Option<Bytes>, block: BlockSize) -> Result<(), Error> {
    let Some(capacity) = capacity.filter(|capacity| capacity.0 / block.bytes().0 >= BLOCK_LIMIT) else {
        return Ok(());
    };
    let limit = decimal(block.bytes().0.saturating_mul(BLOCK_LIMIT));
    Err(Error::new(format!(
        "--capacity {}: a volume with blocks of {} has less than {limit}: expected a smaller capacity, or --block with \
         larger blocks",
        decimal(capacity.0),
        block.bytes()
    )))
}

/// Refuses a drive that is smaller than any drive, and notes a drive that is larger than all that
/// the trace touches.
fn check_sizes(options: &SimulationOptions) -> Result<(), Error> {
    let flags = [("--ssd-size", options.ssd_size), ("--hdd-size", options.hdd_size)];
    let members = options.member.iter().map(|(id, drive)| (format!("--member {id}="), drive.size));
    for (flag, size) in flags.map(|(flag, size)| (flag.to_owned(), size)).into_iter().chain(members) {
        match size {
            Some(Size::Bytes(bytes)) if bytes < SIZE_MIN => {
                let expected = format!("expected the size of a drive, at least {SIZE_MIN}");
                return Err(Error::new(format!("{flag} {bytes}: {expected}")));
            }
            Some(Size::OfFootprint(share)) if share > 1.0 => note(format_args!(
                "{flag} {:.0}%: the drive is larger than all blocks that the trace touches",
                share * 100.0
            )),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the drives, sizes and settings that the options name.
///
/// # Errors
/// A block size is not possible.
pub(crate) fn choices(options: &SimulationOptions) -> Result<Choices, Error> {
    let by_list = |(key, value): &(String, String)| ["strategy", "combo.strategy"].contains(&&**key) && value == "list";
    if options.set.iter().any(by_list) && options.files.is_some() && options.list.is_none() {
        return Err(Error::new(
            "--set strategy=list: no file would move without a list: expected --list LIST beside the map; `bimetal \
             optimize` writes a list",
        ));
    }
    let ids: Vec<&String> = options.member.iter().map(|(id, _)| id).collect();
    if let Some((_, id)) = ids.iter().enumerate().find(|(at, id)| ids[..*at].contains(id)) {
        return Err(Error::new(format!("--member {id}: is given twice: expected one drive for each id")));
    }
    check_sizes(options)?;
    let block = options.block.size()?;
    check_capacity(options.capacity, block)?;
    Ok(Choices {
        ssd: DriveChoice { profile: options.ssd.clone(), size: options.ssd_size },
        hdd: DriveChoice { profile: options.hdd.clone(), size: options.hdd_size },
        members: options.member.clone(),
        default_size: DefaultSize::OnSale,
        also_share: options.also_share,
        over_share: options.over_share,
        runs: options.runs,
        market: Arc::new(market(options)),
        price_per_gb: options.price_per_gb,
        capacity: options.capacity,
        settings: options.set.clone(),
        block,
        precondition: options.precondition,
        restored: Arc::default(),
        compact: options.compact,
        merge: options.merges(false),
        files: match &options.files {
            None => Vec::new(),
            Some(files) => file_extents(files, options.list.as_deref())?,
        },
        hints: Hints::default(),
        outside: options.outside.clone(),
        director: options.director.clone(),
        is_part: options.trace.limit.is_some(),
        seed: options.seed,
        // A program that learns would see the workload again and again.
        steady_wear: options.director.is_none(),
        ownership: Terms { years: options.years, usd_per_kwh: options.power_price },
    })
}
