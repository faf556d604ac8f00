//! The members: which of them fail, which refuse writes, and the records of failures and refusals
//! on the home members.

pub(super) mod health;
