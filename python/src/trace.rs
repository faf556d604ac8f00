//! The class `Trace`: a trace whose requests are in memory.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use arrow_array::RecordBatch;
use bimetal::in_memory::InMemory;
use bimetal::options::TraceOptions;
use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_trace::{Event, Format, Request, formats};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::columns::{Builder, Columns, OPERATIONS, Watched};
use crate::frame::{self, Frame, Texts, numbers, refused};
use crate::watch::{self, Watcher};

/// Number of requests that are read at a time.
const READ_AT_A_TIME: usize = 8192;

/// Trace whose requests are in memory.
#[pyclass(frozen, module = "bimetal")]
pub struct Trace {
    columns: Arc<Columns>,
    /// Properties of the trace; the requests are kept elsewhere.
    header: InMemory,
    notes: Vec<String>,
    /// Options with which a command line reads these requests.
    arguments: Vec<String>,
}

impl Trace {
    /// Returns the trace for a command that `watcher` may stop.
    pub fn in_memory(&self, watcher: &Arc<Watcher>) -> InMemory {
        let requests = Arc::new(Watched { columns: Arc::clone(&self.columns), watcher: Arc::clone(watcher) });
        InMemory { requests, ..self.header.clone() }
    }

    /// Returns a part of the trace under a name of its own.
    fn part(&self, columns: Columns, name: String) -> PyResult<Self> {
        if columns.len() == 0 {
            return Err(refused(format!("{name}: the part has no request")));
        }
        let header = InMemory { name, ..self.header.clone() };
        let (notes, arguments) = (self.notes.clone(), self.arguments.clone());
        Ok(Self { columns: Arc::new(columns), header, notes, arguments })
    }
}

/// Reads a trace to its end.
fn read(path: &PathBuf, options: &TraceOptions, watcher: &Watcher) -> Result<Trace, String> {
    let text = |error: bimetal::error::Error| error.to_string();
    let options_text = arguments_of(options);
    let options = options.to_open_options().map_err(text)?;
    let sample = path.as_os_str().is_empty();
    let opened = if sample { bimetal::sample::open(&options) } else { bimetal_trace::Trace::open(path, &options) };
    let mut trace = opened.map_err(|error| text(error.into()))?;
    let total = trace.bytes_total().unwrap_or(0);
    let (mut builder, mut batch) = (Builder::default(), Vec::with_capacity(READ_AT_A_TIME));
    loop {
        batch.clear();
        trace.read(&mut batch).map_err(|error| text(error.into()))?;
        if batch.is_empty() {
            break;
        }
        batch.iter().for_each(|request| builder.push(request));
        watcher.note(trace.bytes_read(), total);
        watcher.check();
    }
    let columns = Arc::new(builder.finish());
    let notes = trace.notes().to_vec();
    Ok(Trace { header: InMemory::of(&trace, Arc::new(Vec::new())), columns, notes, arguments: options_text })
}

/// Returns options as a command line has them.
fn arguments_of(options: &TraceOptions) -> Vec<String> {
    let TraceOptions { format, event, device, limit, skip_bad_lines } = options;
    let device = device.map(|device| device.to_string());
    let limit = limit.map(|limit| limit.to_string());
    let mut arguments = Vec::new();
    for (name, value) in [("--format", format), ("--event", event), ("--device", &device), ("--limit", &limit)] {
        arguments.extend(value.iter().flat_map(|value| [name.to_owned(), value.clone()]));
    }
    arguments.extend(skip_bad_lines.then(|| "--skip-bad-lines".to_owned()));
    arguments
}

#[pymethods]
impl Trace {
    #[new]
    #[pyo3(signature = (path, *, format=None, event=None, device=None, limit=None, skip_bad_lines=false, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of a Python function")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        format: Option<String>,
        event: Option<String>,
        device: Option<u32>,
        limit: Option<u64>,
        skip_bad_lines: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let options = TraceOptions { format, event, device, limit, skip_bad_lines };
        let watcher = Arc::new(Watcher::default());
        let of_thread = Arc::clone(&watcher);
        watch::run(py, &watcher, progress.as_ref(), move || read(&path, &options, &of_thread))?.map_err(refused)
    }

    /// Returns the sample trace inside the package: four minutes of a small server.
    #[staticmethod]
    fn sample(py: Python<'_>) -> PyResult<Self> {
        Self::new(py, PathBuf::new(), None, None, None, None, false, None)
    }

    /// Makes a trace of a table: a data frame, or a mapping of arrays or lists. `event` is the event
    /// that each request is; a table that is a trace has the event of the trace.
    #[staticmethod]
    #[pyo3(signature = (frame, name="frame".to_owned(), event=None))]
    fn from_frame(py: Python<'_>, frame: &Bound<'_, PyAny>, name: String, event: Option<String>) -> PyResult<Self> {
        let event = match event {
            Some(event) => Some(Event::from_str(&event).map_err(refused)?),
            None => frame.cast::<Self>().ok().and_then(|trace| trace.get().header.event),
        };
        let table = py.import("bimetal._frames")?.call_method1("table", (frame,))?;
        let batches = frame::batches(&table)?;
        let made = py.detach(|| from_batches(&batches));
        let (columns, has_times) = made.map_err(|error| refused(format!("{name}: {error}")))?;
        Ok(of_columns(columns, has_times, event, name))
    }

    /// Returns requests `start` to `stop` (exclusive). The first request of the part arrives at
    /// time zero.
    #[pyo3(signature = (start=0, stop=None))]
    fn slice(&self, start: usize, stop: Option<usize>) -> PyResult<Self> {
        let all = self.columns.len();
        let (start, stop) = (start.min(all), stop.map_or(all, |stop| stop.min(all)));
        let name = format!("{}[{start}:{stop}]", self.header.name);
        let mut part = self.part(self.columns.slice(start, stop.max(start)), name)?;
        if start == 0 && !self.arguments.iter().any(|argument| argument == "--limit") {
            // The command line has the same part, under the same name.
            part.header.name.clone_from(&self.header.name);
            part.arguments.extend(["--limit".to_owned(), stop.to_string()]);
        }
        Ok(part)
    }

    /// Returns the requests of one device. The first request of the part arrives at time zero.
    fn device(&self, number: u32) -> PyResult<Self> {
        self.part(self.columns.of_device(number), format!("{}, device {number}", self.header.name))
    }

    fn __len__(&self) -> usize {
        self.columns.len()
    }

    fn __repr__(&self) -> String {
        format!("<bimetal.Trace: {} ({}), {} requests>", self.header.name, self.header.format.name, self.columns.len())
    }

    #[getter]
    fn name(&self) -> &str {
        &self.header.name
    }

    #[getter]
    fn format(&self) -> &'static str {
        self.header.format.name
    }

    #[getter]
    fn has_times(&self) -> bool {
        self.header.has_times
    }

    #[getter]
    fn capacity_bytes(&self) -> Option<u64> {
        self.header.capacity.map(|capacity| capacity.0)
    }

    #[getter]
    fn skipped_lines(&self) -> u64 {
        self.header.skipped_lines
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    #[getter]
    fn devices(&self) -> Vec<u32> {
        self.columns.devices()
    }

    /// Options with which a command line reads these requests.
    #[getter]
    fn arguments(&self) -> Vec<String> {
        self.arguments.clone()
    }

    /// Returns the requests as a table whose buffers are those of the trace.
    fn frame(&self) -> PyResult<Frame> {
        Ok(Frame::new(self.columns.batch(self.header.has_times).map_err(refused)?))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.frame()?.__arrow_c_stream__(py, requested_schema)
    }
}

/// Returns a trace of columns that no reader has decoded.
fn of_columns(columns: Columns, has_times: bool, event: Option<Event>, name: String) -> Trace {
    let format: &'static Format = &formats::csv::INFO;
    let requests = Arc::new(Vec::<Request>::new());
    let header = InMemory { name, format, event, has_times, capacity: None, skipped_lines: 0, requests };
    let arguments = ["--format", format.name].map(str::to_owned).to_vec();
    Trace { columns: Arc::new(columns), header, notes: Vec::new(), arguments }
}

/// Makes requests of tables in the columns of the `csv` format, sorts them by time, and returns
/// them, with true if they have times.
fn from_batches(batches: &[RecordBatch]) -> Result<(Columns, bool), String> {
    let mut requests: Vec<Request> = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    let has_times = batches.iter().map(has_times).collect::<Result<Vec<bool>, String>>()?.contains(&true);
    for batch in batches {
        add_requests(batch, has_times, &mut requests)?;
    }
    if requests.is_empty() {
        return Err("the table has no row: expected a request in each row".to_owned());
    }
    if !requests.is_sorted_by_key(|request| request.arrival) {
        requests.sort_by_key(|request| request.arrival);
    }
    let ends = requests.first().zip(requests.last());
    if let Some((first, last)) = ends.filter(|(first, last)| (last.arrival - first.arrival).0 > SPAN_NS_MAX) {
        return Err(format!(
            "time_ns: the times go from {} to {}: expected less than 100 years between them",
            first.arrival.0, last.arrival.0
        ));
    }
    let mut builder = Builder::default();
    requests.iter().for_each(|request| builder.push(request));
    Ok((builder.finish(), has_times))
}

/// Longest time between the first and the last request, as in traces of files: 100 years.
const SPAN_NS_MAX: u64 = 100 * 365 * 86_400 * 1_000_000_000;

fn optional(batch: &RecordBatch, name: &str) -> Result<Option<Vec<Option<u64>>>, String> {
    batch.column_by_name(name).map(|column| numbers(column, name)).transpose()
}

/// Returns true if a request of a table has a time.
fn has_times(batch: &RecordBatch) -> Result<bool, String> {
    Ok(optional(batch, "time_ns")?.is_some_and(|time| time.iter().any(Option::is_some)))
}

/// Adds the requests of a table. With `has_times`, each request has a time.
fn add_requests(batch: &RecordBatch, has_times: bool, requests: &mut Vec<Request>) -> Result<(), String> {
    let optional = |name: &str| optional(batch, name);
    let needed = |name: &str| {
        optional(name)?.ok_or_else(|| {
            format!("the table has no column {name}: expected lba and sectors, and if known time_ns, device, op, fua and response_ns")
        })
    };
    let (lba, sectors) = (needed("lba")?, needed("sectors")?);
    let (time, device, fua) = (optional("time_ns")?, optional("device")?, optional("fua")?);
    let response = optional("response_ns")?;
    let op = batch.column_by_name("op").map(Texts::of).transpose().map_err(|error| format!("op: {error}"))?;
    let kinds = op.map(|op| kinds(&op)).transpose()?;
    if has_times && time.is_none() {
        return Err(
            "a part of the table has no column time_ns, and another has times: expected times in all".to_owned()
        );
    }
    for at in 0..batch.num_rows() {
        let value = |column: &[Option<u64>], name: &str| {
            column[at].ok_or_else(|| format!("row {at}: {name} is null: expected a number"))
        };
        let arrival = match &time {
            Some(time) if has_times => value(time, "time_ns")?,
            _ => 0,
        };
        let device = device.as_ref().and_then(|device| device[at]).unwrap_or(0);
        let request = Request {
            arrival: Nanoseconds(arrival),
            device: device
                .try_into()
                .map_err(|_| format!("row {at}: device {device}: expected a number below 2^32"))?,
            kind: kinds.as_ref().map_or(OpKind::Read, |kinds| kinds[at]),
            fua: fua.as_ref().and_then(|fua| fua[at]).unwrap_or(0) != 0,
            range: SectorRange::new(value(&lba, "lba")?, value(&sectors, "sectors")?),
            response: response.as_ref().and_then(|response| response[at]).map(Nanoseconds),
        };
        request.check().map_err(|error| format!("row {at}: {error}"))?;
        requests.push(request.without_place_of_flush());
    }
    Ok(())
}

fn kinds(op: &Texts) -> Result<Vec<OpKind>, String> {
    let kind = |(at, text): (usize, Option<&str>)| {
        let text = text.unwrap_or_default();
        let known = OPERATIONS.iter().find(|(name, _)| *name == text);
        known
            .map(|(_, kind)| *kind)
            .ok_or_else(|| format!("row {at}: op '{text}': expected read, write, flush, discard or write-zeroes"))
    };
    op.iter().enumerate().map(kind).collect()
}
