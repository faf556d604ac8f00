//! Builds a tree of volumes over models from its description.
//!
//! Members are made first, so that the size of a member is the size that it exports. Drives have
//! the size that is given, or the size in their profile. A drive that is too small is an error that
//! names the drive, because the simulator cannot guess which of the drives below should grow.

use std::collections::BTreeMap;

use bimetal_core::layout::{LayoutError, LayoutRequest, MemberId, MemberInfo, Role};
use bimetal_core::payload::NoPayload;
use bimetal_core::scheme::{Foresight, Holds, SchemeError, SchemeInfo};
use bimetal_core::settings::Settings;
use bimetal_core::tree::{Member, Tree};
use bimetal_core::units::{Bytes, Nanoseconds, Sectors};
use bimetal_core::volume::{Volume, VolumeConfig, VolumeError};
use bimetal_models::profile::Profile;

use crate::hints;
use crate::host::volume_with_host;
use crate::setup::{Choices, Drive, Setup, SetupError, Size, build_model, controller_usd, units_of};
use crate::sizing::{Origin, Sizing, check_tables, purchase_of};
use crate::survey::Survey;

/// Volume with the members below it.
#[derive(Clone)]
pub struct VolumeChoice {
    /// Name of the volume.
    pub name: String,
    /// Scheme of the volume.
    pub scheme: &'static SchemeInfo,
    /// Parameters of the scheme.
    pub settings: Vec<(String, String)>,
    /// Members and their roles; no roles if the scheme has no roles.
    pub members: Vec<(Option<Role>, MemberChoice)>,
}

/// Member of a volume.
#[derive(Clone)]
pub enum MemberChoice {
    /// A drive.
    Drive(NamedDrive),
    /// A volume.
    Volume(VolumeChoice),
}

/// Drive of a tree.
#[derive(Clone, Debug)]
pub struct NamedDrive {
    /// Name of the drive.
    pub name: String,
    /// Built-in profile or TOML file.
    pub profile: String,
    /// Size; the profile's own size if none is given.
    pub size: Option<Size>,
    /// Settings of the profile, by key.
    pub settings: Vec<(String, String)>,
}

impl MemberChoice {
    /// Returns the name of the member.
    pub fn name(&self) -> &str {
        match self {
            MemberChoice::Drive(drive) => &drive.name,
            MemberChoice::Volume(volume) => &volume.name,
        }
    }
}

impl VolumeChoice {
    /// Returns the names of this volume and of all volumes and drives below it.
    pub fn names(&self) -> Vec<&str> {
        let mut names = vec![self.name.as_str()];
        for (_, member) in &self.members {
            match member {
                MemberChoice::Drive(drive) => names.push(&drive.name),
                MemberChoice::Volume(volume) => names.extend(volume.names()),
            }
        }
        names
    }

    /// Returns the schemes of this volume and of all volumes below it.
    pub fn schemes(&self) -> Vec<&'static SchemeInfo> {
        let below = self.members.iter().flat_map(|(_, member)| match member {
            MemberChoice::Drive(_) => Vec::new(),
            MemberChoice::Volume(volume) => volume.schemes(),
        });
        std::iter::once(self.scheme).chain(below).collect()
    }
}

impl Setup {
    /// Makes the drives and volumes of `tree`, suitable for the workload that `survey` describes.
    ///
    /// # Errors
    /// Refuses impossible profiles, settings or sizes.
    pub fn of_tree(tree: &VolumeChoice, choices: &Choices, survey: &Survey) -> Result<Self, SetupError> {
        let (units, unit_sizes) = units_of(choices, survey);
        let (volumes, drives, settings, assumed) = (Vec::new(), Vec::new(), Vec::new(), BTreeMap::new());
        let mut builder = Builder { choices, survey, volumes, drives, settings, assumed };
        builder.add(tree, &unit_sizes)?;
        let Builder { volumes, drives, settings, assumed, .. } = builder;
        let mut made = Tree::new(volumes.into_iter().flatten().collect());
        made.foresee(&Foresight { tells_half: true, files: &choices.files });
        let settings: Vec<(String, Settings)> = settings.into_iter().flatten().collect();
        refuse_inner_profile(&made, &settings)?;
        let mut settings = settings.into_iter();
        let (_, own) = settings.next().expect("a tree has an outermost volume");
        let mut inner_settings = BTreeMap::new();
        for (volume, settings) in settings {
            inner_settings.extend(settings.iter().map(|(key, value)| (format!("{volume}.{key}"), value.to_owned())));
        }
        let hints = hints::of_run(&own, tree.scheme, made.outermost(), &units, choices)?;
        Ok(Self {
            name: tree.name.clone(),
            scheme: tree.scheme,
            settings: own,
            inner_settings,
            drives: drives.into_iter().flatten().collect(),
            hints,
            tree: made,
            units,
            assumed,
            controller_usd: controller_usd(choices, tree.scheme.name)?,
            sizing: Sizing::Given,
            start: Nanoseconds::ZERO,
            half: Some(survey.requests / 2),
        })
    }
}

/// Volumes, their settings and drives, with `None` for those that are not made yet.
struct Builder<'a> {
    choices: &'a Choices,
    survey: &'a Survey,
    volumes: Vec<Option<(Volume<NoPayload>, Vec<Member>)>>,
    drives: Vec<Option<Drive>>,
    settings: Vec<Option<(String, Settings)>>,
    assumed: BTreeMap<String, String>,
}

/// Member that is made before the volume that uses the member.
struct Made {
    member: Member,
    role: Role,
    capacity: Sectors,
    profile: Option<Profile>,
}

/// Returns what a drive of `role` holds under `scheme`.
fn held_by(role: Role, scheme: &SchemeInfo) -> Holds {
    let holds = scheme.members.iter().find(|(member, _)| *member == role).map(|&(_, holds)| holds);
    if role == Role::Log { Holds::Log } else { holds.unwrap_or(Holds::Home) }
}

impl Builder<'_> {
    /// Adds a volume, and all volumes and drives below it; members are made before the volume.
    /// Returns the volume's number.
    fn add(&mut self, choice: &VolumeChoice, units: &[Sectors]) -> Result<u16, SetupError> {
        let (scheme, name) = (choice.scheme, &choice.name);
        let at = self.volumes.len();
        self.volumes.push(None);
        self.settings.push(None);
        let members = choice.members.iter().map(|(role, member)| self.add_member(*role, member));
        let made = members.collect::<Result<Vec<Made>, _>>()?;
        let wrong = |error: VolumeError| SetupError::InTree { volume: name.clone(), scheme: scheme.name, error };
        let given = self.settings_of(name, scheme, &choice.settings);
        let given = given.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let settings = Settings::new(scheme.name, scheme.parameters, given);
        let settings = settings.map_err(|error| wrong(SchemeError::from(error).into()))?;
        let infos: Vec<MemberInfo> =
            made.iter().map(|made| MemberInfo { role: made.role, capacity: made.capacity }).collect();
        let members = made.iter().zip(&choice.members).map(|(made, (_, member))| {
            let drive = match (&made.profile, member) {
                (Some(profile), MemberChoice::Drive(drive)) => Some((&*drive.name, profile)),
                _ => None,
            };
            (drive, held_by(made.role, scheme), made.capacity)
        });
        check_tables(name, self.choices.block, members)?;
        let layout = LayoutRequest { block: self.choices.block, members: &infos, units };
        let config = VolumeConfig { scheme, settings: &settings, layout, identity: at as u64, drives: &[] };
        let volume = volume_with_host(&config).map_err(|error| match too_small(choice, &infos, &error) {
            Some(named) => named,
            None => wrong(error),
        })?;
        for (index, (made, (_, member))) in made.iter().zip(&choice.members).enumerate() {
            if let (Member::Leaf(leaf), MemberChoice::Drive(drive)) = (made.member, member) {
                let drive = self.drive(drive, made, (at, name), MemberId(index as u16), &volume, scheme)?;
                self.drives[usize::from(leaf)] = Some(drive);
            }
        }
        self.settings[at] = Some((name.clone(), settings));
        self.volumes[at] = Some((volume, made.into_iter().map(|made| made.member).collect()));
        Ok(at as u16)
    }

    fn add_member(&mut self, role: Option<Role>, choice: &MemberChoice) -> Result<Made, SetupError> {
        match choice {
            MemberChoice::Volume(below) => {
                let at = self.add(below, &[])?;
                let volume = self.volumes[usize::from(at)].as_ref().expect("it was just added");
                let capacity = volume.0.units().next().unwrap_or_default();
                let role = role.unwrap_or(volume.0.view().members[0].role);
                Ok(Made { member: Member::Volume(at), role, capacity, profile: None })
            }
            MemberChoice::Drive(drive) => {
                let mut profile = Profile::load(&drive.profile)?;
                let kind = if profile.is_solid_state() { Role::Ssd } else { Role::Hdd };
                let role = role.unwrap_or(kind);
                if role != Role::Log && role != kind {
                    let expected = if role == Role::Ssd { "flash" } else { "hdd" };
                    let (profile, kind) = (profile.name.clone(), profile.kind());
                    return Err(SetupError::WrongKind { profile, kind, role: role.name(), expected });
                }
                let prefixes = [format!("{}.", kind.name()), format!("{}.", drive.name)];
                let flags = self.choices.settings.iter().filter_map(|(key, value)| {
                    let key = prefixes.iter().find_map(|prefix| key.strip_prefix(prefix))?;
                    Some((key, value.as_str()))
                });
                let own = drive.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
                profile.set_all(own.chain(flags))?;
                let capacity = match drive.size {
                    Some(Size::Bytes(bytes)) => bytes.sectors(),
                    Some(Size::OfFootprint(share)) => {
                        let footprint = self.survey.footprint_blocks * self.choices.block.bytes().0;
                        Sectors::covering(Bytes((footprint as f64 * share) as u64))
                    }
                    None => {
                        let size = format!("{} (the profile's own)", profile.capacity.bytes().0);
                        self.assumed.insert(format!("{}.size", drive.name), size);
                        profile.capacity
                    }
                };
                let leaf = self.drives.len() as u16;
                self.drives.push(None);
                Ok(Made { member: Member::Leaf(leaf), role, capacity, profile: Some(profile) })
            }
        }
    }

    /// Returns the settings of a volume: first the settings of the file, then the settings of flags
    /// for its scheme, for any volume with the key, or for this volume.
    fn settings_of(&self, name: &str, scheme: &SchemeInfo, own: &[(String, String)]) -> Vec<(String, String)> {
        let flags = self.choices.settings.iter().filter_map(|(key, value)| {
            let key = match key.split_once('.') {
                Some((of, key)) => (of == name || of == scheme.name).then_some(key)?,
                None => scheme.parameters.iter().any(|known| known.name == key).then_some(key.as_str())?,
            };
            Some((key.to_owned(), value.clone()))
        });
        own.iter().cloned().chain(flags).collect()
    }

    fn drive(
        &self,
        choice: &NamedDrive,
        made: &Made,
        (volume_at, volume_name): (usize, &str),
        member: MemberId,
        volume: &Volume<NoPayload>,
        scheme: &SchemeInfo,
    ) -> Result<Drive, SetupError> {
        let profile = made.profile.clone().expect("a leaf has a profile");
        let model = build_model((volume_name, &choice.name), &profile, made.capacity, (volume, member), self.choices)?;
        let holds = held_by(made.role, scheme);
        let (purchase, wears) = purchase_of((&choice.profile, &profile), made.capacity, Origin::Given, self.choices);
        let size = made.capacity.bytes();
        Ok(Drive {
            id: choice.name.clone(),
            volume: volume_at,
            volume_name: Some(volume_name.to_owned()),
            member,
            role: made.role,
            holds: array_holds(scheme, member).unwrap_or(holds),
            bought: purchase.count,
            bought_size: wears.bytes(),
            price: purchase.price,
            profile,
            is_share: false,
            size,
            model,
        })
    }
}

/// Refuses a profile of idle periods for a volume inside another volume: the profile counts
/// requests of the host, and the inner volume sees other requests.
fn refuse_inner_profile(tree: &Tree<NoPayload>, settings: &[(String, Settings)]) -> Result<(), SetupError> {
    let mut inner = tree.volumes().zip(settings).skip(1);
    let profiled = inner.find(|(volume, _)| volume.wants_idle_profile().is_some());
    profiled.map_or(Ok(()), |(_, (name, _))| {
        Err(SetupError::Value {
            key: format!("{name}.idle_periods"),
            value: "profiled".to_owned(),
            expected: "idle_periods=detected: a volume inside another volume does not see the requests of the host, \
                       whose idle periods the profile has",
        })
    })
}

/// Returns what a member of an array holds; `None` if the scheme is no array.
fn array_holds(scheme: &SchemeInfo, member: MemberId) -> Option<Holds> {
    let array = bimetal_core::schemes::ARRAYS.iter().any(|array| array.name == scheme.name);
    array.then(|| scheme.members[usize::from(member.0).min(1)].1)
}

/// Returns the error for a member that is too small, with the member's name.
fn too_small(choice: &VolumeChoice, infos: &[MemberInfo], error: &VolumeError) -> Option<SetupError> {
    let VolumeError::Scheme(SchemeError::Layout(LayoutError::TooSmall { role, needed, available, reason })) = error
    else {
        return None;
    };
    let at = infos.iter().position(|info| info.role == *role && info.capacity.bytes() == *available)?;
    let member = &choice.members[at].1;
    let remedy = match member {
        MemberChoice::Drive(_) => "give it a larger size",
        MemberChoice::Volume(_) => "give the drives below it larger sizes",
    };
    Some(SetupError::MemberTooSmall {
        volume: choice.name.clone(),
        scheme: choice.scheme.name,
        member: member.name().to_owned(),
        has: *available,
        needed: *needed,
        reason,
        remedy,
    })
}
