//! From a scheme, drives and a survey to a volume over models: sizes where none are given, settings by key, prices.
//!
//! A drive that is home holds at least the workload's addresses (its geometry is extended); a cache gets 10 % of the
//! footprint, a drive that holds ranges 10 % of the address range, and nobody less than the scheme needs. Whatever was chosen
//! and not given is said under `assumed`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bimetal_core::block::{Block, BlockSize};
use bimetal_core::layout::{HomeExtent, LABEL_SECTORS, LayoutError, LayoutRequest, MemberId, MemberInfo, Role};
use bimetal_core::operation::OpKind;
use bimetal_core::payload::NoPayload;
use bimetal_core::policies::uses::Uses;
use bimetal_core::scheme::{FileExtent, Foresight, Holds, SchemeError, SchemeInfo, View};
use bimetal_core::schemes::dataplex;
use bimetal_core::settings::{SettingError, Settings};
use bimetal_core::tree::Tree;
use bimetal_core::units::{Bytes, SectorRange, Sectors};
use bimetal_core::volume::{Volume, VolumeConfig, VolumeError};
use bimetal_models::DeviceModel;
use bimetal_models::flash::Precondition;
use bimetal_models::flash::state::DriveState;
use bimetal_models::profile::{DEFAULT_HDD, DEFAULT_SSD, Profile, ProfileError};
use bimetal_trace::{Hints, TraceError};

use crate::hints;
pub use crate::keys::check_keys;
use crate::keys::uses_role;
use crate::member_name::MemberName;
use crate::simulator::Replay;
use crate::survey::Survey;
use crate::workload::{Requests, WorkloadError};

/// A size as it is given for a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// So many bytes.
    Bytes(Bytes),
    /// This share of the footprint.
    OfFootprint(f64),
}

/// A drive as it is asked for.
#[derive(Clone, Debug, Default)]
pub struct DriveChoice {
    /// A built-in profile or a TOML file; the default drive of its kind if `None`.
    pub profile: Option<String>,
    /// Its size.
    pub size: Option<Size>,
}

/// What the user chose for a run.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// `--ssd`, `--ssd-size`.
    pub ssd: DriveChoice,
    /// `--hdd`, `--hdd-size`.
    pub hdd: DriveChoice,
    /// `--member ID=PROFILE[:SIZE]`: the id is a role (`log`), with a number from the second drive of it on (`ssd2`).
    pub members: Vec<(String, DriveChoice)>,
    /// `--set KEY=VALUE`, in order.
    pub settings: Vec<(String, String)>,
    /// `--block`.
    pub block: BlockSize,
    /// `--precondition`; by default sequential where flash is home and clean elsewhere.
    pub precondition: Option<Precondition>,
    /// `--restore-state`: what state flash drives have at first; it takes the place of the precondition.
    pub restored: Arc<[DriveState]>,
    /// `--compact`.
    pub compact: bool,
    /// `--merge`: the requests have not been through a block layer.
    pub merge: bool,
    /// `--files`: which file lies where.
    pub files: Vec<FileExtent>,
    /// `--hints`: what a host's buffer cache evicted, and when.
    pub hints: Hints,
    /// Whether only a part of the trace is played (`--limit`), so that devices may be missing.
    pub is_part: bool,
    /// `--seed`.
    pub seed: u64,
}

/// Why a run cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A profile, or a setting of one.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The scheme refuses a setting or the drives.
    #[error("{}", with_scheme(scheme, error))]
    Volume {
        /// The scheme.
        scheme: &'static str,
        /// Why.
        error: VolumeError,
    },
    /// A setting that no scheme and no drive of the run has.
    #[error("--set {key}: no scheme or drive of this run has that key{hint}")]
    UnknownKey {
        /// The key.
        key: String,
        /// The nearest one.
        hint: String,
    },
    /// A setting whose value is of no use.
    #[error("--set {key}={value}: expected {expected}")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What would do.
        expected: &'static str,
    },
    /// A member that no scheme of this run has a use for.
    #[error(
        "--member {0}: expected the id of a drive that a scheme of this run uses: ssd, hdd or log, and ssd2, ssd3 and so on \
         for further SSDs"
    )]
    UnknownMember(String),
    /// Numbers of members that do not follow each other.
    #[error("--member {member}: expected {missing} before it: number the drives of a role without a gap")]
    MemberGap {
        /// The member.
        member: String,
        /// The one before it.
        missing: String,
    },
    /// A further drive of a role of which the scheme takes one.
    #[error(
        "--member {member}: {scheme} uses one {role} drive: leave {member} out, or choose schemes that take several \
         (SSDs: griffin and ssd-only; drives of any kind: raid0 and raid1)"
    )]
    FurtherMember {
        /// The scheme.
        scheme: &'static str,
        /// The member.
        member: String,
        /// Its role.
        role: &'static str,
    },
    /// One of several drives of a role is too small.
    #[error(
        "{scheme}: drive {drive} has {has}, and at least {needed} are needed{reason}: give it a larger size ({flag})"
    )]
    DriveTooSmall {
        /// The scheme.
        scheme: &'static str,
        /// The drive.
        drive: String,
        /// What it has.
        has: Bytes,
        /// What would do.
        needed: Bytes,
        /// For what.
        reason: &'static str,
        /// How to say so.
        flag: String,
    },
    /// A hint that cannot be of this run.
    #[error(transparent)]
    Hint(#[from] TraceError),
    /// Hints that settings leave without effect.
    #[error(
        "--hints: {scheme} sends home what a host evicts only where that takes no time, and knows of it from one place: \
         expected --set {scheme}.migration=instant beside it, and eviction_hint=off"
    )]
    HintsInVain {
        /// The scheme.
        scheme: &'static str,
    },
    /// Hints that no scheme has a use for.
    #[error("--hints: no scheme of this run sends home what a host evicts: expected griffin")]
    NoUseForHints,
    /// A volume of a tree cannot be made.
    #[error("volume '{volume}': {}", with_scheme(scheme, error))]
    InTree {
        /// Its name.
        volume: String,
        /// Its scheme.
        scheme: &'static str,
        /// Why.
        error: VolumeError,
    },
    /// A member of a volume in a tree is too small.
    #[error(
        "volume '{volume}': {scheme}: member '{member}' has {has}, and at least {needed} are needed{reason}: {remedy}"
    )]
    MemberTooSmall {
        /// The volume's name.
        volume: String,
        /// Its scheme.
        scheme: &'static str,
        /// The member's name.
        member: String,
        /// What it has.
        has: Bytes,
        /// What would do.
        needed: Bytes,
        /// For what.
        reason: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A drive cannot go on from the state that was saved of one.
    #[error("--restore-state: {volume}: drive {drive}: {error}")]
    Restore {
        /// The scheme; in a tree the volume.
        volume: String,
        /// The drive.
        drive: String,
        /// Why.
        error: Box<ProfileError>,
    },
    /// A drive was saved that this run does not have.
    #[error("--restore-state: the file holds the state of a drive '{0}', and this run has no drive of that name")]
    UnusedState(String),
    /// The profile is of the other kind.
    #[error("{profile} is a profile of kind {kind}, which cannot be the {role} drive: expected kind {expected}")]
    WrongKind {
        /// The profile.
        profile: String,
        /// Its kind.
        kind: &'static str,
        /// The role it was given.
        role: &'static str,
        /// What kind the role needs.
        expected: &'static str,
    },
}

/// The error, with the scheme in front where it does not begin with it.
fn with_scheme(scheme: &str, error: &VolumeError) -> String {
    let text = error.to_string();
    if text.starts_with(scheme) { text } else { format!("{scheme}: {text}") }
}

/// A drive of a run.
pub struct Drive {
    /// Its name: that of its role, with a number from the second one on; in a tree its own.
    pub id: String,
    /// The volume that it is a member of, by number, and the name of that in a tree.
    pub volume: usize,
    /// See `volume`.
    pub volume_name: Option<String>,
    /// Which member of it.
    pub member: MemberId,
    /// Its role.
    pub role: Role,
    /// What it holds under the scheme.
    pub holds: Holds,
    /// Its profile, with the user's settings.
    pub profile: Profile,
    /// Its size.
    pub size: Bytes,
    /// The model.
    pub model: Box<dyn DeviceModel>,
}

/// A volume over drives, or a tree of volumes, ready to run.
pub struct Setup {
    /// What the run is called: the scheme, or the outermost volume of a tree.
    pub name: String,
    /// The scheme; that of the outermost volume.
    pub scheme: &'static SchemeInfo,
    /// Its parameters.
    pub settings: Settings,
    /// The parameters of the volumes inside a tree, as `VOLUME.KEY`.
    pub inner_settings: BTreeMap<String, String>,
    /// The volumes.
    pub tree: Tree<NoPayload>,
    /// The drives, in the order of the leaves: the volume's members, where there is one.
    pub drives: Vec<Drive>,
    /// The unit of each device of the trace.
    pub units: BTreeMap<u32, u16>,
    /// What the outermost volume is told of a host's buffer cache.
    pub hints: Hints,
    /// What was chosen and not given.
    pub assumed: BTreeMap<String, String>,
    /// Price of the controller.
    pub controller_usd: f64,
}

pub(crate) const CONTROLLER_USD: &str = "controller_usd";

impl Setup {
    /// Makes drives and a volume for `scheme`, fit for the workload that `survey` describes.
    ///
    /// # Errors
    /// Profiles, settings or sizes that are not possible.
    pub fn new(scheme: &'static SchemeInfo, choices: &Choices, survey: &Survey) -> Result<Self, SetupError> {
        let settings = settings_for(scheme, choices)
            .map_err(|error| SetupError::Volume { scheme: scheme.name, error: SchemeError::from(error).into() })?;
        let (units, unit_sizes) = units_of(choices, survey);
        let mut plan =
            Plan { scheme, choices, survey, settings: &settings, units: &unit_sizes, assumed: BTreeMap::new() };
        plan.assume_workload();
        let chosen = plan.choose_drives()?;
        if choices.files.is_empty() && settings.get("strategy") == Some("type") {
            let (key, value) = (format!("{}.strategy", scheme.name), "type".to_owned());
            return Err(SetupError::Value { key, value, expected: "a map of files beside it: --files MAP.csv" });
        }
        let (mut volume, sizes) = plan.fit(&chosen)?;
        plan.assume_memory(&chosen, &sizes);
        volume.foresee(&Foresight { requests: survey.requests, files: &choices.files });
        let assumed = plan.assumed;
        let drives = build(scheme.name, chosen, &sizes, &volume, choices)?;
        let controller_usd = controller_usd(choices, scheme.name)?;
        let hints = hints::of_run(scheme, &volume, &units, choices)?;
        let (name, tree) = (scheme.name.to_owned(), volume.into());
        let inner_settings = BTreeMap::new();
        Ok(Self { name, scheme, settings, inner_settings, tree, drives, units, hints, assumed, controller_usd })
    }

    /// The volume; the outermost one.
    pub fn volume(&self) -> &Volume<NoPayload> {
        self.tree.outermost()
    }
}

impl Setup {
    /// Tells the scheme when the workload is idle, where it wants to know, and `replay` keeps to the times of the trace.
    ///
    /// # Errors
    /// The workload cannot be read.
    pub fn foresee_idle<'a>(
        &mut self,
        replay: Replay,
        requests: impl FnOnce() -> Result<Requests<'a>, WorkloadError>,
    ) -> Result<(), WorkloadError> {
        let (Some(long), Replay::Timed { speedup }) = (self.volume().wants_idle_profile(), replay) else {
            return Ok(());
        };
        let (mut after, mut accesses, mut last) = (Vec::new(), 0u64, None);
        for request in requests()? {
            let request = request?;
            let gap = last.map_or(0, |last| request.arrival.saturating_sub(last).0);
            if gap as f64 / speedup >= long.0 as f64 {
                after.push(accesses);
            }
            last = Some(request.arrival);
            accesses += u64::from(is_access(request.kind));
        }
        self.tree.outermost_mut().foresee_idle(after);
        Ok(())
    }

    /// Tells the scheme when each block is used, where it has to know: `requests` gives the whole workload, from its beginning.
    ///
    /// # Errors
    /// The workload cannot be read.
    pub fn foresee_uses<'a>(
        &mut self,
        requests: impl FnOnce() -> Result<Requests<'a>, WorkloadError>,
    ) -> Result<(), WorkloadError> {
        if !self.volume().lacks_foresight() {
            return Ok(());
        }
        let layout = &self.volume().view().layout;
        let (mut uses, mut number) = (Uses::default(), 0u32);
        for request in requests()? {
            let request = request?;
            if !is_access(request.kind) {
                continue;
            }
            let unit = self.units.get(&request.device).and_then(|&unit| layout.units.get(usize::from(unit)));
            let first = unit.map_or(0, |unit| unit.first.0);
            let blocks = layout.block.touched(request.range).blocks();
            blocks.for_each(|block| uses.add(number, Block(first + block.0).into()));
            number = number.saturating_add(1);
        }
        self.tree.outermost_mut().foresee_uses(uses);
        Ok(())
    }

    /// The state of its flash drives, for the next run.
    pub fn save_states(&mut self) -> Vec<DriveState> {
        let saved = self
            .drives
            .iter_mut()
            .filter_map(|drive| Some(DriveState { drive: drive.id.clone(), tables: drive.model.save_state()? }));
        saved.collect()
    }
}

/// Whether a request is one that a scheme is asked about.
fn is_access(kind: OpKind) -> bool {
    matches!(kind, OpKind::Read | OpKind::Write | OpKind::WriteZeroes)
}

/// A volume whose drives are there already, with sizes that are not ours to choose: it is simulated as it is.
pub struct Existing<'a> {
    /// The scheme.
    pub scheme: &'static SchemeInfo,
    /// Its parameters.
    pub settings: Settings,
    /// Its block size.
    pub block: BlockSize,
    /// What each unit must at least hold; empty: one unit.
    pub units: &'a [Sectors],
    /// Its drives, in the order of its members.
    pub drives: Vec<ExistingDrive>,
}

/// A drive of such a volume.
pub struct ExistingDrive {
    /// The member, with what the volume uses of the drive.
    pub member: MemberInfo,
    /// Its profile, with all settings.
    pub profile: Profile,
    /// Its size.
    pub size: Sectors,
}

impl Setup {
    /// The same volume over models, empty. A workload for it names one device, 0, which is its first unit.
    ///
    /// # Errors
    /// A drive that its profile cannot be, or settings that the scheme refuses.
    pub fn of_existing(existing: Existing<'_>) -> Result<Self, SetupError> {
        let Existing { scheme, settings, block, units, drives } = existing;
        let members: Vec<MemberInfo> = drives.iter().map(|drive| drive.member).collect();
        let layout = LayoutRequest { block, members: &members, units };
        let config = VolumeConfig { scheme, settings: &settings, layout, identity: 0 };
        let volume = Volume::new(&config).map_err(|error| SetupError::Volume { scheme: scheme.name, error })?;
        let holds = scheme.members.iter().map(|&(_, holds)| holds).chain(std::iter::repeat(Holds::Cache));
        let chosen = drives.into_iter().zip(holds).map(|(drive, holds)| {
            let ExistingDrive { member, profile, size } = drive;
            Chosen { id: String::new(), role: member.role, holds, profile, size, given: true }
        });
        let mut chosen: Vec<Chosen> = chosen.collect();
        for at in 0..chosen.len() {
            let role = chosen[at].role;
            let number = 1 + chosen[..at].iter().filter(|before| before.role == role).count();
            chosen[at].id = MemberName { role, number }.text();
        }
        let sizes: Vec<Sectors> = chosen.iter().map(|drive| drive.size).collect();
        let drives = build(scheme.name, chosen, &sizes, &volume, &Choices { block, ..Choices::default() })?;
        let (name, tree, inner_settings) = (scheme.name.to_owned(), volume.into(), BTreeMap::new());
        let (units, assumed, controller_usd) = (BTreeMap::from([(0, 0)]), BTreeMap::new(), 0.0);
        let hints = Hints::default();
        Ok(Self { name, scheme, settings, inner_settings, tree, drives, units, hints, assumed, controller_usd })
    }
}

/// The unit of each device of the trace, and what each unit must at least hold.
pub(crate) fn units_of(choices: &Choices, survey: &Survey) -> (BTreeMap<u32, u16>, Vec<Sectors>) {
    let ends = match choices.compact {
        true => survey.compacted.address_end(choices.block),
        false => survey.address_end.clone(),
    };
    let units: BTreeMap<u32, u16> =
        survey.devices().into_iter().enumerate().map(|(unit, device)| (device, unit as u16)).collect();
    let size = |device| ends.get(device).copied().unwrap_or_default().max(Sectors(choices.block.sectors()));
    let sizes = units.keys().map(size).collect();
    (units, sizes)
}

/// As what a drive is sized when no size is given: a log on the SSD has to be paid for as a cache has.
fn sized_as(role: Role, holds: Holds) -> Holds {
    if (role, holds) == (Role::Ssd, Holds::Log) { Holds::Cache } else { holds }
}

fn settings_for(scheme: &'static SchemeInfo, choices: &Choices) -> Result<Settings, SettingError> {
    let own = choices.settings.iter().filter_map(|(key, value)| match key.split_once('.') {
        Some((_, CONTROLLER_USD)) => None,
        Some((name, parameter)) if name == scheme.name => Some((parameter, value.as_str())),
        Some(_) => None,
        None => scheme.parameters.iter().any(|known| known.name == key).then_some((key.as_str(), value.as_str())),
    });
    Settings::new(scheme.name, scheme.parameters, own)
}

/// Price of what manages the drives of `scheme` (`--set hyperduo.controller_usd=`, or `--set
/// controller_usd=` for all schemes), 0 where none is given. What is said of the scheme goes before
/// what is said of all.
///
/// # Errors
/// It is no price.
pub fn controller_usd(choices: &Choices, scheme: &str) -> Result<f64, SetupError> {
    let is_own = |key: &str| key.split_once('.') == Some((scheme, CONTROLLER_USD));
    let given = |is: &dyn Fn(&str) -> bool| choices.settings.iter().rfind(|(key, _)| is(key));
    let Some((key, value)) = given(&is_own).or_else(|| given(&|key| key == CONTROLLER_USD)) else { return Ok(0.0) };
    let refuse = || SetupError::Value { key: key.clone(), value: value.clone(), expected: "dollars, 0 or more" };
    value.parse().ok().filter(|usd: &f64| usd.is_finite() && *usd >= 0.0).ok_or_else(refuse)
}

/// A drive before its size is settled.
struct Chosen {
    /// Its name: that of its role, with a number from the second one on.
    id: String,
    role: Role,
    holds: Holds,
    profile: Profile,
    /// Its size, and whether the user gave it.
    size: Sectors,
    given: bool,
}

struct Plan<'a> {
    scheme: &'static SchemeInfo,
    choices: &'a Choices,
    survey: &'a Survey,
    settings: &'a Settings,
    units: &'a [Sectors],
    assumed: BTreeMap<String, String>,
}

impl Plan<'_> {
    fn assume(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.assumed.insert(key.into(), value.into());
    }

    fn assume_workload(&mut self) {
        if self.units.len() > 1 {
            self.assume("devices", format!("{}, each a unit, laid one after another", self.units.len()));
        }
    }

    /// Dataplex's rule: what memory of the host its SSD is large enough for.
    fn assume_memory(&mut self, chosen: &[Chosen], sizes: &[Sectors]) {
        let mut ssd = chosen.iter().zip(sizes).filter(|(drive, _)| drive.role == Role::Ssd);
        if let Some((_, size)) = ssd.next().filter(|_| self.scheme.name == "dataplex") {
            let (times, most) = (dataplex::MEMORY_TIMES, Bytes(size.bytes().0 / dataplex::MEMORY_TIMES));
            self.assume("host_memory", format!("at most {most}: Dataplex wants an SSD of {times} times the memory"));
        }
    }

    /// The drives in the order of the scheme's members. Further drives of a role follow the last one that the scheme names.
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

    /// Refuses numbered members that have no place here, though the scheme uses their role.
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
        let default = if role == Role::Ssd { DEFAULT_SSD } else { DEFAULT_HDD };
        if choice.profile.is_none() {
            self.assume(&id, default);
        }
        let mut profile = Profile::load(choice.profile.as_deref().unwrap_or(default))?;
        let expected = if role == Role::Ssd { "flash" } else { "hdd" };
        if role != Role::Log && profile.kind() != expected {
            let (profile, kind, role) = (profile.name.clone(), profile.kind(), role.name());
            return Err(SetupError::WrongKind { profile, kind, role, expected });
        }
        let of_drive = settings_of_drive(self.choices, role, &id);
        profile.set_all(of_drive.iter().copied())?;
        self.level_wear(role, &mut profile)?;
        let geometry_given = of_drive.iter().any(|(figure, _)| sets_geometry(figure));
        self.assume_write_cache(&id, &of_drive, &profile);
        let footprint = self.survey.footprint_blocks * self.choices.block.bytes().0;
        let (size, given) = match choice.size {
            Some(Size::Bytes(bytes)) => (bytes.sectors(), true),
            Some(Size::OfFootprint(share)) => (Sectors::covering(Bytes((footprint as f64 * share) as u64)), true),
            None => (self.default_size(role, sized_as(role, holds), &profile, geometry_given), geometry_given),
        };
        Ok(Chosen { id, role, holds, profile, size, given })
    }

    /// Gives the drive the wear levelling that a scheme wants of it (MixedStore 5.5), where its translation layer levels wear. A
    /// user's choice that the layer, or another choice, would leave without effect is refused.
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
            return refuse("a translation layer that levels wear beside it, ssd.ftl=page or ssd.ftl=dftl");
        }
        if of_drive.is_some() {
            return refuse("no ssd.wear_levelling beside it, which goes before it: leave one of them out");
        }
        // The scheme tells an adaptive drive when to halt; the drive's own watch must not.
        let own_watch = (wanted == "adaptive").then_some(("expected_write_mb_per_s", UNLIMITED_MB_PER_S));
        profile.set_all(std::iter::once(("wear_levelling", wanted)).chain(own_watch))?;
        Ok(())
    }

    /// Whether writes end in the drive's volatile cache decides what they take: it is said.
    fn assume_write_cache(&mut self, id: &str, given: &[(&str, &str)], profile: &Profile) {
        let figure = profile.figures().find(|(key, ..)| ["write_cache", "write_buffer"].contains(key));
        let Some((key, value, _)) = figure else { return };
        if !given.iter().any(|(given, _)| *given == key) {
            let value = value.trim_matches('"').to_owned();
            self.assume(format!("{id}.{key}"), format!("{value} (the profile's)"));
        }
    }

    /// Whether further drives share the addresses with the ones that the scheme names for `role`.
    fn has_further(&self, role: Role) -> bool {
        let array = bimetal_core::schemes::ARRAYS.iter().any(|array| array.name == self.scheme.name);
        let named = self.choices.members.iter().filter_map(|(id, _)| MemberName::parse(id));
        !array && named.filter(|name| name.number > 1).any(|name| name.role == role)
    }

    fn default_size(&self, role: Role, holds: Holds, profile: &Profile, geometry_given: bool) -> Sectors {
        let addresses: u64 = self.units.iter().map(|size| size.0.next_multiple_of(self.choices.block.sectors())).sum();
        let block = self.choices.block;
        let label = LABEL_SECTORS + block.sectors();
        let size = match holds {
            _ if geometry_given => return profile.capacity,
            // What is too small is enlarged once it is known which addresses lie where.
            Holds::Home if self.has_further(role) => return profile.capacity,
            Holds::Home | Holds::Copy if profile.capacity.0 < addresses + label => addresses + label,
            Holds::Home | Holds::Copy | Holds::Log => return profile.capacity,
            Holds::Cache => self.survey.footprint_blocks * block.sectors() / 10,
            // At least one block in front of the label.
            Holds::Ranges => (addresses / 10).max(LABEL_SECTORS + block.sectors()),
        };
        Sectors(size.next_multiple_of(block.sectors()))
    }

    /// The room for a label that the volume believes to be behind the end of its drive: a plain
    /// drive has none on it.
    fn tail_beyond(&self) -> Sectors {
        let is_plain = matches!(self.scheme.members, [(_, Holds::Home)]);
        if is_plain { Sectors(LABEL_SECTORS) } else { Sectors(0) }
    }

    /// Enlarges drives whose size is ours to choose until the scheme is content, and makes the volume.
    fn fit(&mut self, chosen: &[Chosen]) -> Result<(Volume<NoPayload>, Vec<Sectors>), SetupError> {
        let mut sizes: Vec<Sectors> = chosen.iter().map(|drive| drive.size).collect();
        loop {
            let tail = self.tail_beyond();
            let member = |(drive, size): (&Chosen, &Sectors)| MemberInfo { role: drive.role, capacity: *size + tail };
            let members: Vec<MemberInfo> = chosen.iter().zip(&sizes).map(member).collect();
            let layout = LayoutRequest { block: self.choices.block, members: &members, units: self.units };
            let config = VolumeConfig { scheme: self.scheme, settings: self.settings, layout, identity: 0 };
            match Volume::new(&config) {
                Ok(volume) => {
                    self.assume_sizes(chosen, &sizes);
                    self.assume_homes(chosen, volume.view());
                    return Ok((volume, sizes));
                }
                Err(error) => {
                    let error = without_tail(error, tail);
                    let Some(at) = enlargeable(chosen, &sizes, &error) else {
                        return Err(self.named(chosen, &sizes, error));
                    };
                    sizes[at.0] = at.1;
                }
            }
        }
    }

    fn assume_sizes(&mut self, chosen: &[Chosen], sizes: &[Sectors]) {
        for (drive, size) in chosen.iter().zip(sizes) {
            if drive.given {
                continue;
            }
            let extended = if size.0 > drive.profile.capacity.0 { ", the profile's geometry extended" } else { "" };
            let why = match sized_as(drive.role, drive.holds) {
                Holds::Home | Holds::Copy if extended.is_empty() => "the profile's own",
                Holds::Home | Holds::Copy => "the trace's addresses",
                Holds::Log => "the profile's own",
                Holds::Cache => "10 % of the footprint, or what the scheme needs",
                Holds::Ranges => "10 % of the address range, or what the scheme needs",
            };
            self.assume(format!("{}_size", drive.id), format!("{} ({why}{extended})", size.bytes().0));
        }
    }

    /// Says which addresses are at home on which of several drives of a role, and which of them no request can reach.
    fn assume_homes(&mut self, chosen: &[Chosen], view: &View) {
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
            let why = if reached { "" } else { " (beyond the trace's addresses: smaller drives before it reach it)" };
            format!("{} from {}{why}", chosen[usize::from(home.member.0)].id, first * block)
        });
        let text = text.collect::<Vec<_>>().join(", ");
        self.assume("homes", text);
    }

    /// The error by the name of the drive, where its role alone does not tell it.
    fn named(&self, chosen: &[Chosen], sizes: &[Sectors], error: VolumeError) -> SetupError {
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

/// Figures that `--set` gives a drive: by its role, which is of every drive of the role, or by its name.
fn settings_of_drive<'a>(choices: &'a Choices, role: Role, id: &str) -> Vec<(&'a str, &'a str)> {
    let own = choices.settings.iter().filter_map(|(key, value)| {
        let (name, figure) = key.split_once('.')?;
        (name == role.name() || name == id).then_some((figure, value.as_str()))
    });
    own.collect()
}

/// Translation layers that level wear.
const LEVELS_WEAR: [&str; 2] = ["page", "dftl"];

/// More than any host writes.
const UNLIMITED_MB_PER_S: &str = "1000000000";

/// Keys that set a flash drive's geometry, from which its size follows.
fn sets_geometry(key: &str) -> bool {
    const GEOMETRY: [&str; 6] =
        ["channels", "dies_per_channel", "planes_per_die", "blocks_per_plane", "pages_per_block", "page_size"];
    GEOMETRY.contains(&key)
}

/// The error of a volume whose drive it believes to be larger by `tail`, in sizes of the drive.
fn without_tail(mut error: VolumeError, tail: Sectors) -> VolumeError {
    if let VolumeError::Scheme(SchemeError::Layout(LayoutError::TooSmall { needed, available, .. })) = &mut error {
        (*needed, *available) = (*needed - tail.bytes(), *available - tail.bytes());
    }
    error
}

/// The drive that was too small, and the size that would do, if the size is ours to choose.
fn enlargeable(chosen: &[Chosen], sizes: &[Sectors], error: &VolumeError) -> Option<(usize, Sectors)> {
    let VolumeError::Scheme(SchemeError::Layout(LayoutError::TooSmall { role, needed, available, .. })) = error else {
        return None;
    };
    let of_role = |at: &usize| chosen[*at].role == *role;
    let is_it = |at: &usize| of_role(at) && sizes[*at].bytes() == *available && !chosen[*at].given;
    let at = (0..chosen.len()).rfind(is_it)?;
    Some((at, Sectors(Sectors::covering(*needed).0.next_multiple_of(8))))
}

/// The drives of the only volume.
fn build(
    scheme: &'static str,
    chosen: Vec<Chosen>,
    sizes: &[Sectors],
    volume: &Volume<NoPayload>,
    choices: &Choices,
) -> Result<Vec<Drive>, SetupError> {
    let mut drives: Vec<Drive> = Vec::new();
    for (at, (drive, &size)) in chosen.into_iter().zip(sizes).enumerate() {
        let Chosen { id, role, holds, profile, .. } = drive;
        let member = MemberId(at as u16);
        let model = build_model((scheme, &id), &profile, size, (volume, member), choices)?;
        let (volume, volume_name, size) = (0, None, size.bytes());
        drives.push(Drive { id, volume, volume_name, member, role, holds, profile, size, model });
    }
    Ok(drives)
}

/// The model of a drive, in the state in which the volume finds it: what holds content before the
/// first request was written, whatever the precondition of the rest.
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
    Ok(profile.build_preconditioned(Some(size), precondition, used, choices.seed)?)
}
