//! Profiles of cloud volumes, by name: the model of a `[[volume]]` of `drives/`.
//!
//! A name is the name of the volume, with a size and a number of requests a second if these are
//! wanted: `aws-gp3`, `aws-gp3-500gib`, `aws-io2-block-express-1tib-10000iops`. Without a size the
//! volume is offered in steps, each twice or one and a half times the size before. Without a
//! number, a volume has the requests that its price includes; if no requests are included, their
//! number must be given.
//!
//! The price in a profile is the rent of [`RENT_YEARS`]. Providers call a GiB a GB, so a GB of
//! their prices is counted as a GiB. Further bytes a second cannot be bought by name.

use bimetal_core::units::Bytes;
use bimetal_models::cloud::RENT_YEARS;
use bimetal_models::profile::Price;
use bimetal_sim::market::OnSale;
use toml::{Table, Value};

use super::figures::{PerSize, Rate};
use super::model::{files, slug};
use super::{CloudVolume, kind_text};

const GIB: u64 = 1 << 30;

/// Sizes of a volume whose provider's limits are not known.
const SIZES: (u64, u64) = (GIB, 65_536 * GIB);

/// Longest request that counts as one request if the row does not say so, in KiB.
const REQUEST_KIB_MAX: f64 = 256.0;

const MONTHS_A_YEAR: f64 = 12.0;

/// A volume that a name chooses.
struct Chosen {
    volume: &'static CloudVolume,
    size: Option<Bytes>,
    iops: Option<f64>,
}

fn volumes() -> impl Iterator<Item = &'static CloudVolume> {
    files().into_iter().flat_map(|file| &file.volumes)
}

/// Returns the names of all volumes.
pub(super) fn names() -> impl Iterator<Item = String> {
    volumes().map(|volume| volume.name.clone())
}

fn number(figure: &Option<PerSize>) -> Option<f64> {
    figure.as_ref()?.get(0)
}

fn mb_per_s(rate: &Option<Rate>) -> Option<f64> {
    Some(rate.as_ref()?.bytes.0 as f64 / 1e6)
}

/// Reads a size as names have it, like `500gib`.
fn size_of(word: &str) -> Option<Bytes> {
    super::bytes_of(&word.to_uppercase().replace("IB", "iB"))
}

impl Chosen {
    /// Returns the volume that `name` chooses; `None` if no volume has the name.
    fn find(name: &str) -> Option<Self> {
        let wanted = slug(name);
        let named = |volume: &'static CloudVolume| {
            let bases = [volume.name.clone(), slug(&volume.model)];
            let rest = bases.iter().find_map(|base| wanted.strip_prefix(base.as_str()))?;
            let mut chosen = Self { volume, size: None, iops: None };
            for word in rest.split('-').filter(|word| !word.is_empty()) {
                match (word.strip_suffix("iops").map(str::parse::<u32>), size_of(word)) {
                    (Some(Ok(iops)), _) if chosen.iops.is_none() => chosen.iops = Some(f64::from(iops)),
                    (None, Some(size)) if chosen.size.is_none() => chosen.size = Some(size),
                    _ => return None,
                }
            }
            (rest.is_empty() || rest.starts_with('-')).then_some(chosen)
        };
        volumes().find_map(named)
    }

    fn limits(&self) -> (u64, u64) {
        let figures = &self.volume.figures;
        let bytes = |size: &Option<super::figures::Size>| size.as_ref().map(|size| size.bytes.0);
        (bytes(&figures.size_min).unwrap_or(SIZES.0), bytes(&figures.size_max).unwrap_or(SIZES.1))
    }

    /// Returns the highest number of requests a second that can be bought for `size`.
    fn iops_for_sale(&self, size: Bytes) -> f64 {
        let figures = &self.volume.figures;
        let by_size = number(&figures.iops_per_gib_max).map(|most| most * gib(size));
        let most = number(&figures.iops_max).unwrap_or(f64::INFINITY);
        most.min(by_size.unwrap_or(f64::INFINITY)).max(number(&figures.iops_included).unwrap_or(0.0))
    }

    /// Returns the sizes that the volume is offered in.
    fn sizes(&self) -> Vec<Bytes> {
        let (least, most) = self.limits();
        let doubles = std::iter::successors(Some(least), |size| size.checked_mul(2));
        let steps = doubles.flat_map(|size| [size, (size + size / 2) / GIB * GIB]);
        let mut sizes: Vec<u64> = steps.take_while(|size| *size < most).chain([most]).collect();
        sizes.retain(|size| *size >= least);
        sizes.dedup();
        let is_enough = |size: &Bytes| self.iops.is_none_or(|iops| iops <= self.iops_for_sale(*size));
        sizes.into_iter().map(Bytes).filter(is_enough).collect()
    }

    /// Returns the rent of a month in dollars; `None` if a price is not known.
    fn usd_per_month(&self, size: Bytes) -> Option<f64> {
        let figures = &self.volume.figures;
        let by_size = number(&figures.usd_per_gib_month).or(number(&figures.usd_per_gb_month));
        let fixed = number(&figures.usd_per_month).or(by_size.map(|usd| usd * gib(size)))?;
        let further = self.iops.map_or(0.0, |iops| (iops - number(&figures.iops_included).unwrap_or(0.0)).max(0.0));
        match (further > 0.0, number(&figures.usd_per_iops_month)) {
            (false, _) => Some(fixed),
            (true, usd) => Some(fixed + further * usd?),
        }
    }

    fn price(&self, size: Bytes) -> Option<Price> {
        let usd = self.usd_per_month(size)? * MONTHS_A_YEAR * RENT_YEARS;
        let date = self.volume.price_date.or(self.volume.price_read).map(|date| date.to_string());
        let source = format!("rent of {RENT_YEARS} years: {}", self.volume.provenance.sources.join(", "));
        Some(Price { usd: (usd * 100.0).round() / 100.0, date: date.unwrap_or_default(), source })
    }

    /// Returns the size of the profile: the size in the name, or the smallest size on offer.
    fn size(&self) -> Result<Bytes, String> {
        let (least, most) = self.limits();
        let name = &self.volume.name;
        let size = match self.size {
            Some(size) if (least..=most).contains(&size.0) => size,
            Some(size) => {
                return Err(format!("its size is {size}, and it is offered from {} to {}", Bytes(least), Bytes(most)));
            }
            None if self.usd_per_month(Bytes(least)).is_none() => {
                return Err(format!("its price is not known, so its size must be named, as in {name}-1tib"));
            }
            None => *self.sizes().first().ok_or_else(|| format!("no size of {name} has as many requests a second"))?,
        };
        match self.iops {
            Some(iops) if iops > self.iops_for_sale(size) => {
                let most = self.iops_for_sale(size);
                Err(format!("it has {size} and {iops} requests a second, and is offered with at most {most}"))
            }
            _ => Ok(size),
        }
    }

    /// Returns the requests a second that do not depend on the size; `None` if all requests depend
    /// on the size.
    fn iops(&self) -> Result<Option<f64>, String> {
        let figures = &self.volume.figures;
        let included = number(&figures.iops_included).or(number(&figures.iops_base));
        let is_bought = figures.usd_per_iops_month.is_some();
        match (self.iops, included) {
            (Some(_), _) if !is_bought => Err("its requests a second are not for sale".to_owned()),
            (Some(iops), _) => Ok(Some(iops)),
            (None, Some(included)) => Ok(Some(included)),
            (None, None) if figures.iops_per_gib.is_some() => Ok(None),
            (None, None) if is_bought => {
                let name = &self.volume.name;
                Err(format!("its requests a second are bought, so their number must be named, as in {name}-10000iops"))
            }
            (None, None) => Ok(number(&figures.iops_max)),
        }
    }

    fn table(&self, name: String) -> Result<Table, String> {
        let figures = &self.volume.figures;
        let (size, iops) = (self.size()?, self.iops()?);
        let latency = number(&figures.latency_us).ok_or("its latency is not given, without which there is no model")?;
        let mut table = Table::new();
        let mut set = |key: &str, value: Option<f64>| {
            if let Some(value) = value {
                table.insert(key.to_owned(), Value::Float(value));
            }
        };
        set("iops", iops);
        set("iops_per_gib", number(&figures.iops_per_gib).filter(|_| self.iops.is_none()));
        set("iops_min", number(&figures.iops_min));
        set("iops_max", number(&figures.iops_max));
        let credit = number(&figures.burst_credit);
        set("iops_burst", number(&figures.burst_iops).filter(|_| credit.is_some()));
        set("iops_credit", credit.filter(|_| figures.burst_iops.is_some()));
        set("mb_per_s", mb_per_s(&figures.throughput_included));
        set("mb_per_s_per_gib", mb_per_s(&figures.throughput_per_gib));
        set("mb_per_s_max", mb_per_s(&figures.throughput_max));
        let burst = mb_per_s(&figures.throughput_per_gib_burst).filter(|_| figures.throughput_credit_per_gib.is_some());
        set("mb_per_s_per_gib_burst", burst);
        set("read_latency_us", Some(latency));
        set("write_latency_us", Some(latency));
        set("afr_percent", number(&figures.durability_percent).map(|percent| rounded(100.0 - percent)));
        if let Some(price) = self.price(size) {
            set("price_usd", Some(price.usd));
            table.insert("price_date".to_owned(), price.date.into());
            table.insert("price_source".to_owned(), price.source.into());
        }
        let bytes = |kib: f64| Value::Integer((kib * 1024.0) as i64);
        table.insert("request_max".to_owned(), bytes(number(&figures.request_kib_max).unwrap_or(REQUEST_KIB_MAX)));
        if let Some(kib) = number(&figures.request_kib_min) {
            table.insert("request_min".to_owned(), bytes(kib));
        }
        if let Some(credit) = figures.throughput_credit_per_gib.as_ref().filter(|_| burst.is_some()) {
            table.insert("credit_per_gib".to_owned(), Value::Integer(credit.bytes.0 as i64));
        }
        table.insert("name".to_owned(), name.into());
        table.insert("kind".to_owned(), "cloud".into());
        table.insert("medium".to_owned(), kind_text(self.volume.kind).into());
        table.insert("summary".to_owned(), format!("{}: the limits that its provider names", self.volume.model).into());
        table.insert("capacity".to_owned(), Value::Integer(size.0 as i64));
        Ok(table)
    }
}

fn gib(size: Bytes) -> f64 {
    size.0 as f64 / GIB as f64
}

/// Rounds a share in percent to a hundred-thousandth.
fn rounded(percent: f64) -> f64 {
    (percent * 1e5).round() / 1e5
}

/// Returns the text of the profile of a volume; `None` if no volume has the name, or an error if
/// the name chooses a size or a rate that is not offered.
pub(super) fn profile_text(name: &str) -> Option<Result<String, String>> {
    Chosen::find(name).map(|chosen| chosen.table(slug(name)).map(|table| table.to_string()))
}

/// Returns the sizes in which the volume of `name` is offered, with their prices; empty for a name
/// with a size, and for a name that chooses no volume.
pub(super) fn sizes_on_sale(name: &str) -> Vec<OnSale> {
    let Some(chosen) = Chosen::find(name).filter(|chosen| chosen.size.is_none()) else { return Vec::new() };
    let offer = |size: Bytes| Some(OnSale { model: name.to_owned(), size, price: chosen.price(size)?, profile: None });
    chosen.sizes().into_iter().filter_map(offer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::operation::{Command, OpKind, Token};
    use bimetal_core::units::{Nanoseconds, SectorRange};
    use bimetal_models::DeviceModel;
    use bimetal_models::profile::Profile;

    fn profile(name: &str) -> Profile {
        let text = profile_text(name).expect("a volume").unwrap_or_else(|reason| panic!("{name}: {reason}"));
        Profile::parse(&text, name).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    /// Requests under way.
    const DEPTH: u64 = 64;

    /// Keeps `depth` requests of `bytes` under way from `from_s` to `until_s`. Returns the requests
    /// a second.
    fn rate(
        model: &mut dyn DeviceModel,
        (kind, bytes, random): (OpKind, u64, bool),
        depth: u64,
        (from_s, until_s): (f64, f64),
    ) -> f64 {
        let (mut now, until) = (Nanoseconds::from_seconds_f64(from_s), Nanoseconds::from_seconds_f64(until_s));
        let (mut finished, mut sent, mut done) = (Vec::new(), 0, 0);
        let slots = model.capacity().bytes().0 / bytes;
        model.advance(now, &mut finished);
        finished.clear();
        while now < until {
            while sent - done < depth {
                let slot = if random { (sent * 7919 + 13) % slots } else { sent % slots };
                let range = SectorRange::new(slot * bytes / 512, bytes / 512);
                model.submit(now, Token((now.0 << 12) | (sent % 4096)), Command { kind, range, fua: false });
                sent += 1;
            }
            now = model.next_event().expect("requests are under way");
            model.advance(now, &mut finished);
            done += finished.drain(..).count() as u64;
        }
        while let Some(next) = model.next_event() {
            model.advance(next, &mut finished);
        }
        done as f64 / (now.as_seconds_f64() - from_s)
    }

    /// Every volume reaches the requests and the bytes a second of its row.
    #[test]
    fn volume_reaches_the_rates_of_its_provider() {
        let mut reached = 0;
        for volume in volumes() {
            let figures = &volume.figures;
            let bought = figures.usd_per_iops_month.is_some() && figures.iops_included.is_none();
            let name = format!("{}-1tib{}", volume.name, if bought { "-20000iops" } else { "" });
            let profile = profile(&name);
            let gib = 1024.0;
            let per_gib = number(&figures.iops_per_gib).map(|each| each * gib);
            let by_row = number(&figures.iops_included).or(number(&figures.iops_base)).unwrap_or(0.0);
            let wanted = match () {
                () if bought => 20_000.0,
                () if figures.burst_credit.is_some() => number(&figures.burst_iops).expect("with credit"),
                () if per_gib.is_some() || by_row > 0.0 => by_row + per_gib.unwrap_or(0.0),
                () => number(&figures.iops_max).expect("some limit"),
            };
            // A request of a disk volume counts for a whole MiB unless it follows the one before.
            let (bytes, random) = (4096, figures.request_kib_min.is_none());
            let mut model = profile.build(None, 0).expect("a volume");
            let found = rate(&mut *model, (OpKind::Read, bytes, random), 16 * DEPTH, (0.0, 2.0));
            assert!((found / wanted - 1.0).abs() < 0.1, "{name}: {found} requests a second, not {wanted}");
            let burst = mb_per_s(&figures.throughput_per_gib_burst).map(|each| each * gib);
            let row = burst.or(mb_per_s(&figures.throughput_included));
            let row = row.or(mb_per_s(&figures.throughput_per_gib).map(|each| each * gib));
            let row = row.or(mb_per_s(&figures.throughput_max));
            if let Some(wanted) = row.map(|row| row.min(mb_per_s(&figures.throughput_max).unwrap_or(f64::INFINITY))) {
                let mut model = profile.build(None, 0).expect("a volume");
                let found = rate(&mut *model, (OpKind::Write, 1 << 20, false), DEPTH, (0.0, 2.0)) * 1.048_576;
                assert!((found / wanted - 1.0).abs() < 0.1, "{name}: {found} MB/s, not {wanted}");
                reached += 1;
            }
        }
        assert!(reached >= 10, "{reached} volumes with a rate of bytes");
    }

    /// A gp2 volume of 100 GiB bursts at 3,000 requests a second until its credit of 5.4 million is
    /// spent, after 5.4 million / (3,000 − 300) = 2,000 s, and then has 300.
    #[test]
    fn burst_lasts_as_long_as_its_credit() {
        let profile = profile("aws-gp2-100gib");
        let mut model = profile.build(None, 0).expect("a volume");
        let reads = (OpKind::Read, 4096, true);
        let mut during = |from_s: f64, until_s: f64| rate(&mut *model, reads, DEPTH, (from_s, until_s));
        assert!((during(0.0, 1950.0) / 3000.0 - 1.0).abs() < 0.01);
        assert!(during(1951.0, 2100.0) < 2000.0, "the credit ends within");
        assert!((during(2101.0, 2200.0) / 300.0 - 1.0).abs() < 0.02);
        // 100 s of idleness are 30,000 requests: 11 s of a burst.
        assert!((during(2300.0, 2310.0) / 3000.0 - 1.0).abs() < 0.02);
        during(2310.5, 2320.0);
        assert!((during(2321.0, 2400.0) / 300.0 - 1.0).abs() < 0.02);
    }

    /// A random read of 4 KiB costs a disk volume as much credit as 1 MiB.
    #[test]
    fn small_random_requests_cost_a_disk_volume_a_mib_each() {
        let profile = profile("AWS st1 1TiB");
        let mut model = profile.build(None, 0).expect("a volume");
        let random = rate(&mut *model, (OpKind::Read, 4096, true), DEPTH, (0.0, 10.0));
        assert!((random / 250.0 - 1.0).abs() < 0.1, "{random} of 250 MiB/s");
        let in_order = rate(&mut *model, (OpKind::Read, 4096, false), DEPTH, (20.0, 22.0));
        assert!((in_order / 500.0 - 1.0).abs() < 0.1, "{in_order} of 500 a second");
    }

    #[test]
    fn price_is_the_rent_with_the_requests_that_are_bought() {
        let usd = |name: &str| profile(name).price.expect("a price").usd;
        assert!((usd("aws-gp3-1tib") - 0.08 * 1024.0 * 60.0).abs() < 0.01);
        assert!((usd("AWS gp3 1 TiB 16000 iops") - (0.08 * 1024.0 + 0.005 * 13_000.0) * 60.0).abs() < 0.01);
        assert!((usd("azure-premium-ssd-p30") - 148.68 * 60.0).abs() < 0.01);
        let offers = sizes_on_sale("aws-gp3");
        assert!(offers.len() > 20 && sizes_on_sale("aws-gp3-1tib").is_empty());
        assert!(offers.windows(2).all(|pair| pair[0].size < pair[1].size && pair[0].price.usd < pair[1].price.usd));
        assert!(profile("aws-gp3").is_solid_state() && !profile("aws-st1").is_solid_state());
    }

    #[test]
    fn name_that_chooses_what_is_not_offered_is_refused() {
        let refused = |name: &str| profile_text(name).expect("a volume").expect_err(name);
        assert!(refused("aws-io2-block-express").contains("must be named, as in aws-io2-block-express-10000iops"));
        assert!(refused("aws-st1-10gib").contains("offered from 125GiB to 16TiB"));
        assert!(refused("aws-gp3-1gib-9000iops").contains("at most 3000"));
        assert!(refused("aws-gp2-1tib-9000iops").contains("not for sale"));
        assert!(refused("azure-ultra").contains("azure-ultra-1tib"));
        assert!(profile_text("aws-gp").is_none() && profile_text("aws-gp3-fast").is_none());
        assert!(profile_text("aws-gp3-1tib-2tib").is_none());
    }
}
