//! Plan of a volume from its label: the scheme with its settings, over the members.

use bimetal_core::label::Label;
use bimetal_core::layout::{Layout, LayoutRequest, MemberId, MemberInfo};
use bimetal_core::scheme::{SchemeError, SchemeInfo};
use bimetal_core::schemes;
use bimetal_core::settings::{SettingError, Settings};
use bimetal_core::volume::VolumeConfig;

/// See the [module](self).
pub struct Plan<'a> {
    label: &'a Label,
    scheme: &'static SchemeInfo,
    settings: Settings,
    members: Vec<MemberInfo>,
    drives: Vec<u32>,
}

impl<'a> Plan<'a> {
    /// Makes the plan of a label whose scheme is `scheme`.
    ///
    /// # Errors
    /// Fails if the scheme does not take the label's settings.
    pub fn of(label: &'a Label, scheme: &'static SchemeInfo) -> Result<Self, SettingError> {
        let settings = Settings::new(scheme.name, scheme.parameters, label.scheme_settings())?;
        Ok(Self { label, scheme, settings, members: label.member_infos(), drives: label.drives() })
    }

    /// Makes the plan of a label; `None` if the scheme is unknown or does not take the settings.
    pub fn of_label(label: &'a Label) -> Option<Self> {
        Self::of(label, schemes::find(&label.scheme)?).ok()
    }

    /// Returns the configuration of the volume.
    pub fn config(&self) -> VolumeConfig<'_> {
        let Self { label, scheme, settings, members, drives } = self;
        let layout = LayoutRequest { block: label.block, members, units: &label.units };
        VolumeConfig { scheme, settings, layout, identity: label.volume.identity(), drives }
    }

    /// Returns the layout of the volume.
    ///
    /// # Errors
    /// Fails if the scheme cannot use the members.
    pub fn lay_out(&self) -> Result<Layout, SchemeError> {
        (self.scheme.layout)(&self.settings, &self.config().layout)
    }

    /// Returns the member with slots; `None` if no member has slots.
    pub fn slots_member(&self) -> Option<MemberId> {
        self.lay_out().ok()?.slots.map(|slots| slots.member)
    }

    /// Returns true if ranges change their homes, so that the volume needs its table of places.
    pub fn has_places(&self) -> bool {
        self.lay_out().is_ok_and(|layout| layout.places.is_some())
    }
}
