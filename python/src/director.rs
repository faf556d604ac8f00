//! Directors that are classes of Python: they choose the blocks that enter a cache.

use std::collections::HashMap;
use std::sync::Arc;

use bimetal::library::OutsideDirector;
use bimetal_core::operation::{OpKind, Token};
use bimetal_core::scheme::{Access, Destination, Director, View};
use bimetal_core::units::Nanoseconds;
use pyo3::prelude::*;

use crate::frame::refused;
use crate::watch::Watcher;

/// Read or write that a cache is about to serve, with the state of the cache.
#[pyclass(frozen, get_all, module = "bimetal", name = "Request")]
pub struct Request {
    /// Number of the request to the volume, from 0.
    number: u64,
    time_ns: u64,
    op: &'static str,
    lba: u64,
    sectors: u64,
    /// First block that the request touches.
    block: u64,
    /// Number of blocks that the request touches.
    blocks: u64,
    /// Number of the request's blocks that have a slot.
    cached_blocks: u64,
    /// Number of the request's blocks whose newest content is only in a slot.
    dirty_blocks: u64,
    /// Number of slots that can be written at once.
    free_slots: u64,
    slots: u64,
    /// Numbers of operations under way on the SSD and on the HDD.
    ssd_queue: u64,
    hdd_queue: u64,
}

#[pymethods]
impl Request {
    fn __repr__(&self) -> String {
        let Self { number, op, sectors, lba, cached_blocks, blocks, .. } = self;
        format!(
            "<bimetal.Request {number}: {op} of {sectors} sectors at {lba}, {cached_blocks} of {blocks} blocks cached>"
        )
    }
}

impl Request {
    fn new(view: &View, access: &Access, token: Token) -> Self {
        let entries = || access.blocks.blocks().filter_map(|block| view.map.get(block));
        let queue = |member| {
            let load = view.member(member);
            u64::from(load.foreground) + u64::from(load.background)
        };
        Self {
            number: token.0 - 1,
            time_ns: view.now.0,
            op: if access.kind == OpKind::Read { "read" } else { "write" },
            lba: access.sectors.start.0,
            sectors: access.sectors.len.0,
            block: access.blocks.first.0,
            blocks: access.blocks.count,
            cached_blocks: entries().count() as u64,
            dirty_blocks: entries().filter(|(_, entry)| entry.dirty).count() as u64,
            free_slots: view.free_slots,
            slots: u64::from(view.map.slots()),
            ssd_queue: view.layout.slots.map_or(0, |slots| queue(slots.member)),
            hdd_queue: view.layout.home.first().map_or(0, |home| queue(home.member)),
        }
    }
}

/// Object of a class with the method `place`, and perhaps `finished`.
struct Object {
    place: Py<PyAny>,
    finished: Option<Py<PyAny>>,
    /// Arrival times of requests under way; empty if the class has no `finished`, which needs these
    /// times.
    came: HashMap<Token, Nanoseconds>,
    watcher: Arc<Watcher>,
}

/// Returns the maker of directors of the class `class`. An exception of a director ends the
/// command.
pub fn of_class(name: String, class: Py<PyAny>, watcher: &Arc<Watcher>) -> OutsideDirector {
    let watcher = Arc::clone(watcher);
    let make = move |view: &View| -> Box<dyn Director> {
        let made = Python::attach(|py| {
            let object = class.bind(py).call1((view.map.slots(),))?;
            let finished = object.getattr_opt("finished")?.filter(|finished| !finished.is_none());
            let (place, finished) = (object.getattr("place")?.unbind(), finished.map(Bound::unbind));
            Ok(Object { place, finished, came: HashMap::new(), watcher: Arc::clone(&watcher) })
        });
        Box::new(made.unwrap_or_else(|exception| watcher.stop_by(exception)))
    };
    OutsideDirector { name, make: Arc::new(make) }
}

fn destination(answer: &Bound<'_, PyAny>) -> PyResult<Option<Destination>> {
    if answer.is_none() {
        return Ok(None);
    }
    match answer.extract::<String>().as_deref() {
        Ok("home") => Ok(Some(Destination::Home)),
        Ok("slot") => Ok(Some(Destination::Slot)),
        Ok("both") => Ok(Some(Destination::Both)),
        _ => Err(refused(format!("place returned {}: expected 'home', 'slot', 'both' or None", answer.repr()?))),
    }
}

impl Director for Object {
    fn submitted(&mut self, now: Nanoseconds, token: Token) {
        if self.finished.is_some() {
            self.came.insert(token, now);
        }
    }

    fn direct(&mut self, view: &View, access: &Access, token: Token) -> Option<Destination> {
        let request = Request::new(view, access, token);
        let answer = Python::attach(|py| destination(self.place.bind(py).call1((request,))?.as_any()));
        answer.unwrap_or_else(|exception| self.watcher.stop_by(exception))
    }

    fn finished(&mut self, now: Nanoseconds, token: Token) {
        let (Some(finished), Some(came)) = (&self.finished, self.came.remove(&token)) else { return };
        let told = Python::attach(|py| finished.call1(py, (token.0 - 1, (now - came).0)).map(drop));
        told.unwrap_or_else(|exception| self.watcher.stop_by(exception));
    }
}
