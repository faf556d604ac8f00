//! Policies of another program, such as classes in Python, for the caches of simulations and of
//! [`mrc`](crate::mrc).

use std::sync::Arc;

use bimetal_core::scheme::OutsidePolicy;

/// Maker of a policy of another program, for each cache that a simulation has.
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
