//! Pages of the labels in a scrub. The volume scrubs its own pages of metadata, and does not know
//! labels. So the labels are read outside the loop, while the volume's scrub runs, and bad pages
//! are written again. A scrub is over when the volume's scrub and the reading of the labels have
//! ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bimetal_core::layout::MemberId;
use bimetal_core::scheme::MemberState;
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_core::volume::Scrub;

use super::Server;

/// Numbers of bad pages on each member, before and after they were written again.
type Counts = [BTreeMap<MemberId, u64>; 2];

/// Bad pages of the labels, as of the last scrub.
#[derive(Debug, Default)]
pub(super) struct LabelPages {
    /// Result of the reading under way; `None` if no labels are being read.
    reading: Option<Arc<Mutex<Option<Counts>>>>,
    /// Set if labels cannot be read.
    unread: bool,
    /// Beginning of the scrub.
    scrub: Option<Nanoseconds>,
    bad: BTreeMap<MemberId, u64>,
    /// The pages that are still bad after they were written again.
    left: BTreeMap<MemberId, u64>,
}

impl Server {
    /// Begins a scrub of the volume and of the labels. If a scrub is under way, it goes on at the
    /// higher of the two rates.
    pub(super) fn begin_scrub(&mut self, rate: Option<Bytes>) {
        if self.is_reading_labels() && self.volume.scrub_progress().is_none_or(|scrub| scrub.finished) {
            return;
        }
        self.volume.scrub(self.now, rate);
        let scrub = self.volume.scrub_progress().map(|scrub| scrub.began);
        let Some(held) = self.control.held.clone().filter(|_| self.control.label_pages.scrub != scrub) else { return };
        let members = self.volume.view().members.iter().enumerate();
        let there: Vec<MemberId> = members
            .filter(|(_, member)| member.state != MemberState::Failed)
            .map(|(at, _)| MemberId(at as u16))
            .collect();
        let result = Arc::new(Mutex::new(None));
        let reading = Some(Arc::clone(&result));
        let read = move || {
            let held = || held.lock().unwrap_or_else(PoisonError::into_inner);
            // A drive may take long to answer, and attaching a drive needs the lock meanwhile.
            let pages = held().label_pages(&there);
            let is_bad = pages.iter().any(|(_, pages)| pages.count_bad() > 0);
            let counts = if is_bad { held().mend_labels(&there) } else { Counts::default() };
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(counts);
        };
        let begun = self.outside(read, |server, ()| server.take_label_pages());
        self.control.label_pages = LabelPages { reading, scrub, ..LabelPages::default() };
        if let Err(error) = begun {
            (self.control.label_pages.reading, self.control.label_pages.unread) = (None, true);
            self.say(&format!("the scrub does not read the labels: no thread can be started: {error}"));
        }
    }

    /// Takes the bad pages of the labels, once the labels have been read.
    pub(super) fn take_label_pages(&mut self) {
        let labels = &mut self.control.label_pages;
        let Some(result) = &labels.reading else { return };
        let Some([bad, left]) = result.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        (labels.reading, labels.bad, labels.left) = (None, bad, left);
    }

    /// Returns true while the volume or labels are being scrubbed.
    pub(super) fn is_scrubbing(&self) -> bool {
        self.is_reading_labels() || self.volume.scrub_progress().is_some_and(|scrub| !scrub.finished)
    }

    /// Returns true while labels are being read for a scrub.
    pub(super) fn is_reading_labels(&self) -> bool {
        self.control.label_pages.reading.is_some()
    }

    /// Returns true if a scrub has not read everything: a drive failed, or the labels are unread.
    pub(super) fn is_interrupted(&self, scrub: &Scrub) -> bool {
        let labels = &self.control.label_pages;
        scrub.interrupted || (labels.unread && labels.scrub == Some(scrub.began))
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

#[cfg(test)]
mod tests {
    use super::super::ServerOptions;
    use super::super::scrubs::ScrubPlan;
    use super::super::testing::{Bench, HDD};
    use super::*;
    use crate::control::message::{CheckReport, Reply, Request};

    const DAY: Nanoseconds = Nanoseconds::from_seconds(86_400);

    /// Returns a server whose scrub on schedule has read the volume, while the labels are still
    /// being read. The second value takes their result.
    fn reading_bench() -> (Bench, Arc<Mutex<Option<Counts>>>) {
        let scrub = ScrubPlan { every: Some(DAY), rate: None };
        let mut bench = Bench::with("hybrid-disk", ServerOptions { scrub, ..ServerOptions::default() });
        bench.server.plan_scrubs();
        let client = bench.connect();
        bench.write(client, 3, 4);
        bench.disconnect(client);
        bench.pass(DAY);
        let result = Arc::new(Mutex::new(None));
        let began = bench.server.volume.scrub_progress().map(|scrub| scrub.began);
        assert!(began.is_some(), "a scrub is under way");
        bench.server.control.label_pages =
            LabelPages { reading: Some(Arc::clone(&result)), scrub: began, ..LabelPages::default() };
        bench.run();
        assert!(bench.server.volume.scrub_progress().is_some_and(|scrub| scrub.finished));
        (bench, result)
    }

    fn one_bad_page() -> Option<Counts> {
        Some([BTreeMap::from([(MemberId(HDD as u16), 1)]), BTreeMap::new()])
    }

    fn reports(bench: &mut Bench, key: usize) -> Vec<CheckReport> {
        let report = |reply| if let Reply::Done(done) = reply { done.check } else { panic!("{reply:?}") };
        bench.replies(key).into_iter().filter_map(report).collect()
    }

    /// Regression: a check took labels that had been read before it began, and forgot what the
    /// scrub that it had waited for had found.
    #[test]
    fn check_reads_labels_anew_and_tells_of_the_scrub_before() {
        let (mut bench, result) = reading_bench();
        let first = bench.server.volume.scrub_progress().map(|scrub| scrub.began);
        bench.pass(Nanoseconds::from_seconds(1));
        let key = bench.visit();
        bench.request(key, Request::Check { scrub: true });
        bench.run();
        assert!(reports(&mut bench, key).is_empty(), "labels are still being read");
        *result.lock().unwrap() = one_bad_page();
        bench.server.take_label_pages();
        bench.run();
        assert_ne!(bench.server.volume.scrub_progress().map(|scrub| scrub.began), first, "a scrub of its own");
        let reports = reports(&mut bench, key);
        let told: Vec<_> = reports.iter().map(|report| (report.bad_metadata_pages, report.blocks_read)).collect();
        assert_eq!(told, [(1, Some(4))]);
        let lines = bench.lines();
        let said = lines.iter().filter(|line| line.contains("a scrub found 1 page of metadata bad")).count();
        assert_eq!(said, 1, "{lines:?}");
    }

    /// Regression: a check joined a check whose scrub had read blocks from before it.
    #[test]
    fn second_check_reads_everything_again() {
        let (mut bench, result) = reading_bench();
        *result.lock().unwrap() = Some(Counts::default());
        bench.server.take_label_pages();
        bench.run();
        let [first, second, third] = [(); 3].map(|()| bench.visit());
        bench.pass(Nanoseconds::from_seconds(1));
        bench.request(first, Request::Check { scrub: true });
        let began = bench.server.volume.scrub_progress().map(|scrub| scrub.began);
        bench.pass(Nanoseconds::from_seconds(1));
        bench.request(second, Request::Check { scrub: true });
        bench.request(third, Request::Check { scrub: true });
        assert_eq!(bench.server.volume.scrub_progress().map(|scrub| scrub.began), began);
        bench.run();
        assert_ne!(bench.server.volume.scrub_progress().map(|scrub| scrub.began), began, "a scrub of their own");
        let told = [first, second, third].map(|key| reports(&mut bench, key).len());
        assert_eq!(told, [1; 3], "each has its answer");
    }

    /// Regression: what a scrub had found was forgotten if the server stopped before the labels
    /// were read.
    #[test]
    fn findings_are_recorded_although_the_server_stops() {
        for is_read in [false, true] {
            let (mut bench, result) = reading_bench();
            if is_read {
                *result.lock().unwrap() = one_bad_page();
            }
            bench.server.close_ledger();
            let noted = |line: &str| line.contains("a scrub found pages of metadata bad");
            let history = bench.server.known_report().history();
            assert_eq!(history.iter().any(|line| noted(&line.text)), is_read);
            assert_eq!(bench.server.known_report().last_scrub.map(|scrub| scrub.blocks_read), Some(4));
            let lines = bench.lines();
            assert_eq!(lines.iter().any(|line| line.contains("a scrub found 1 page")), is_read, "{lines:?}");
        }
    }

    /// Regression: a check said that all was well although no thread could be started that reads
    /// the labels.
    #[test]
    fn scrub_without_the_labels_counts_as_interrupted() {
        let (mut bench, _) = reading_bench();
        let labels = &mut bench.server.control.label_pages;
        (labels.reading, labels.unread) = (None, true);
        bench.server.settle();
        let scrub = bench.server.volume.scrub_progress().cloned().unwrap();
        assert!(!scrub.interrupted && bench.server.is_interrupted(&scrub));
        let again = bench.server.scrubs_deadline().unwrap();
        assert!(again < bench.server.now.saturating_add(DAY), "it begins again soon: {again}");
    }
}
