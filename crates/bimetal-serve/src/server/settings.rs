//! Changes of settings while serving: the engine applies a value at once; then the labels get it,
//! so that it lasts.

use std::sync::PoisonError;

use bimetal_core::settings::Settings;
use bimetal_volumes::settings::keep;

use super::Server;
use super::control::Watch;
use crate::control::message::{Done, Reply};

impl Server {
    pub(super) fn hear_set(&mut self, key: usize, name: &str, value: &str) -> Option<Reply> {
        match self.take_setting(name, value) {
            Err(message) => Some(Reply::Error { message }),
            Ok(name) => {
                self.watch(key, Watch::Set);
                self.keep_setting(name, value.to_owned()).map(Reply::error)
            }
        }
    }

    /// Applies a value in the engine. Returns the parameter's own name.
    fn take_setting(&mut self, name: &str, value: &str) -> Result<String, String> {
        let Some(about) = &mut self.control.about else {
            return Err("this server does not know its settings".to_owned());
        };
        let name = name.strip_prefix(about.scheme.name).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name);
        if about.take_rating(name, value)? {
            return Ok(name.to_owned());
        }
        if name.contains('.') {
            return Err(format!("{name} is a setting of an emulated drive: expected it at `bimetal create`"));
        }
        let others = about.settings.iter().filter(|(other, _)| *other != name && !other.contains('.'));
        let all = others.map(|(key, value)| (key.as_str(), value.as_str())).chain([(name, value)]);
        let settings =
            Settings::new(about.scheme.name, about.scheme.parameters, all).map_err(|error| error.to_string())?;
        let ignored =
            about.scheme.parameters.iter().find(|parameter| parameter.name == name).and_then(|it| it.simulated);
        let built = (about.scheme.build)(&settings, &self.volume.view().layout).map_err(|error| error.to_string())?;
        if let Some(reason) = ignored.or_else(|| built.why_only_simulated()) {
            return Err(format!("{name}={value}: only a simulation can do that: {reason}"));
        }
        self.volume.set(self.now, name, &settings).map_err(|error| error.to_string())?;
        about.settings.insert(name.to_owned(), value.to_owned());
        Ok(name.to_owned())
    }

    /// Writes a value to the labels. Returns a message if the writing cannot begin.
    fn keep_setting(&mut self, name: String, value: String) -> Option<String> {
        let in_force = format!("{name}={value} is in force");
        let Some(held) = self.control.held.clone() else {
            return Some(format!("{in_force}, but this server has no labels to store it: it ends with the server"));
        };
        let work = move || {
            let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
            keep(&mut held, &name, &value)
        };
        let message = in_force.clone();
        let begun = self.outside(work, move |server, kept| {
            let reply = match kept {
                Ok(()) => Reply::Done(Done::new(message)),
                Err(error) => Reply::error(format!("{message}, and ends with the server: {error}")),
            };
            server.tell_watchers(Watch::Set, &reply);
        });
        begun.err().map(|error| format!("{in_force}, and ends with the server: no thread to write labels: {error}"))
    }
}
