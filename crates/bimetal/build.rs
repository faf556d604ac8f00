//! Version of the engine: the version of the program and a digest of the sources that results
//! depend on, for the keys of `sweep`.

#[path = "src/commands/sweep/sources.rs"]
mod sources;

use std::path::{Path, PathBuf};

/// Sources that the result of a simulation depends on.
const SOURCES: [&str; 15] = [
    "../../Cargo.lock",
    "../../drives",
    "../../profiles",
    "../bimetal-core/src",
    "../bimetal-measure/src",
    "../bimetal-models/src",
    "../bimetal-plan/src",
    "../bimetal-sim/src",
    "../bimetal-trace/src",
    "src/commands/sweep",
    "src/experiment.rs",
    "src/files.rs",
    "src/options",
    "src/sample.rs",
    "src/trace_workload.rs",
];

fn main() -> std::io::Result<()> {
    let paths = SOURCES.map(PathBuf::from);
    for path in &paths {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    let digest = sources::digest(Path::new("."), &paths)?;
    println!("cargo::rustc-env=BIMETAL_ENGINE={}+{digest:016x}", env!("CARGO_PKG_VERSION"));
    Ok(())
}
