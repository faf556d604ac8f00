//! Policies: the axes inside a scheme, one file each, shared by the schemes. A policy knows slots or sectors by number and
//! decides an order or a class; it never touches the map or a drive.

pub mod lru;
pub mod streams;
