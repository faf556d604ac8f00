//! The heart of Bimetal: the engine that decides where a block lives. No I/O, no threads, no clock.

pub mod operation;
pub mod units;
