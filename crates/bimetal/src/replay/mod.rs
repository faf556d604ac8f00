//! `bimetal replay` below its command: where a trace's requests go on a volume ([`placement`]), the volume simulated as it
//! is ([`simulated`]), and what is shown of both ([`document`]).

pub(crate) mod document;
pub(crate) mod placement;
pub(crate) mod simulated;
