//! The members: which of them fail, which refuse writes, and what the home members record of
//! failures and refusals.

pub(super) mod health;
