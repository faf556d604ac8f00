//! The drives of a volume: what a path is, what lies on it, how it is labelled, found, locked and made a member.
//!
//! [`probe`](mod@probe) says what a path is and who uses it, [`signature`] what lies on it,
//! [`labels`] reads and writes its label, [`find`](mod@find) finds all drives of a volume by their
//! labels ([`registry`] remembers files, which nobody could find), [`lock`] keeps others away, and
//! [`create`](mod@create) makes a volume of drives, if [`verdict`] has nothing against them. What a
//! label says, and whether labels make a volume, is core's ([`bimetal_core::label`]).
//! [`plan`](mod@plan) is what a label makes of its scheme and members, [`held`] a volume that was
//! found and is in our hands. [`replace`](mod@replace) puts a new drive in the place of one that is
//! gone. [`rescue`](mod@rescue) writes again what another program wrote over.
//! [`resize`](mod@resize) takes new sizes of drives, [`settings`] changes parameters on the labels.
//! Nothing here serves a request. Read first: [`create`](mod@create).

pub mod create;
pub mod directories;
pub mod find;
pub mod held;
pub mod labels;
pub mod lock;
pub mod plan;
pub mod probe;
pub mod registry;
pub mod replace;
pub mod report;
pub mod rescue;
pub mod resize;
pub mod settings;
pub mod signature;
pub mod verdict;
