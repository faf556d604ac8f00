//! Layer and erases of a used drive without a write buffer (Konanki's thesis, section 5.2).
//!
//! On a used drive nearly every write copies a block, whatever the layer: no unit is free, so
//! chains and replacements cannot grow. The layers differ at places where one more block is in use
//! than the data need. The prober searches for such places and writes each place from its start,
//! which folds the blocks in use there. After that, the prober overwrites only single pages of
//! these places: the free units stay at these places, so that chains and replacements grow and fold
//! only there. The same search and the same writes are repeated on a model of each layer.

use bimetal_core::operation::OpKind;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use crate::ExtractError;
use crate::figures::Figures;
use crate::prober::Prober;

/// Number of places that are tried, and number of places that are used.
const TRIED: usize = 2000;
const USED: usize = 12;
/// Ratio of times to the least time up to which two places count as alike.
const ALIKE: f64 = 1.3;
/// Number of pages of a place.
const PAGES: u64 = 8;
/// Number of random writes to the places, and of writes in turn to one page of each place.
const WRITES: u64 = 1200;
const TURNS: u64 = 12;
/// Sizes of the writes for k, in pages, and number of writes of each size.
const SIZES: [u64; 4] = [1, 2, 4, 8];
const EACH: u64 = 150;

/// Returns the response times of the writes to places with a spare block, on the drive or a model.
///
/// # Errors
/// Fails if a command fails, or if the time is over.
pub(super) fn response_times(prober: &mut Prober<'_>, page: u64) -> Result<Vec<f64>, ExtractError> {
    let places = places(prober, page)?;
    for &place in &places {
        for number in 0..PAGES {
            prober.run(OpKind::Write, place + number * page, page, false)?;
        }
    }
    let mut times = Vec::new();
    let write = |prober: &mut Prober<'_>, place: usize, number: u64| {
        prober.run(OpKind::Write, places[place] + number * page, page, false)
    };
    // The same writes go to the drive and to each model.
    let mut random = Pcg64Mcg::new(1);
    // The first half of the random writes spreads the free units over the places.
    for at in 0..WRITES {
        let place = (random.next_u64() % places.len() as u64) as usize;
        let number = random.next_u64() % PAGES;
        let timed = write(prober, place, number)?;
        if at >= WRITES / 2 {
            times.push(timed.ns());
        }
    }
    for turn in 0..TURNS * PAGES {
        for place in 0..places.len() {
            times.push(write(prober, place, turn / TURNS)?.ns());
        }
    }
    Ok(times)
}

/// Returns the places at which a second write takes about the least time, and of these the places
/// that were found last, because an earlier place may have lost its free unit since.
fn places(prober: &mut Prober<'_>, page: u64) -> Result<Vec<u64>, ExtractError> {
    let span = PAGES * page;
    let mut found: Vec<(f64, u64)> = Vec::new();
    for _ in 0..TRIED {
        let place = prober.anywhere(span) / span * span;
        prober.run(OpKind::Write, place, page, false)?;
        let again = prober.run(OpKind::Write, place + page, page, false)?.ns();
        found.retain(|(_, other)| *other != place);
        found.push((again, place));
    }
    let least = found.iter().map(|(ns, _)| *ns).fold(f64::MAX, f64::min);
    found.reverse();
    // The sort is stable: among places alike, the last found stays in front.
    found.sort_by(|one, two| one.0.max(ALIKE * least).total_cmp(&two.0.max(ALIKE * least)));
    Ok(found.into_iter().take(USED).map(|(_, place)| place).collect())
}

/// Returns the mean error of the times of models, for the model whose error is least, as a
/// fraction. Times are sorted by size, for the random writes and the writes in turn, because the
/// moment at which a place is folded depends on its earlier content.
pub(super) fn least_off(measured: &[f64], models: &[Vec<f64>]) -> f64 {
    let total: f64 = measured.iter().sum();
    let random = (WRITES / 2) as usize;
    let off = |times: &Vec<f64>| -> f64 {
        let parts = [(&measured[..random], &times[..random]), (&measured[random..], &times[random..])];
        parts.into_iter().map(|(one, other)| sorted_apart(one, other)).sum::<f64>() / total.max(1.0)
    };
    models.iter().map(off).fold(f64::MAX, f64::min)
}

/// Returns the sum of the differences of two lists of times, each sorted by size.
fn sorted_apart(one: &[f64], other: &[f64]) -> f64 {
    let (mut one, mut other) = (one.to_vec(), other.to_vec());
    one.sort_by(f64::total_cmp);
    other.sort_by(f64::total_cmp);
    one.iter().zip(&other).map(|(a, b)| (a - b).abs()).sum()
}

/// Returns a note with k, the mean number of erases that a random write causes: L = n·WL + C +
/// k·EL. Pages that a write copies count as part of its erases.
///
/// # Errors
/// Fails if a command fails, or if the time is over.
pub(super) fn erases_note(prober: &mut Prober<'_>, figures: &Figures) -> Result<Option<String>, ExtractError> {
    let number =
        |key: &str| figures.text(key).and_then(|text| text.parse::<f64>().ok()).filter(|_| figures.is_measured(key));
    let (Some(program), Some(overhead), Some(erase)) =
        (number("program_us"), number("write_overhead_us"), number("erase_us").filter(|us| *us > 0.0))
    else {
        return Ok(None);
    };
    let page = figures.sectors("page_size");
    let mut by_size = Vec::new();
    for pages in SIZES {
        let mut sum = 0.0;
        for _ in 0..EACH {
            let place = prober.anywhere(pages * page) / page * page;
            sum += prober.run(OpKind::Write, place, pages * page, false)?.ns() / 1e3;
        }
        by_size.push((sum / EACH as f64 - overhead - pages as f64 * program) / erase);
    }
    let mean = by_size.iter().sum::<f64>() / by_size.len() as f64;
    let sizes: Vec<String> = SIZES.iter().zip(&by_size).map(|(pages, k)| format!("{k:.2} for {pages}")).collect();
    Ok(Some(format!(
        "k = {mean:.2}: mean erases of a random write in the drive's state, copies included (L = n·WL + C + k·EL; pages: {}). \
         A clean model of this drive shows the times of one size with erases_per_write_request = the k of that size.",
        sizes.join(", ")
    )))
}
