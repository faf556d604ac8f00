//! Pins that change while the volume serves.

use crate::operation::OpKind;
use crate::settings::{SettingError, Settings};
use crate::testing::Bench;
use crate::units::{Nanoseconds, SectorRange};

/// Returns the operations of the drives for a read of one page.
fn read(bench: &mut Bench, sector: u64) -> Vec<String> {
    bench.take_log();
    bench.request(OpKind::Read, sector, 8);
    bench.take_log()
}

/// Writes as many other pages as it takes to evict all victims.
fn crowd_out(bench: &mut Bench) {
    let slots = u64::from(bench.volume.view().map.slots());
    (0..3 * slots).for_each(|page| bench.request(OpKind::Write, 16_384 + page * 8, 8));
}

fn set_pin(bench: &mut Bench, ranges: &str) -> Result<(), SettingError> {
    let info = super::INFO;
    let settings = Settings::new(info.name, info.parameters, [("pin", ranges)]).unwrap();
    let now = bench.volume.view().now;
    bench.volume.set(now, "pin", &settings)
}

/// Konanki, section 3.5: "a request flag to indicate that a page must be pinned to the flash".
#[test]
fn host_pins_and_unpins_pages_while_it_serves() {
    for flush in ["full", "partial", "watermark", "idle", "periodic"] {
        let mut bench = Bench::new("hybrid-disk", &[("flush", flush)]);
        bench.request(OpKind::Write, 0, 8);
        let pin = |bench: &mut Bench, pinned| {
            let now = bench.volume.view().now;
            assert!(bench.volume.pin(now, 0, SectorRange::new(0, 16), pinned), "{flush}");
        };
        pin(&mut bench, true);
        crowd_out(&mut bench);
        assert_eq!(read(&mut bench, 0), ["ssd read 8"], "{flush}: pinned after it was written");
        (0..2).for_each(|_| bench.request(OpKind::Read, 8, 8));
        assert_eq!(read(&mut bench, 8), ["ssd read 8"], "{flush}: pinned, and read");
        pin(&mut bench, false);
        crowd_out(&mut bench);
        assert_eq!(read(&mut bench, 0), ["hdd read 8"], "{flush}: a victim like others");
        assert_eq!(read(&mut bench, 0), ["hdd read 8"], "{flush}: reads promote no more");
    }
}

#[test]
fn pins_beyond_half_of_the_flash_are_not_taken() {
    let mut bench = Bench::new("hybrid-disk", &[("pin", "0-1MiB")]);
    let slots = u64::from(bench.volume.view().map.slots());
    let pin = |bench: &mut Bench, first: u64, blocks: u64| {
        bench.volume.pin(Nanoseconds::ZERO, 0, SectorRange::new(first * 8, blocks * 8), true)
    };
    assert!(!pin(&mut bench, 4096, slots / 2 - 255));
    assert!(pin(&mut bench, 4096, slots / 2 - 256));
    assert!(pin(&mut bench, 0, 256), "pinned already");
}

#[test]
fn set_pin_takes_the_place_of_the_pins_before() {
    let mut bench = Bench::new("hybrid-disk", &[("flush", "partial"), ("pin", "0-4KiB")]);
    [0, 8].into_iter().for_each(|sector| bench.request(OpKind::Write, sector, 8));
    assert!(set_pin(&mut bench, "4KiB-8KiB").is_ok());
    crowd_out(&mut bench);
    assert_eq!(read(&mut bench, 0), ["hdd read 8"]);
    assert_eq!(read(&mut bench, 8), ["ssd read 8"]);
    let error = set_pin(&mut bench, "0-3MiB").unwrap_err().to_string();
    assert!(error.contains("at most half of the flash"), "{error}");
    crowd_out(&mut bench);
    assert_eq!(read(&mut bench, 8), ["ssd read 8"], "a refused list changes nothing");
}

/// Pins change at random, under every flush. Every request ends, and each slot is either pinned or
/// in `room`.
#[test]
fn pins_that_come_and_go_leave_every_slot_in_one_sort() {
    for (flush, in_place) in
        [("full", "off"), ("partial", "off"), ("watermark", "on"), ("idle", "off"), ("periodic", "on")]
    {
        let settings = [("flush", flush), ("in_place", in_place), ("period", "2s")];
        let mut bench = Bench::new("hybrid-disk", &settings);
        bench.takes = [Nanoseconds::from_micros(300), Nanoseconds::from_millis(2)];
        let slots = u64::from(bench.volume.view().map.slots());
        let mut number = 7u64;
        for round in 0..60 {
            for _ in 0..40 {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (block, len) = ((number >> 33) % (2 * slots), 1 + (number >> 20) % 40);
                let now = bench.volume.view().now;
                match (number >> 60) % 4 {
                    0 => _ = bench.volume.pin(now, 0, SectorRange::new(block * 8, len), true),
                    1 => _ = bench.volume.pin(now, 0, SectorRange::new(block * 8, 4 * len), false),
                    2 => _ = bench.submit(0, OpKind::Read, block * 8, len),
                    _ => _ = bench.submit(0, OpKind::Write, block * 8, len),
                }
            }
            if round % 7 == 0 {
                set_pin(&mut bench, "0-512KiB,1MiB-1025KiB").unwrap();
            }
            bench.serve();
            bench.pass(Nanoseconds::from_millis(700));
            while bench.volume.next_finished().is_some() {}
        }
        assert_eq!(bench.volume.requests_under_way(), 0, "{flush}");
        // With all pins gone, everything can be crowded out.
        set_pin(&mut bench, "off").unwrap();
        crowd_out(&mut bench);
        crowd_out(&mut bench);
        let view = bench.volume.view();
        let old = view.map.occupied().filter(|(_, entry)| entry.block.0 < 2048).count();
        assert_eq!(old, 0, "{flush}: these pages can never leave");
    }
}
