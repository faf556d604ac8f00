//! Experiments of the papers, repeated: for each the paper's claims, the paper's values and the
//! values of Bimetal.
//!
//! [`claims`] lists sentences of the papers with a number; [`experiments`] measures the values of
//! Bimetal, and draws them as a [`figure`]. Each other file is one experiment. An experiment states
//! its source and its own choices in its head, and returns numbers; `bimetal reproduce` prints and
//! draws the numbers. No other part of Bimetal uses an experiment, apart from the command line. A
//! general part that an experiment needs belongs in the simulator or the planner.

pub mod claims;
pub mod combo_hdtune;
pub mod experiments;
pub mod figure;
pub mod mixcp;
pub mod table;
pub mod traces;
pub mod wear_levelling;
