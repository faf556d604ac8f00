//! Facts about a volume that its server cannot see in the volume: names, paths, settings.

use std::collections::BTreeMap;
use std::fs::File;

use bimetal_core::label::lifetime::Lifetime;
use bimetal_core::label::resize::is_of_resize;
use bimetal_core::label::{Label, MemberLabel};
use bimetal_core::layout::{MemberId, Role};
use bimetal_core::scheme::{Holds, SchemeInfo};
use bimetal_core::schemes;
use bimetal_core::units::Bytes;
use bimetal_models::profile::Profile;

use crate::find::{Labelled, Located};
use crate::labels;
use crate::rating::rated_writes;

/// Description of a volume, from its labels.
#[derive(Clone)]
pub struct About {
    /// Name of the volume.
    pub name: String,
    /// UUID as text; `None` for a volume without labels.
    pub uuid: Option<String>,
    /// Scheme of the volume.
    pub scheme: &'static SchemeInfo,
    /// Every parameter of the scheme, as `--set` takes it, and settings of drives.
    pub settings: BTreeMap<String, String>,
    /// Members of the volume, in order.
    pub members: Vec<AboutMember>,
}

/// Description of a member, from its label.
#[derive(Clone, Debug, Default)]
pub struct AboutMember {
    /// Name for users: `ssd`, `hdd1`.
    pub id: String,
    /// Path of the drive; `None` if it is missing.
    pub path: Option<String>,
    /// Size of the member.
    pub bytes: Bytes,
    /// Profile of the drive that the member emulates.
    pub profile: Option<String>,
    /// Set if the drive is flash, clear if it rotates; `None` if the drive does not report it, or
    /// is missing.
    pub is_flash: Option<bool>,
    /// Bytes that may be written before the drive is worn out, as rated by its maker.
    pub rated_write_bytes: Option<Bytes>,
    /// Totals of the member before it is served now.
    pub before: Lifetime,
}

/// Setting of a real drive: the rating of its maker, stated by its owner
/// (`ssd.rated_writes=150TB`, `ssd.rated_writes=1dwpd/5y`).
pub const RATED_WRITES: &str = "rated_writes";

impl About {
    /// Returns the description of a volume in its labels; `None` if its scheme is unknown.
    pub fn of(label: &Label, located: &Located) -> Option<Self> {
        let scheme = schemes::find(&label.scheme)?;
        let mut settings: BTreeMap<String, String> =
            label.settings.iter().filter(|(key, _)| !is_of_resize(key)).cloned().collect();
        for parameter in scheme.parameters {
            settings.entry(parameter.name.to_owned()).or_insert_with(|| parameter.default.to_owned());
        }
        let members = label.members.iter().zip(located.members()).enumerate();
        let members = members.map(|(at, (member, drive))| AboutMember {
            id: label.member_name(MemberId(at as u16)),
            path: drive.map(|drive| drive.found.path.clone()),
            bytes: member.size.bytes(),
            profile: member.emulates.clone(),
            is_flash: is_flash(member, drive),
            rated_write_bytes: rating(label, member.role, member.size.bytes()),
            before: drive.and_then(|drive| lifetime(label, member, drive)).unwrap_or_default(),
        });
        let members = members.collect();
        Some(Self { name: label.name.clone(), uuid: Some(label.volume.to_string()), scheme, settings, members })
    }

    /// Returns the name of a setting without the scheme's name before it.
    pub fn own_name<'a>(&self, name: &'a str) -> &'a str {
        name.strip_prefix(self.scheme.name).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name)
    }

    /// Applies a drive's rating, if `name` is this setting. Returns true if `name` was this
    /// setting, and false for a parameter of the scheme.
    ///
    /// # Errors
    /// Fails if there is no such drive, the drive is emulated, or the value is not a rating. Fails
    /// for any other setting of a drive: the volume has such a setting from its creation on.
    pub fn take_rating(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let Some((id, key)) = name.split_once('.') else { return Ok(false) };
        if key != RATED_WRITES {
            return Err(format!("{name} is a setting of an emulated drive: expected it at `bimetal create`"));
        }
        let member = self.members.iter_mut().find(|member| member.id == id && member.profile.is_none());
        let member = member.ok_or_else(|| {
            format!(
                "{name}: expected the setting of an emulated drive, and '{id}' is \
                                                   no emulated drive of this volume"
            )
        })?;
        let rated = rated_writes(value, member.bytes).map_err(|error| format!("{name}: {error}"))?;
        member.rated_write_bytes = Some(rated);
        self.settings.insert(name.to_owned(), value.to_owned());
        Ok(true)
    }

    /// Returns the name of a member for users.
    pub fn name_of(&self, member: MemberId) -> String {
        let known = self.members.get(usize::from(member.0));
        known.map_or_else(|| format!("member {}", member.0), |known| known.id.clone())
    }

    /// Returns the content that the scheme keeps on a member with this role: `home`, `copy`,
    /// `cache`, `ranges`, `log`.
    pub fn holds(&self, role: Role) -> &'static str {
        let kept = self.scheme.members.iter().find(|&&(member, _)| member == role);
        match kept.map(|&(_, holds)| holds) {
            Some(Holds::Home) => "home",
            Some(Holds::Copy) => "copy",
            Some(Holds::Cache) => "cache",
            Some(Holds::Ranges) => "ranges",
            // A drive that holds only a log has the role that holds the log under the scheme.
            Some(Holds::Log) | None => "log",
        }
    }

    /// Returns true if a member is flash: the drive that it emulates, or a real one that does not
    /// rotate. If the drive does not report whether it rotates, its role decides.
    pub fn is_flash(&self, number: usize, role: Role) -> bool {
        let known = self.members.get(number).and_then(|member| member.is_flash);
        known.unwrap_or(role == Role::Ssd)
    }
}

/// Returns true if a member is flash, as its emulated or real drive says.
fn is_flash(member: &MemberLabel, drive: Option<&Labelled>) -> Option<bool> {
    match &member.emulates {
        Some(profile) => Profile::load(profile).ok().map(|profile| profile.hdd().is_none()),
        None => drive?.probe.rotational.map(|rotates| !rotates),
    }
}

/// Returns the totals of a drive as a member, from its label.
fn lifetime(label: &Label, member: &MemberLabel, drive: &Labelled) -> Option<Lifetime> {
    let file = File::open(&drive.probe.canonical).ok()?;
    labels::read_lifetime(&file, member.size, &drive.probe.path, label.volume.identity()).ok()
}

/// Returns the rating of a drive of `size` with a role, as stated by its owner.
fn rating(label: &Label, role: Role, size: Bytes) -> Option<Bytes> {
    let mut settings = label.drive_settings(role);
    settings.find(|(key, _)| *key == RATED_WRITES).and_then(|(_, rated)| rated_writes(rated, size).ok())
}
