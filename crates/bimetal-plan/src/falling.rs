//! Items of a sorted list that are better than all items before them.

/// Keeps each item whose figure is lower than the figures of all items before it. Of items sorted
/// by cost, no item is left that costs as much as another, or more, and has no lower figure.
pub(crate) fn keep_falling<T>(items: &mut Vec<T>, figure: impl Fn(&T) -> u64) {
    let mut least = u64::MAX;
    items.retain(|item| {
        let is_lower = figure(item) < least;
        least = least.min(figure(item));
        is_lower
    });
}
