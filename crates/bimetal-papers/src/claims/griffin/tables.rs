//! Cells of Griffin's tables 1 to 5, and the sentences of section 4 about the tables.
//!
//! A mean over the paper's desktops or servers is the mean of a column of the table, unless a
//! sentence of the paper has the mean.
//!
//! Each population has one stand-in, chosen by its system. The paper's desktops ran Windows, and so
//! did the public desktops; the longest of them stands for the intervals of table 3. `desktop` and
//! `office-server` are recordings of Linux, as the paper's D-DEV and S-SVN. No recording of a
//! Windows server exists: the shipped servers stand for table 1, and a virtual machine for table 3,
//! because the shipped servers are shorter than the intervals. Table 2 needs a map of files, which
//! `desktop` alone has.

use super::{MAYUN, OFFICE_SERVER, RECORDED, VM, share};
use crate::claims::{Claim, Expected, Workload};

const fn level(name: &'static str, place: &'static str, says: &'static str, paper: f64, workload: Workload) -> Claim {
    share(name, place, says, Expected::Level(paper), workload)
}

/// A cell of table 3: the mean of the paper's desktops or servers.
const fn interval(name: &'static str, says: &'static str, paper: f64, workload: Workload) -> Claim {
    level(name, "4.4, table 3", says, paper, workload)
}

/// A cell of table 5.
const fn linux(name: &'static str, says: &'static str, paper: f64, workload: Workload) -> Claim {
    level(name, "4.5, table 5", says, paper, workload)
}

/// Largest share that the paper's tables round to 0 %.
const ROUNDED_TO_0: Expected = Expected::AtMost(0.005);

pub(super) const CLAIMS: &[Claim] = &[
    // Table 1, savings of an ideal cache.
    level(
        "griffin-ideal-savings-all",
        "section 1",
        "an ideal write cache saves this share of the writes on desktops and servers, on average",
        0.52,
        Workload::Shipped,
    ),
    level(
        "griffin-ideal-savings-public",
        "table 1",
        "an ideal write cache saves this share of the writes on desktops",
        0.4858,
        Workload::PublicDesktops,
    ),
    share(
        "griffin-ideal-least-public",
        "4.2, table 1",
        LEAST_DESKTOP,
        Expected::AtLeast(0.36),
        Workload::PublicDesktops,
    ),
    level("griffin-ideal-most-public", "4.2, table 1", MOST_DESKTOP, 0.64, Workload::PublicDesktops),
    level(
        "griffin-ideal-least-server",
        "4.2, table 1",
        "share of the writes that an ideal write cache saves, on the server with the lowest share",
        0.14,
        Workload::Servers,
    ),
    level(
        "griffin-ideal-most-server",
        "4.2, table 1",
        "share of the writes that an ideal write cache saves, on the server with the highest share",
        0.94,
        Workload::Servers,
    ),
    // Table 1, the most written 1 % of the blocks.
    level("griffin-top-overwrites-servers", "4.3, table 1", TOP_SERVERS, 0.34, Workload::Servers),
    share("griffin-top-reads-servers", "4.3, table 1", TOP_READS_SERVERS, Expected::AtMost(0.02), Workload::Servers),
    level(
        "griffin-top-overwrites-public",
        "4.3, figure 1",
        "the most written 1 % of the blocks takes this share of all overwrites on desktops",
        0.73,
        Workload::PublicDesktops,
    ),
    level(
        "griffin-top-reads-public",
        "4.3, figure 2",
        "the most written 1 % of the blocks takes this share of all reads on desktops, on average",
        0.027,
        Workload::PublicDesktops,
    ),
    // Table 2, and the most overwritten files in section 4.4.
    share(
        "griffin-files",
        "4.3, table 2",
        "mail boxes, search indexes and registry (here a browser's profile and a package database) and the file \
         system's metadata take most of the overwrites",
        Expected::AtLeast(0.5),
        RECORDED,
    ),
    level(
        "griffin-files-raw",
        "4.4, table 2",
        "share of the reads after a write within 900 s of the write, in the six most overwritten files",
        0.21,
        RECORDED,
    ),
    // Table 3, means of the desktops.
    interval("griffin-waw-30s-mayun", WAW_30, 0.54, MAYUN),
    interval("griffin-waw-60s-mayun", WAW_60, 0.597, MAYUN),
    interval("griffin-waw-900s-mayun", WAW_900, 0.731, MAYUN),
    interval("griffin-waw-3600s-mayun", WAW_3600, 0.788, MAYUN),
    interval("griffin-raw-30s-mayun", RAW_30, 0.102, MAYUN),
    interval("griffin-raw-60s-mayun", RAW_60, 0.123, MAYUN),
    interval("griffin-raw-3600s-mayun", RAW_3600, 0.426, MAYUN),
    // Table 3, means of the servers.
    interval("griffin-waw-30s-vm", "share of the overwrites within 30 s of the write before, on servers", 0.213, VM),
    interval("griffin-waw-60s-vm", "share of the overwrites within 60 s of the write before, on servers", 0.272, VM),
    interval("griffin-waw-900s-vm", "share of the overwrites within 900 s of the write before, on servers", 0.457, VM),
    interval(
        "griffin-waw-3600s-vm",
        "share of the overwrites within an hour of the write before, on servers",
        0.60,
        VM,
    ),
    interval("griffin-raw-30s-vm", "share of the reads after a write within 30 s of the write, on servers", 0.042, VM),
    interval("griffin-raw-60s-vm", "share of the reads after a write within 60 s of the write, on servers", 0.095, VM),
    interval(
        "griffin-raw-900s-vm",
        "share of the reads after a write within 900 s of the write, on servers",
        0.295,
        VM,
    ),
    interval(
        "griffin-raw-3600s-vm",
        "share of the reads after a write within an hour of the write, on servers",
        0.312,
        VM,
    ),
    // Table 4, D-DEV and S-SVN.
    level("griffin-dev-savings", "4.5, table 4", DEV_SAVINGS, 0.62, RECORDED),
    level("griffin-dev-top-overwrites", "4.5, table 4", DEV_TOP, 0.72, RECORDED),
    share("griffin-dev-top-reads", "4.5, table 4", DEV_READS, ROUNDED_TO_0, RECORDED),
    level(
        "griffin-svn-savings",
        "4.5, table 4",
        "an ideal write cache saves this share of the writes of a server with source code, under Linux",
        0.81,
        OFFICE_SERVER,
    ),
    level(
        "griffin-svn-top-overwrites",
        "4.5, table 4",
        "the most written 1 % takes this share of the overwrites of a server with source code, under Linux",
        0.50,
        OFFICE_SERVER,
    ),
    share(
        "griffin-svn-top-reads",
        "4.5, table 4",
        "the most written 1 % takes none of the reads of a server with source code, under Linux",
        ROUNDED_TO_0,
        OFFICE_SERVER,
    ),
    // Table 5, D-DEV and S-SVN.
    linux("griffin-dev-waw-30s", "share of the overwrites within 30 s, on a developer's Linux", 0.09, RECORDED),
    linux("griffin-dev-waw-60s", "share of the overwrites within 60 s, on a developer's Linux", 0.24, RECORDED),
    linux("griffin-dev-waw-900s", "share of the overwrites within 900 s, on a developer's Linux", 0.35, RECORDED),
    linux("griffin-dev-waw-3600s", "share of the overwrites within an hour, on a developer's Linux", 0.45, RECORDED),
    linux(
        "griffin-dev-raw-30s",
        "share of the reads after a write within 30 s, on a developer's Linux",
        0.06,
        RECORDED,
    ),
    linux(
        "griffin-dev-raw-60s",
        "share of the reads after a write within 60 s, on a developer's Linux",
        0.24,
        RECORDED,
    ),
    linux(
        "griffin-dev-raw-900s",
        "share of the reads after a write within 900 s, on a developer's Linux",
        0.84,
        RECORDED,
    ),
    linux(
        "griffin-dev-raw-3600s",
        "share of the reads after a write within an hour, on a developer's Linux",
        0.85,
        RECORDED,
    ),
    share(
        "griffin-linux-hour",
        "4.5",
        "unlike under Windows, at most half of the overwrites come within an hour",
        Expected::AtMost(0.5),
        RECORDED,
    ),
    linux(
        "griffin-svn-waw-30s",
        "share of the overwrites within 30 s, on a Linux server with source code",
        0.23,
        OFFICE_SERVER,
    ),
    linux(
        "griffin-svn-waw-60s",
        "share of the overwrites within 60 s, on a Linux server with source code",
        0.32,
        OFFICE_SERVER,
    ),
    linux(
        "griffin-svn-raw-30s",
        "share of the reads after a write within 30 s, on a Linux server with source code",
        0.02,
        OFFICE_SERVER,
    ),
    linux(
        "griffin-svn-raw-60s",
        "share of the reads after a write within 60 s, on a Linux server with source code",
        0.02,
        OFFICE_SERVER,
    ),
];

const LEAST_DESKTOP: &str = "an ideal write cache saves this share of the writes on every desktop: lowest share";
const MOST_DESKTOP: &str = "share of the writes that an ideal write cache saves, on the desktop with the highest share";
const TOP_SERVERS: &str = "the most written 1 % of the blocks takes this share of all overwrites on servers";
const TOP_READS_SERVERS: &str = "the most written 1 % of the blocks takes few of all reads on all servers but one";
const WAW_30: &str = "share of the overwrites within 30 s of the write before, on desktops";
const WAW_60: &str = "share of the overwrites within 60 s of the write before, on desktops";
const WAW_900: &str = "share of the overwrites within 900 s of the write before, on desktops";
const WAW_3600: &str = "share of the overwrites within an hour of the write before, on desktops";
const RAW_30: &str = "share of the reads after a write within 30 s of the write, on desktops";
const RAW_60: &str = "share of the reads after a write within 60 s of the write, on desktops";
const RAW_3600: &str = "share of the reads after a write within an hour of the write, on desktops";
const DEV_SAVINGS: &str = "an ideal write cache saves this share of the writes of a developer's Linux";
const DEV_TOP: &str = "the most written 1 % of the blocks takes this share of the overwrites of a developer's Linux";
const DEV_READS: &str = "the most written 1 % of the blocks takes none of the reads of a developer's Linux";
