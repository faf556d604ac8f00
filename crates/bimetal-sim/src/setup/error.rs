//! Reasons for which a run cannot be set up, as the user reads them.

use bimetal_core::scheme::SchemeError;
use bimetal_core::units::Bytes;
use bimetal_core::volume::VolumeError;
use bimetal_models::profile::ProfileError;
use bimetal_trace::TraceError;

/// Reasons for which a run cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A profile, or a setting of a profile, is refused.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A drive is not possible in its size.
    #[error("{scheme}: drive {drive}: {error}")]
    Model {
        /// Name of the scheme; in a tree, of the volume.
        scheme: String,
        /// Name of the drive.
        drive: String,
        /// Reason of the drive.
        error: Box<ProfileError>,
    },
    /// The scheme refuses a setting or the drives.
    #[error("{}", with_scheme(scheme, error))]
    Volume {
        /// Name of the scheme.
        scheme: &'static str,
        /// Reason of the scheme.
        error: VolumeError,
    },
    /// The tables of the scheme do not fit into memory.
    #[error(
        "{volume}: the tables of drives of these sizes take {} of address space, which the system refuses: expected \
         smaller drives, or larger blocks (--block)",
        needed.rounded_up()
    )]
    Memory {
        /// Name of the scheme; in a tree, of the volume.
        volume: String,
        /// Address space of the tables.
        needed: Bytes,
    },
    /// No scheme and no drive of the run has the key of a setting.
    #[error(
        "--set {key}={value}: no scheme or drive of this run has that key{hint} (`bimetal schemes NAME` and \
         `bimetal profiles NAME` list the keys)"
    )]
    UnknownKey {
        /// Key of the setting.
        key: String,
        /// Value of the setting.
        value: String,
        /// Hint with the nearest key.
        hint: String,
    },
    /// The value of a setting is impossible.
    #[error("--set {key}={value}: expected {expected}")]
    Value {
        /// Key of the setting.
        key: String,
        /// Value of the setting.
        value: String,
        /// Values that are possible.
        expected: &'static str,
    },
    /// No scheme of this run uses the member.
    #[error(
        "--member {0}: expected the id of a drive that a scheme of this run uses: ssd, hdd or log, and ssd2, ssd3 and so on \
         for further SSDs"
    )]
    UnknownMember(String),
    /// The numbers of members have a gap.
    #[error("--member {member}: expected {missing} before it: number the drives of a role without a gap")]
    MemberGap {
        /// Name of the member.
        member: String,
        /// Name of the missing member that comes before.
        missing: String,
    },
    /// The scheme takes only one drive of the role.
    #[error(
        "--member {member}: {scheme} uses one {role} drive: leave {member} out, or choose a scheme that takes several \
         (SSDs: griffin and ssd-only; drives of any kind: raid0 and raid1)"
    )]
    FurtherMember {
        /// Name of the scheme.
        scheme: &'static str,
        /// Name of the member.
        member: String,
        /// Role of the member.
        role: &'static str,
    },
    /// A role has several drives, and one of them is smaller than the scheme needs.
    #[error(
        "{scheme}: drive {drive} has {}: expected at least {}{reason}; set a larger size ({flag})",
        has.rounded_down(),
        needed.rounded_up()
    )]
    DriveTooSmall {
        /// Name of the scheme.
        scheme: &'static str,
        /// Name of the drive.
        drive: String,
        /// Size of the drive.
        has: Bytes,
        /// Size that is needed.
        needed: Bytes,
        /// Purpose of the size.
        reason: &'static str,
        /// Flag that gives the size.
        flag: String,
    },
    /// A hint does not fit this run.
    #[error(transparent)]
    Hint(#[from] TraceError),
    /// The settings leave hints without effect.
    #[error(
        "--hints: {scheme} takes the host's evictions from one source, and eviction_hint simulates them: expected \
         eviction_hint=off"
    )]
    HintsInVain {
        /// Name of the scheme.
        scheme: &'static str,
    },
    /// Hints that no scheme of the run can use.
    #[error("--hints: no scheme of this run uses the host's evictions: expected griffin")]
    NoUseForHints,
    /// Pins that no scheme of the run can use.
    #[error("--hints: no scheme of this run uses the host's pins: expected hybrid-disk")]
    NoUseForPins,
    /// Knowledge of the future, which is about the requests of the trace, for a volume behind a
    /// block layer that merges these requests.
    #[error(
        "{scheme}: replacement=belady and idle_periods=profiled know the requests of the trace, and the volume gets \
         merged requests: expected --merge off"
    )]
    ForeseesOtherRequests {
        /// Name of the scheme, or of the outermost volume of a tree.
        scheme: String,
    },
    /// A policy of another program that the scheme cannot use.
    #[error("{scheme}: takes no policy '{policy}' of another program: expected smart-response or dataplex")]
    NoUseForPolicy {
        /// Name of the scheme, or of the outermost volume of a tree.
        scheme: String,
        /// Name of the policy.
        policy: String,
    },
    /// A director of another program that the scheme cannot use.
    #[error(
        "{scheme}: takes no director '{director}' of another program: expected smart-response, dataplex, smq or \
         bcache"
    )]
    NoUseForDirector {
        /// Name of the scheme, or of the outermost volume of a tree.
        scheme: String,
        /// Name of the director.
        director: String,
    },
    /// A volume of a tree cannot be made.
    #[error("volume '{volume}': {}", with_scheme(scheme, error))]
    InTree {
        /// Name of the volume.
        volume: String,
        /// Name of the scheme.
        scheme: &'static str,
        /// Reason of the scheme.
        error: VolumeError,
    },
    /// A member of a volume in a tree is too small.
    #[error(
        "volume '{volume}': {scheme}: member '{member}' has {}: expected at least {}{reason}; {remedy}",
        has.rounded_down(),
        needed.rounded_up()
    )]
    MemberTooSmall {
        /// Name of the volume.
        volume: String,
        /// Name of the scheme.
        scheme: &'static str,
        /// Name of the member.
        member: String,
        /// Size of the member.
        has: Bytes,
        /// Size that is needed.
        needed: Bytes,
        /// Purpose of the size.
        reason: &'static str,
        /// Advice to the user.
        remedy: &'static str,
    },
    /// A drive cannot continue from a saved state.
    #[error("--restore-state: {volume}: drive {drive}: {error}")]
    Restore {
        /// Name of the scheme; in a tree, of the volume.
        volume: String,
        /// Name of the drive.
        drive: String,
        /// Reason of the drive.
        error: Box<ProfileError>,
    },
    /// A state was saved for a drive that this run does not have.
    #[error("--restore-state: the file has the state of drive '{0}', and this run has no drive with that name")]
    UnusedState(String),
    /// The profile is of the wrong kind.
    #[error("{profile} is a profile of kind {kind}: expected kind {expected} for the {role} drive")]
    WrongKind {
        /// Name of the profile.
        profile: String,
        /// Kind of the profile.
        kind: &'static str,
        /// Role that the drive was given.
        role: &'static str,
        /// Kind that the role needs.
        expected: &'static str,
    },
}

impl SetupError {
    /// Returns the refusal of the drive `id` of the volume `name`.
    pub(crate) fn of_model(name: &str, id: &str, error: ProfileError) -> Self {
        Self::Model { scheme: name.to_owned(), drive: id.to_owned(), error: Box::new(error) }
    }

    /// Returns true if the drives of this run do not suit the scheme, so that other drives may suit
    /// the scheme.
    pub fn is_of_the_drives(&self) -> bool {
        matches!(
            self,
            Self::Volume { error: VolumeError::Scheme(SchemeError::Layout(_)), .. }
                | Self::FurtherMember { .. }
                | Self::DriveTooSmall { .. }
                | Self::Model { .. }
                | Self::Memory { .. }
        )
    }
}

/// Formats the error, with the scheme in front unless it begins with the scheme.
fn with_scheme(scheme: &str, error: &VolumeError) -> String {
    let text = error.to_string();
    if text.starts_with(scheme) { text } else { format!("{scheme}: {text}") }
}
