//! Shape of a tree, given or drawn: volumes of any scheme over drives and volumes.

use bimetal_core::block::BlockSize;
use bimetal_core::layout::{LayoutRequest, MemberInfo, Role};
use bimetal_core::scheme::SchemeInfo;
use bimetal_core::schemes;
use bimetal_core::settings::Settings;
use bimetal_core::units::Sectors;
use bimetal_core::volume::{Volume, VolumeConfig};

use crate::case::{draw_records_until_commit, draw_settings};
use crate::payload::Tags;
use crate::random::Random;

/// Largest number of draws of a tree whose volumes refuse their configuration.
const DRAWS_MAX: u32 = 2000;
/// Number of draws after which settings stay at their defaults.
const WITH_SETTINGS: u32 = 1000;

/// A tree, or a member of a tree.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A drive with this role.
    Drive(Role),
    /// A volume: scheme, role in the volume above, and members.
    Volume(&'static str, Role, Vec<Shape>),
}

impl Shape {
    /// Draws a tree around `scheme`, of one to three levels of volumes.
    pub fn draw(scheme: &'static SchemeInfo, random: &mut Random) -> Self {
        Self::volume(scheme, Role::Hdd, 2, random)
    }

    fn volume(scheme: &'static SchemeInfo, role: Role, levels: u32, random: &mut Random) -> Self {
        let all: Vec<&'static SchemeInfo> = schemes::every().collect();
        let members = scheme.members.iter().map(|&(role, _)| {
            if levels > 0 && random.one_in(2) {
                let scheme = random.pick(&all);
                Self::volume(scheme, role, levels - 1, random)
            } else {
                Shape::Drive(role)
            }
        });
        Shape::Volume(scheme.name, role, members.collect())
    }

    /// Returns the scheme of the outermost volume.
    ///
    /// # Panics
    /// Panics if the shape is a drive, or no scheme has the name.
    pub fn scheme(&self) -> &'static SchemeInfo {
        let Shape::Volume(name, ..) = self else { panic!("a tree is more than a drive") };
        schemes::find(name).expect("a scheme that there is")
    }

    fn role(&self) -> Role {
        let (Shape::Drive(role) | Shape::Volume(_, role, _)) = self;
        *role
    }

    fn name(&self) -> String {
        match self {
            Shape::Drive(role) => role.name().to_owned(),
            Shape::Volume(scheme, _, members) => {
                format!("{scheme}({})", members.iter().map(Shape::name).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// A member of a drawn volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Leaf(u16),
    Volume(usize),
}

/// A drawn volume, so that it can be made again after a crash.
pub(super) struct Made {
    scheme: &'static SchemeInfo,
    settings: Settings,
    infos: Vec<MemberInfo>,
    units: Vec<Sectors>,
    block: BlockSize,
    records_until_commit: Option<usize>,
    pub(super) members: Vec<Place>,
    above: Option<usize>,
}

impl Made {
    /// Returns the configuration of the volume with this number.
    pub(super) fn config(&self, number: usize) -> VolumeConfig<'_> {
        let layout = LayoutRequest { block: self.block, members: &self.infos, units: &self.units };
        VolumeConfig {
            scheme: self.scheme,
            settings: &self.settings,
            layout,
            identity: 100 + number as u64,
            drives: &[],
        }
    }

    /// Sets the number of records after which the log of `volume` commits by itself.
    pub(super) fn commit_early(&self, volume: &mut Volume<Tags>) {
        if let Some(records) = self.records_until_commit {
            volume.commit_log_after(records);
        }
    }
}

/// A tree whose volumes can be made. Each volume is listed before the volumes that are its members.
pub(super) struct Drawn {
    pub(super) volumes: Vec<Made>,
    /// Size of each leaf, in sectors. `leaf_above` has the volume of which the leaf is a member.
    pub(super) leaves: Vec<u64>,
    leaf_above: Vec<usize>,
    pub(super) description: String,
}

impl Drawn {
    /// Draws sizes and settings until every volume accepts its configuration.
    pub(super) fn draw(random: &mut Random, shape: impl Fn(&mut Random) -> Shape) -> Self {
        for draw in 0..DRAWS_MAX {
            let shape = shape(random);
            let mut drawn =
                Self { volumes: Vec::new(), leaves: Vec::new(), leaf_above: Vec::new(), description: String::new() };
            if drawn.add(&shape, None, draw < WITH_SETTINGS, random).is_some() {
                let settings = drawn.volumes.iter().flat_map(|made| made.settings.iter());
                let settings: Vec<String> = settings.map(|(key, value)| format!("{key}={value}")).collect();
                drawn.description = format!("{} over {:?} sectors, {}", shape.name(), drawn.leaves, settings.join(" "));
                return drawn;
            }
        }
        panic!("no draw in {DRAWS_MAX} gave a tree that can be made");
    }

    /// Adds the members of `shape`. Returns the place and the size of `shape`, or `None` if its
    /// volume cannot be made.
    fn add(
        &mut self,
        shape: &Shape,
        above: Option<usize>,
        with_settings: bool,
        random: &mut Random,
    ) -> Option<(Place, Sectors)> {
        let below = match shape {
            Shape::Drive(_) => {
                let most = random.pick(&[120, 250, 500]);
                let capacity = random.between(70, most) * 8 + random.below(50);
                self.leaves.push(capacity);
                self.leaf_above.push(above?);
                return Some((Place::Leaf(self.leaves.len() as u16 - 1), Sectors(capacity)));
            }
            Shape::Volume(_, _, members) => members,
        };
        let scheme = shape.scheme();
        let number = self.volumes.len();
        let defaults = !with_settings || random.one_in(2);
        let settings = draw_settings(scheme, random, None, defaults);
        let units = if above.is_none() && random.one_in(3) {
            (0..random.between(1, 3)).map(|_| Sectors(random.between(1, 400))).collect()
        } else {
            Vec::new()
        };
        let (infos, members, block) = (Vec::new(), Vec::new(), BlockSize::default());
        self.volumes.push(Made { scheme, settings, infos, units, block, records_until_commit: None, members, above });
        for member in below {
            let (place, capacity) = self.add(member, Some(number), with_settings, random)?;
            let made = &mut self.volumes[number];
            made.members.push(place);
            made.infos.push(MemberInfo { role: member.role(), capacity });
        }
        let volume = Volume::<Tags>::new(&self.volumes[number].config(number)).ok()?;
        self.volumes[number].records_until_commit = draw_records_until_commit(&volume, random.fork());
        Some((Place::Volume(number), volume.units().next()?))
    }

    /// Returns true if a mirror stands above a leaf, so that the loss of the leaf loses no data.
    pub(super) fn is_spared(&self, leaf: u16) -> bool {
        let above = std::iter::successors(Some(self.leaf_above[usize::from(leaf)]), |&at| self.volumes[at].above);
        above.into_iter().any(|at| self.volumes[at].scheme.name == "raid1")
    }
}
