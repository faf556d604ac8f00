//! Compares each policy with a reference model that does the same in the simplest way: over plain
//! vectors, by search.

use proptest::prelude::*;

use super::lrfu::LAMBDA;
use super::replacement::{
    BYTES_PER_SLOT_MAX, Key, NAMES, OFFLINE_NAME, ONLINE, ONLINE_NAMES, Replacement, Verdict, online,
};
use super::sketch::Sketch;
use crate::block_map::Slot;

/// A reference model of a cache. The model returns true if an access hits.
type Twin = Box<dyn FnMut(u32) -> bool>;

/// Function that makes the model of a cache for a number of objects.
type MakeTwin = fn(usize) -> Twin;

fn position(list: &[u32], object: u32) -> Option<usize> {
    list.iter().position(|&other| other == object)
}

fn take(list: &mut Vec<u32>, object: u32) -> bool {
    position(list, object).map(|at| list.remove(at)).is_some()
}

/// LRU. In every model of this file, lists begin with their oldest object.
fn lru(size: usize) -> Twin {
    let mut list = Vec::new();
    Box::new(move |object| {
        let hit = take(&mut list, object);
        if !hit && list.len() == size {
            list.remove(0);
        }
        list.push(object);
        hit
    })
}

fn clock(size: usize) -> Twin {
    let mut ring: Vec<(u32, bool)> = Vec::new();
    Box::new(move |object| {
        if let Some(entry) = ring.iter_mut().find(|entry| entry.0 == object) {
            entry.1 = true;
            return true;
        }
        while ring.len() == size {
            let (first, used) = ring.remove(0);
            if used {
                ring.push((first, false));
            }
        }
        ring.push((object, false));
        false
    })
}

fn sieve(size: usize) -> Twin {
    let mut queue: Vec<(u32, bool)> = Vec::new();
    let mut hand = 0;
    Box::new(move |object| {
        if let Some(entry) = queue.iter_mut().find(|entry| entry.0 == object) {
            entry.1 = true;
            return true;
        }
        while queue.len() == size {
            if hand == queue.len() {
                hand = 0;
            }
            if queue[hand].1 {
                queue[hand].1 = false;
                hand += 1;
            } else {
                queue.remove(hand);
                if hand == queue.len() {
                    hand = 0;
                }
            }
        }
        queue.push((object, false));
        false
    })
}

fn two_queues(size: usize) -> Twin {
    let (mut a1_in, mut am, mut a1_out) = (Vec::new(), Vec::new(), Vec::new());
    Box::new(move |object| {
        if take(&mut am, object) {
            am.push(object);
            return true;
        }
        if position(&a1_in, object).is_some() {
            return true;
        }
        let remembered = take(&mut a1_out, object);
        if a1_in.len() + am.len() == size {
            if a1_in.len() > size / 4 || am.is_empty() {
                a1_out.push(a1_in.remove(0));
                if a1_out.len() > size / 2 {
                    a1_out.remove(0);
                }
            } else {
                am.remove(0);
            }
        }
        if remembered {
            am.push(object)
        } else {
            a1_in.push(object)
        }
        false
    })
}

fn s3fifo(size: usize) -> Twin {
    let (mut small, mut main) = (Vec::<(u32, u8)>::new(), Vec::<(u32, u8)>::new());
    let mut ghosts = Vec::new();
    let (main_limit, ghost_limit) = (size - size / 10, size * 9 / 10);
    Box::new(move |object| {
        if let Some(entry) = small.iter_mut().chain(&mut main).find(|entry| entry.0 == object) {
            entry.1 = (entry.1 + 1).min(3);
            return true;
        }
        let remembered = take(&mut ghosts, object);
        while small.len() + main.len() == size {
            if main.len() > main_limit || small.is_empty() {
                let (first, uses) = main.remove(0);
                if uses > 0 {
                    main.push((first, uses - 1));
                }
            } else {
                let (first, uses) = small.remove(0);
                if uses > 1 {
                    main.push((first, 0));
                } else {
                    ghosts.push(first);
                    if ghosts.len() > ghost_limit {
                        ghosts.remove(0);
                    }
                }
            }
        }
        if remembered {
            main.push((object, 0))
        } else {
            small.push((object, 0))
        }
        false
    })
}

/// ARC: figure 4 of the paper of Megiddo and Modha, case by case.
fn arc(size: usize) -> Twin {
    let (mut t1, mut t2, mut b1, mut b2) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut p: f64 = 0.0;
    let quotient = |one: &Vec<u32>, other: &Vec<u32>| (one.len() as f64 / other.len() as f64).max(1.0);
    Box::new(move |object| {
        if take(&mut t1, object) || take(&mut t2, object) {
            t2.push(object);
            return true;
        }
        let (in_b1, in_b2) = (position(&b1, object).is_some(), position(&b2, object).is_some());
        if in_b1 {
            p = (p + quotient(&b2, &b1)).min(size as f64);
        } else if in_b2 {
            p = (p - quotient(&b1, &b2)).max(0.0);
        }
        let replace = |t1: &mut Vec<u32>, t2: &mut Vec<u32>, b1: &mut Vec<u32>, b2: &mut Vec<u32>| {
            let once = t1.len() as f64;
            if !t1.is_empty() && (once > p || in_b2 && once == p) {
                b1.push(t1.remove(0));
            } else {
                b2.push(t2.remove(0));
            }
        };
        if in_b1 || in_b2 {
            replace(&mut t1, &mut t2, &mut b1, &mut b2);
            let _ = take(&mut b1, object) || take(&mut b2, object);
            t2.push(object);
            return false;
        }
        let all = t1.len() + t2.len() + b1.len() + b2.len();
        if t1.len() + b1.len() == size {
            if t1.len() < size {
                b1.remove(0);
                replace(&mut t1, &mut t2, &mut b1, &mut b2);
            } else {
                t1.remove(0);
            }
        } else if all >= size {
            if all == 2 * size {
                b2.remove(0);
            }
            replace(&mut t1, &mut t2, &mut b1, &mut b2);
        }
        t1.push(object);
        false
    })
}

/// LIRS with one vector for S and two more vectors that tell the state of each entry.
fn lirs(size: usize) -> Twin {
    let (mut stack, mut queue, mut lir) = (Vec::<u32>::new(), Vec::<u32>::new(), Vec::<u32>::new());
    let queue_limit = (size / 100).max(1);
    let lirs_limit = size - queue_limit;
    Box::new(move |object| {
        let resident = |queue: &[u32], lir: &[u32], object| position(queue, object).or(position(lir, object)).is_some();
        let hit = resident(&queue, &lir, object);
        if !hit && queue.len() + lir.len() == size {
            queue.remove(0);
        }
        let was_lir = position(&lir, object).is_some();
        let in_stack = take(&mut stack, object);
        stack.push(object);
        take(&mut queue, object);
        if !was_lir && (in_stack || !hit && lir.len() < lirs_limit) {
            lir.push(object);
        } else if !was_lir {
            queue.push(object);
        }
        let prune = |stack: &mut Vec<u32>, lir: &[u32]| {
            while stack.first().is_some_and(|&bottom| position(lir, bottom).is_none()) {
                stack.remove(0);
            }
        };
        if position(&lir, object).is_some() {
            while lir.len() > lirs_limit {
                prune(&mut stack, &lir);
                let bottom = stack.remove(0);
                take(&mut lir, bottom);
                queue.push(bottom);
            }
            prune(&mut stack, &lir);
        }
        while stack.len() > 2 * size {
            let gone = stack.iter().position(|&other| !resident(&queue, &lir, other));
            stack.remove(gone.expect("more entries than slots"));
        }
        hit
    })
}

/// LRFU: the sums of the paper's weights, over all uses since the block was inserted.
fn lrfu(size: usize) -> Twin {
    let mut uses: Vec<(u32, Vec<u64>)> = Vec::new();
    let mut now = 0;
    Box::new(move |object| {
        let weight = |uses: &[u64]| uses.iter().map(|&at| 0.5f64.powf(LAMBDA * (now - at) as f64)).sum::<f64>();
        let hit = uses.iter().position(|entry| entry.0 == object);
        if hit.is_none() && uses.len() == size {
            let least = (0..size).min_by(|&a, &b| weight(&uses[a].1).total_cmp(&weight(&uses[b].1)));
            uses.remove(least.expect("a cache has slots"));
        }
        now += 1;
        match hit {
            Some(at) => uses[at].1.push(now),
            None => uses.push((object, vec![now])),
        }
        hit.is_some()
    })
}

/// W-TinyLFU with the policy's own counts, whose ageing is tested next to the counts.
fn wtinylfu(size: usize) -> Twin {
    let (mut window, mut probation, mut protected) = (Vec::new(), Vec::new(), Vec::new());
    let window_limit = (size / 100).max(1);
    let protected_limit = (size - window_limit) * 4 / 5;
    let mut uses = Sketch::new(size as u32);
    Box::new(move |object| {
        let resident = [&window, &probation, &protected].into_iter().any(|list| position(list, object).is_some());
        if !resident && window.len() + probation.len() + protected.len() == size {
            let main = if probation.is_empty() { &mut protected } else { &mut probation };
            let (new, old) = (window.first().copied(), main.first().copied());
            match (new, old) {
                (Some(new), Some(old)) if window.len() >= window_limit && uses.count(new) > uses.count(old) => {
                    main.remove(0);
                    window.remove(0);
                    probation.push(new);
                }
                (Some(_), old) if window.len() >= window_limit || old.is_none() => {
                    window.remove(0);
                }
                _ => {
                    main.remove(0);
                }
            }
        }
        uses.add(object);
        if take(&mut window, object) {
            window.push(object);
        } else if take(&mut probation, object) {
            protected.push(object);
            if protected.len() > protected_limit {
                probation.push(protected.remove(0));
            }
        } else if take(&mut protected, object) {
            protected.push(object);
        } else {
            window.push(object);
            if window.len() > window_limit {
                probation.push(window.remove(0));
            }
        }
        resident
    })
}

/// Plays `objects` through a policy. Returns the accesses that hit, and checks that slots and
/// policy agree.
fn hits(policy: &mut dyn Replacement, size: usize, objects: &[u32], announce: bool) -> Vec<bool> {
    let mut holds: Vec<Option<u32>> = vec![None; size];
    let access = |&object: &u32| {
        if let Some(slot) = holds.iter().position(|&held| held == Some(object)) {
            policy.touch(Slot(slot as u32));
            return true;
        }
        if announce {
            policy.expect(Key(object));
        }
        let free = holds.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            let mut taken = None;
            policy.evict(&mut |slot| {
                taken = Some(slot.0 as usize);
                Verdict::TAKE_AND_STOP
            });
            taken.expect("a full policy offers a slot")
        });
        holds[slot] = Some(object);
        policy.insert(Slot(slot as u32), Key(object));
        assert_eq!(policy.len() as usize, holds.iter().flatten().count());
        false
    };
    objects.iter().map(access).collect()
}

fn accesses() -> impl Strategy<Value = Vec<u32>> {
    // Some objects are drawn often, others seldom, so that every list and every kind of ghost is
    // used.
    proptest::collection::vec(prop_oneof![0u32..8, 0u32..30, 0u32..60], 0..600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn policies_hit_where_their_twins_do(size in 2usize..32, objects in accesses()) {
        let twins: [(&str, MakeTwin); 8] = [
            ("lru", lru), ("clock", clock), ("sieve", sieve), ("2q", two_queues), ("s3fifo", s3fifo), ("arc", arc), ("lirs", lirs),
            ("wtinylfu", wtinylfu),
        ];
        for (name, twin) in twins {
            let mut policy = (online(name).unwrap().build)(size as u32);
            let mut twin = twin(size);
            let expected: Vec<bool> = objects.iter().map(|&object| twin(object)).collect();
            prop_assert_eq!(hits(&mut *policy, size, &objects, true), expected, "{}", name);
        }
    }

    #[test]
    fn lrfu_gives_up_the_least_sum_of_weights(size in 2usize..12, objects in accesses()) {
        let mut policy = (online("lrfu").unwrap().build)(size as u32);
        let mut twin = lrfu(size);
        let expected: Vec<bool> = objects.iter().map(|&object| twin(object)).collect();
        prop_assert_eq!(hits(&mut *policy, size, &objects, true), expected);
    }

    /// Uses a policy as a scheme does: evicts in batches ahead of need, refuses, renames and
    /// removes slots.
    #[test]
    fn policies_hold_exactly_what_is_cached_whatever_a_scheme_does(
        size in 1u32..24,
        steps in proptest::collection::vec((0u8..12, 0u32..60, 0u32..24), 0..400),
    ) {
        for info in ONLINE {
            let mut policy = (info.build)(size);
            let mut holds: Vec<Option<u32>> = vec![None; size as usize];
            for &(step, object, slot) in &steps {
                let slot = (slot % size) as usize;
                let free = holds.iter().position(Option::is_none);
                match (step, holds.iter().position(|&held| held == Some(object))) {
                    (0, _) => {
                        let mut offered = Vec::new();
                        policy.evict(&mut |offer| {
                            offered.push(offer.0);
                            let take = offer.0 % 3 != 0;
                            if take {
                                holds[offer.0 as usize] = None;
                            }
                            Verdict { take, more: offered.len() < 5 }
                        });
                        let all = offered.len();
                        offered.sort_unstable();
                        offered.dedup();
                        prop_assert_eq!(offered.len(), all, "{} offers a slot twice", info.name);
                    }
                    (1, _) => {
                        policy.remove(Slot(slot as u32));
                        holds[slot] = None;
                    }
                    (2, _) if holds[slot].is_some() && free.is_some() => {
                        policy.rename(Slot(slot as u32), Slot(free.unwrap() as u32));
                        holds[free.unwrap()] = holds[slot].take();
                    }
                    (_, Some(slot)) => policy.touch(Slot(slot as u32)),
                    (_, None) => if let Some(free) = free {
                        policy.insert(Slot(free as u32), Key(object));
                        holds[free] = Some(object);
                    },
                }
                prop_assert_eq!(policy.len() as usize, holds.iter().flatten().count(), "{}", info.name);
            }
            let mut offered = Vec::new();
            policy.evict(&mut |slot| { offered.push(slot.0); Verdict { take: false, more: true } });
            offered.sort_unstable();
            let held: Vec<u32> = (0..size).filter(|&slot| holds[slot as usize].is_some()).collect();
            prop_assert_eq!(offered, held, "{} offers everything once when nothing may go", info.name);
        }
    }
}

#[test]
fn names_and_memory_of_the_table_agree() {
    assert_eq!(ONLINE.iter().map(|info| info.name).collect::<Vec<_>>(), ONLINE_NAMES);
    assert_eq!(NAMES.split_last(), Some((&OFFLINE_NAME, ONLINE_NAMES)));
    let most = ONLINE.iter().map(|info| info.bytes_per_slot).fold(0.0, f64::max);
    assert_eq!(most, BYTES_PER_SLOT_MAX);
}
