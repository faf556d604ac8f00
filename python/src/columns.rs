//! Requests of a trace in columns: the memory of a trace, and the buffers that Arrow hands out
//! without a copy.

use std::sync::Arc;

use arrow_array::types::UInt8Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, RecordBatch, StringArray, UInt8Array, UInt32Array, UInt64Array,
};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_sim::workload::{Requests, Workload, WorkloadError};
use bimetal_trace::Request;

use crate::watch::Watcher;

/// Operations, in the order of their codes, with the names of the `csv` format.
pub const OPERATIONS: [(&str, OpKind); 5] = [
    ("read", OpKind::Read),
    ("write", OpKind::Write),
    ("flush", OpKind::Flush),
    ("discard", OpKind::Discard),
    ("write-zeroes", OpKind::WriteZeroes),
];

/// Requests in columns.
#[derive(Clone)]
pub struct Columns {
    arrival: ScalarBuffer<u64>,
    device: ScalarBuffer<u32>,
    /// Places in [`OPERATIONS`].
    op: ScalarBuffer<u8>,
    lba: ScalarBuffer<u64>,
    sectors: ScalarBuffer<u64>,
    fua: BooleanArray,
    response: UInt64Array,
}

impl Columns {
    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.arrival.len()
    }

    fn get(&self, at: usize) -> Request {
        Request {
            arrival: Nanoseconds(self.arrival[at]),
            device: self.device[at],
            kind: OPERATIONS[usize::from(self.op[at])].1,
            fua: self.fua.value(at),
            range: SectorRange::new(self.lba[at], self.sectors[at]),
            response: self.response.is_valid(at).then(|| Nanoseconds(self.response.value(at))),
        }
    }

    /// Returns requests `start` to `stop` (exclusive). The first request of the part arrives at
    /// time zero.
    pub fn slice(&self, start: usize, stop: usize) -> Self {
        let len = stop - start;
        let mut arrival = self.arrival.slice(start, len);
        if let Some(first) = arrival.first().copied().filter(|&first| first > 0) {
            arrival = arrival.iter().map(|time| time - first).collect();
        }
        Self {
            arrival,
            device: self.device.slice(start, len),
            op: self.op.slice(start, len),
            lba: self.lba.slice(start, len),
            sectors: self.sectors.slice(start, len),
            fua: self.fua.slice(start, len),
            response: self.response.slice(start, len),
        }
    }

    /// Returns the requests of one device. The first request of the part arrives at time zero.
    pub fn of_device(&self, device: u32) -> Self {
        let mut builder = Builder::default();
        let own = (0..self.len()).filter(|&at| self.device[at] == device);
        own.for_each(|at| builder.push(&self.get(at)));
        builder.finish()
    }

    /// Returns the numbers of the devices, sorted.
    pub fn devices(&self) -> Vec<u32> {
        let mut devices: Vec<u32> = Vec::new();
        for &device in self.device.iter() {
            if let Err(at) = devices.binary_search(&device) {
                devices.insert(at, device);
            }
        }
        devices
    }

    /// Returns the columns under the names of the `csv` format. The buffers are shared. A trace
    /// without times has no value in `time_ns`.
    pub fn batch(&self, has_times: bool) -> Result<RecordBatch, ArrowError> {
        let no_times = (!has_times).then(|| NullBuffer::new_null(self.len()));
        let names: ArrayRef = Arc::new(StringArray::from_iter_values(OPERATIONS.iter().map(|(name, _)| *name)));
        let codes = UInt8Array::new(self.op.clone(), None);
        let columns: [(&str, ArrayRef); 7] = [
            ("time_ns", Arc::new(UInt64Array::new(self.arrival.clone(), no_times))),
            ("device", Arc::new(UInt32Array::new(self.device.clone(), None))),
            ("op", Arc::new(DictionaryArray::<UInt8Type>::try_new(codes, names)?)),
            ("lba", Arc::new(UInt64Array::new(self.lba.clone(), None))),
            ("sectors", Arc::new(UInt64Array::new(self.sectors.clone(), None))),
            ("fua", Arc::new(self.fua.clone())),
            ("response_ns", Arc::new(self.response.clone())),
        ];
        RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, ["time_ns", "response_ns"].contains(&name))),
        )
    }
}

/// Builder of [`Columns`].
pub struct Builder {
    arrival: Vec<u64>,
    device: Vec<u32>,
    op: Vec<u8>,
    lba: Vec<u64>,
    sectors: Vec<u64>,
    fua: BooleanBufferBuilder,
    response: Vec<u64>,
    answered: BooleanBufferBuilder,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            arrival: Vec::new(),
            device: Vec::new(),
            op: Vec::new(),
            lba: Vec::new(),
            sectors: Vec::new(),
            fua: BooleanBufferBuilder::new(0),
            response: Vec::new(),
            answered: BooleanBufferBuilder::new(0),
        }
    }
}

impl Builder {
    /// Adds a request.
    pub fn push(&mut self, request: &Request) {
        let code = match request.kind {
            OpKind::Read | OpKind::Hint => 0,
            OpKind::Write => 1,
            OpKind::Flush => 2,
            OpKind::Discard => 3,
            OpKind::WriteZeroes => 4,
        };
        self.arrival.push(request.arrival.0);
        self.device.push(request.device);
        self.op.push(code);
        self.lba.push(request.range.start.0);
        self.sectors.push(request.range.len.0);
        self.fua.append(request.fua);
        self.response.push(request.response.map_or(0, |response| response.0));
        self.answered.append(request.response.is_some());
    }

    /// Returns the columns. The first request arrives at time zero.
    pub fn finish(mut self) -> Columns {
        let answered = NullBuffer::new(self.answered.finish());
        let first = self.arrival.first().copied().unwrap_or(0);
        if first > 0 {
            self.arrival.iter_mut().for_each(|time| *time -= first);
        }
        Columns {
            arrival: self.arrival.into(),
            device: self.device.into(),
            op: self.op.into(),
            lba: self.lba.into(),
            sectors: self.sectors.into(),
            fua: BooleanArray::new(self.fua.finish(), None),
            response: UInt64Array::new(self.response.into(), Some(answered).filter(|nulls| nulls.null_count() > 0)),
        }
    }
}

/// Workload of columns that a watcher may stop.
pub struct Watched {
    /// Requests.
    pub columns: Arc<Columns>,
    /// Watcher of the command that plays the requests.
    pub watcher: Arc<Watcher>,
}

impl Workload for Watched {
    fn open_drawn(&self, _drawing: u64) -> Result<Requests<'_>, WorkloadError> {
        let Self { columns, watcher } = self;
        Ok(Box::new((0..columns.len()).map(|at| {
            watcher.check();
            Ok(columns.get(at))
        })))
    }

    fn grid(&self) -> u64 {
        0
    }
}
