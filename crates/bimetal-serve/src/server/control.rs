//! Control requests: questions and commands to the server, and the long tasks that they begin.
//!
//! A short request is answered at once. A long request (a drain) begins a task, which the requester
//! *watches*: the requester gets a progress report each second. The task continues even if no
//! requester watches it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_volumes::about::About;
use bimetal_volumes::held::Held;
use bimetal_volumes::status::Progress;
use slab::Slab;

use super::attachment::Attachment;
use super::checks::Checkup;
use super::drains::Drainage;
use super::label_pages::LabelPages;
use super::recorder::{EndedRecording, Recorder};
use super::scrubs::Scrubs;
use super::visitors::{Door, Language, Visitor};
use super::{Endpoint, ServeError, Server};
use crate::control::message::{Done, Reply, Request};
use crate::metrics;
use crate::status;

/// Interval of progress reports to watchers.
const REPORT_EVERY: Nanoseconds = Nanoseconds::from_seconds(1);
/// Interval at which the totals of drives are written to their labels. A crash loses the totals
/// since the last write.
const KEEP_LIFETIMES_EVERY: Nanoseconds = Nanoseconds::from_seconds(600);

/// Task that a requester waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Watch {
    Acknowledge,
    Attach,
    Check,
    /// The check after the one under way.
    NextCheck,
    Drain,
    Set,
    TraceStart,
    TraceStop,
}

/// Control connections, and the tasks that they began.
#[derive(Default)]
pub(super) struct Control {
    pub(super) about: Option<About>,
    /// Labels and locks of the drives: used only outside the loop.
    pub(super) held: Option<Arc<Mutex<Held>>>,
    /// Thread that writes a setting to the labels.
    pub(super) storing_setting: Option<JoinHandle<()>>,
    pub(super) attachment: Option<Attachment>,
    pub(super) checkup: Option<Checkup>,
    pub(super) doors: Vec<Door>,
    pub(super) visitors: Slab<Visitor>,
    /// Number of visitors that have arrived.
    pub(super) arrived: u64,
    /// Visitors whose turn has ended with more input to read.
    pub(super) waiting: Vec<usize>,
    pub(super) drainage: Option<Drainage>,
    pub(super) recorder: Option<Recorder>,
    pub(super) scrubs: Scrubs,
    pub(super) label_pages: LabelPages,
    /// Recording that was ended and is being written.
    pub(super) recorded: Option<EndedRecording>,
    /// Recording that ended by itself, and the reason.
    pub(super) recording_failed: Option<(PathBuf, String)>,
    /// Set if the server ends after a complete drain.
    pub(super) drained: bool,
    /// Time of the next progress report to watchers.
    report_at: Option<Nanoseconds>,
    /// Time at which the totals of drives are written next.
    lifetimes_at: Option<Nanoseconds>,
}

impl Control {
    /// Returns true if a visitor or a check has work to do at once.
    pub(super) fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || self.checkup.as_ref().is_some_and(Checkup::is_looking)
    }

    fn is_at_work(&self) -> bool {
        self.drainage.is_some() || self.attachment.is_some() || self.checkup.is_some()
    }
}

impl Server {
    /// Serves control requests at `endpoint`. `about` holds facts that the server cannot see in the
    /// volume. With `held`, the server can also attach a drive and change settings.
    ///
    /// # Errors
    /// Fails if another server listens at the endpoint, or if the endpoint is not possible.
    pub fn control(
        &mut self,
        endpoint: &Endpoint,
        about: About,
        held: Option<Arc<Mutex<Held>>>,
    ) -> Result<(), ServeError> {
        self.control.about = Some(about);
        self.control.lifetimes_at = held.as_ref().map(|_| self.now.saturating_add(KEEP_LIFETIMES_EVERY));
        self.control.held = held;
        self.open_ledger();
        self.plan_scrubs();
        self.add_door(endpoint, Language::Control)
    }

    /// Serves metrics at `http://ADDRESS/metrics`; `address` is `HOST:PORT` on this machine.
    /// Returns the URL.
    ///
    /// # Errors
    /// Fails if another server listens at the address, or if the address is not a loopback address.
    pub fn metrics(&mut self, address: &str) -> Result<String, ServeError> {
        self.add_door(&Endpoint::of_metrics(address)?, Language::Http)?;
        let bound = self.control.doors.last().and_then(Door::address);
        Ok(format!("http://{}/metrics", bound.unwrap_or_else(|| address.to_owned())))
    }

    pub(super) fn metrics_page(&self) -> Option<String> {
        Some(metrics::page(self.control.about.as_ref()?, &self.snapshot(), self.scrub_in_progress()))
    }

    pub(super) fn control_deadline(&self) -> Option<Nanoseconds> {
        let own = [self.control.report_at, self.control.lifetimes_at];
        own.into_iter().chain([self.ledger_deadline(), self.scrubs_deadline()]).flatten().min()
    }

    /// Writes the totals of drives to their labels, outside the loop.
    fn keep_lifetimes(&mut self) {
        self.control.lifetimes_at = Some(self.now.saturating_add(KEEP_LIFETIMES_EVERY));
        let Some(keep) = self.keeping_lifetimes() else { return };
        // If no thread can be started, the totals are written the next time.
        let _ = self.outside(keep, |_, ()| {});
    }

    /// Returns the function that writes the totals of each drive to the drives. A separate thread
    /// runs the function.
    pub(super) fn keeping_lifetimes(&self) -> Option<impl FnOnce() + Send + 'static> {
        let held = self.control.held.clone()?;
        let written: Vec<Bytes> = self.traffic.1.iter().map(|traffic| traffic.written).collect();
        let served_s = self.started.elapsed().as_secs();
        Some(move || {
            let held = held.lock().unwrap_or_else(PoisonError::into_inner);
            // An error is ignored: the totals are statistics, and a drive that fails writes is
            // reported elsewhere.
            let _ = held.keep_lifetimes(&written, served_s);
        })
    }

    /// Answers a control request; long tasks are answered later.
    pub(super) fn hear(&mut self, key: usize, request: Request) -> Option<Reply> {
        self.take_troubles();
        Some(match request {
            Request::Status {} => self.tell_status(),
            Request::Acknowledge { by } => return self.hear_acknowledge(key, &by),
            Request::Drain { detach, force } => return self.hear_drain(key, detach, force),
            Request::Set { key: name, value } => return self.hear_set(key, &name, &value),
            Request::Check { scrub } => return self.hear_check(key, scrub),
            Request::Attach { path, force } => return self.hear_attach(key, path, force),
            Request::TraceStart { path } => return self.hear_trace_start(key, path),
            Request::TraceStop {} => return self.hear_trace_stop(key),
            Request::Detach {} => return self.hear_detach(key),
            Request::Stop { force } => {
                if let Some(message) = self.clients_in_the_way().filter(|_| !force) {
                    return Some(Reply::Error { message });
                }
                self.stop();
                Reply::Done(Done::new("stopping: requests under way are completed, then all writes are made durable"))
            }
        })
    }

    fn tell_status(&self) -> Reply {
        let Some(about) = &self.control.about else { return Reply::error("this server does not know its volume") };
        let snapshot = self.snapshot();
        let mut status = status::of(about, &snapshot);
        status.endpoints = self.listeners.iter().map(|listener| listener.place().to_string()).collect();
        status.drain = self.control.drainage.as_ref().map(|drainage| drainage.progress(&self.volume, &self.trouble()));
        status.check = self.check_progress();
        status.scrub = self.scrub_in_progress();
        status.next_scrub_s = self.next_scrub_s();
        status.trace = self.control.recorder.as_ref().map(Recorder::status);
        Reply::Status { status: Box::new(status) }
    }

    /// Makes visitor `key` watch a task until it is done.
    pub(super) fn watch(&mut self, key: usize, watch: Watch) {
        if let Some(visitor) = self.control.visitors.get_mut(key) {
            visitor.watch = Some(watch);
        }
        self.control.report_at.get_or_insert(self.now.saturating_add(REPORT_EVERY));
    }

    /// Sends a reply to all watchers of a task. After the last reply the watchers wait no longer.
    pub(super) fn tell_watchers(&mut self, watch: Watch, reply: &Reply) {
        let watchers = self.control.visitors.iter().filter(|(_, visitor)| visitor.watch == Some(watch));
        for key in watchers.map(|(key, _)| key).collect::<Vec<_>>() {
            if reply.is_last() {
                self.control.visitors[key].watch = None;
            }
            self.tell(key, reply);
        }
    }

    /// Advances every task under way. Returns true if the volume has new work.
    pub(super) fn go_on_with_control(&mut self) -> bool {
        self.attend_waiting();
        let mut moved = self.control.drainage.is_some() && self.go_on_draining();
        // A scrub that has ended is recorded before a check begins its own.
        moved |= self.go_on_scrubbing();
        moved |= self.control.checkup.is_some() && self.go_on_checking();
        moved |= self.control.attachment.is_some() && self.go_on_attaching();
        if self.control.report_at.is_some_and(|at| at <= self.now) {
            self.report();
        }
        if self.control.lifetimes_at.is_some_and(|at| at <= self.now) {
            self.keep_lifetimes();
        }
        self.keep_ledger();
        moved
    }

    fn report(&mut self) {
        let again = self.now.saturating_add(REPORT_EVERY);
        if let Some(progress) = self.check_progress() {
            self.tell_watchers(Watch::Check, &Reply::Progress(progress));
        }
        if self.control.attachment.is_some() {
            let progress = Progress { task: "attach".into(), ..Progress::default() };
            self.tell_watchers(Watch::Attach, &Reply::Progress(progress));
        }
        self.control.report_at = self.control.is_at_work().then_some(again);
        if let Some(drainage) = &mut self.control.drainage {
            drainage.note(&self.volume, self.now);
            let progress = self.control.drainage.as_ref().map(|it| it.progress(&self.volume, &self.trouble()));
            progress.into_iter().for_each(|progress| self.tell_watchers(Watch::Drain, &Reply::Progress(progress)));
        }
    }

    /// Returns the last errors of members, in words.
    pub(super) fn trouble(&self) -> Option<String> {
        let names = self.control.about.as_ref().map(|about| about.members.as_slice()).unwrap_or_default();
        let each = self.traffic.1.iter().enumerate().filter_map(|(at, traffic)| {
            let name = names.get(at).map_or_else(|| format!("member {at}"), |member| member.id.clone());
            Some(format!("{name}: {}", traffic.trouble()?))
        });
        let all: Vec<String> = each.collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}
