//! The `bimetal create` line that builds an option, with every setting of its evaluation.

use bimetal_core::block::BlockSize;
use bimetal_core::layout::Role;
use bimetal_core::schemes;

use crate::grid::Candidate;

/// Returns advice for an array, which `bimetal create` cannot build.
pub fn instead(scheme: &str) -> String {
    format!("{scheme} is for simulations: make an array with mdadm")
}

/// Returns the sentence in front of the line of a scheme: one drive alone needs no volume.
pub fn introduction(candidate: &Candidate) -> &'static str {
    match candidate.drives.len() {
        1 if !candidate.has_several_drives() => {
            "no volume is needed: use the drive as it is; to serve it by Bimetal all the same:"
        }
        _ => "build it with:",
    }
}

/// Returns the line, with SSD, HDD and LOG for the paths of the drives. Arrays are only simulated
/// and have no line.
pub fn command(candidate: &Candidate, block: BlockSize) -> Option<String> {
    let scheme = candidate.scheme.name;
    if schemes::ARRAYS.iter().any(|array| array.name == scheme) {
        return None;
    }
    let mut line = format!("bimetal create hybrid --scheme {scheme}");
    for (role, _) in &candidate.drives {
        line += match role {
            Role::Ssd => " --ssd SSD",
            Role::Hdd => " --hdd HDD",
            Role::Log => " --member log=LOG",
        };
    }
    if block != BlockSize::default() {
        line += &format!(" --block {}", block.bytes());
    }
    // A volume refuses parameters that only a simulation follows.
    let is_simulated =
        |key: &str| candidate.scheme.parameters.iter().any(|it| it.name == key && it.simulated.is_some());
    for (key, value) in candidate.settings.iter().filter(|(key, _)| !is_simulated(key)) {
        line += &format!(" --set {key}={value}");
    }
    Some(line)
}
