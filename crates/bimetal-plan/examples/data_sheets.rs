//! Rates of the models that are made from the rows of `drives/`, beside those of their data sheets:
//! `cargo run --release -p bimetal-plan --example data_sheets` lists each rate that differs.

use bimetal_core::operation::{Command, OpKind, Token};
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange};
use bimetal_models::DeviceModel;
use bimetal_models::flash::Precondition;
use bimetal_models::profile::Profile;
use bimetal_plan::drives::figures::{DriveFigures, PerSize};
use bimetal_plan::drives::model::CATALOGUE;
use bimetal_plan::drives::{Drive, built_in};

/// Share of a data sheet's rate by which a model may differ.
const NEAR: f64 = 0.10;

/// The same behind a vendor's write cache, of whose size and rules no data sheet tells.
const BEHIND_A_CACHE: f64 = 0.25;

/// Bytes of a flash drive that are written before reads are measured.
const FILLED: Bytes = Bytes(4 << 30);

const MB: f64 = 1e6;

/// Load of a measurement: requests of one kind and size, with some under way.
#[derive(Clone, Copy)]
struct Load {
    kind: OpKind,
    bytes: u64,
    is_random: bool,
    depth: u64,
    count: u64,
}

/// Returns the requests a second that `model` reaches below `span`. The first half of the load
/// fills the queues, and is not measured.
fn rate(model: &mut dyn DeviceModel, span: Bytes, load: Load) -> f64 {
    let (mut now, mut half, mut finished) = (Nanoseconds::ZERO, Nanoseconds::ZERO, Vec::new());
    let (mut sent, mut done, mut random) = (0, 0, 1_u64);
    let slots = span.0 / load.bytes;
    while done < load.count {
        while sent < load.count && sent - done < load.depth {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let slot = if load.is_random { (random >> 20) % slots } else { sent % slots };
            let range = SectorRange::new(slot * load.bytes / 512, load.bytes / 512);
            model.submit(now, Token(sent), Command { kind: load.kind, range, fua: false });
            sent += 1;
        }
        now = model.next_event().expect("requests are under way");
        model.advance(now, &mut finished);
        done += finished.drain(..).count() as u64;
        if done <= load.count / 2 {
            half = now;
        }
    }
    (load.count - load.count / 2) as f64 / (now - half).as_seconds_f64()
}

/// A rate of a data sheet, with the load that should reach it.
struct Rated {
    name: &'static str,
    figure: fn(&DriveFigures) -> &Option<PerSize>,
    load: Load,
    /// Bytes a second that are one unit of the rate; `None` for requests.
    unit: Option<f64>,
    near: f64,
}

fn rated(is_disk: bool) -> [Rated; 3] {
    let in_order = Load { kind: OpKind::Read, bytes: 1 << 20, is_random: false, depth: 8, count: 1200 };
    let (depth, count) = if is_disk { (16, 3000) } else { (256, 40_000) };
    [
        Rated {
            name: "sequential reads",
            figure: |figures| &figures.sequential_read_mb_per_s,
            load: in_order,
            unit: Some(MB),
            near: NEAR,
        },
        Rated {
            name: "random reads",
            figure: |figures| &figures.random_read_iops,
            load: Load { kind: OpKind::Read, bytes: 4096, is_random: true, depth, count },
            unit: None,
            near: NEAR,
        },
        Rated {
            name: "sequential writes",
            figure: |figures| &figures.sequential_write_mb_per_s,
            load: Load { kind: OpKind::Write, ..in_order },
            unit: Some(MB),
            near: BEHIND_A_CACHE,
        },
    ]
}

/// Checks the rates of a drive in the size at `at`. Returns the number of rates, and those that are
/// wrong.
fn check(drive: &Drive, at: usize) -> (usize, Vec<String>) {
    let size = &drive.sizes[at].text;
    let Ok(profile) = Profile::load(&format!("{}-{}", drive.name, size.to_lowercase())) else { return (0, Vec::new()) };
    let is_disk = profile.hdd().is_some();
    let (span, filled) = if is_disk { (profile.capacity.bytes(), Bytes(0)) } else { (FILLED, FILLED) };
    let (mut checked, mut wrong) = (0, Vec::new());
    for Rated { name, figure, load, unit, near } in rated(is_disk) {
        let Some(wanted) = figure(&drive.figures).as_ref().and_then(|figure| figure.get(at)) else { continue };
        let used = SectorRange::new(0, filled.sectors().0);
        let model = profile.build_preconditioned(None, Precondition::Sequential, used, 0);
        let mut model = model.unwrap_or_else(|error| panic!("{} {size}: {error}", drive.name));
        let found = rate(&mut *model, span, load) * unit.map_or(1.0, |unit| load.bytes as f64 / unit);
        let difference = found / wanted - 1.0;
        checked += 1;
        if difference.abs() > near {
            wrong.push(format!(
                "{} {size}: {name} {found:.0}, by its data sheet {wanted} ({:+.0} %)",
                drive.name,
                100.0 * difference
            ));
        }
    }
    (checked, wrong)
}

fn main() {
    Profile::add_further(CATALOGUE);
    let (mut checked, mut wrong) = (0, Vec::new());
    for drive in built_in().iter().flat_map(|file| &file.drives) {
        for at in 0..drive.sizes.len() {
            let (more, others) = check(drive, at);
            checked += more;
            wrong.extend(others);
        }
    }
    wrong.iter().for_each(|line| println!("{line}"));
    println!("{} of {checked} rates differ", wrong.len());
}
