//! DiskSim's parameter files, read as profiles; the drives of its validation set are built in.

use std::path::PathBuf;

use bimetal_models::hdd::diskspecs::{BusTimes, DiskspecsError, import};
use bimetal_models::profile::Profile;

/// Stem of the parameter file, name of the built-in profile, and the bus where the file keeps it elsewhere.
type Drive = (&'static str, &'static str, Option<(f64, f64)>);

const DRIVES: [Drive; 10] = [
    ("atlas10k", "atlas10k", None),
    ("atlas_III", "atlas_III", None),
    ("barracuda", "barracuda", None),
    ("cheetah4LP", "cheetah4LP", None),
    ("cheetah9LP", "cheetah9LP", None),
    ("ibm18es", "ibm18es", None),
    ("dec_rz26", "dec_rz26", Some((0.07069, 0.07069))),
    ("hp_c2247a", "hp_c2247a", Some((0.17010, 0.18686))),
    ("hp_c2490a", "hp_c2490a", Some((0.14841, 0.14841))),
    ("hp_c3323a_validate", "hp_c3323a", Some((0.14550, 0.14550))),
];

fn parameter_file(stem: &str) -> Option<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/validation/disksim");
    let path = PathBuf::from(folder).join(format!("{stem}.diskspecs"));
    if !path.exists() {
        eprintln!("skipped: no ../shared");
        return None;
    }
    Some(path)
}

#[test]
fn each_built_in_validation_drive_is_what_its_parameter_files_say() {
    for (stem, name, bus) in DRIVES {
        let Some(path) = parameter_file(stem) else { return };
        let bus = bus.map(|(read_ms, write_ms)| BusTimes { read_ms, write_ms });
        let text = import(&path, bus).unwrap();
        let built_in = concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles");
        let built_in = std::fs::read_to_string(format!("{built_in}/disksim-{name}.toml")).unwrap();
        assert_eq!(text, built_in, "{name}");
        assert_eq!(Profile::parse(&text, name).unwrap().name, format!("disksim-{name}"));
    }
}

#[test]
fn the_zones_hold_what_the_drives_really_have() {
    // Where the declared count is right, the zones agree with it; of the HP C3323A it is too small.
    for (name, sectors) in
        [("hp_c2247a", 2_054_864), ("dec_rz26", 2_050_860), ("hp_c2490a", 4_165_272), ("hp_c3323a", 2_056_008)]
    {
        assert_eq!(Profile::load(&format!("disksim-{name}")).unwrap().capacity.0, sectors, "{name}");
    }
}

#[test]
fn every_sector_of_a_validation_drive_has_one_place_and_back() {
    for name in ["disksim-cheetah4LP", "disksim-hp_c2247a", "disksim-atlas10k"] {
        let profile = Profile::load(name).unwrap();
        let layout =
            bimetal_models::hdd::layout::Layout::new(profile.hdd().unwrap(), profile.capacity, profile.capacity)
                .unwrap();
        let sectors = layout.sectors().0;
        // Every 4099th and the ones around it, so that all zones and many slips are met.
        for near in (1..sectors - 1).step_by(4099) {
            for lbn in near - 1..=near + 1 {
                let place = layout.place(lbn);
                assert_eq!(layout.lbn(place.cylinder, place.head, place.sector), Some(lbn), "{name}: {lbn}");
            }
        }
    }
}

#[test]
fn a_bus_rate_that_is_kept_elsewhere_must_be_given() {
    let Some(path) = parameter_file("dec_rz26") else { return };
    let error = import(&path, None).unwrap_err();
    assert!(matches!(error, DiskspecsError::BusRate { .. }) && error.to_string().contains("--bus-ms-per-sector"));
}
