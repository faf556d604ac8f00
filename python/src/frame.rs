//! Tables in the columns of Arrow, given and taken by the PyCapsule interface.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, Float64Array, Int64Array, PrimitiveArray, RecordBatch,
    RecordBatchIterator, StringArray,
};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyCapsule, PyDict, PyFloat, PyInt, PyList, PyString};

use crate::Error;

/// Name of a capsule with a stream.
const STREAM: &std::ffi::CStr = c"arrow_array_stream";

/// Returns an exception with the text of `error`.
pub fn refused(error: impl std::fmt::Display) -> PyErr {
    Error::new_err(error.to_string())
}

/// Returns `batch` as a stream that polars, pandas, pyarrow and DuckDB take.
fn stream(py: Python<'_>, batch: RecordBatch) -> PyResult<Bound<'_, PyCapsule>> {
    let schema = batch.schema();
    let reader = RecordBatchIterator::new([Ok::<_, ArrowError>(batch)], schema);
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
}

/// Returns the batches of an object with `__arrow_c_stream__`.
pub fn batches(object: &Bound<'_, PyAny>) -> PyResult<Vec<RecordBatch>> {
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: the name of the capsule says that it has a stream; the reader moves the stream out,
    // and leaves a released one, as the interface asks for.
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr()) }.map_err(refused)?;
    reader.collect::<Result<_, _>>().map_err(refused)
}

/// Table of named columns.
#[pyclass(frozen, module = "bimetal", name = "Frame")]
pub struct Frame {
    batch: RecordBatch,
}

impl Frame {
    /// Returns a table of one batch.
    pub fn new(batch: RecordBatch) -> Self {
        Self { batch }
    }
}

#[pymethods]
impl Frame {
    /// Makes a table of columns. A column is a list of integers, floats, booleans or strings, with
    /// `None` for no value; or a pair of a kind (`u8` to `i64`) and the bytes of an array.
    #[new]
    fn from_columns(columns: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut named: Vec<(String, ArrayRef, bool)> = Vec::new();
        for (name, values) in columns {
            let array = match values.cast::<PyList>() {
                Ok(values) => array_of(values)?,
                Err(_) => {
                    let (kind, bytes) = values.extract::<(String, Vec<u8>)>()?;
                    array_of_bytes(&kind, &bytes)?
                }
            };
            named.push((name.extract()?, array, true));
        }
        Ok(Self { batch: RecordBatch::try_from_iter_with_nullable(named).map_err(refused)? })
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    #[getter]
    fn columns(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __repr__(&self) -> String {
        format!("<bimetal.Frame: {} rows, columns {}>", self.batch.num_rows(), self.columns().join(", "))
    }

    /// Returns a list for each column.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (field, column) in self.batch.schema().fields().iter().zip(self.batch.columns()) {
            dict.set_item(field.name(), list_of(py, column)?)?;
        }
        Ok(dict)
    }

    #[pyo3(signature = (requested_schema=None))]
    pub(crate) fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Every consumer takes the types as they are.
        let _ = requested_schema;
        stream(py, self.batch.clone())
    }
}

fn array_of(values: &Bound<'_, PyList>) -> PyResult<ArrayRef> {
    let given: Vec<Bound<'_, PyAny>> = values.iter().filter(|value| !value.is_none()).collect();
    let all = |is: fn(&Bound<'_, PyAny>) -> bool| given.iter().all(is);
    if all(|value| value.is_instance_of::<PyBool>()) && !given.is_empty() {
        let values = values.extract::<Vec<Option<bool>>>()?;
        return Ok(Arc::new(BooleanArray::from(values)));
    }
    if all(|value| value.is_instance_of::<PyInt>()) && !given.is_empty() {
        return Ok(Arc::new(Int64Array::from(values.extract::<Vec<Option<i64>>>()?)));
    }
    if all(|value| value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyInt>()) {
        return Ok(Arc::new(Float64Array::from(values.extract::<Vec<Option<f64>>>()?)));
    }
    if !all(|value| value.is_instance_of::<PyString>()) {
        return Err(refused("a column has values of several kinds: expected numbers, booleans or strings"));
    }
    Ok(Arc::new(StringArray::from(values.extract::<Vec<Option<String>>>()?)))
}

/// Returns an array of the bytes of numbers, in the order of bytes of this machine.
fn array_of_bytes(kind: &str, bytes: &[u8]) -> PyResult<ArrayRef> {
    fn of<T: ArrowPrimitiveType>(bytes: &[u8]) -> ArrayRef {
        let len = bytes.len() / size_of::<T::Native>();
        let buffer = Buffer::from_slice_ref(&bytes[..len * size_of::<T::Native>()]);
        Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::new(buffer, 0, len), None))
    }
    Ok(match kind {
        "u8" => of::<UInt8Type>(bytes),
        "u16" => of::<UInt16Type>(bytes),
        "u32" => of::<UInt32Type>(bytes),
        "u64" => of::<UInt64Type>(bytes),
        "i8" => of::<Int8Type>(bytes),
        "i16" => of::<Int16Type>(bytes),
        "i32" => of::<Int32Type>(bytes),
        "i64" => of::<Int64Type>(bytes),
        other => return Err(refused(format!("an array is of kind '{other}': expected whole numbers"))),
    })
}

fn list_of<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    fn primitive<'py, T: ArrowPrimitiveType>(py: Python<'py>, column: &ArrayRef) -> PyResult<Bound<'py, PyAny>>
    where
        T::Native: IntoPyObject<'py>,
    {
        Ok(PyList::new(py, column.as_primitive::<T>().iter().collect::<Vec<_>>())?.into_any())
    }
    match column.data_type() {
        DataType::UInt32 => primitive::<UInt32Type>(py, column),
        DataType::UInt64 => primitive::<UInt64Type>(py, column),
        DataType::Int64 => primitive::<Int64Type>(py, column),
        DataType::Float64 => primitive::<Float64Type>(py, column),
        DataType::Boolean => Ok(PyList::new(py, column.as_boolean().iter().collect::<Vec<_>>())?.into_any()),
        _ => Ok(PyList::new(py, Texts::of(column).map_err(refused)?.iter())?.into_any()),
    }
}

/// Column of whole numbers of any width.
pub fn numbers(column: &ArrayRef, name: &str) -> Result<Vec<Option<u64>>, String> {
    fn of<T: ArrowPrimitiveType>(column: &ArrayRef, name: &str) -> Result<Vec<Option<u64>>, String>
    where
        T::Native: TryInto<u64> + std::fmt::Display,
    {
        let number = |(at, value): (usize, Option<T::Native>)| {
            let number = |value: T::Native| {
                value.try_into().map_err(|_| format!("row {at}: {name} {value}: expected a number from 0 on"))
            };
            value.map(number).transpose()
        };
        column.as_primitive::<T>().iter().enumerate().map(number).collect()
    }
    match column.data_type() {
        DataType::UInt8 => of::<UInt8Type>(column, name),
        DataType::UInt16 => of::<UInt16Type>(column, name),
        DataType::UInt32 => of::<UInt32Type>(column, name),
        DataType::UInt64 => of::<UInt64Type>(column, name),
        DataType::Int8 => of::<Int8Type>(column, name),
        DataType::Int16 => of::<Int16Type>(column, name),
        DataType::Int32 => of::<Int32Type>(column, name),
        DataType::Int64 => of::<Int64Type>(column, name),
        DataType::Boolean => Ok(column.as_boolean().iter().map(|value| value.map(u64::from)).collect()),
        DataType::Null => Ok(vec![None; column.len()]),
        // pandas has floats where a whole number is missing.
        DataType::Float64 => column
            .as_primitive::<Float64Type>()
            .iter()
            .enumerate()
            .map(|(at, value)| {
                let value = value.filter(|value| !value.is_nan());
                let is_whole = |value: &f64| *value >= 0.0 && *value < 2_f64.powi(64) && value.fract() == 0.0;
                let wrong = |value: f64| format!("row {at}: {name} {value}: expected a whole number from 0 on");
                value.map(|value| if is_whole(&value) { Ok(value as u64) } else { Err(wrong(value)) }).transpose()
            })
            .collect(),
        other => Err(format!("column {name} is of type {other}: expected whole numbers")),
    }
}

/// Column of strings, in any of the forms that tables have.
pub struct Texts {
    values: Vec<Option<String>>,
    /// Index of each row's value in the list of values.
    rows: Vec<Option<usize>>,
}

impl Texts {
    /// Reads a column.
    pub fn of(column: &ArrayRef) -> Result<Self, String> {
        if let Some(dictionary) = column.as_any_dictionary_opt() {
            let Self { values, .. } = Self::of(dictionary.values())?;
            let keys = dictionary.normalized_keys();
            let rows = keys.into_iter().enumerate().map(|(at, key)| column.is_valid(at).then_some(key)).collect();
            return Ok(Self { values, rows });
        }
        let owned = |value: Option<&str>| value.map(str::to_owned);
        let values: Vec<Option<String>> = match column.data_type() {
            DataType::Utf8 => column.as_string::<i32>().iter().map(owned).collect(),
            DataType::LargeUtf8 => column.as_string::<i64>().iter().map(owned).collect(),
            DataType::Utf8View => column.as_string_view().iter().map(owned).collect(),
            other => return Err(format!("a column is of type {other}: expected strings")),
        };
        Ok(Self { rows: (0..values.len()).map(Some).collect(), values })
    }

    /// Returns the strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&str>> {
        self.rows.iter().map(|row| row.and_then(|row| self.values[row].as_deref()))
    }
}
