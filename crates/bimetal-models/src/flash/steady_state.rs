//! Constructs the steady state of greedy collection instead of simulating it: the number of blocks
//! by number of valid units.

/// Returns, for each number of valid units from 0 to `per_block`, the number of closed blocks that
/// hold it; there are `blocks` closed blocks of `per_block` units. The blocks are in the steady
/// state of greedy collection under uniform random overwrites of `units` units.
///
/// The theory is mean-field: all units are overwritten at an equal rate. Let r be the number of
/// collections for each write of the host, and m the level at which victims are taken. There are r
/// · units / i blocks with i valid units for each i above m, and q · units / m blocks at m. Here r
/// = (α/P − 1/m) / ((H_P − H_m) − (P − m)/m), q = 1 − r (P − m) and α = blocks · P / units. H_n is
/// the nth harmonic number, and m is the level with 0 ≤ q ≤ r. With so much spare area that victims
/// are empty, r = 1/P and all other blocks are empty.
pub(crate) fn steady_state(blocks: u32, per_block: u32, units: u32) -> Vec<u32> {
    let (p, alpha) = (f64::from(per_block), f64::from(blocks) * f64::from(per_block) / f64::from(units));
    let mut density = vec![0.0; per_block as usize + 1];
    // tail = H_P - H_m, summed from above.
    let mut tail = 0.0;
    let mut found = None;
    for m in (1..per_block).rev() {
        tail += 1.0 / f64::from(m + 1);
        let level = f64::from(m);
        let r = (alpha / p - 1.0 / level) / (tail - (p - level) / level);
        let q = 1.0 - r * (p - level);
        if r > 0.0 && q >= -1e-9 && q <= r + 1e-9 {
            found = Some((m, r, q.max(0.0)));
            break;
        }
    }
    let (m, r, q) = found.unwrap_or((0, 1.0 / p, 0.0));
    for i in m + 1..=per_block {
        density[i as usize] = r * f64::from(units) / f64::from(i);
    }
    if m > 0 {
        density[m as usize] = q * f64::from(units) / f64::from(m);
    }
    whole_blocks(&density, blocks, per_block, units)
}

/// Returns whole numbers near `density` with a sum of `blocks` blocks and `units` units.
fn whole_blocks(density: &[f64], blocks: u32, per_block: u32, units: u32) -> Vec<u32> {
    let mut counts = vec![0u32; density.len()];
    let (mut sum, mut given) = (0.0, 0u32);
    for level in (0..density.len()).rev() {
        sum += density[level];
        let upto = (sum.round() as u32).min(blocks);
        counts[level] = upto - given;
        given = upto;
    }
    counts[0] += blocks - given;
    let total = |counts: &[u32]| counts.iter().enumerate().map(|(i, n)| i as u64 * u64::from(*n)).sum::<u64>();
    let (mut have, want) = (total(&counts), u64::from(units));
    // Blocks are moved one level up or down, in sweeps over the levels, until the units agree.
    while have != want {
        let before = have;
        for level in 1..=per_block as usize {
            if have < want && counts[level - 1] > 0 {
                (counts[level - 1], counts[level]) = (counts[level - 1] - 1, counts[level] + 1);
                have += 1;
            } else if have > want && counts[level] > 0 {
                (counts[level - 1], counts[level]) = (counts[level - 1] + 1, counts[level] - 1);
                have -= 1;
            }
        }
        assert!(have != before, "{units} units do not fit into {blocks} blocks of {per_block}");
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_state_has_the_write_amplification_of_the_theory() {
        // The mean of a victim's valid units gives WA = P / (P - mean): greedy, P = 64 and 256, Sf
        // = 0.07 and 0.25.
        for (per_block, spare, expected) in
            [(64, 0.07, 6.6155), (256, 0.07, 7.1240), (64, 0.25, 2.1396), (256, 0.25, 2.1851)]
        {
            let blocks = 4096;
            let units = (f64::from(blocks * per_block) * (1.0 - spare)) as u32;
            let counts = steady_state(blocks, per_block, units);
            assert_eq!(counts.iter().sum::<u32>(), blocks);
            assert_eq!(counts.iter().enumerate().map(|(i, n)| i as u32 * n).sum::<u32>(), units);
            // A full block is made r times a host write: counts[P] = r * units / P.
            let amplification = f64::from(counts[per_block as usize]) * f64::from(per_block).powi(2) / f64::from(units);
            assert!((amplification / expected - 1.0).abs() < 0.1, "{amplification} {expected}");
            let lowest = counts.iter().position(|n| *n > 0).unwrap() as f64;
            let from_victim = f64::from(per_block) / (f64::from(per_block) - lowest);
            assert!((from_victim / expected - 1.0).abs() < 0.1, "{from_victim} {expected}");
        }
    }

    #[test]
    fn the_steady_state_exists_for_any_fill() {
        for (blocks, per_block, units) in
            [(10, 8, 80), (10, 8, 79), (10, 8, 1), (1000, 16, 40), (5, 1024, 5000), (300, 4, 1100)]
        {
            let counts = steady_state(blocks, per_block, units);
            assert_eq!(counts.iter().sum::<u32>(), blocks);
            assert_eq!(counts.iter().enumerate().map(|(i, n)| i as u32 * n).sum::<u32>(), units);
        }
    }
}
