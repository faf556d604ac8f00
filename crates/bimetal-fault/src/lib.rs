//! The fault tester: the engine over in-memory drives that answer in any order, fail, vanish and lose power, and a model of
//! what every read may return.
//!
//! Lives here: payloads that say who wrote each sector ([`payload`]), drives with faults and volatile caches ([`drive`]), the
//! bounds within which faults are fair ([`atlas`]), damage to what lies at rest ([`damage`]), the
//! model ([`shadow`]), random cases ([`case`]), the run of one and its power cuts ([`tester`]), the
//! same of trees of volumes ([`tree`]), and ways to break the engine from outside ([`Sabotage`]).
//! The checks stand outside the engine:
//! they see requests, operations and the map, nothing inside. Does not live here: any knowledge of a scheme; a new one is
//! found in `schemes::every`.
//!
//! Read first: [`tester`], then [`shadow`]. One case is one scheme and one seed: the same two give the same run.

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
    CaseKind, DamageReport, Failure, Options, Report, run_case, run_crash_case, run_damage_case, run_refusal_case,
    run_scrub_case, run_seed,
};
pub use write_cache::Manner;
