//! Lists the settings of a parameter file that the model does not follow.

use super::parser::{Block, Item, Value};

/// Settings whose value the model fixes: key, and the value with the same meaning.
const FIXED: [(&str, &str); 14] = [
    ("Access time type", "trackSwitchPlusRotation"),
    ("Percent error in rpms", "0"),
    ("Max queue length", "1"),
    ("Set watermark by reqsize", "1"),
    ("Allow almost read hits", "0"),
    ("Allow sneaky full read hits", "0"),
    ("Allow sneaky partial read hits", "0"),
    ("Allow sneaky intermediate read hits", "0"),
    ("Allow write prebuffering", "0"),
    ("Preseeking level", "0"),
    ("Disconnect write if seek", "0"),
    ("Write hit stop prefetch", "1"),
    ("Read directly to buffer", "1"),
    ("Immed transfer partial hit", "1"),
];

/// Settings without effect on the model. Some settings change nothing with one drive on its bus and
/// one command at a time, and some only steer DiskSim's computation or output. The effect of other
/// settings depends on a further setting (write segments with pre-buffering, reading ahead over the
/// requested sectors without a maximum, …).
const WITHOUT_EFFECT: [&str; 23] = [
    "Hold bus entire read xfer",
    "Hold bus entire write xfer",
    "Maximum number of write segments",
    "Read-ahead over requested",
    "Calc sector by sector",
    "Print stats",
    "Avg sectors per cylinder",
    "Scheduler",
    "Block count",
    "Number of cylinders",
    "Rangesize for sparing",
    "Single cylinder seek time",
    "Average seek time",
    "Full strobe seek time",
    "Full seek curve",
    "First ten seek times",
    "HPL seek equation values",
    "Constant seek time",
    "Extradisc command overhead",
    "Extradisc disconnect overhead",
    "Extradisc inter-disconnect delay",
    "Extradisc 2nd disconnect overhead",
    "Extradisc seek delta",
];

/// Returns a line for each setting of `block` whose value differs from the model, each key once.
pub(super) fn warnings(block: &Block, file: &str) -> Vec<String> {
    let mut warnings: Vec<(&str, String)> = Vec::new();
    for item in items(block) {
        let known = |key: &str| item.key.eq_ignore_ascii_case(key);
        if item.used.get() || WITHOUT_EFFECT.iter().any(|key| known(key)) {
            continue;
        }
        let does = match FIXED.iter().find(|(key, _)| known(key)) {
            Some((_, value)) if *value == item.value.to_string() => continue,
            Some((_, value)) => format!("the model behaves as with {value}"),
            None => "the model has no such setting".to_owned(),
        };
        if !warnings.iter().any(|(key, _)| *key == item.key) {
            let Item { key, line, value, .. } = item;
            warnings.push((key, format!("{file}:{line}: {key} = {value} is ignored: {does}")));
        }
    }
    warnings.into_iter().map(|(_, warning)| warning).collect()
}

/// Returns every setting of a block, and of the blocks within that were read.
fn items(block: &Block) -> Vec<&Item> {
    let mut all = Vec::new();
    for item in &block.items {
        all.push(item);
        let inner: Vec<_> = match &item.value {
            Value::Block(block) => vec![block],
            Value::List(values) => values.iter().filter_map(|value| as_block(value)).collect(),
            _ => Vec::new(),
        };
        if item.used.get() {
            all.extend(inner.into_iter().flat_map(items));
        }
    }
    all
}

fn as_block(value: &Value) -> Option<&Block> {
    match value {
        Value::Block(block) => Some(block),
        _ => None,
    }
}
