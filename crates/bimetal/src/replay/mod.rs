//! The parts of `bimetal replay` below its command: the simulation of the volume ([`simulated`]),
//! and the document with both results ([`document`]).

pub(crate) mod document;
pub(crate) mod simulated;
