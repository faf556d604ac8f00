//! Settings that former builds took and that a scheme refuses now. A volume with such a label must
//! open.

use bimetal_core::label::Label;
use bimetal_core::units::Bytes;

/// Replaces the settings of a label that a scheme refuses by the values for which they stood.
pub fn take_former_values(label: &mut Label) {
    for (key, value) in &mut label.settings {
        let stands_for = match (label.scheme.as_str(), key.as_str()) {
            // A migration of at least one block.
            ("griffin", "migration_size") if value.parse() == Ok(Bytes(0)) => "1B",
            // A window of at least two requests.
            ("mixedstore", "window") if matches!(value.parse(), Ok(0u64 | 1)) => "2",
            _ => continue,
        };
        stands_for.clone_into(value);
    }
}
