//! The native part of the Python package `bimetal`: traces in memory, the commands of the program
//! as functions, and tables in the columns of Arrow. `bimetal/__init__.py` makes the public
//! interface from this module.

mod columns;
mod director;
mod frame;
mod policy;
mod trace;
mod watch;

use std::sync::Arc;

use bimetal::in_memory::InMemory;
use bimetal::library::{self, Outside};
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::frame::{Frame, refused};
use crate::trace::Trace;
use crate::watch::Watcher;

create_exception!(bimetal, Error, PyValueError, "Input or configuration that is wrong, in the program's words.");

/// Runs a command over traces in memory, and returns its JSON document; and the CSV table of
/// `compare`. `policies` has names and classes of replacement policies; `director` has the class of
/// a director.
#[pyfunction]
#[pyo3(signature = (arguments, traces, progress=None, policies=Vec::new(), director=None))]
fn document(
    py: Python<'_>,
    arguments: Vec<String>,
    traces: Vec<PyRef<'_, Trace>>,
    progress: Option<Py<PyAny>>,
    policies: Vec<(String, Py<PyAny>)>,
    director: Option<(String, Py<PyAny>)>,
) -> PyResult<(String, Option<String>)> {
    let watcher = Arc::new(Watcher::default());
    let traces: Vec<InMemory> = traces.iter().map(|trace| trace.in_memory(&watcher)).collect();
    let policies = policies.into_iter().map(|(name, class)| policy::of_class(name, class, &watcher)).collect();
    let director = director.map(|(name, class)| director::of_class(name, class, &watcher));
    let outside = Outside { policies, director };
    let of_thread = Arc::clone(&watcher);
    let work = move || {
        let answer = library::document(&arguments, &traces, outside, &*of_thread);
        answer.map(|answer| (answer.json, answer.csv)).map_err(|error| error.to_string())
    };
    watch::run(py, &watcher, progress.as_ref(), work)?.map_err(refused)
}

/// Runs the command line of the program, and returns its exit status.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| bimetal::cli::main_with(arguments))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Error", module.py().get_type::<Error>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Trace>()?;
    module.add_class::<Frame>()?;
    module.add_class::<director::Request>()?;
    module.add_function(wrap_pyfunction!(document, module)?)?;
    module.add_function(wrap_pyfunction!(main, module)?)
}
