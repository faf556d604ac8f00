//! Replacement policies that are classes of Python.

use std::sync::Arc;

use bimetal::library::{OutsidePolicies, OutsidePolicy};
use bimetal_core::block::Key;
use pyo3::prelude::*;

use crate::watch::Watcher;

/// Object of a class with the methods `insert`, `touch`, `remove` and `order`.
struct Policy {
    insert: Py<PyAny>,
    touch: Py<PyAny>,
    remove: Py<PyAny>,
    order: Py<PyAny>,
    watcher: Arc<Watcher>,
}

/// Returns the maker of policies of the class `class`. An exception of a policy ends the command.
pub fn of_class(name: String, class: Py<PyAny>, watcher: &Arc<Watcher>) -> OutsidePolicies {
    let watcher = Arc::clone(watcher);
    let make = move |slots: u32| -> Box<dyn OutsidePolicy> {
        let made = Python::attach(|py| {
            let object = class.bind(py).call1((slots,))?;
            let method = |name: &str| object.getattr(name).map(Bound::unbind);
            let watcher = Arc::clone(&watcher);
            let (insert, touch) = (method("insert")?, method("touch")?);
            Ok(Policy { insert, touch, remove: method("remove")?, order: method("order")?, watcher })
        });
        Box::new(made.unwrap_or_else(|exception| watcher.stop_by(exception)))
    };
    OutsidePolicies { name, make: Arc::new(make) }
}

impl Policy {
    fn call(&self, method: &Py<PyAny>, key: Key) {
        if let Err(exception) = Python::attach(|py| method.call1(py, (key.0,)).map(drop)) {
            self.watcher.stop_by(exception);
        }
    }
}

impl OutsidePolicy for Policy {
    fn insert(&mut self, key: Key) {
        self.call(&self.insert, key);
    }

    fn touch(&mut self, key: Key) {
        self.call(&self.touch, key);
    }

    fn remove(&mut self, key: Key) {
        self.call(&self.remove, key);
    }

    fn order(&mut self, offer: &mut dyn FnMut(Key) -> bool) {
        let offered = Python::attach(|py| {
            for block in self.order.bind(py).call0()?.try_iter()? {
                if !offer(Key(block?.extract()?)) {
                    break;
                }
            }
            Ok(())
        });
        offered.unwrap_or_else(|exception| self.watcher.stop_by(exception));
    }
}
