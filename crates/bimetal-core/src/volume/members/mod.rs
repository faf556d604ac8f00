//! The members: which of them fail, which refuse writes, and what their homes record of that.

pub(super) mod health;
