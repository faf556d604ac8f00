//! Colours of schemes: each scheme has the same colour in every chart of every report.

use bimetal_sim::results::Run;

/// Number of colours in the style sheet (`--c0`…), after Okabe and Ito, which colour-blind people
/// can tell apart.
const COLOURS: usize = 8;

/// Schemes by colour. Two schemes of one colour are seldom compared with each other. The second
/// scheme of a colour has dashed lines.
const SCHEMES: [[&str; 2]; COLOURS] = [
    ["ssd-only", "writeboost"],
    ["hdd-only", "os-managed"],
    ["griffin", "smq"],
    ["smart-response", "mixedstore"],
    ["hybrid-disk", "bcache"],
    ["combo", "hyperduo"],
    ["hddboost", ""],
    ["dataplex", ""],
];

/// Colour and style in which a run is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ink {
    /// Number of the colour in the style sheet.
    pub(crate) colour: usize,
    /// Set if lines are dashed and points hollow.
    pub(crate) dashed: bool,
}

/// Returns the ink (colour and style) of each run. A run has the ink of its scheme. If an earlier
/// run has taken that ink (a scheme occurs twice or is unknown), the run has the first free ink.
pub(crate) fn inks(runs: &[Run]) -> Vec<Ink> {
    let mut taken: Vec<Ink> = Vec::with_capacity(runs.len());
    for run in runs {
        let all = [false, true].into_iter().flat_map(|dashed| (0..COLOURS).map(move |colour| Ink { colour, dashed }));
        let ink = own(&run.scheme)
            .filter(|ink| !taken.contains(ink))
            .or_else(|| {
                all.clone().find(|ink| !taken.contains(ink) && !runs.iter().any(|run| own(&run.scheme) == Some(*ink)))
            })
            .or_else(|| all.clone().find(|ink| !taken.contains(ink)))
            .unwrap_or(Ink { colour: taken.len() % COLOURS, dashed: true });
        taken.push(ink);
    }
    taken
}

/// Returns the ink of a scheme, which is the same in every chart. A scheme without its own ink gets
/// the last colour.
pub(crate) fn ink_of(scheme: &str) -> Ink {
    own(scheme).unwrap_or(Ink { colour: COLOURS - 1, dashed: false })
}

fn own(scheme: &str) -> Option<Ink> {
    SCHEMES.iter().enumerate().find_map(|(colour, schemes)| {
        schemes.iter().position(|name| *name == scheme).map(|row| Ink { colour, dashed: row == 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inks_of(schemes: &[&str]) -> Vec<Ink> {
        let runs: Vec<_> = schemes.iter().map(|name| Run::named(name)).collect();
        inks(&runs)
    }

    #[test]
    fn a_scheme_keeps_its_colour_whatever_it_is_compared_with() {
        assert_eq!(inks_of(&["griffin"]), inks_of(&["griffin", "combo"])[..1]);
        assert_eq!(inks_of(&["combo", "griffin"])[1], inks_of(&["griffin"])[0]);
    }

    #[test]
    fn no_two_runs_look_the_same() {
        let inks = inks_of(&["griffin", "griffin", "unheard-of", "combo", "ssd-only", "hyperduo", "griffin"]);
        for (index, ink) in inks.iter().enumerate() {
            assert!(!inks[..index].contains(ink), "{index}: {ink:?}");
        }
    }
}
