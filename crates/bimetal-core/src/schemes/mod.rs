//! The schemes: one file each, named as its paper or product names it. To add one, write its file and a line in
//! [`ALL`]; command line, tests and reports find it there.

pub mod bcache;
pub mod combo;
pub mod dataplex;
pub mod griffin;
pub mod hdd_only;
pub mod hddboost;
pub mod hybrid_disk;
pub mod hyperduo;
pub mod mixedstore;
pub mod os_managed;
pub mod smart_response;
pub mod smq;
pub mod ssd_only;
pub mod writeboost;

use crate::scheme::SchemeInfo;

/// Every scheme there is, in the order in which tables show them.
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

/// The scheme with this name.
pub fn find(name: &str) -> Option<&'static SchemeInfo> {
    ALL.iter().find(|info| info.name == name).copied()
}
