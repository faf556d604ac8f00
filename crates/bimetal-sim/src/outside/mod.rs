//! Policies and directors of another program, such as classes in Python, for the caches of
//! simulations and of [`mrc`](crate::mrc).

mod policy;

use std::sync::Arc;

use bimetal_core::scheme::{Director, View};

pub(crate) use policy::Outside;
pub use policy::OutsidePolicy;

/// Maker of a policy of another program, called for each cache of a simulation.
#[derive(Clone)]
pub struct OutsidePolicies {
    /// Name of the policy in results.
    pub name: String,
    /// Function that makes the policy for a number of slots.
    pub make: Arc<dyn Fn(u32) -> Box<dyn OutsidePolicy> + Send + Sync>,
}

impl std::fmt::Debug for OutsidePolicies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OutsidePolicies").field(&self.name).finish()
    }
}

/// Function that makes the director of an empty cache.
pub type MakeDirector = dyn Fn(&View) -> Box<dyn Director> + Send + Sync;

/// Maker of a director of another program, for the cache of a simulation.
#[derive(Clone)]
pub struct OutsideDirector {
    /// Name of the director in results.
    pub name: String,
    /// Function that makes the director of an empty cache.
    pub make: Arc<MakeDirector>,
}

impl std::fmt::Debug for OutsideDirector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OutsideDirector").field(&self.name).finish()
    }
}
