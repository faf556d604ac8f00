//! Pages of the labels in a scrub. The volume scrubs its own pages of metadata, and does not know
//! labels. So the labels are read outside the loop, while the volume's scrub runs, and bad pages
//! are written again. A scrub is over when the volume's scrub and the reading of the labels have
//! ended.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use bimetal_core::layout::MemberId;
use bimetal_core::scheme::MemberState;
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_core::volume::Scrub;

use super::Server;

/// Bad pages of the labels, as of the last scrub.
#[derive(Debug, Default)]
pub(super) struct LabelPages {
    /// Set while labels are being read.
    reading: bool,
    /// Beginning of the scrub.
    scrub: Option<Nanoseconds>,
    bad: BTreeMap<MemberId, u64>,
    /// The pages that are still bad after the labels were written again.
    left: BTreeMap<MemberId, u64>,
}

impl Server {
    /// Begins a scrub of the volume and of the labels. If the volume's scrub is under way, the
    /// scrub goes on at the higher of the two rates.
    pub(super) fn begin_scrub(&mut self, rate: Option<Bytes>) {
        self.volume.scrub(self.now, rate);
        let scrub = self.volume.scrub_progress().map(|scrub| scrub.began);
        let labels = &mut self.control.label_pages;
        if labels.reading {
            // The pages that are being read are those of the new scrub.
            labels.scrub = scrub;
        }
        let Some(held) = self.control.held.clone().filter(|_| !labels.reading && labels.scrub != scrub) else { return };
        let members = self.volume.view().members.iter().enumerate();
        let there: Vec<MemberId> = members
            .filter(|(_, member)| member.state != MemberState::Failed)
            .map(|(at, _)| MemberId(at as u16))
            .collect();
        let read = move || held.lock().unwrap_or_else(PoisonError::into_inner).scrub_labels(&there);
        let begun = self.outside(read, Self::take_label_pages);
        self.control.label_pages = LabelPages { reading: begun.is_ok(), scrub, ..LabelPages::default() };
        if let Err(error) = begun {
            self.say(&format!("the scrub does not read the labels: no thread can be started: {error}"));
        }
    }

    fn take_label_pages(&mut self, [bad, left]: [BTreeMap<MemberId, u64>; 2]) {
        let labels = &mut self.control.label_pages;
        (labels.reading, labels.bad, labels.left) = (false, bad, left);
    }

    /// Returns true while labels are being read for a scrub.
    pub(super) fn is_reading_labels(&self) -> bool {
        self.control.label_pages.reading
    }

    /// Returns the number of bad pages of metadata on each member in a scrub, the labels included,
    /// and the number of those that are still bad.
    pub(super) fn pages_of_scrub(&self, scrub: &Scrub) -> [BTreeMap<MemberId, u64>; 2] {
        let labels = &self.control.label_pages;
        let is_same = labels.scrub == Some(scrub.began);
        let both = [(&scrub.bad_pages, &labels.bad), (&scrub.pages_left_bad, &labels.left)];
        both.map(|(pages, of_labels)| if is_same { sum(pages, of_labels) } else { pages.clone() })
    }
}

/// Adds up numbers of pages on each member.
pub(super) fn sum(one: &BTreeMap<MemberId, u64>, other: &BTreeMap<MemberId, u64>) -> BTreeMap<MemberId, u64> {
    let mut sum = one.clone();
    for (&member, pages) in other {
        *sum.entry(member).or_default() += pages;
    }
    sum
}
