//! What a server is told of its volume and cannot see in it: names, paths, settings.

use std::collections::BTreeMap;

use bimetal_core::label::lifetime::Lifetime;
use bimetal_core::layout::{MemberId, Role};
use bimetal_core::scheme::{Holds, SchemeInfo};
use bimetal_core::units::Bytes;

/// A volume as its labels tell of it.
#[derive(Clone)]
pub struct About {
    /// Its name.
    pub name: String,
    /// Its UUID, in words; none where it has no labels.
    pub uuid: Option<String>,
    /// Its scheme.
    pub scheme: &'static SchemeInfo,
    /// Every parameter of the scheme, as `--set` takes it, and what was set of drives.
    pub settings: BTreeMap<String, String>,
    /// Its members, in order.
    pub members: Vec<AboutMember>,
}

/// A member as its label tells of it.
#[derive(Clone, Debug, Default)]
pub struct AboutMember {
    /// As users know it: `ssd`, `hdd1`.
    pub id: String,
    /// Its drive; none where that is missing.
    pub path: Option<String>,
    /// Its size.
    pub bytes: Bytes,
    /// The profile of the drive that it plays.
    pub profile: Option<String>,
    /// How much may be written to it before it is worn out, as its maker rates it.
    pub rated_write_bytes: Option<Bytes>,
    /// What it had done as a member before it is served now.
    pub before: Lifetime,
}

/// The setting of a real drive by which its owner says what its maker rates it for: `ssd.rated_writes=150TB`.
pub const RATED_WRITES: &str = "rated_writes";

impl About {
    /// Takes on what a drive is rated for, if `name` is that setting.
    ///
    /// # Errors
    /// There is no such drive, it is emulated, or the value is no size.
    pub fn take_rating(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let Some((id, RATED_WRITES)) = name.split_once('.') else { return Ok(false) };
        let rated: Bytes = value.parse().map_err(|error| format!("{name}: {error}"))?;
        let member = self.members.iter_mut().find(|member| member.id == id && member.profile.is_none());
        let member = member.ok_or_else(|| format!("{name}: this volume has no drive '{id}' that is not emulated"))?;
        member.rated_write_bytes = Some(rated);
        self.settings.insert(name.to_owned(), value.to_owned());
        Ok(true)
    }

    /// A member as users know it.
    pub fn name_of(&self, member: MemberId) -> String {
        let known = self.members.get(usize::from(member.0));
        known.map_or_else(|| format!("member {}", member.0), |known| known.id.clone())
    }

    /// What the scheme keeps on a member with this role: `home`, `cache`, `ranges`, `log`.
    pub fn holds(&self, role: Role) -> &'static str {
        let kept = self.scheme.members.iter().find(|&&(member, _)| member == role);
        match kept.map(|&(_, holds)| holds) {
            Some(Holds::Home) => "home",
            Some(Holds::Copy) => "copy",
            Some(Holds::Cache) => "cache",
            Some(Holds::Ranges) => "ranges",
            // A drive that only holds a log stands for the role that does under the scheme.
            Some(Holds::Log) | None => "log",
        }
    }

    /// Griffin and what it is measured against: home on the SSD, with a log or alone.
    pub fn is_about_write_savings(&self) -> bool {
        let log = self.scheme.members.iter().any(|&(_, holds)| holds == Holds::Log);
        let home_on_ssd = self.scheme.members.first() == Some(&(Role::Ssd, Holds::Home));
        home_on_ssd && (log || self.scheme.members.len() == 1)
    }
}
