//! Common parts of the tests: models as targets, and a workload on two of them.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

pub mod drawn;

use bimetal_core::operation::{Command, OpKind, Token};
use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};
use bimetal_extract::Options;
use bimetal_extract::target::{ModelTarget, Target};
use bimetal_models::flash::Precondition;
use bimetal_models::profile::Profile;

/// Options without a practical limit of time, with writes allowed.
pub const OPTIONS: Options = Options { writes: true, budget: Nanoseconds::from_seconds(36_000), seed: 1 };

/// Returns the drive of `profile`, with flash in long use.
pub fn model(profile: &Profile) -> ModelTarget {
    try_model(profile).expect("a model")
}

/// Returns the drive of `profile`, with flash in long use, if there can be such a drive.
pub fn try_model(profile: &Profile) -> Option<ModelTarget> {
    let all = SectorRange { start: Sectors::ZERO, len: profile.capacity };
    let built = profile.build_preconditioned(None, Precondition::Random, all, 7).ok()?;
    Some(ModelTarget::new(built).with_sectors_of(profile))
}

/// Returns a pseudo-random whole number below `below`, determined by `number`.
pub fn random_below(below: u64, number: u64) -> u64 {
    let mut x = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((u128::from(x ^ (x >> 31)) * u128::from(below)) >> 64) as u64
}

/// Returns mean response times, in milliseconds, of some workloads on the drive of `profile`.
pub fn mean_responses(profile: &Profile) -> Vec<(&'static str, f64)> {
    let workloads: [(&str, OpKind, u64, bool, usize); 5] = [
        ("random reads", OpKind::Read, 8, false, 1),
        ("random reads, 16 at once", OpKind::Read, 8, false, 16),
        ("sequential reads", OpKind::Read, 256, true, 1),
        ("random writes", OpKind::Write, 8, false, 4),
        ("sequential writes", OpKind::Write, 256, true, 1),
    ];
    workloads
        .map(|(name, kind, sectors, sequential, depth)| (name, mean(profile, kind, sectors, sequential, depth)))
        .to_vec()
}

fn mean(profile: &Profile, kind: OpKind, sectors: u64, sequential: bool, depth: usize) -> f64 {
    const REQUESTS: u64 = 3000;
    let mut target = model(profile);
    let capacity = profile.capacity.0;
    let mut started = std::collections::BTreeMap::new();
    let (mut total, mut done, mut next) = (0, 0, 0);
    while done < REQUESTS {
        while next < REQUESTS && started.len() < depth {
            let at = if sequential { capacity / 3 + next * sectors } else { random_below(capacity - sectors, next) };
            started.insert(next, target.now().0);
            target.submit(Token(next), Command { kind, range: SectorRange::new(at / 8 * 8, sectors), fua: false });
            next += 1;
        }
        let finished = target.next_done().expect("something is under way");
        total += finished.at.0 - started.remove(&finished.token.0).expect("it was under way");
        done += 1;
    }
    total as f64 / REQUESTS as f64 / 1e6
}
