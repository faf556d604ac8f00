//! The engine of Bimetal, which decides where each block lies. The engine is written once and
//! driven by three clocks: of the server, the simulator and the fault tester.
//!
//! The engine does no I/O and has no threads and no clock. The engine's arguments are requests,
//! completions and the time. Its results are operations to start and finished requests. Read
//! [`volume`] first (the mechanism that every scheme needs), then [`scheme`] (the decisions), then
//! any file of [`schemes`].
//!
//! - [`tree`]: volumes as members of volumes.
//! - [`layout`]: the regions on each member.
//! - [`block_map`]: the blocks off home.
//! - [`journal`]: the metadata that makes the block map durable.
//! - [`policies`]: the axes that schemes share.
//! - [`units`], [`block`], [`member`], [`operation`] and [`payload`]: the basic types.
//!
//! No module of this crate may know a device model, a file or a socket. `docs/architecture.md` has
//! the picture of the modules.
//!
//! # Example
//!
//! A driver takes each operation, carries it out and reports its completion. In this example every
//! operation takes 5 ms, and the same 4 KiB are read twice:
//!
//! ```
//! use bimetal_core::block::BlockSize;
//! use bimetal_core::layout::{LayoutRequest, MemberInfo, Role};
//! use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
//! use bimetal_core::payload::NoPayload;
//! use bimetal_core::schemes;
//! use bimetal_core::settings::Settings;
//! use bimetal_core::units::{Bytes, Nanoseconds, SectorRange};
//! use bimetal_core::volume::{Volume, VolumeConfig};
//!
//! // A volume whose 64 MiB HDD has a cache on a 16 MiB SSD.
//! let scheme = schemes::find("smart-response").expect("the scheme is in the list");
//! let settings = Settings::new(scheme.name, scheme.parameters, [])?;
//! let member = |role, mib| MemberInfo { role, capacity: Bytes::from_mib(mib).sectors() };
//! let members = [member(Role::Ssd, 16), member(Role::Hdd, 64)];
//! let layout = LayoutRequest { block: BlockSize::default(), members: &members, units: &[] };
//! let config = VolumeConfig { scheme, settings: &settings, layout, identity: 1, drives: &[1, 2] };
//! let mut volume = Volume::new(&config)?;
//!
//! let mut now = Nanoseconds::ZERO;
//! let mut operations = Vec::new();
//! for token in [Token(1), Token(2)] {
//!     let command = Command { kind: OpKind::Read, range: SectorRange::new(0, 8), fua: false };
//!     volume.submit(now, Operation { token, target: 0, command, payload: NoPayload });
//!     while let Some(operation) = volume.next_operation() {
//!         operations.push((members[usize::from(operation.target)].role, operation.command.kind));
//!         now += Nanoseconds::from_millis(5);
//!         let done =
//!             Completion { token: operation.token, status: Status::Done, payload: NoPayload };
//!         volume.complete(now, done);
//!     }
//!     let finished = volume.next_finished().expect("no operation is left");
//!     assert_eq!((finished.token, finished.status), (token, Status::Done));
//! }
//!
//! // The first read was served by the HDD, and its blocks were copied to the SSD.
//! let expected =
//!     [(Role::Hdd, OpKind::Read), (Role::Ssd, OpKind::Write), (Role::Ssd, OpKind::Read)];
//! assert_eq!(operations, expected);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bit_set;
pub mod block;
pub mod block_map;
mod delta_set;
pub mod guard;
pub mod journal;
pub mod label;
pub mod layout;
pub mod member;
pub mod mixing;
pub mod operation;
pub mod payload;
pub mod places;
pub mod policies;
pub mod scheme;
pub mod schemes;
pub mod settings;
pub mod tree;
pub mod units;
pub mod volume;

#[cfg(test)]
mod testing;
