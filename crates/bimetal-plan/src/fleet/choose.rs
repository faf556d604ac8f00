//! Choice of one option for each volume, so that the total wait is least within a budget: the
//! multiple-choice knapsack problem.
//!
//! A first answer comes from the steps of each volume's convex front, the most efficient steps
//! first (Sinha and Zoltners 1979). The exact answer comes from dynamic programming over the
//! volumes (Pisinger 1995): a state is a choice for some volumes. A state is dropped if another
//! state costs and waits no more. A state is also dropped if even fractions of steps for the other
//! volumes would not beat the best answer so far. The volumes with a step near the end of the
//! budget come first, because the choices for all other volumes are almost certain.

use std::cmp::{Ordering, Reverse};

use crate::falling::keep_falling;

/// Number of states at which the search for an exact answer ends.
const STATES_MAX: usize = 1 << 21;

/// Cost and wait of one option, in any whole units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weighed {
    /// Cost of the option.
    pub cost: u64,
    /// Wait under the option.
    pub wait: u64,
}

/// Options chosen for all volumes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// Number of the option of each volume.
    pub options: Vec<usize>,
    /// Cost of all volumes.
    pub cost: u64,
    /// Sum of the waits of all volumes.
    pub wait: u64,
    /// No choice within the budget has fewer requests under way than this bound. The bound equals
    /// `wait` if the choice is exact.
    pub wait_min: u64,
}

/// Step from one option of a volume to the next on its convex front.
#[derive(Clone, Copy)]
struct Step {
    volume: usize,
    /// Place of the option on the volume's front that the step leads to.
    to: usize,
    cost: u64,
    gain: u64,
}

/// Options of a volume that no other option beats in cost and wait, from the cheapest on.
type Front = Vec<(usize, Weighed)>;

/// Returns the choice of an option for each volume with the least wait that costs at most `budget`;
/// or the least cost of any choice, if this cost is above the budget. Each volume has at least one
/// option.
///
/// # Errors
/// The budget is below the least cost, which is returned.
pub fn choose(volumes: &[Vec<Weighed>], budget: u64) -> Result<Chosen, u64> {
    let fronts: Vec<Front> = volumes.iter().map(|options| front(options)).collect();
    let least: u64 = fronts.iter().filter_map(|front| front.first()).map(|(_, cheapest)| cheapest.cost).sum();
    if least > budget {
        return Err(least);
    }
    let mut steps: Vec<Step> = fronts.iter().enumerate().flat_map(|(volume, front)| steps(volume, front)).collect();
    // A volume's own steps are in order of efficiency already, and a stable sort keeps them so.
    steps.sort_by(|one, other| efficiency(other, one));
    let mut search = Search::new(&fronts, &steps, budget, least);
    let (places, exact) = search.best();
    let options = fronts.iter().zip(&places).map(|(front, &place)| front[place].0).collect();
    let total = |of: fn(&Weighed) -> u64| fronts.iter().zip(&places).map(|(front, &place)| of(&front[place].1)).sum();
    let wait = total(|option| option.wait);
    let wait_min = if exact { wait } else { search.wait_min.min(wait) };
    Ok(Chosen { options, cost: total(|option| option.cost), wait, wait_min })
}

fn front(options: &[Weighed]) -> Front {
    let mut sorted: Front = options.iter().copied().enumerate().collect();
    sorted.sort_by_key(|(number, option)| (option.cost, option.wait, *number));
    let mut front = Front::new();
    for (number, option) in sorted {
        if front.last().is_none_or(|(_, last)| option.wait < last.wait) {
            front.push((number, option));
        }
    }
    front
}

/// Returns the steps along the lower convex hull of a front.
fn steps(volume: usize, front: &Front) -> Vec<Step> {
    let step = |from: usize, to: usize| {
        let (from, option) = (front[from].1, front[to].1);
        Step { volume, to, cost: option.cost - from.cost, gain: from.wait - option.wait }
    };
    let mut hull: Vec<usize> = Vec::new();
    for place in 0..front.len() {
        while let [.., before, last] = hull[..]
            && efficiency(&step(before, last), &step(last, place)) != Ordering::Greater
        {
            hull.pop();
        }
        hull.push(place);
    }
    hull.windows(2).map(|pair| step(pair[0], pair[1])).collect()
}

/// Compares the gains for each unit of cost.
fn efficiency(one: &Step, other: &Step) -> Ordering {
    (u128::from(one.gain) * u128::from(other.cost)).cmp(&(u128::from(other.gain) * u128::from(one.cost)))
}

/// Sums of costs and gains of the steps that remain, as a Fenwick tree in order of efficiency.
struct Remaining<'a> {
    steps: &'a [Step],
    /// Sums of cost and gain over the steps, as a Fenwick tree whose first node has index 1.
    sums: Vec<(u64, u64)>,
}

impl<'a> Remaining<'a> {
    fn new(steps: &'a [Step]) -> Self {
        let mut new = Self { steps, sums: vec![(0, 0); steps.len() + 1] };
        for at in 0..steps.len() {
            let node = at + 1;
            new.sums[node].0 += steps[at].cost;
            new.sums[node].1 += steps[at].gain;
            let parent = node + (node & node.wrapping_neg());
            if parent <= steps.len() {
                let (cost, gain) = new.sums[node];
                new.sums[parent].0 += cost;
                new.sums[parent].1 += gain;
            }
        }
        new
    }

    fn remove(&mut self, at: usize) {
        let Step { cost, gain, .. } = self.steps[at];
        let mut node = at + 1;
        while node < self.sums.len() {
            self.sums[node].0 -= cost;
            self.sums[node].1 -= gain;
            node += node & node.wrapping_neg();
        }
    }

    /// Returns the most that `budget` can gain, if a step may be made in part.
    fn gain_max(&self, budget: u64) -> u64 {
        let (mut node, mut cost, mut gain) = (0, 0, 0);
        let mut half = self.sums.len().next_power_of_two() / 2;
        while half > 0 {
            if let Some(&(more, gained)) = self.sums.get(node + half)
                && cost + more <= budget
            {
                (node, cost, gain) = (node + half, cost + more, gain + gained);
            }
            half /= 2;
        }
        // The step after the last whole one is not removed: it is what exceeds the budget.
        let part = self
            .steps
            .get(node)
            .map_or(0, |step| u128::from(budget - cost) * u128::from(step.gain) / u128::from(step.cost.max(1)));
        gain + part as u64
    }
}

/// Choice for the first volumes in the order of the search.
#[derive(Clone, Copy)]
struct State {
    cost: u64,
    wait: u64,
    /// Place of the state before, and place of the option on the front.
    before: u32,
    place: u32,
}

struct Search<'a> {
    fronts: &'a [Front],
    budget: u64,
    /// Volumes in the order of the search.
    order: Vec<usize>,
    /// Numbers of the steps of each volume.
    steps_of: Vec<Vec<usize>>,
    remaining: Remaining<'a>,
    /// Places of the first answer, and its wait.
    places: Vec<usize>,
    wait: u64,
    wait_min: u64,
}

impl<'a> Search<'a> {
    fn new(fronts: &'a [Front], steps: &'a [Step], budget: u64, least: u64) -> Self {
        let (mut places, mut left, mut closed) = (vec![0; fronts.len()], budget - least, vec![false; fronts.len()]);
        let mut border = steps.len();
        for (at, step) in steps.iter().enumerate() {
            if step.cost > left {
                border = border.min(at);
                closed[step.volume] = true;
            }
            if !closed[step.volume] {
                left -= step.cost;
                places[step.volume] = step.to;
            }
        }
        let mut steps_of = vec![Vec::new(); fronts.len()];
        steps.iter().enumerate().for_each(|(at, step)| steps_of[step.volume].push(at));
        let distance = |volume: &usize| steps_of[*volume].iter().map(|at| at.abs_diff(border)).min();
        let mut order: Vec<usize> = (0..fronts.len()).collect();
        order.sort_by_key(|volume| (distance(volume).is_none(), distance(volume)));
        let remaining = Remaining::new(steps);
        let wait = fronts.iter().zip(&places).map(|(front, &place)| front[place].1.wait).sum();
        let cheapest: u64 = fronts.iter().map(|front| front[0].1.wait).sum();
        let wait_min = cheapest - remaining.gain_max(budget - least);
        Self { fronts, budget, order, steps_of, remaining, places, wait, wait_min }
    }

    /// Returns the place of the best option of each volume, and true if no choice is better.
    fn best(&mut self) -> (Vec<usize>, bool) {
        let mut layers: Vec<Vec<State>> = vec![vec![State { cost: 0, wait: 0, before: 0, place: 0 }]];
        let rest = |of: fn(&Weighed) -> u64| self.fronts.iter().map(|front| of(&front[0].1)).sum::<u64>();
        let (mut rest_cost, mut rest_wait) = (rest(|option| option.cost), rest(|option| option.wait));
        let mut kept = 0;
        for at in 0..self.order.len() {
            let front = &self.fronts[self.order[at]];
            rest_cost -= front[0].1.cost;
            rest_wait -= front[0].1.wait;
            self.steps_of[self.order[at]].iter().for_each(|&step| self.remaining.remove(step));
            let layer = self.extended(&layers[at], front, rest_cost, rest_wait);
            kept += layer.len();
            if kept > STATES_MAX {
                return (self.places.clone(), false);
            }
            if layer.is_empty() {
                break;
            }
            layers.push(layer);
        }
        if layers.len() <= self.order.len() {
            return (self.places.clone(), true);
        }
        let last = layers.last().and_then(|layer| (0..layer.len()).min_by_key(|&at| (layer[at].wait, layer[at].cost)));
        let (mut state, mut places) = (last.unwrap_or(0), self.places.clone());
        for (layer, &volume) in layers[1..].iter().zip(&self.order).rev() {
            places[volume] = layer[state].place as usize;
            state = layer[state].before as usize;
        }
        (places, true)
    }

    /// Returns the states with one more volume that may still beat the first answer. The other
    /// volumes cost and wait at least `rest_cost` and, with the cheapest options, `rest_wait`.
    fn extended(&self, states: &[State], front: &Front, rest_cost: u64, rest_wait: u64) -> Vec<State> {
        let mut all = Vec::with_capacity(states.len() * front.len());
        for (before, state) in states.iter().enumerate() {
            for (place, (_, option)) in front.iter().enumerate() {
                let (cost, wait) = (state.cost + option.cost, state.wait + option.wait);
                let Some(left) = self.budget.checked_sub(cost + rest_cost) else { break };
                if wait + rest_wait - self.remaining.gain_max(left) < self.wait {
                    all.push(State { cost, wait, before: before as u32, place: place as u32 });
                }
            }
        }
        all.sort_by_key(|state| (state.cost, state.wait, Reverse(state.place)));
        keep_falling(&mut all, |state| state.wait);
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the least wait of all choices within the budget, by a trial of each choice.
    fn tried(volumes: &[Vec<Weighed>], budget: u64) -> Option<u64> {
        let Some((first, rest)) = volumes.split_first() else { return Some(0) };
        let waits = first.iter().filter_map(|option| {
            let left = budget.checked_sub(option.cost)?;
            Some(option.wait + tried(rest, left)?)
        });
        waits.min()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn choice_for_a_small_fleet_is_that_of_a_full_search(
            volumes in prop::collection::vec(
                prop::collection::vec((0_u64..40, 0_u64..100).prop_map(|(cost, wait)| Weighed { cost, wait }), 1..5),
                0..6,
            ),
            budget in 0_u64..150,
        ) {
            match choose(&volumes, budget) {
                Ok(chosen) => {
                    let pick = |(options, &at): (&Vec<Weighed>, &usize)| options[at];
                    let picked: Vec<Weighed> = volumes.iter().zip(&chosen.options).map(pick).collect();
                    let cost = picked.iter().map(|option| option.cost).sum::<u64>();
                    let wait = picked.iter().map(|option| option.wait).sum::<u64>();
                    prop_assert_eq!((chosen.cost, chosen.wait, chosen.wait_min), (cost, wait, wait));
                    prop_assert!(cost <= budget);
                    prop_assert_eq!(Some(wait), tried(&volumes, budget));
                }
                Err(least) => {
                    prop_assert_eq!(tried(&volumes, budget), None);
                    let cheapest = |options: &Vec<Weighed>| options.iter().map(|option| option.cost).min();
                    prop_assert_eq!(least, volumes.iter().filter_map(cheapest).sum::<u64>());
                }
            }
        }
    }

    /// Returns a fleet with the prices of a shop, in cents, and waits that differ by orders of
    /// magnitude.
    fn fleet(volumes: u64) -> Vec<Vec<Weighed>> {
        let random = |number: u64| (bimetal_core::mixing::splitmix64(number) >> 11) as f64 / (1_u64 << 53) as f64;
        let prices = [0, 2999, 4495, 7990, 13_250, 23_999];
        (0..volumes)
            .map(|volume| {
                let load = 10_f64.powf(3.0 + 5.0 * random(volume * 100));
                let wait = |(at, &cost): (usize, &u64)| {
                    let saved = 1.0 - random(volume * 100 + 1).powf(0.3 * at as f64);
                    Weighed { cost, wait: (load * (1.0 - 0.9 * saved)) as u64 }
                };
                prices.iter().enumerate().map(wait).collect()
            })
            .collect()
    }

    #[test]
    fn choice_for_a_thousand_volumes_is_exact() {
        for (volumes, budget) in [(100, 300_000), (1000, 3_000_000), (1000, 500_000)] {
            let chosen = choose(&fleet(volumes), budget).expect("the cheapest options cost nothing");
            assert_eq!(chosen.wait, chosen.wait_min);
            assert!(chosen.cost <= budget && budget - chosen.cost < 24_000);
        }
    }
}
