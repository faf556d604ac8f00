//! The fault tester. The tester runs the engine over in-memory drives that answer in any order,
//! fail, vanish and lose power. The tester checks every read against a reference model.
//!
//! The crate contains:
//! - payloads that name the writer of each sector ([`payload`]);
//! - drives with faults and volatile caches ([`drive`]);
//! - the bounds within which faults are fair ([`atlas`]);
//! - damage to data at rest ([`damage`]);
//! - the reference model ([`shadow`]);
//! - random cases ([`case`]);
//! - the run of a case and its power cuts ([`tester`]), and of trees of volumes ([`tree`]);
//! - ways to break the engine from outside ([`Sabotage`]).
//!
//! The checks of the tester are outside the engine. The checks see requests, operations and the
//! block map, and no inner state of the engine. The crate knows nothing about any scheme: it takes
//! all schemes from `schemes::every`.
//!
//! Read first: [`tester`], then [`shadow`]. A case is one scheme and one seed: the same pair gives
//! the same run.

pub mod atlas;
pub mod case;
mod content;
pub mod damage;
pub mod drive;
mod older;
pub mod payload;
mod promises;
pub mod random;
pub mod regions;
mod sabotage;
pub mod shadow;
pub mod tester;
pub mod tree;
mod write_cache;

pub use promises::promises;
pub use sabotage::Sabotage;
pub use tester::{
    CaseKind, DamageReport, Failure, Options, Report, run_case, run_crash_case, run_damage_case, run_hold_case,
    run_refusal_case, run_return_case, run_scrub_case, run_seed,
};
pub use write_cache::Manner;
