//! Colours of schemes: each scheme has the same colour in every chart of every report.

use bimetal_sim::results::Run;

/// Number of colours in the style sheet (`--c0`…). No two of them are alike; a test measures their
/// distances, also as colour-blind readers see them.
const COLOURS: usize = 14;

/// Number of the first colour whose schemes have dashed lines and hollow points. Colour-blind
/// readers cannot tell fourteen colours apart, but they can tell seven or eight.
const DASHED_FROM: usize = 8;

/// Scheme of each colour.
const SCHEMES: [&str; COLOURS] = [
    "ssd-only",
    "hdd-only",
    "griffin",
    "smart-response",
    "hybrid-disk",
    "combo",
    "hddboost",
    "dataplex",
    "writeboost",
    "os-managed",
    "smq",
    "mixedstore",
    "bcache",
    "hyperduo",
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
/// run has taken that ink (a scheme occurs twice or is unknown), the run has the first colour that
/// no other run needs, and after the last of these a colour in the other style.
pub(crate) fn inks(runs: &[Run]) -> Vec<Ink> {
    let mut taken: Vec<Ink> = Vec::with_capacity(runs.len());
    let owned: Vec<Ink> = runs.iter().filter_map(|run| own(&run.scheme)).collect();
    for run in runs {
        let all = || (0..COLOURS).map(styled).chain((0..COLOURS).map(|colour| styled(colour).other()));
        let has_colour = |inks: &[Ink], ink: Ink| inks.iter().any(|other| other.colour == ink.colour);
        let ink = own(&run.scheme)
            .filter(|ink| !taken.contains(ink))
            .or_else(|| all().find(|ink| !has_colour(&taken, *ink) && !has_colour(&owned, *ink)))
            .or_else(|| all().find(|ink| !taken.contains(ink) && !owned.contains(ink)))
            .unwrap_or(styled(taken.len() % COLOURS));
        taken.push(ink);
    }
    taken
}

/// Returns the ink of a scheme, which is the same in every chart. A scheme without its own ink gets
/// the last colour.
pub(crate) fn ink_of(scheme: &str) -> Ink {
    own(scheme).unwrap_or(styled(COLOURS - 1))
}

fn own(scheme: &str) -> Option<Ink> {
    SCHEMES.iter().position(|name| *name == scheme).map(styled)
}

/// Returns the ink of a colour, in the style in which its scheme is drawn.
fn styled(colour: usize) -> Ink {
    Ink { colour, dashed: colour >= DASHED_FROM }
}

impl Ink {
    /// Returns the ink of this colour in the other style.
    fn other(self) -> Self {
        Self { dashed: !self.dashed, ..self }
    }
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
    fn each_scheme_has_a_colour_of_its_own() {
        let inks: Vec<_> = bimetal_core::schemes::ALL.iter().filter_map(|info| own(info.name)).collect();
        let mut colours: Vec<_> = inks.iter().map(|ink| ink.colour).collect();
        colours.sort_unstable();
        assert_eq!(colours, (0..COLOURS).collect::<Vec<_>>());
    }

    /// A second run of a scheme takes a colour that no other run has.
    #[test]
    fn spare_colours_come_before_a_second_style() {
        let inks = inks_of(&["griffin", "griffin", "griffin", "combo"]);
        let mut colours: Vec<_> = inks.iter().map(|ink| ink.colour).collect();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), inks.len(), "{inks:?}");
    }

    /// Colour in linear light: red, green, blue.
    type Light = [f64; 3];

    /// Machado, Oliveira and Fernandes (2009): what a reader without red or green cones sees.
    const PROTANOPIA: [Light; 3] =
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]];
    const DEUTERANOPIA: [Light; 3] =
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]];

    fn product(rows: &[Light; 3], colour: Light) -> Light {
        rows.map(|row| row.iter().zip(colour).map(|(part, light)| part * light).sum())
    }

    /// Returns the place of a colour in Oklab, a space in which distances are as large as they
    /// look.
    fn oklab(colour: Light) -> Light {
        const CONES: [Light; 3] = [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ];
        const OPPONENTS: [Light; 3] = [
            [0.2104542553, 0.793617785, -0.0040720468],
            [1.9779984951, -2.428592205, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.808675766],
        ];
        product(&OPPONENTS, product(&CONES, colour).map(f64::cbrt))
    }

    fn distance(a: Light, b: Light) -> f64 {
        oklab(a).iter().zip(oklab(b)).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    fn contrast(a: Light, b: Light) -> f64 {
        let [a, b] = [a, b].map(|[red, green, blue]| 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05);
        a.max(b) / a.min(b)
    }

    /// Returns the colours with this name in the style sheet: the one in light and the one in dark.
    fn of_style_sheet(name: &str) -> [Light; 2] {
        let key = format!("--{name}: #");
        let values = super::super::STYLE.split(&key).skip(1);
        let colours: Vec<Light> = values
            .map(|value| {
                [0, 2, 4].map(|at| {
                    let part = f64::from(u8::from_str_radix(&value[at..at + 2], 16).expect("a colour")) / 255.0;
                    if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
                })
            })
            .collect();
        colours.try_into().expect("one colour in light and one in dark")
    }

    /// Regression: two schemes of one colour were told apart by dashes alone, and not at all where
    /// bars were drawn.
    #[test]
    fn colours_look_different_to_every_reader() {
        let seen = |cones: &[Light; 3], colour| product(cones, colour).map(|light| light.clamp(0.0, 1.0));
        for mode in [0, 1] {
            let colours: Vec<_> = (0..COLOURS).map(|number| of_style_sheet(&format!("c{number}"))[mode]).collect();
            for (at, a) in colours.iter().enumerate() {
                assert!(contrast(*a, of_style_sheet("paper")[mode]) >= 3.0, "c{at} is too pale, {mode}");
                for (other, b) in colours[..at].iter().enumerate() {
                    assert!(distance(*a, *b) >= 0.11, "c{other} and c{at}, {mode}: {}", distance(*a, *b));
                    let blind = [PROTANOPIA, DEUTERANOPIA].map(|cones| distance(seen(&cones, *a), seen(&cones, *b)));
                    let least = if styled(at).dashed == styled(other).dashed { 0.045 } else { 0.02 };
                    assert!(blind.iter().all(|blind| *blind >= least), "c{other} and c{at}, {mode}: {blind:?}");
                }
            }
        }
    }

    #[test]
    fn no_two_runs_look_the_same() {
        let inks = inks_of(&["griffin", "griffin", "unheard-of", "combo", "ssd-only", "hyperduo", "griffin"]);
        for (index, ink) in inks.iter().enumerate() {
            assert!(!inks[..index].contains(ink), "{index}: {ink:?}");
        }
    }
}
