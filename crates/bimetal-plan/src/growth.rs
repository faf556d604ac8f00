//! Growth: a forecast of the workload at the time when the flash is to be replaced.
//!
//! A workload that grows by a factor has that many times the requests, on that many times the
//! addresses. Growth adds copies of the requests, on addresses after the last address. A factor of
//! 2.5 adds one copy of all requests, and one copy of the requests in half of the chunks of 1 MiB.
//! A copy arrives together with its original. So bursts become larger. Larger bursts load the
//! drives more than additional bursts would.

use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};
use bimetal_models::endurance::Lifetime;
use bimetal_sim::lifetime::Life;
use bimetal_sim::survey::Survey;
use bimetal_trace::Request;

use crate::budget::years;

/// Sectors of a chunk, which is copied wholly or not at all: 1 MiB.
const CHUNK_SECTORS: u64 = 2048;

/// Years of growth if no lifetime is budgeted.
const YEARS: f64 = 5.0;

/// Growth of footprint and rate, and the time that it lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// Share by which footprint and rate grow each year.
    pub per_year: f64,
    /// Years of growth: the budgeted lifetime, or otherwise five.
    pub years: f64,
}

impl Growth {
    /// Parses a rate such as `20%/y`. The growth lasts for `lifetime`, in the form that
    /// `--lifetime` takes, or otherwise for five years.
    ///
    /// # Errors
    /// Returns a text with the expected form.
    pub fn parse(text: &str, lifetime: Option<&str>) -> Result<Self, String> {
        let percent = text.trim().trim_end_matches("/y").trim_end().strip_suffix('%');
        let percent = percent.and_then(|percent| percent.trim().parse::<f64>().ok());
        let per_year = percent.filter(|percent| (0.0..=1000.0).contains(percent)).map(|percent| percent / 100.0);
        let lifetime = lifetime.and_then(|text| text.parse::<Nanoseconds>().ok()).map(years);
        let growth = per_year.map(|per_year| Self { per_year, years: lifetime.unwrap_or(YEARS) });
        growth.filter(|growth| growth.factor() <= 16.0).ok_or_else(|| {
            format!("growth '{text}': expected a share a year like 20%/y, and at most 16 times the load at the end")
        })
    }

    /// Returns the load at the end as a multiple of today's load.
    pub fn factor(&self) -> f64 {
        (1.0 + self.per_year).powf(self.years)
    }

    /// Returns the lifetime of flash under growing load. The flash would last `now` years under
    /// today's load and `end` years under the load at the end. The wear of a year grows by the same
    /// factor each year.
    pub fn life(&self, now: f64, end: f64) -> f64 {
        let rate = (now / end).ln() / self.years;
        if rate.abs() < 1e-9 || !rate.is_finite() {
            return now;
        }
        // If wear shrinks from year to year, the flash may never wear out.
        let used = 1.0 + now * rate;
        if used > 0.0 { used.ln() / rate } else { f64::INFINITY }
    }

    /// Replaces lifetimes under today's load by lifetimes under growing load. `end` are the
    /// lifetimes of the same drives under the load at the end.
    pub(crate) fn shorten(&self, lives: &mut [Life], end: &[Life]) {
        for (life, end) in lives.iter_mut().zip(end) {
            let Some(now) = life.years else {
                // The time at which the drive begins to wear is unknown. Assume that it wears from
                // the start.
                if end.years.is_some() || end.range_years.is_some() {
                    *life = end.clone();
                }
                continue;
            };
            let grown = |now: Option<f64>, end: Option<f64>| match (now, end) {
                (Some(now), Some(end)) => Some(self.life(now, end)).filter(|years| years.is_finite()),
                (now, end) => now.or(end),
            };
            let (range, unknown) = (life.range_years, life.unknown);
            life.note(Lifetime {
                warranted_years: grown(life.warranted_years, end.warranted_years),
                cycles_years: grown(life.cycles_years, end.cycles_years),
            });
            // A life that growth makes infinite is not unknown.
            life.unknown = unknown;
            let times = life.years_or_more() / now;
            life.range_years = range.map(|(least, most)| (least * times, most * times));
        }
    }
}

/// Returns `requests` with `factor` times the load.
pub fn grown(requests: &[Request], survey: &Survey, factor: f64) -> Vec<Request> {
    let mut all = Vec::with_capacity((requests.len() as f64 * factor) as usize + 1);
    for request in requests {
        all.push(*request);
        let end = survey.address_end.get(&request.device).copied().unwrap_or_default();
        let step = end.0.next_multiple_of(CHUNK_SECTORS);
        let mut left = factor - 1.0;
        let mut copy = 1;
        while left > 0.0 && !request.range.is_empty() {
            if chosen(request, copy, left) {
                let start = Sectors(request.range.start.0 + step * copy);
                all.push(Request { range: SectorRange { start, len: request.range.len }, ..*request });
            }
            (left, copy) = (left - 1.0, copy + 1);
        }
    }
    all
}

/// Returns true if the chunk in which a request starts is in copy number `copy`.
fn chosen(request: &Request, copy: u64, share: f64) -> bool {
    let chunk = request.range.start.0 / CHUNK_SECTORS;
    let mixed = (chunk ^ copy << 48 ^ u64::from(request.device) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 11;
    (mixed as f64) < share * (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::block::BlockSize;
    use bimetal_core::operation::OpKind;

    /// A workload grown by 2.5 has 2.5 times the requests and the addresses, in order of time.
    #[test]
    fn grown_workload_has_proportional_requests_and_addresses() {
        let request = |number: u64| Request {
            arrival: Nanoseconds(number),
            device: 0,
            kind: OpKind::Write,
            fua: false,
            range: SectorRange::new(number * CHUNK_SECTORS, 8),
            response: None,
        };
        let requests: Vec<Request> = (0..10_000).map(request).collect();
        let survey = |requests: &Vec<Request>| Survey::of(requests, BlockSize::default(), &|_| {}).unwrap();
        let larger = grown(&requests, &survey(&requests), 2.5);
        let counts = survey(&larger);
        assert!((24_700..25_300).contains(&larger.len()), "{}", larger.len());
        assert_eq!(counts.footprint_blocks, larger.len() as u64, "every copy has addresses of its own");
        assert!(larger.is_sorted_by_key(|request| request.arrival));
    }

    #[test]
    fn a_life_under_growing_load_lies_between_those_under_its_ends() {
        let growth = Growth::parse("20%/y", Some("5y")).unwrap();
        assert!((growth.factor() - 2.488).abs() < 0.001);
        let life = growth.life(10.0, 10.0 / growth.factor());
        // Wear of 1/10 per year grows by a fifth each year. The sum of the wear reaches 1 after
        // ln(1 + 10 ln 1.2) / ln 1.2 years.
        assert!((life - 5.692).abs() < 0.01, "{life}");
        assert_eq!(growth.life(10.0, 10.0), 10.0);
        assert_eq!(Growth::parse("0%/y", None).unwrap().years, 5.0);
        assert!(Growth::parse("fast", None).is_err() && Growth::parse("100%/y", Some("9y")).is_err());
    }

    /// Wear that begins only under the grown load counts from the start. The limit that ends the
    /// life may change with the load.
    #[test]
    fn each_limit_of_a_life_is_shortened() {
        let profile = bimetal_models::profile::Profile::load("intel-x25-m-80gb").unwrap();
        let life = |warranted_years, cycles_years| {
            let mut life = Life::at_rates("ssd", &profile, profile.capacity.bytes(), 1.0, 1.0);
            life.note(Lifetime { warranted_years, cycles_years });
            life
        };
        let growth = Growth { per_year: 0.2, years: 5.0 };
        let mut lives = [life(Some(10.0), None), life(Some(10.0), Some(12.0))];
        lives[1].range_years = Some((5.0, 10.0));
        growth.shorten(&mut lives, &[life(Some(4.0), Some(3.0)), life(Some(9.0), Some(2.0))]);
        assert_eq!((lives[0].warranted_years, lives[0].cycles_years), (Some(growth.life(10.0, 4.0)), Some(3.0)));
        assert_eq!(lives[0].years, Some(3.0));
        assert_eq!(lives[1].years, Some(growth.life(12.0, 2.0)), "the cycles end this life now");
        let (least, most) = lives[1].range_years.unwrap();
        assert!((most - growth.life(12.0, 2.0)).abs() < 1e-9 && (least * 2.0 - most).abs() < 1e-9);
        let at_least = |years| Life { range_years: Some((years, f64::INFINITY)), ..Life::default() };
        let mut lives = [at_least(6.0)];
        growth.shorten(&mut lives, &[at_least(1.5)]);
        assert_eq!(lives[0].range_years, Some((1.5, f64::INFINITY)), "of a life without a point the end counts");
    }
}
