//! Flash drives that do not exist, drawn at random, and a comparison of the figures marked as
//! measured with those of the drive.

use bimetal_extract::figures::Extraction;
use bimetal_models::flash::FlashProfile;
use bimetal_models::profile::{Body, Profile};

use super::random_below;

/// Smallest number of blocks in a die: with fewer the model makes them shorter.
const BLOCKS_MIN: u64 = 256;
/// Bytes of the largest drives that are drawn: with page mapping, and with layers whose model is
/// filled by writing.
const BYTES_MAX: [u64; 2] = [4 << 30, 1 << 30];

/// Sequence of drawn numbers.
struct Draws(u64);

impl Draws {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        random_below(below, self.0)
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Returns the drive of this number: any shape, any times that flash can have, with one of four
/// layers, with a buffer or without.
pub fn drawn(number: u64) -> Profile {
    let mut draws = Draws(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    loop {
        let channels = draws.one_of(&[1, 2, 4, 8]);
        let (each, planes) = (draws.one_of(&[1, 1, 2, 4]), draws.one_of(&[1, 2, 4]));
        let (page_kib, pages) = (draws.one_of(&[2_u64, 4, 8, 16]), draws.one_of(&[32, 64, 96, 128, 256, 384]));
        let layer = draws.one_of(&["page", "page", "log-block", "fast", "dftl"]);
        let stripe = (channels * each * planes * pages * page_kib) << 10;
        let bytes = (stripe * draws.between(BLOCKS_MIN, 2 * BLOCKS_MIN)).max(128 << 20);
        if bytes > BYTES_MAX[usize::from(layer == "log-block" || layer == "fast")] {
            continue;
        }
        let row_kib = page_kib * planes;
        let buffer = if draws.below(4) == 0 {
            "off".to_owned()
        } else {
            format!("{}KiB", row_kib * channels * each * draws.between(2, 8))
        };
        let mut changes = vec![
            ("capacity", (bytes / 4096 * 4096).to_string()),
            ("channels", channels.to_string()),
            ("dies_per_channel", each.to_string()),
            ("planes_per_die", planes.to_string()),
            ("page_size", format!("{page_kib}KiB")),
            ("mapping_unit", format!("{}KiB", page_kib.min(4))),
            ("pages_per_block", pages.to_string()),
            ("write_buffer", buffer),
            ("spare_factor", format!("0.{:02}", draws.between(8, 25))),
            ("ftl", layer.to_owned()),
            ("map_cache", format!("{}KiB", draws.one_of(&[16, 64, 256]))),
        ];
        for (key, low, high) in [
            ("read_us", 20, 100),
            ("program_us", 100, 1500),
            ("erase_us", 1000, 8000),
            ("channel_mb_per_s", 30, 1200),
            ("link_mb_per_s", 60, 3500),
            ("command_us", 1, 30),
            ("read_overhead_us", 0, 60),
            ("write_overhead_us", 0, 60),
            ("flush_us", 0, 2000),
        ] {
            changes.push((key, draws.between(low, high).to_string()));
        }
        let mut profile = Profile::load("combo-ssd2-32gb").expect("it is built in");
        let changes = changes.iter().map(|(key, value)| (*key, value.as_str()));
        if profile.set_all(changes).is_ok() && super::try_model(&profile).is_some() {
            return profile;
        }
    }
}

/// Returns the figures of a flash drive.
pub fn flash(profile: &Profile) -> &FlashProfile {
    match &profile.body {
        Body::Flash(flash) => flash,
        Body::Hdd(_) | Body::Cloud(_) => panic!("a flash drive"),
    }
}

/// Returns each figure marked as measured that is wrong: numbers by more than 2 %, counts and sizes
/// if not equal.
pub fn wrong(profile: &Profile, extraction: &Extraction) -> Vec<String> {
    let was = flash(profile);
    let geometry = was.geometry(profile.capacity, None).expect("a geometry");
    let measured = |key: &str| {
        let figure = extraction.figures.iter().find(|figure| figure.key == key && figure.error.is_some())?;
        Some(figure.value.trim_matches('"').to_owned())
    };
    let mut wrong = Vec::new();
    // Transfers over the channel are included in the times of reads and programs if its rate does
    // not show.
    let transfer = if measured("channel_mb_per_s").is_some() {
        (0.0, 0.0)
    } else {
        let unit = f64::from(geometry.unit_bytes) / was.channel_mb_per_s;
        (unit, unit * f64::from(geometry.units_per_row()))
    };
    for (key, was) in [
        ("read_us", was.read_us + transfer.0),
        ("program_us", was.program_us + transfer.1),
        ("erase_us", was.erase_us),
        ("command_us", was.command_us),
        ("read_overhead_us", was.read_overhead_us),
        ("write_overhead_us", was.write_overhead_us),
        ("flush_us", was.flush_us),
        ("channel_mb_per_s", was.channel_mb_per_s),
        ("link_mb_per_s", was.link_mb_per_s),
    ] {
        let Some(found) = measured(key).and_then(|value| value.parse::<f64>().ok()) else { continue };
        if (found - was).abs() > 0.02 * was.abs() + 0.05 {
            wrong.push(format!("{key} was {was:.2}, extracted {found:.2}"));
        }
    }
    let row = f64::from(geometry.page_bytes * geometry.planes_per_die);
    let buffer = measured("write_buffer").and_then(|value| value.parse::<bimetal_core::units::Bytes>().ok());
    if let (Some(found), Some(was)) = (buffer, was.write_buffer.0)
        && (found.0 as f64 - was.0 as f64).abs() > row + 0.02 * was.0 as f64
    {
        wrong.push(format!("write_buffer was {was}, extracted {found}"));
    }
    if let Some(found) = measured("spare_factor").and_then(|value| value.parse::<f64>().ok())
        && (found / was.spare_factor - 1.0).abs() > 0.1
    {
        wrong.push(format!("spare_factor was {}, extracted {found}", was.spare_factor));
    }
    for (key, was) in [
        ("page_size", bimetal_core::units::Bytes(geometry.page_bytes.into()).to_string()),
        ("mapping_unit", bimetal_core::units::Bytes(geometry.unit_bytes.into()).to_string()),
        ("planes_per_die", geometry.planes_per_die.to_string()),
        ("pages_per_block", geometry.pages_per_block.to_string()),
        ("channels", geometry.channels.to_string()),
        ("dies_per_channel", geometry.dies_per_channel.to_string()),
        ("timing", format!("{:?}", was.timing).to_lowercase()),
        ("ftl", format!("{:?}", was.ftl)),
        ("power_loss_protection", format!("{:?}", was.power_loss_protection).to_lowercase()),
    ] {
        let Some(found) = measured(key) else { continue };
        if found != was {
            wrong.push(format!("{key} was {was}, extracted {found}"));
        }
    }
    wrong
}
