//! Growth: the workload as it will be when the flash is to be replaced.
//!
//! A workload that grows by a factor has that many times the requests, on that many times the addresses. What is new is like
//! what is there: a copy of the requests on addresses behind the last one, as often as the factor has wholes, and of what is left the
//! share of 1 MiB chunks. It arrives with what it is a copy of, so bursts grow too, which is the harder case.

use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};
use bimetal_sim::survey::Survey;
use bimetal_trace::Request;

use crate::budget::years;

/// Chunks that are copied or not: 1 MiB.
const CHUNK_SECTORS: u64 = 2048;

/// The horizon where no lifetime is asked for.
const YEARS: f64 = 5.0;

/// How fast footprint and rate grow, and until when that is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// Share by which they grow in a year.
    pub per_year: f64,
    /// Years until the end: the lifetime that is asked for, else five.
    pub years: f64,
}

impl Growth {
    /// Reads `20%/y`; it lasts for `lifetime`, as `--lifetime` has it, where that is given.
    ///
    /// # Errors
    /// What was expected instead.
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

    /// How many times the load there is at the end.
    pub fn factor(&self) -> f64 {
        (1.0 + self.per_year).powf(self.years)
    }

    /// How long flash lasts that would last `now` years under today's load for ever and `end` under the last: the wear of a
    /// year grows by the same factor every year.
    pub fn life(&self, now: f64, end: f64) -> f64 {
        let rate = (now / end).ln() / self.years;
        if rate.abs() < 1e-9 || !rate.is_finite() {
            return now;
        }
        // Of flash that wears less and less, a rest may last for ever.
        let used = 1.0 + now * rate;
        if used > 0.0 { used.ln() / rate } else { f64::INFINITY }
    }
}

/// `requests` as they will be with `factor` times the load.
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

/// Whether the chunk in which a request starts is among the share that has this copy.
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

    #[test]
    fn a_workload_twice_and_a_half_as_large_has_as_many_times_the_requests_and_addresses() {
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
        // The sum of a year's wear, 1/10 growing by a fifth each year, reaches 1: ln(1 + 10 ln 1.2) / ln 1.2.
        assert!((life - 5.692).abs() < 0.01, "{life}");
        assert_eq!(growth.life(10.0, 10.0), 10.0);
        assert_eq!(Growth::parse("0%/y", None).unwrap().years, 5.0);
        assert!(Growth::parse("fast", None).is_err() && Growth::parse("100%/y", Some("9y")).is_err());
    }
}
