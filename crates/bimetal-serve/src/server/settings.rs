//! Changes of settings while serving: the engine applies a value at once; then the labels get it,
//! so that it lasts.

use std::sync::PoisonError;

use bimetal_core::settings::Settings;
use bimetal_volumes::settings::{check_change, keep};

use super::Server;
use super::control::Watch;
use crate::control::message::{Done, Reply};

impl Server {
    pub(super) fn hear_set(&mut self, key: usize, name: &str, value: &str) -> Option<Reply> {
        // All visitors that wait for a setting get one reply, and two threads would write values to
        // the labels in any order.
        if self.control.storing_setting.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Some(Reply::error("another setting is being stored: try again".to_owned()));
        }
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
        let name = about.own_name(name).to_owned();
        if about.take_rating(&name, value)? {
            return Ok(name);
        }
        let of_scheme = about.settings.iter().filter(|(key, _)| !key.contains('.'));
        let present = of_scheme.map(|(key, value)| (key.as_str(), value.as_str()));
        let (scheme, parameters) = (about.scheme.name, about.scheme.parameters);
        let before = Settings::new(scheme, parameters, present.clone()).map_err(|error| error.to_string())?;
        let changed = present.chain([(name.as_str(), value)]);
        let after = Settings::new(scheme, parameters, changed).map_err(|error| error.to_string())?;
        let made = (about.scheme.build)(&after, &self.volume.view().layout).map_err(|error| error.to_string())?;
        // A volume that is served has no value that only a simulation follows.
        let differs =
            check_change((&name, value), (&before, 0), (&after, &*made)).map_err(|error| error.to_string())?;
        if differs {
            self.volume.set(self.now, &name, &after).map_err(|error| error.to_string())?;
        }
        about.settings.insert(name.clone(), value.to_owned());
        Ok(name)
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
            server.control.storing_setting = None;
            let reply = match kept {
                Ok(()) => Reply::Done(Done::new(message)),
                Err(error) => Reply::error(format!("{message}, and ends with the server: {error}")),
            };
            server.tell_watchers(Watch::Set, &reply);
        });
        match begun {
            Ok(thread) => {
                self.control.storing_setting = Some(thread);
                None
            }
            Err(error) => Some(format!("{in_force}, and ends with the server: no thread to write labels: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::block::BlockSize;
    use bimetal_core::label::{Format, Label, MemberLabel, Uuid, usable};
    use bimetal_core::layout::{MemberId, Role};
    use bimetal_core::units::Bytes;
    use bimetal_volumes::former_settings::take_former_values;
    use bimetal_volumes::settings::needs_clean;

    use super::super::testing::Bench;
    use crate::control::message::Reply;

    /// Returns the label of a volume that is not served.
    fn label(scheme: &str) -> Label {
        let member = |(role, mib): (Role, u64)| MemberLabel {
            uuid: Uuid([mib as u8; 16]),
            role,
            size: usable(Bytes::from_mib(mib)),
            emulates: None,
            seen_in: 1,
            carried: 1,
            last_seen: 0,
        };
        Label {
            volume: Uuid([7; 16]),
            name: "disk".to_owned(),
            index: MemberId(0),
            members: [(Role::Ssd, 64), (Role::Hdd, 128)].map(member).to_vec(),
            scheme: scheme.to_owned(),
            settings: Vec::new(),
            block: BlockSize::default(),
            units: Vec::new(),
            guard: None,
            resizing: false,
            format: Format::NEWEST,
            second_tail: true,
            compatible: 0,
            generation: 1,
            writing: 1,
            written: 0,
            created_by: "test".to_owned(),
        }
    }

    /// Regression: a volume that was not served took `wear_levelling=static`, and a served volume
    /// refused it as a setting of simulations. The messages about `adaptive` differed, too.
    #[test]
    fn served_and_stopped_volumes_answer_alike() {
        let refused = Some("only a simulation can follow this setting");
        for (scheme, key, value, expected) in [
            ("mixedstore", "wear_levelling", "static", None),
            ("mixedstore", "wear_levelling", "adaptive", refused),
            ("mixedstore", "wear_levelling", "none", Some("expected one of")),
            ("mixedstore", "idle_periods", "detected", None),
            ("mixedstore", "idle_periods", "profiled", refused),
            ("mixedstore", "no_parameter", "1", Some("has no parameter")),
            ("griffin", "migration", "timed", None),
            ("griffin", "migration", "instant", refused),
            ("griffin", "timeout", "30s", None),
            ("griffin", "timeout", "0s", Some("expected at least")),
            ("smart-response", "replacement", "lru", None),
            ("smart-response", "replacement", "belady", refused),
            ("dataplex", "replacement", "belady", refused),
            ("hybrid-disk", "in_place", "off", None),
            ("hybrid-disk", "in_place", "on", refused),
            ("combo", "moves", "timed", None),
        ] {
            let mut bench = Bench::new(scheme);
            let served = bench.server.take_setting(key, value).map(drop);
            let stopped = needs_clean(&label(scheme), key, value).map_err(|error| error.to_string());
            let setting = format!("{scheme}: {key}={value}");
            assert_eq!(served, stopped.map(drop), "{setting}");
            match (served, expected) {
                (Ok(()), expected) => assert_eq!(expected, None, "{setting}"),
                (Err(message), Some(expected)) => assert!(message.contains(expected), "{setting}: {message}"),
                (Err(message), None) => panic!("{setting}: {message}"),
            }
            if expected == refused {
                let message = bench.server.take_setting(key, value).expect_err("refused again");
                assert!(message.starts_with(&format!("{key}={value}: ")), "the setting: {message}");
                assert!(message.contains(&format!("with {key}={value} ")), "the reason: {message}");
                assert!(message.contains(": expected "), "the remedy: {message}");
            }
        }
    }

    /// Regression: of two settings at once, each visitor got the answer of whichever label was
    /// written first, and the label could keep the older value.
    #[test]
    fn setting_is_refused_while_another_is_being_stored() {
        let mut bench = Bench::new("griffin");
        let (end, wait) = std::sync::mpsc::channel::<()>();
        bench.server.control.storing_setting = Some(std::thread::spawn(move || {
            let _ = wait.recv();
        }));
        let refused = bench.server.hear_set(0, "timeout", "30s");
        assert!(matches!(refused, Some(Reply::Error { message }) if message.contains("try again")));
        let about = bench.server.control.about.as_ref().expect("the bench has settings");
        assert!(!about.settings.iter().any(|(key, value)| key == "timeout" && value == "30s"));
        drop(end);
        bench.server.control.storing_setting.take().map(std::thread::JoinHandle::join);
        let answer = bench.server.hear_set(0, "timeout", "30s");
        assert!(matches!(answer, Some(Reply::Error { message }) if message.contains("timeout=30s is in force")));
    }

    /// Regression: a volume whose label had `window=0`, which a former build took, could neither be
    /// opened nor get another value.
    #[test]
    fn label_of_a_former_build_is_read_and_no_new_one_is_made() {
        for (scheme, key, value) in
            [("griffin", "migration_size", "0MiB"), ("mixedstore", "window", "0"), ("mixedstore", "window", "1")]
        {
            let mut former = label(scheme);
            former.settings = vec![(key.to_owned(), value.to_owned())];
            assert!(needs_clean(&former, "move_rate", "1MiB").is_err(), "{scheme}: {key}={value} is refused");
            take_former_values(&mut former);
            needs_clean(&former, "move_rate", "1MiB").unwrap_or_else(|error| panic!("{scheme}: {error}"));
            assert!(needs_clean(&former, key, value).is_err(), "{scheme}: {key}={value} is refused anew");
            let others = former.settings.clone();
            take_former_values(&mut former);
            assert_eq!(former.settings, others);
        }
        let mut sound = label("griffin");
        sound.settings = vec![("migration_size".to_owned(), "off".to_owned()), ("window".to_owned(), "0".to_owned())];
        let before = sound.clone();
        take_former_values(&mut sound);
        assert_eq!(sound, before);
    }

    /// Regression: a served volume refused the value that it has, if the parameter cannot change
    /// while the volume is served.
    #[test]
    fn served_volume_takes_the_value_that_it_has() {
        let mut bench = Bench::new("smart-response");
        assert!(bench.server.take_setting("mode", "enhanced").is_ok());
        let refused = bench.server.take_setting("mode", "maximized").expect_err("refused");
        assert!(refused.contains("cannot change while the volume is served"), "{refused}");
    }
}
