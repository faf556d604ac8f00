//! The parts of `bimetal replay` below its command: placement of a trace's requests on a volume
//! ([`placement`]), the simulation of the volume ([`simulated`]), and the document with both
//! results ([`document`]).

pub(crate) mod document;
pub(crate) mod placement;
pub(crate) mod simulated;
