//! Compares the built-in drives with their published figures.

use bimetal_core::operation::{OpKind, Token};
use bimetal_core::units::{Bytes, SectorRange};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::{command, us};
use crate::DeviceModel;
use crate::flash::Precondition;
use crate::profile::Profile;

/// Expected figure of a drive.
#[derive(Clone, Copy, Debug)]
enum Figure {
    /// Figure of the data sheet.
    Sheet(f64),
    /// Figure that the model gave when nothing was published to compare it with: a change must be
    /// examined.
    Ours(f64),
}

#[test]
fn the_drives_of_data_sheets_come_near_them() {
    use Figure::{Ours, Sheet};
    let mut wrong = Vec::new();
    // Name; random reads a second at depth 1 and 32; sequential write in MB/s beyond any cache of
    // single-bit cells.
    for (name, depth_1, depth_32, write) in [
        ("samsung-970-evo-plus-500gb", Sheet(19_000.0), Ours(235_215.0), Sheet(900.0)),
        ("samsung-870-qvo-1tb", Sheet(11_000.0), Ours(88_945.0), Sheet(80.0)),
        ("intel-x25-m-80gb", Ours(5538.0), Sheet(35_000.0), Sheet(70.0)),
        ("intel-x25-e-32gb", Ours(6428.0), Sheet(35_000.0), Sheet(170.0)),
        ("micron-c200-60gb", Ours(5613.0), Ours(38_785.0), Sheet(100.0)),
        // Sequential write into its single-bit cells.
        ("intel-660p-1tb", Sheet(10_000.0), Ours(90_638.0), Sheet(1800.0)),
        ("samsung-pm983-960gb", Sheet(11_800.0), Ours(253_029.0), Sheet(1100.0)),
        ("ocz-solid-3-60gb", Ours(5552.0), Ours(35_433.0), Sheet(80.0)),
        ("super-talent-32gb", Ours(3317.0), Ours(10_508.0), Sheet(40.0)),
    ] {
        let mut near = |what: &str, measured: f64, figure: Figure| {
            let (expected, tolerance) = match figure {
                Sheet(expected) => (expected, 0.12),
                Ours(expected) => (expected, 0.02),
            };
            eprintln!("{name}: {what} {measured:.0}, expected {figure:?}");
            if (measured / expected - 1.0).abs() >= tolerance {
                wrong.push(format!("{name}: {what} {measured}, expected {figure:?}"));
            }
        };
        near("reads at depth 1", reads_per_second(name, 1), depth_1);
        near("reads at depth 32", reads_per_second(name, 32), depth_32);
        let mut drive = Profile::load(name).unwrap().build(None, 1).unwrap();
        let (mut finished, mut done) = (Vec::new(), 0u64);
        for token in 0..4 {
            drive.submit(us(0), Token(token), command(OpKind::Write, token * 256, 256));
        }
        let mut now = us(0);
        while done < 4000 {
            now = drive.next_event().unwrap();
            drive.advance(now, &mut finished);
            for _ in finished.drain(..) {
                done += 1;
                drive.submit(now, Token(3 + done), command(OpKind::Write, (3 + done) * 256, 256));
            }
        }
        near("sequential write", done as f64 * 131_072.0 / now.as_seconds_f64() / 1e6, write);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The drives of the Combo Drive paper have the paper's latency and throughput.
#[test]
fn combo_paper_drives_have_its_latency_and_throughput() {
    // Table 2: random access in ms, read and write in MB/s; as benchmarks do it, 64 KiB at a time,
    // one request after another.
    for (name, read, write) in [("combo-ssd1-32gb", 64.2, 12.3), ("combo-ssd2-32gb", 109.5, 75.3)] {
        let near = |what: &str, measured: f64, expected: f64| {
            eprintln!("{name}: {what} {measured:.2}, paper {expected}");
            assert!((measured / expected - 1.0).abs() < 0.1, "{name}: {what} {measured} {expected}");
        };
        near("access", 1000.0 / reads_per_second(name, 1), 0.1);
        let profile = Profile::load(name).unwrap();
        let used = SectorRange::new(0, profile.capacity.0 / 8 * 8);
        for (kind, expected) in [(OpKind::Read, read), (OpKind::Write, write)] {
            let mut drive = profile.build_preconditioned(None, Precondition::Sequential, used, 1).unwrap();
            let (mut finished, mut now) = (Vec::new(), us(0));
            for token in 0..2000 {
                drive.submit(now, Token(token), command(kind, token * 128, 128));
                while finished.len() <= token as usize {
                    now = drive.next_event().unwrap();
                    drive.advance(now, &mut finished);
                }
            }
            near(&format!("{kind:?}"), 2000.0 * 65_536.0 / now.as_seconds_f64() / 1e6, expected);
        }
    }
}

/// A drive made small is about as fast as a large drive of its profile.
#[test]
fn small_drive_is_about_as_fast_as_a_large_one() {
    for name in ["samsung-970-evo-plus-500gb", "samsung-pm983-960gb", "samsung-870-qvo-1tb", "intel-x25-m-80gb"] {
        for kind in [OpKind::Read, OpKind::Write] {
            let large = random_per_second(name, kind, Bytes::from_gib(8));
            for small in [Bytes::from_gib(1), Bytes::from_mib(200), Bytes::from_mib(60)] {
                let rate = random_per_second(name, kind, small);
                eprintln!("{name}, {kind:?}: {rate:.0} a second of {small}, {large:.0} of 8 GiB");
                assert!((0.8..1.6).contains(&(rate / large)), "{name}, {kind:?}: {rate} of {small}, {large} of 8 GiB");
            }
        }
    }
}

/// Returns random requests of 4 KiB a second, 32 at a time, to a drive of `size` that was
/// overwritten at random before.
fn random_per_second(name: &str, kind: OpKind, size: Bytes) -> f64 {
    let used = SectorRange::new(0, size.sectors().0);
    let profile = Profile::load(name).unwrap();
    let drive = profile.build_preconditioned(Some(size.sectors()), Precondition::Random, used, 1).unwrap();
    closed_loop(drive, kind, used, 32, 40_000)
}

fn reads_per_second(name: &str, depth: u64) -> f64 {
    let profile = Profile::load(name).unwrap();
    let used = SectorRange::new(0, profile.capacity.0 / 8 * 8);
    let drive = profile.build_preconditioned(None, Precondition::Sequential, used, 1).unwrap();
    closed_loop(drive, OpKind::Read, used, depth, 5000)
}

/// Serves `count` random requests of 4 KiB within `used`, `depth` at a time. Returns the requests a
/// second.
fn closed_loop(mut drive: Box<dyn DeviceModel>, kind: OpKind, used: SectorRange, depth: u64, count: u64) -> f64 {
    let mut random = Pcg64::seed_from_u64(9);
    let (mut finished, mut done, mut now) = (Vec::new(), 0, us(0));
    let mut submit = |drive: &mut Box<dyn DeviceModel>, now, token| {
        drive.submit(now, Token(token), command(kind, random.next_u64() % (used.len.0 / 8) * 8, 8));
    };
    for token in 0..depth {
        submit(&mut drive, now, token);
    }
    while done < count {
        now = drive.next_event().unwrap();
        drive.advance(now, &mut finished);
        for _ in finished.drain(..) {
            done += 1;
            submit(&mut drive, now, depth + done);
        }
    }
    done as f64 / now.as_seconds_f64()
}
