//! The schemes: one file each, named as its paper or product names it. To add a scheme, write its
//! file and a line in [`ALL`], from which the command line, the tests and the reports take all
//! schemes.

pub mod bcache;
mod cache;
pub mod combo;
pub mod dataplex;
pub mod griffin;
pub mod hdd_only;
pub mod hddboost;
pub mod hybrid_disk;
pub mod hyperduo;
pub mod mixedstore;
pub mod os_managed;
pub mod raid0;
pub mod raid1;
mod reasons;
pub mod smart_response;
pub mod smq;
pub mod ssd_only;
pub mod writeboost;

use crate::scheme::SchemeInfo;

/// The schemes that make one device of an SSD and an HDD, and each drive alone, in the order in
/// which tables show them.
pub const ALL: &[&SchemeInfo] = &[
    &ssd_only::INFO,
    &hdd_only::INFO,
    &combo::INFO,
    &smart_response::INFO,
    &hyperduo::INFO,
    &hddboost::INFO,
    &dataplex::INFO,
    &hybrid_disk::INFO,
    &os_managed::INFO,
    &griffin::INFO,
    &mixedstore::INFO,
    &smq::INFO,
    &bcache::INFO,
    &writeboost::INFO,
];

/// Arrays of any drives. Arrays are not hybrids, but volumes of a tree beside hybrids.
pub const ARRAYS: &[&SchemeInfo] = &[&raid0::INFO, &raid1::INFO];

/// Returns every scheme: first the hybrids, then the arrays.
pub fn every() -> impl Iterator<Item = &'static SchemeInfo> + Clone {
    ALL.iter().chain(ARRAYS).copied()
}

/// Returns the scheme with this name.
pub fn find(name: &str) -> Option<&'static SchemeInfo> {
    every().find(|info| info.name == name)
}
