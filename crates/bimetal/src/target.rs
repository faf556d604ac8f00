//! A live volume, as a command finds the volume: with a running server, or stopped.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bimetal_core::label::{Guard, Label, check_name};
use bimetal_serve::control::client::{Client, ClientError};
use bimetal_serve::control::message::{Reply, Request};
use bimetal_serve::control::socket_of;
use bimetal_serve::server::{Endpoint, Server, ServerOptions, Summary};
use bimetal_volumes::about::About;
use bimetal_volumes::attach::{Attached, Options, attach};
use bimetal_volumes::directories;
use bimetal_volumes::find::{Located, find, is_path};
use bimetal_volumes::held::Held;
use bimetal_volumes::status::Progress as Step;

use crate::error::Error;
use crate::output::{note, tell};
use crate::progress::Progress;

/// See the [module](self).
pub(crate) enum Target {
    /// The server of the volume answers.
    Served(Client),
    /// No server answers; the labels on the drives describe the volume.
    Stopped(Box<Located>),
}

impl Target {
    /// Finds the volume with this name, or with a drive at this path.
    pub(crate) fn find(volume: &str) -> Result<Self, Error> {
        let is_name = !is_path(volume) && check_name(volume).is_ok();
        if is_name && let Some(client) = Client::connect(&socket_of(volume))? {
            return Ok(Self::Served(client));
        }
        let located = find(volume)?;
        match Client::connect(&socket_of(&located.assembly.label.name))? {
            Some(mut client) => {
                refuse_other_volume(&mut client, &located.assembly.label, volume)?;
                Ok(Self::Served(client))
            }
            None => Ok(Self::Stopped(Box::new(located))),
        }
    }

    /// Returns the connection to the server, for a request that only a server can answer.
    pub(crate) fn served(self, what: &str) -> Result<Client, Error> {
        match self {
            Self::Served(client) => Ok(client),
            Self::Stopped(located) => {
                let name = &located.assembly.label.name;
                let message =
                    format!("volume '{name}' is not being served, so {what}: start it with `bimetal serve {name}`");
                Err(Error::new(message))
            }
        }
    }
}

/// Refuses the server of another volume that has the name of the volume with this `label`: sockets
/// are named after volumes. `volume` is the argument of the user.
fn refuse_other_volume(client: &mut Client, label: &Label, volume: &str) -> Result<(), Error> {
    let (name, uuid) = (&label.name, label.volume.to_string());
    match client.ask(&Request::Status {}, |_| ()) {
        Ok(Reply::Status { status }) => match status.uuid.filter(|served| *served != uuid) {
            Some(served) => Err(Error::new(format!(
                "{volume} belongs to volume '{name}' with the UUID {uuid}, and another volume of this name is being \
                 served, with the UUID {served}: stop that server first"
            ))),
            None => Ok(()),
        },
        Ok(Reply::Error { message }) => Err(Error::new(message)),
        Ok(other) => Err(Error::new(format!("unexpected answer of the server: {other:?}"))),
        // A server that is ending may close its socket; the next request reports it.
        Err(ClientError::Ended { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the directory with the sockets of running servers, and makes the directory if it is
/// missing.
pub(crate) fn run_time() -> Result<PathBuf, Error> {
    let directory = directories::run_time();
    match directories::make(&directory) {
        Ok(()) => Ok(directory),
        Err(error) => Err(Error::new(format!("cannot make the directory {}: {error}", directory.display()))),
    }
}

/// Opens the server's control socket at the path where commands look for it.
pub(crate) fn control(server: &mut Server, located: &Located, held: Held) -> Result<Arc<Mutex<Held>>, Error> {
    let label = held.label().clone();
    run_time()?;
    let about = About::of(&label, located)
        .ok_or_else(|| Error::new(format!("volume '{}': its scheme '{}' is not known", label.name, label.scheme)))?;
    let held = Arc::new(Mutex::new(held));
    server.control(&Endpoint::Unix(socket_of(&label.name)), about, Some(Arc::clone(&held)))?;
    Ok(held)
}

/// Ends the use of the drives after their server has ended. After a drain of a guarded volume, the
/// function lowers the guard and returns a message for the user: the home drive becomes a plain
/// disk. If no guarded volume was drained, it closes the drives, provided the server ended cleanly.
pub(crate) fn let_go(held: &Mutex<Held>, summary: &Summary) -> Result<Option<String>, Error> {
    if !summary.clean {
        // A thread may hold the labels for a drive that does not answer.
        return Ok(None);
    }
    // The lock is kept until everything is written.
    let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
    if !summary.drained || held.label().guard.is_none() {
        held.close()?;
        return Ok(None);
    }
    held.lower_guard()?;
    if let Some(text) = held.copies_that_differed() {
        note(text);
    }
    let guarded = held.label().guard.map(|(member, _)| held.label().member_name(member));
    Ok(guarded.map(|member| format!("{member} is a plain disk now: its content can be used without bimetal")))
}

/// Tells that the beginning of the home drive is not back in its place, after a drain that was to
/// make it a plain disk; `None` if it is.
pub(crate) fn what_is_not_plain(label: &Label) -> Option<String> {
    let Some((member, Guard::Up)) = label.guard else { return None };
    Some(format!(
        "every block is home, but {} is no plain disk: its first MiB is not back in its place. The server has told \
         why; run `bimetal status {}`, then `bimetal drain {} --detach` again",
        label.member_name(member),
        label.name,
        label.name
    ))
}

/// Starts a server that handles only `request`, for a stopped volume, and returns the reply.
pub(crate) fn serve_for(located: &Located, options: Options, request: &Request) -> Result<Reply, Error> {
    let name = &located.assembly.label.name;
    let mut progress: Option<Progress> = None;
    let attached = attach(located, options, |done, total| {
        progress.get_or_insert_with(|| Progress::new(Some(total.0), "bytes")).set(done.0);
    });
    drop(progress);
    let Attached { volume, drives, held } = attached?;
    let mut server =
        Server::new(volume, drives, ServerOptions { names: vec![name.clone()], ..ServerOptions::default() })?;
    let held = control(&mut server, located, held)?;
    let handle = server.handle();
    let thread = std::thread::spawn(move || server.run());
    let answer = match Client::connect(&socket_of(name)) {
        Ok(Some(mut client)) => ask(&mut client, request),
        Ok(None) => Err(Error::new(format!("the server of '{name}' ended before it got the request"))),
        Err(error) => Err(error.into()),
    };
    // After a successful drain the server ends by itself, and a second stop request would abort its
    // shutdown.
    let ends = answer.is_ok() && matches!(request, Request::Drain { detach: true, .. });
    if !ends {
        // The server may have been interrupted meanwhile, so the result is ignored.
        let _ = handle.stop();
    }
    let ended = thread.join().map_err(|_| Error::new(format!("the server of '{name}' crashed: please report this")))?;
    if let Some(message) = let_go(&held, &ended?)? {
        note(message);
    }
    // A thread may hold the labels for a drive that does not answer: then the server did not end
    // well, and has told why.
    let left = held.try_lock().ok().and_then(|held| what_is_not_plain(held.label()));
    if let Some(left) = left.filter(|_| ends) {
        return Err(Error::new(left));
    }
    answer
}

/// Sends a request to a server and shows its progress. Returns the server's last reply; an error
/// reply becomes an error.
pub(crate) fn ask(client: &mut Client, request: &Request) -> Result<Reply, Error> {
    let mut bar: Option<Progress> = None;
    let mut trouble = None;
    let reply = client.ask(request, |reply| {
        let Reply::Progress(Step { done_bytes, left_bytes, trouble: now, .. }) = reply else { return };
        bar.get_or_insert_with(|| Progress::new(Some(done_bytes + left_bytes), "bytes")).set(*done_bytes);
        if now.is_some() && *now != trouble {
            note(now.as_deref().unwrap_or_default());
        }
        trouble.clone_from(now);
    });
    drop(bar);
    match reply? {
        Reply::Error { message } => Err(Error::new(message)),
        Reply::No { message } => {
            tell(&message);
            Err(Error::No)
        }
        reply => Ok(reply),
    }
}
