//! Makes a volume over models from a scheme, drives and a survey: applies settings by key, and
//! finds sizes and prices (`sizing.rs`). Every choice that was not given is listed under `assumed`.

mod error;

use std::collections::BTreeMap;
use std::sync::Arc;

use bimetal_core::block::BlockSize;
use bimetal_core::layout::{HomeExtent, LayoutError, LayoutRequest, MemberId, MemberInfo, Role};
use bimetal_core::payload::NoPayload;
use bimetal_core::scheme::{FileExtent, Foresight, Holds, SchemeError, SchemeInfo, View};
use bimetal_core::schemes::{self, dataplex};
use bimetal_core::settings::Settings;
use bimetal_core::tree::Tree;
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange, Sectors};
use bimetal_core::volume::{Volume, VolumeConfig, VolumeError};
use bimetal_models::DeviceModel;
use bimetal_models::flash::Precondition;
use bimetal_models::flash::state::DriveState;
use bimetal_models::profile::{Price, Profile};
use bimetal_trace::Hints;

use crate::hints;
use crate::host::volume_with_host;
pub use crate::keys::check_keys;
use crate::keys::uses_role;
use crate::market::Market;
use crate::member_name::MemberName;
use crate::outside::{Outside, OutsideDirector, OutsidePolicies};
use crate::ownership::Terms;
pub use crate::sizing::Sizing;
use crate::sizing::{Origin, hold_capacity, purchase_of};
use crate::survey::Survey;
pub use error::SetupError;

/// Size that is given for a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// Number of bytes.
    Bytes(Bytes),
    /// Share of the footprint.
    OfFootprint(f64),
}

/// Drive that is requested.
#[derive(Clone, Debug, Default)]
pub struct DriveChoice {
    /// Built-in profile or TOML file; the default drive of its kind if `None`.
    pub profile: Option<String>,
    /// Size of the drive.
    pub size: Option<Size>,
}

/// Size of a drive for which no size is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DefaultSize {
    /// A cache has this percentage of the footprint, and a drive that holds ranges this percentage
    /// of the address range. Such a cache or drive costs a share of a drive's price. All other
    /// drives are drives on sale.
    Share {
        /// Percentage of the footprint.
        percent: u64,
    },
    /// Each drive is the smallest drive on sale that the scheme can use.
    OnSale,
}

impl DefaultSize {
    /// Share of the footprint in the second part of a comparison.
    pub const TENTH: Self = Self::Share { percent: 10 };
}

impl Default for DefaultSize {
    fn default() -> Self {
        Self::TENTH
    }
}

/// Choices of the user for a run.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// `--ssd`, `--ssd-size`.
    pub ssd: DriveChoice,
    /// `--hdd`, `--hdd-size`.
    pub hdd: DriveChoice,
    /// `--member ID=PROFILE[:SIZE]`: the id is a role (`log`), with a number from the second drive
    /// of the role on (`ssd2`).
    pub members: Vec<(String, DriveChoice)>,
    /// Sizes of drives for which no size is given.
    pub default_size: DefaultSize,
    /// Set if an experiment also runs each scheme with [`DefaultSize::TENTH`], unless a size is
    /// given.
    pub also_share: bool,
    /// Set if an experiment with such runs also runs each scheme over several shares
    /// ([`crate::over_share`]).
    pub over_share: bool,
    /// Drives on sale.
    pub market: Arc<Market>,
    /// `--price-per-gb`: a drive costs a share of its price, by its size.
    pub price_per_gb: bool,
    /// `--capacity`: least size of the volume.
    pub capacity: Option<Bytes>,
    /// `--set KEY=VALUE`, in order.
    pub settings: Vec<(String, String)>,
    /// `--block`.
    pub block: BlockSize,
    /// `--precondition`; by default sequential if flash is home, and clean otherwise.
    pub precondition: Option<Precondition>,
    /// `--restore-state`: initial state of flash drives, instead of the precondition.
    pub restored: Arc<[DriveState]>,
    /// `--compact`.
    pub compact: bool,
    /// `--merge`: the requests have not passed through a block layer.
    pub merge: bool,
    /// `--files`: map of the files' places.
    pub files: Vec<FileExtent>,
    /// `--hints`: recorded evictions of a host's buffer cache, or pins of a host, with their times.
    pub hints: Hints,
    /// Policy of another program that chooses the blocks to evict, in place of the scheme's own.
    pub outside: Option<OutsidePolicies>,
    /// Program that chooses the blocks that enter the cache, instead of the scheme.
    pub director: Option<OutsideDirector>,
    /// Set if only a part of the trace is played (`--limit`), so that devices may be missing.
    pub is_part: bool,
    /// `--seed`.
    pub seed: u64,
    /// `--runs`: number of runs of each scheme, of which all except the first are disturbed
    /// ([`crate::disturbance`]); 0 means 1.
    pub runs: u32,
    /// Set to repeat the workload until the wear of the flash is steady ([`crate::lifetime`]).
    pub steady_wear: bool,
    /// `--years`, `--power-price`: terms under which the volume is owned.
    pub ownership: Terms,
}

/// Drive of a run.
pub struct Drive {
    /// Name of the drive: the name of its role, with a number from the second drive on; in a tree,
    /// the name that the tree gives the drive.
    pub id: String,
    /// Number of the volume that the drive is a member of.
    pub volume: usize,
    /// Name of this volume, in a tree.
    pub volume_name: Option<String>,
    /// Number of the member in its volume.
    pub member: MemberId,
    /// Role of the drive.
    pub role: Role,
    /// Content of the drive under the scheme.
    pub holds: Holds,
    /// Profile, with the user's settings.
    pub profile: Profile,
    /// Size of the drive.
    pub size: Bytes,
    /// Set if the size is a share of a drive.
    pub(crate) is_share: bool,
    /// Price of the drive; `None` if no price is known.
    pub price: Option<Price>,
    /// Number of equal drives that are bought and used as one drive.
    pub bought: u64,
    /// Size of the drives that are bought, and wear: more than `size` if only a part of a drive is
    /// used.
    pub bought_size: Bytes,
    /// Model of the drive.
    pub model: Box<dyn DeviceModel>,
}

/// Volume over drives, or a tree of volumes, ready to run.
pub struct Setup {
    /// Name of the run: the scheme, or the outermost volume of a tree.
    pub name: String,
    /// Scheme of the outermost volume.
    pub scheme: &'static SchemeInfo,
    /// Parameters of the scheme.
    pub settings: Settings,
    /// Parameters of the volumes inside a tree, as `VOLUME.KEY`.
    pub inner_settings: BTreeMap<String, String>,
    /// Volumes of the run.
    pub tree: Tree<NoPayload>,
    /// Drives, in the order of the leaves: for a single volume the order of its members.
    pub drives: Vec<Drive>,
    /// Units by device of the trace.
    pub units: BTreeMap<u32, u16>,
    /// Hints about a host's buffer cache for the outermost volume.
    pub hints: Hints,
    /// Choices that were not given, and are reported.
    pub assumed: BTreeMap<String, String>,
    /// Price of the controller.
    pub controller_usd: f64,
    /// Origin of the sizes of the drives.
    pub sizing: Sizing,
    /// Time at which the run starts. Platters turn from time zero on.
    pub start: Nanoseconds,
    /// Number of requests after which half of the workload has passed; `None` if the length of the
    /// workload is unknown. Schemes that learn end their training phase there.
    pub half: Option<u64>,
}

pub(crate) const CONTROLLER_USD: &str = "controller_usd";

/// Settings that have no effect without a map of files.
pub const WANT_FILES: [(&str, &str); 3] = [("strategy", "type"), ("strategy", "list"), ("metadata", "on")];

impl Setup {
    /// Makes drives and a volume for `scheme`, suitable for the workload that `survey` describes.
    ///
    /// # Errors
    /// Refuses impossible profiles, settings or sizes.
    pub fn new(scheme: &'static SchemeInfo, choices: &Choices, survey: &Survey) -> Result<Self, SetupError> {
        let settings = settings_for(scheme, choices)?;
        let (units, unit_sizes) = units_of(choices, survey);
        let mut plan =
            Plan { scheme, choices, survey, settings: &settings, units: &unit_sizes, assumed: BTreeMap::new() };
        plan.assume_workload();
        let chosen = plan.choose_drives()?;
        let by_files = WANT_FILES.iter().find(|&&(key, value)| settings.get(key) == Some(value));
        if let Some((key, value)) = by_files.filter(|_| choices.files.is_empty()) {
            let (key, value) = (format!("{}.{key}", scheme.name), (*value).to_owned());
            return Err(SetupError::Value { key, value, expected: "a map of files: --files MAP.csv" });
        }
        let (mut volume, sizes) = plan.fit(&chosen)?;
        let chosen = plan.as_bought(chosen, &sizes)?;
        plan.assume_memory(&chosen, &sizes);
        if let Some(OutsidePolicies { name, make }) = &choices.outside
            && !volume.take_policy(&mut |slots| Box::new(Outside::new(make(slots), slots)))
        {
            return Err(SetupError::NoUseForPolicy { scheme: scheme.name.to_owned(), policy: name.clone() });
        }
        if let Some(OutsideDirector { name, make }) = &choices.director
            && !volume.take_director(&**make)
        {
            return Err(SetupError::NoUseForDirector { scheme: scheme.name.to_owned(), director: name.clone() });
        }
        volume.foresee(&Foresight { tells_half: true, files: &choices.files });
        let assumed = plan.assumed;
        let sizing = choices.sizing();
        let drives = build(scheme.name, chosen, &sizes, &volume, choices)?;
        let controller_usd = controller_usd(choices, scheme.name)?;
        let hints = hints::of_run(&settings, scheme, &volume, &units, choices)?;
        let alone = Self::without_workload(scheme, settings, volume, drives);
        let half = Some(survey.requests / 2);
        Ok(Self { units, hints, assumed, controller_usd, sizing, half, ..alone })
    }

    /// Checks whether the drives of `choices` are large enough for `scheme`. No volume is made: the
    /// tables of a large volume take time.
    ///
    /// # Errors
    /// Refuses impossible profiles, settings or sizes.
    pub fn check_sizes(scheme: &'static SchemeInfo, choices: &Choices, survey: &Survey) -> Result<(), SetupError> {
        let settings = settings_for(scheme, choices)?;
        let (_, units) = units_of(choices, survey);
        let mut plan = Plan { scheme, choices, survey, settings: &settings, units: &units, assumed: BTreeMap::new() };
        let chosen = plan.choose_drives()?;
        plan.fit_with(&chosen, &|config| {
            (config.scheme.layout)(config.settings, &config.layout).map(|_| ()).map_err(VolumeError::from)
        })?;
        Ok(())
    }

    /// Returns a volume over its drives, without assumed choices.
    fn without_workload(
        scheme: &'static SchemeInfo,
        settings: Settings,
        volume: Volume<NoPayload>,
        drives: Vec<Drive>,
    ) -> Self {
        Self {
            name: scheme.name.to_owned(),
            scheme,
            settings,
            inner_settings: BTreeMap::new(),
            tree: volume.into(),
            drives,
            units: BTreeMap::from([(0, 0)]),
            hints: Hints::default(),
            assumed: BTreeMap::new(),
            controller_usd: 0.0,
            sizing: Sizing::Given,
            start: Nanoseconds::ZERO,
            half: None,
        }
    }

    /// Returns true if a drive is a share of a drive on sale.
    pub(crate) fn has_share(&self) -> bool {
        self.drives.iter().any(|drive| drive.is_share)
    }

    /// Returns the outermost volume.
    pub fn volume(&self) -> &Volume<NoPayload> {
        self.tree.outermost()
    }
}

/// Volume with existing drives, whose sizes are fixed, so that it is simulated unchanged.
pub struct Existing<'a> {
    /// Scheme of the volume.
    pub scheme: &'static SchemeInfo,
    /// Parameters of the scheme.
    pub settings: Settings,
    /// Block size of the volume.
    pub block: BlockSize,
    /// Smallest size of each unit; empty for one unit.
    pub units: &'a [Sectors],
    /// Drives, in the order of the volume's members.
    pub drives: Vec<ExistingDrive>,
}

/// Drive of an existing volume.
pub struct ExistingDrive {
    /// Member, with the part of the drive that the volume uses.
    pub member: MemberInfo,
    /// Profile, with all settings.
    pub profile: Profile,
    /// Size of the drive.
    pub size: Sectors,
}

impl Setup {
    /// Makes the simulated twin of an existing volume: the same scheme and settings on models of
    /// the drives, without content. A workload for the volume names one device, 0, which is the
    /// volume's first unit.
    ///
    /// # Errors
    /// Refuses a drive that is impossible with its profile, and settings that the scheme refuses.
    pub fn of_existing(existing: Existing<'_>) -> Result<Self, SetupError> {
        let Existing { scheme, settings, block, units, drives } = existing;
        let members: Vec<MemberInfo> = drives.iter().map(|drive| drive.member).collect();
        let layout = LayoutRequest { block, members: &members, units };
        let config = VolumeConfig { scheme, settings: &settings, layout, identity: 0, drives: &[] };
        let volume = volume_with_host(&config).map_err(|error| SetupError::Volume { scheme: scheme.name, error })?;
        let holds = scheme.members.iter().map(|&(_, holds)| holds).chain(std::iter::repeat(Holds::Cache));
        let chosen = drives.into_iter().zip(holds).map(|(drive, holds)| {
            let ExistingDrive { member, profile, size } = drive;
            let (id, model) = (String::new(), profile.name.clone());
            Chosen { id, role: member.role, holds, model, profile, size, origin: Origin::Given }
        });
        let mut chosen: Vec<Chosen> = chosen.collect();
        for at in 0..chosen.len() {
            let role = chosen[at].role;
            let number = 1 + chosen[..at].iter().filter(|before| before.role == role).count();
            chosen[at].id = MemberName { role, number }.text();
        }
        let sizes: Vec<Sectors> = chosen.iter().map(|drive| drive.size).collect();
        let drives = build(scheme.name, chosen, &sizes, &volume, &Choices { block, ..Choices::default() })?;
        Ok(Self::without_workload(scheme, settings, volume, drives))
    }
}

/// Returns the unit of each device of the trace, and the least size of each unit.
pub(crate) fn units_of(choices: &Choices, survey: &Survey) -> (BTreeMap<u32, u16>, Vec<Sectors>) {
    let ends = match choices.compact {
        true => survey.compacted.address_end(choices.block),
        false => survey.address_end.clone(),
    };
    let units: BTreeMap<u32, u16> =
        survey.devices().into_iter().enumerate().map(|(unit, device)| (device, unit as u16)).collect();
    let size = |device| ends.get(device).copied().unwrap_or_default().max(Sectors(choices.block.sectors()));
    let mut sizes: Vec<Sectors> = units.keys().map(size).collect();
    hold_capacity(&mut sizes, choices);
    (units, sizes)
}

pub(crate) fn settings_for(scheme: &'static SchemeInfo, choices: &Choices) -> Result<Settings, SetupError> {
    let own = choices.settings.iter().filter_map(|(key, value)| match key.split_once('.') {
        Some((_, CONTROLLER_USD)) => None,
        Some((name, parameter)) if name == scheme.name => Some((parameter, value.as_str())),
        Some(_) => None,
        None => scheme.parameters.iter().any(|known| known.name == key).then_some((key.as_str(), value.as_str())),
    });
    Settings::new(scheme.name, scheme.parameters, own)
        .map_err(|error| SetupError::Volume { scheme: scheme.name, error: SchemeError::from(error).into() })
}

/// Checks the values of the settings for `scheme`, before anything is read.
///
/// # Errors
/// Refuses a value that is not possible.
pub fn check_settings(scheme: &'static SchemeInfo, choices: &Choices) -> Result<(), SetupError> {
    settings_for(scheme, choices).map(|_| ())
}

/// Returns the price of the controller of `scheme` (`--set hyperduo.controller_usd=`, or `--set
/// controller_usd=` for all schemes), or 0 if no price is given. The price for the scheme takes
/// precedence over the price for all schemes.
///
/// # Errors
/// Refuses a value that is not a price.
pub fn controller_usd(choices: &Choices, scheme: &str) -> Result<f64, SetupError> {
    let is_own = |key: &str| key.split_once('.') == Some((scheme, CONTROLLER_USD));
    let given = |is: &dyn Fn(&str) -> bool| choices.settings.iter().rfind(|(key, _)| is(key));
    // A drive alone has no manager, whatever one costs for the other schemes.
    let is_alone = schemes::find(scheme).is_some_and(|scheme| matches!(scheme.members, [_]));
    let of_all = || given(&|key| key == CONTROLLER_USD).filter(|_| !is_alone);
    let Some((key, value)) = given(&is_own).or_else(of_all) else { return Ok(0.0) };
    let refuse = || SetupError::Value { key: key.clone(), value: value.clone(), expected: "dollars, 0 or more" };
    value.parse().ok().filter(|usd: &f64| usd.is_finite() && *usd >= 0.0).ok_or_else(refuse)
}

/// Drive before its size is determined.
pub(crate) struct Chosen {
    /// Name of the drive: the name of its role, with a number from the second drive on.
    pub(crate) id: String,
    pub(crate) role: Role,
    pub(crate) holds: Holds,
    /// Model, as `--ssd` and `--hdd` name it.
    pub(crate) model: String,
    pub(crate) profile: Profile,
    pub(crate) size: Sectors,
    pub(crate) origin: Origin,
}

pub(crate) struct Plan<'a> {
    pub(crate) scheme: &'static SchemeInfo,
    pub(crate) choices: &'a Choices,
    pub(crate) survey: &'a Survey,
    pub(crate) settings: &'a Settings,
    pub(crate) units: &'a [Sectors],
    pub(crate) assumed: BTreeMap<String, String>,
}

impl Plan<'_> {
    pub(crate) fn assume(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.assumed.insert(key.into(), value.into());
    }

    fn assume_workload(&mut self) {
        if self.units.len() > 1 {
            self.assume("devices", format!("{}, each a unit, one after another", self.units.len()));
        }
    }

    /// Adds Dataplex's rule to the assumptions: the memory of the host for which Dataplex's SSD is
    /// large enough.
    fn assume_memory(&mut self, chosen: &[Chosen], sizes: &[Sectors]) {
        let mut ssd = chosen.iter().zip(sizes).filter(|(drive, _)| drive.role == Role::Ssd);
        if let Some((_, size)) = ssd.next().filter(|_| self.scheme.name == "dataplex") {
            let (times, most) = (dataplex::MEMORY_TIMES, Bytes(size.bytes().0 / dataplex::MEMORY_TIMES));
            self.assume("host_memory", format!("at most {most}: Dataplex needs an SSD of {times} times the memory"));
        }
    }

    /// Returns the drives in the order of the scheme's members. Further drives of a role follow the
    /// last drive of the role that the scheme names.
    fn choose_drives(&mut self) -> Result<Vec<Chosen>, SetupError> {
        let mut chosen = Vec::new();
        for (at, &(role, holds)) in self.scheme.members.iter().enumerate() {
            // A log may have a drive of its own.
            let own_log = (holds == Holds::Log).then(|| self.member("log")).flatten();
            let named = if own_log.is_some() { Role::Log } else { role };
            let number = 1 + self.scheme.members[..at].iter().filter(|(before, _)| *before == role).count();
            let name = MemberName { role: named, number };
            let choice = own_log.unwrap_or_else(|| self.choice_of(name));
            chosen.push(self.choose(name, holds, &choice)?);
            if self.scheme.members[at + 1..].iter().any(|(behind, _)| *behind == role) {
                continue;
            }
            for number in number + 1.. {
                let name = MemberName { role: named, number };
                let Some(choice) = self.member(&name.text()) else { break };
                chosen.push(self.choose(name, holds, &choice)?);
            }
        }
        self.refuse_further(&chosen)?;
        Ok(chosen)
    }

    /// Refuses numbered members that the run does not use, though the scheme uses their role.
    fn refuse_further(&self, chosen: &[Chosen]) -> Result<(), SetupError> {
        let numbered = self.choices.members.iter().filter_map(|(id, _)| MemberName::parse(id));
        let mut further = numbered.filter(|name| name.number > 1 && uses_role(self.scheme, name.role));
        match further.find(|name| !chosen.iter().any(|drive| drive.id == name.text())) {
            Some(name) => Err(self.further(name)),
            None => Ok(()),
        }
    }

    fn further(&self, name: MemberName) -> SetupError {
        let (scheme, member, role) = (self.scheme.name, name.text(), name.role.name());
        SetupError::FurtherMember { scheme, member, role }
    }

    fn member(&self, id: &str) -> Option<DriveChoice> {
        self.choices.members.iter().rfind(|(name, _)| name == id).map(|(_, choice)| choice.clone())
    }

    fn choice_of(&self, name: MemberName) -> DriveChoice {
        let common = if name.role == Role::Ssd { &self.choices.ssd } else { &self.choices.hdd };
        self.member(&name.text()).unwrap_or_else(|| common.clone())
    }

    fn choose(&mut self, name: MemberName, holds: Holds, choice: &DriveChoice) -> Result<Chosen, SetupError> {
        let (role, id) = (name.role, name.text());
        let default = self.choices.default_model(role, choice.size, self.survey);
        if choice.profile.is_none() {
            self.assume(&id, default);
        }
        let model = choice.profile.clone().unwrap_or_else(|| default.to_owned());
        let profile = self.configured(&model, role, &id)?;
        let expected = if role == Role::Ssd { "flash" } else { "hdd" };
        if role != Role::Log && !profile.serves_as(expected) {
            let (profile, kind, role) = (profile.name.clone(), profile.kind(), role.name());
            return Err(SetupError::WrongKind { profile, kind, role, expected });
        }
        let of_drive = settings_of_drive(self.choices, role, &id);
        let geometry_given = of_drive.iter().any(|(figure, _)| sets_geometry(figure));
        self.assume_write_cache(&id, &of_drive, &profile);
        let footprint = self.survey.footprint_blocks * self.choices.block.bytes().0;
        let (size, origin) = match choice.size {
            Some(Size::Bytes(bytes)) => (bytes.sectors(), Origin::Given),
            Some(Size::OfFootprint(share)) => {
                (Sectors::covering(Bytes((footprint as f64 * share) as u64)), Origin::Given)
            }
            None if geometry_given => (profile.capacity, Origin::Given),
            None => self.default_size(role, holds, (&model, &profile)),
        };
        Ok(Chosen { id, role, holds, model, profile, size, origin })
    }

    /// Returns the profile of a name, with the figures that the user and the scheme set.
    pub(crate) fn configured(&self, name: &str, role: Role, id: &str) -> Result<Profile, SetupError> {
        let mut profile = Profile::load(name)?;
        profile.set_all(settings_of_drive(self.choices, role, id).iter().copied())?;
        self.level_wear(role, &mut profile)?;
        Ok(profile)
    }

    /// Sets the wear levelling that the scheme requests for the drive (MixedStore 5.5), if its
    /// translation layer levels wear. Refuses a user's choice that the layer, or another choice,
    /// would leave without effect.
    fn level_wear(&self, role: Role, profile: &mut Profile) -> Result<(), SetupError> {
        let Some(wanted) = self.settings.get("wear_levelling").filter(|_| role == Role::Ssd) else { return Ok(()) };
        let own = format!("{}.wear_levelling", self.scheme.name);
        let given = |names: &[&str]| {
            self.choices.settings.iter().rfind(|(key, _)| names.contains(&key.as_str())).map(|(key, _)| key.clone())
        };
        let (of_scheme, of_drive) = (given(&["wear_levelling", &own]), given(&["ssd.wear_levelling"]));
        let refuse = |expected| {
            let refused = |key| SetupError::Value { key, value: wanted.to_owned(), expected };
            of_scheme.clone().map_or(Ok(()), |key| Err(refused(key)))
        };
        let levels = |ftl: &str| LEVELS_WEAR.contains(&ftl.trim_matches('"'));
        if !profile.figures().any(|(key, value, _)| key == "ftl" && levels(&value)) {
            return refuse("a translation layer that levels wear: ssd.ftl=page or ssd.ftl=dftl");
        }
        if of_drive.is_some() {
            return refuse("no ssd.wear_levelling, which takes precedence: leave one of them out");
        }
        // The scheme decides when an adaptive drive halts; the drive's own watch must not.
        let own_watch = (wanted == "adaptive").then_some(("expected_write_mb_per_s", UNLIMITED_MB_PER_S));
        profile.set_all(std::iter::once(("wear_levelling", wanted)).chain(own_watch))?;
        Ok(())
    }

    /// Adds the state of the drive's volatile cache to the assumptions, because this state
    /// determines the times of writes.
    fn assume_write_cache(&mut self, id: &str, given: &[(&str, &str)], profile: &Profile) {
        let figure = profile.figures().find(|(key, ..)| ["write_cache", "write_buffer"].contains(key));
        let Some((key, value, _)) = figure else { return };
        if !given.iter().any(|(given, _)| *given == key) {
            let value = value.trim_matches('"').to_owned();
            self.assume(format!("{id}.{key}"), format!("{value} (the profile's)"));
        }
    }

    /// Returns true if further drives share the addresses of the drives that the scheme names for
    /// `role`.
    pub(crate) fn has_further(&self, role: Role) -> bool {
        let array = bimetal_core::schemes::ARRAYS.iter().any(|array| array.name == self.scheme.name);
        let named = self.choices.members.iter().filter_map(|(id, _)| MemberName::parse(id));
        !array && named.filter(|name| name.number > 1).any(|name| name.role == role)
    }

    /// Adds the number of addresses at home on each of several drives of a role, and the number of
    /// addresses that no request can reach.
    pub(crate) fn assume_homes(&mut self, chosen: &[Chosen], view: &View) {
        let homes = &view.layout.home;
        let further = |home: &&HomeExtent| self.has_further(chosen[usize::from(home.member.0)].role);
        if homes.iter().find(further).is_none() {
            return;
        }
        let block = self.choices.block.bytes().0;
        let sectors = self.choices.block.sectors();
        let ends = view.layout.units.iter().zip(self.units);
        let ends: Vec<(u64, u64)> =
            ends.map(|(unit, wanted)| (unit.first.0, unit.first.0 + wanted.0.div_ceil(sectors))).collect();
        let text = homes.iter().map(|home| {
            let (first, end) = (home.blocks.first.0, home.blocks.end());
            let reached = ends.iter().any(|&(from, to)| from < end && first < to);
            let why = if reached {
                ""
            } else {
                "(above the trace's addresses: the drives before it, if smaller, reach \
                                                it)"
            };
            format!("{} from {}{why}", chosen[usize::from(home.member.0)].id, first * block)
        });
        let text = text.collect::<Vec<_>>().join(", ");
        self.assume("homes", text);
    }

    /// Converts an error to one with the name of the drive, if the name of the role alone is
    /// ambiguous.
    pub(crate) fn named(&self, chosen: &[Chosen], sizes: &[Sectors], error: VolumeError) -> SetupError {
        let scheme = self.scheme.name;
        match error {
            VolumeError::Scheme(SchemeError::Layout(LayoutError::TooMany { role, .. })) => {
                self.further(MemberName { role, number: 2 })
            }
            VolumeError::Scheme(SchemeError::Layout(LayoutError::TooSmall { role, needed, available, reason }))
                if chosen.iter().filter(|drive| drive.role == role).count() > 1 =>
            {
                let is_it = |at: &usize| chosen[*at].role == role && sizes[*at].bytes() == available;
                let drive = (0..chosen.len()).find(is_it).map_or_else(String::new, |at| chosen[at].id.clone());
                let flag = match drive.as_str() {
                    "ssd" | "hdd" => format!("--{drive}-size"),
                    drive => format!("--member {drive}=PROFILE:SIZE"),
                };
                SetupError::DriveTooSmall { scheme, drive, has: available, needed, reason, flag }
            }
            error => SetupError::Volume { scheme, error },
        }
    }
}

/// Returns the figures that `--set` gives a drive: by its role, which applies to every drive of the
/// role, or by its name.
fn settings_of_drive<'a>(choices: &'a Choices, role: Role, id: &str) -> Vec<(&'a str, &'a str)> {
    let own = choices.settings.iter().filter_map(|(key, value)| {
        let (name, figure) = key.split_once('.')?;
        (name == role.name() || name == id).then_some((figure, value.as_str()))
    });
    own.collect()
}

/// Translation layers that level wear.
const LEVELS_WEAR: [&str; 2] = ["page", "dftl"];

/// Rate of writes, in MB/s, that no host reaches: the value means no limit.
const UNLIMITED_MB_PER_S: &str = "1000000000";

/// Returns true if a key sets a flash drive's geometry, from which its size follows.
pub(crate) fn sets_geometry(key: &str) -> bool {
    const GEOMETRY: [&str; 6] =
        ["channels", "dies_per_channel", "planes_per_die", "blocks_per_plane", "pages_per_block", "page_size"];
    GEOMETRY.contains(&key)
}

/// Makes the drives of the only volume.
fn build(
    scheme: &'static str,
    chosen: Vec<Chosen>,
    sizes: &[Sectors],
    volume: &Volume<NoPayload>,
    choices: &Choices,
) -> Result<Vec<Drive>, SetupError> {
    let mut drives: Vec<Drive> = Vec::new();
    for (at, (drive, &size)) in chosen.into_iter().zip(sizes).enumerate() {
        let (purchase, wears) = purchase_of((&drive.model, &drive.profile), size, drive.origin, choices);
        let is_share = drive.origin == Origin::Share;
        let Chosen { id, role, holds, profile, .. } = drive;
        let member = MemberId(at as u16);
        let model = build_model((scheme, &id), &profile, size, (volume, member), choices)?;
        let (volume, volume_name, size) = (0, None, size.bytes());
        drives.push(Drive {
            id,
            volume,
            volume_name,
            member,
            role,
            holds,
            profile,
            size,
            is_share,
            bought: purchase.count,
            bought_size: wears.bytes(),
            price: purchase.price,
            model,
        });
    }
    Ok(drives)
}

/// Makes the model of a drive, in the state in which the volume finds it. Sectors that have content
/// before the first request count as written, whatever the precondition of the other sectors.
pub(crate) fn build_model(
    (name, id): (&str, &str),
    profile: &Profile,
    size: Sectors,
    (volume, member): (&Volume<NoPayload>, MemberId),
    choices: &Choices,
) -> Result<Box<dyn DeviceModel>, SetupError> {
    if let Some(DriveState { tables, .. }) = choices.restored.iter().find(|state| state.drive == id) {
        let (volume, drive) = (name.to_owned(), id.to_owned());
        let refused = |error| SetupError::Restore { volume, drive, error: Box::new(error) };
        return profile.restore(Some(size), tables).map_err(refused);
    }
    let is_home = !volume.view().layout.home_on(member).is_empty();
    let held = volume.held_at_first(member);
    let (precondition, used) = match choices.precondition {
        None | Some(Precondition::Clean) if !is_home && !held.is_empty() => (Precondition::Sequential, held),
        None if !is_home => (Precondition::Clean, held),
        chosen => {
            (chosen.unwrap_or(Precondition::Sequential), if is_home { held } else { SectorRange::new(0, size.0) })
        }
    };
    let built = profile.build_preconditioned(Some(size), precondition, used, choices.seed);
    built.map_err(|error| SetupError::of_model(name, id, error))
}
