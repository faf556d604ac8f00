//! Warm-up that was found from the runs themselves (`--warmup auto`).

use super::Finding;
use crate::warmup::{Reason, WarmUp};

impl Finding {
    /// Returns the finding about a warm-up that was found, and the scheme that needs the longest;
    /// `None` if no scheme has a cache.
    pub fn warm_up(longest: Option<(&str, WarmUp)>) -> Self {
        let Some((scheme, WarmUp { fraction, reason })) = longest else {
            let text = "No run has a cache that must fill: every request is measured.".to_owned();
            return Self { id: "warm-up".to_owned(), severity: "note".to_owned(), text, ..Self::default() };
        };
        let percent = fraction * 100.0;
        let part = format!("The first {percent:.0} % of the requests are played and not measured");
        let text = match reason {
            Reason::Filled => format!("{part}: the cache of {scheme}, the last to be warm, was full only then."),
            Reason::SteadyHits => {
                format!("{part}: the hits of {scheme}, the last to be warm, are steady from then on.")
            }
            Reason::NeverSteady => format!("{part}, and the hits of {scheme} were still changing then."),
            Reason::Warm => "Every request is measured: hits are steady from the first request on.".to_owned(),
        };
        let is_open = reason == Reason::NeverSteady;
        Self {
            id: "warm-up".to_owned(),
            severity: if is_open { "warning" } else { "note" }.to_owned(),
            text,
            remedy: is_open.then(|| "a longer trace".to_owned()),
            share: Some(fraction),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_names_its_length_and_the_reason() {
        let found = |fraction, reason| Finding::warm_up(Some(("smq", WarmUp { fraction, reason })));
        assert_eq!(
            found(0.34, Reason::Filled).text,
            "The first 34 % of the requests are played and not measured: the cache of smq, the last to be warm, was full \
             only then."
        );
        let open = found(0.5, Reason::NeverSteady);
        assert_eq!((open.severity.as_str(), open.remedy.as_deref()), ("warning", Some("a longer trace")));
        assert_eq!(Finding::warm_up(None).share, None);
    }
}
