//! Tests of the drives that can be made, and of the errors for drives that cannot be made.

use bimetal_core::operation::{OpKind, Token};
use bimetal_core::units::{Bytes, SectorRange, Sectors};

use super::{command, drain, profile, us};
use crate::DeviceModel;
use crate::flash::geometry::RESERVED_BLOCKS_PER_DIE;
use crate::flash::{Flash, Precondition};
use crate::profile::{Body, Profile};

#[test]
fn a_drive_of_any_size_can_be_made_of_a_profile() {
    for name in ["samsung-970-evo-plus-500gb", "samsung-870-qvo-1tb", "intel-x25-m-80gb"] {
        let profile = Profile::load(name).unwrap();
        for size in [
            4096,
            Bytes::from_kib(100).0,
            Bytes::from_mib(4).0,
            Bytes::from_gib(1).0,
            Bytes::from_gib(32).0,
            4_000_000_000_000,
        ] {
            let size = Bytes(size).sectors();
            let Body::Flash(flash) = &profile.body else { panic!("a flash drive") };
            let all = SectorRange { start: Sectors(0), len: size };
            let mut drive = Flash::new(flash, profile.capacity, Some(size), Precondition::Random, all, 1).unwrap();
            assert_eq!(drive.capacity(), size);
            let geometry = *drive.geometry();
            assert!(geometry.spare_factor() >= flash.spare_factor - 1e-9, "{geometry:?}");
            // Unless tiny, the drive has the spare area of the profile, within one block of each
            // die beside the reserved blocks.
            if size.bytes() >= Bytes::from_gib(1) {
                let blocks = f64::from(RESERVED_BLOCKS_PER_DIE + 1) / f64::from(geometry.blocks_per_plane);
                assert!(geometry.spare_factor() < flash.spare_factor + blocks, "{geometry:?}");
            }
            let mut finished = Vec::new();
            for token in 0..200 {
                // The writes form twelve runs over the whole drive.
                let start = (token % 12 * (size.0 / 12) + token / 12 * 8) % size.0;
                let now = drive.next_event().unwrap_or(us(0));
                drive.advance(now, &mut finished);
                drive.submit(now, Token(token), command(OpKind::Write, start, 8.min(size.0 - start)));
            }
            drain(&mut drive, &mut finished);
            assert_eq!(finished.len(), 200);
            assert!(drive.memory_bytes() < 32 << 20, "{size}: {} bytes", drive.memory_bytes());
        }
    }
}

#[test]
fn a_bad_configuration_names_its_key() {
    for (changes, expected) in [
        (vec![("spare_factor", "0")], "spare_factor = 0: expected a fraction above 0 and below 1"),
        (vec![("spare_factor", "1")], "spare_factor = 1: expected a fraction above 0 and below 1"),
        (vec![("spare_factor", "-0.5")], "spare_factor = -0.5"),
        (vec![("spare_factor", "0.01")], "spare_factor = 0.01: expected at least 3 spare blocks"),
        (vec![("blocks_per_plane", "3")], "spare blocks"),
        (vec![("page_size", "12288")], "page_size = 12KiB: expected a power of two"),
        (vec![("page_size", "0")], "page_size = 0B"),
        (vec![("mapping_unit", "3000")], "mapping_unit = 3000B: expected a power of two from 512B to the page size"),
        (vec![("channels", "0")], "channels = 0: expected a whole number from 1 to 256"),
        (vec![("pages_per_block", "0")], "pages_per_block = 0"),
        (vec![("blocks_per_plane", "16000000"), ("pages_per_block", "16000")], "at most 4294967294 mapping units"),
        (vec![("write_buffer", "20KiB")], "write_buffer = 20KiB: expected \"off\", or at least 32KiB"),
        (vec![("write_buffer", "big")], "write_buffer = \"big\""),
        (vec![("ftl", "pages")], "ftl = \"pages\": expected `page`"),
        (vec![("gc", "lazy")], "gc = \"lazy\": expected `greedy`, `cost-benefit`, `fifo`, or `d-choices:`"),
        (vec![("gc", "d-choices:0")], "gc = \"d-choices:0\""),
        (vec![("cell", "plc")], "cell = \"plc\""),
        (vec![("timing", "slow")], "timing = \"slow\""),
        (vec![("gc_free_blocks", "1")], "gc_free_blocks = 1: expected a number from 2"),
        (vec![("gc_free_blocks", "17")], "gc_free_blocks = 17: expected from 2 to 16, the spare blocks of a die"),
        (vec![("rated_cycles", "0")], "rated_cycles = 0"),
        (vec![("ftl", "anand"), ("chain_length_max", "0")], "chain_length_max = 0: expected at least 1"),
        (
            vec![("ftl", "log-block"), ("log_blocks", "1000")],
            "log_blocks = 1000: expected from 4 to 32, the spare blocks",
        ),
        (vec![("ftl", "log-block"), ("log_blocks", "1")], "log_blocks = 1: expected from 4"),
        (vec![("ftl", "log-block"), ("spare_factor", "0.01")], "spare_factor = 0.01: expected at least 2 spare blocks"),
        (vec![("prewrite_probability", "0.5")], "prewrite_probability = 0.5: expected 0 unless ftl is page-in-place"),
        (vec![("erases_per_write_request", "2")], "expected 0 unless timing is serial"),
        (vec![("wear_levelling", "some")], "wear_levelling = \"some\": expected one of `none`, `dynamic`, `static`"),
        (
            vec![("ftl", "anand"), ("wear_levelling", "static")],
            "wear_levelling = static: expected none unless ftl is page",
        ),
        (vec![("wear_levelling", "adaptive")], "expected_write_mb_per_s = nothing: expected the rate of writes"),
        (vec![("ftl", "fast"), ("wear_out", "on")], "wear_out = on: expected off unless ftl is page or dftl"),
        (vec![("program_us_by_type", "200,500")], "program_us_by_type = 200,500: expected 3 times"),
        (vec![("program_us_by_type", "soon")], "program_us_by_type = \"soon\": expected 1 to 4 times"),
        (vec![("slc_cache", "1MiB")], "slc_cache = 1MiB: expected off, or slc_program_us given"),
        (
            vec![("slc_cache", "64KiB"), ("slc_program_us", "100")],
            "slc_cache = 64KiB: expected off, or at least 160KiB",
        ),
        (vec![("slc_cache", "big"), ("slc_program_us", "100")], "slc_cache = \"big\": expected a number and KiB"),
        (vec![("suspend_us", "-1")], "suspend_us = -1: expected a number from 0"),
        (vec![("ftl", "dftl"), ("map_cache", "8")], "map_cache = 8B: expected at least 16 bytes"),
        (vec![("ftl", "dftl"), ("spare_factor", "0.05")], "spare_factor = 0.05: expected at least 5 spare blocks"),
        (vec![("chanels", "2")], "did you mean 'channels'?"),
    ] {
        let mut profile = profile(&[]);
        let result = profile.set_all(changes.iter().copied());
        let error = result.and_then(|()| profile.build(None, 0).map(|_| ())).unwrap_err().to_string();
        assert!(error.contains(expected) && error.starts_with("small.toml"), "{changes:?}: {error}");
    }
}

#[test]
fn a_size_that_contradicts_the_geometry_is_an_error() {
    let profile = profile(&[]);
    // 2 × 64 × 16 × 16 KiB × 0.75 = 24 MiB.
    assert_eq!(profile.capacity.bytes(), Bytes::from_mib(24));
    assert!(profile.build(Some(profile.capacity), 0).is_ok());
    let error = profile.build(Some(Bytes::from_mib(16).sectors()), 0).err().unwrap().to_string();
    assert_eq!(
        error,
        "small.toml: capacity = 16MiB: expected 24MiB, which follows from blocks_per_plane and the other figures of \
         the geometry"
    );
}

#[test]
fn a_size_that_no_table_can_hold_is_an_error() {
    let profile = Profile::load("samsung-970-evo-plus-500gb").unwrap();
    for (spare_factor, tib) in [("0.07", 16), ("0.07", 5000), ("0.9999999", 1)] {
        let mut profile = profile.clone();
        let result = profile.set("spare_factor", spare_factor);
        let size = Some(Bytes(tib << 40).sectors());
        let error = result.and_then(|()| profile.build(size, 0).map(|_| ())).unwrap_err().to_string();
        assert!(error.contains("capacity = ") && error.contains("mapping units of 4KiB"), "{error}");
    }
}

#[test]
fn a_state_is_read_as_the_command_line_writes_it() {
    assert_eq!("clean".parse(), Ok(Precondition::Clean));
    assert_eq!("sequential".parse(), Ok(Precondition::Sequential));
    assert_eq!("random".parse(), Ok(Precondition::Random));
    let error = "full".parse::<Precondition>().unwrap_err().to_string();
    assert_eq!(error, "precondition = full: expected clean, sequential or random");
}

/// Regression: a part of a drive was planned for the terabytes of the whole drive, so its load
/// never counted as intense.
#[test]
fn planned_rate_of_writes_scales_with_the_size() {
    for (key, value) in [("warranted_terabytes_written", "100"), ("warranted_drive_writes_per_day", "1")] {
        let mut profile = profile(&[]);
        profile.set(key, value).unwrap();
        let Body::Flash(flash) = &profile.body else { panic!("a flash drive") };
        let rate = |size| flash.expected_bytes_per_second(profile.capacity, Sectors(size)).unwrap();
        let own = profile.capacity.0;
        assert!((rate(own / 2) / rate(own) - 0.5).abs() < 1e-9, "{key}");
    }
}
