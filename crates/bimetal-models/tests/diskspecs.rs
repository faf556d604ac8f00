//! Tests of DiskSim's parameter files, read as profiles. The drives of its validation set are built
//! in.

use std::path::PathBuf;

use bimetal_models::hdd::diskspecs::{BusTimes, DiskspecsError, Imported, import};
use bimetal_models::profile::Profile;

/// Stem of the parameter file, name of the built-in profile, and the bus times if the file has them
/// in another place.
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
fn built_in_validation_drives_equal_their_parameter_files() {
    for (stem, name, bus) in DRIVES {
        let Some(path) = parameter_file(stem) else { return };
        let bus = bus.map(|(read_ms, write_ms)| BusTimes { read_ms, write_ms });
        let Imported { profile: text, passed_over } = import(&path, bus).unwrap();
        assert_eq!(passed_over, Vec::<String>::new(), "{name}: the model follows the drives that it is validated on");
        let built_in = concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles");
        let built_in = std::fs::read_to_string(format!("{built_in}/disksim-{name}.toml")).unwrap();
        assert_eq!(text, built_in, "{name}");
        assert_eq!(Profile::parse(&text, name).unwrap().name, format!("disksim-{name}"));
    }
}

#[test]
fn the_zones_hold_what_the_drives_really_have() {
    // If the declared count is right, the zones agree with it; for the HP C3323A it is too small.
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
        // Every 4099th sector and its neighbours are tried, so that all zones and many slips are
        // met.
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

/// Writes a small drive, with `more` settings in its electronics and `layout` in its layout.
fn small_drive(name: &str, more: &str, layout: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("bimetal-diskspecs-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let overheads: String = ["Read hit", "Read miss", "Write hit", "Write miss"]
        .iter()
        .flat_map(|kind| ["read", "write"].map(|last| format!("{kind} over. after {last} = 0.5,\n")))
        .collect();
    let specs = format!(
        "disksim_disk SMALL {{\nModel = source small.model,\nBulk sector transfer time = 0.1,\nNumber of buffer segments = 2,\n\
         Segment size (in blks) = 64,\nFast write level = 0,\nBuffer continuous read = 3,\n{overheads}{more}\n}}\n"
    );
    let model = format!(
        "dm_disk SMALL {{\nNumber of data surfaces = 2,\nMechanical Model = dm_mech_g1 {{\nRotation speed (in rpms) = 7200,\n\
         Head switch time = 1.0,\nSeek type = linear,\nSingle cylinder seek time = 1.0,\nAverage seek time = 5.0,\n\
         Full strobe seek time = 10.0\n}},\nLayout Model = dm_layout_g1 {{\nLBN-to-PBN mapping scheme = 0,\n{layout},\n\
         Zones = [ dm_layout_g1_zone {{ First cylinder number = 0, Last cylinder number = 9, Blocks per track = 10,\n\
         Offset of first block = 0, Skew for track switch = 2, Skew for cylinder switch = 3, Number of spares = 2,\n\
         slips = [ 3, 25 ], Colour = red }} ]\n}}\n}}\n"
    );
    std::fs::write(directory.join("small.model"), model).unwrap();
    std::fs::write(directory.join("small.diskspecs"), specs).unwrap();
    directory.join("small.diskspecs")
}

#[test]
fn a_setting_that_the_model_does_not_follow_is_named() {
    let path = small_drive("unused", "Preseeking level = 2,\nPrint stats = 1,\nFancy = 3", "Sparing scheme used = 9");
    let passed_over = import(&path, None).unwrap().passed_over;
    let named = |what: &str| passed_over.iter().any(|line| line.contains(what));
    assert!(named("Preseeking level = 2 is ignored: the model behaves as with 0"), "{passed_over:?}");
    assert!(named("Fancy = 3 is ignored") && named("Colour = red is ignored"), "{passed_over:?}");
    assert_eq!(passed_over.len(), 3, "{passed_over:?}");
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

#[test]
fn every_sparing_scheme_comes_over() {
    // Ten cylinders of 20 sectors, two of them slipped: some schemes take the slipped sectors from
    // the spares.
    for (scheme, sectors) in [(0, 198), (3, 160), (2, 180), (4, 178), (5, 180), (6, 178), (7, 198), (9, 198), (10, 196)]
    {
        let path = small_drive("sparing", "", &format!("Sparing scheme used = {scheme}"));
        let profile = Profile::parse(&import(&path, None).unwrap().profile, "small").unwrap();
        assert_eq!(profile.capacity.0, sectors, "scheme {scheme}");
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}

/// Zones and seek times that no drive has are refused. The error names the file, the key, and the
/// expected value.
#[test]
fn impossible_zones_and_seek_times_are_named_with_key() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles/disksim-cheetah4LP.toml");
    let text = std::fs::read_to_string(file).unwrap();
    for (from, to, expected) in [
        (
            "first_cylinder = 1345",
            "first_cylinder = 1340",
            "expected first_cylinder = 1345, because zones may not overlap",
        ),
        ("first_cylinder = 1345", "first_cylinder = 1350", "first_cylinder = 1345, because zones may not leave a gap"),
        ("last_cylinder = 2448", "last_cylinder = 1300", "expected last_cylinder not below first_cylinder"),
        (
            "sectors_per_track = 195",
            "sectors_per_track = 0",
            "zones.sectors_per_track = 0: expected a number from 1 to 1000000",
        ),
        ("spares = 108", "spares = 99999999", "because the zone has no more"),
        ("[[1, 0.636], [2, 1.146]", "[[1, 0.636], [1, 1.146]", "expected distances that rise"),
        ("[[1, 0.636]", "[[0, 0.636]", "expected at least 1 cylinder, and 0 to 1000 ms"),
        ("[[zones]]\nfirst", "[[zones]]\ncolour = 1\nfirst", "unknown key 'zones.colour'"),
        (
            "read_watermark = 0.0",
            "read_watermark = 2.0",
            "controller.read_watermark = 2: expected a number from 0 to 1",
        ),
    ] {
        let bad = text.replacen(from, to, 1);
        assert_ne!(bad, text, "{from}");
        let error = Profile::parse(&bad, "x.toml").unwrap_err().to_string();
        assert!(error.starts_with("x.toml: ") && error.contains(expected), "{to}: {error}");
    }
}
