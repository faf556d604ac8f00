//! A live volume as a command finds it: served by somebody who can be asked, or by nobody.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bimetal_core::label::check_name;
use bimetal_live::attach::{Attached, Options, attach};
use bimetal_live::control::about::About;
use bimetal_live::control::client::Client;
use bimetal_live::control::message::{Progress as Step, Reply, Request};
use bimetal_live::control::socket_of;
use bimetal_live::member::directories;
use bimetal_live::member::find::{Located, find};
use bimetal_live::member::held::Held;
use bimetal_live::server::{Endpoint, Server, ServerOptions, Summary};

use crate::error::Error;
use crate::output::note;
use crate::progress::Progress;

/// See the [module](self).
pub(crate) enum Target {
    /// Its server answers.
    Served(Client),
    /// Nobody answers; this is what its labels say.
    Stopped(Box<Located>),
}

impl Target {
    /// The volume of this name, or with a drive at this path.
    pub(crate) fn find(volume: &str) -> Result<Self, Error> {
        let is_name = !Path::new(volume).exists() && check_name(volume).is_ok();
        if is_name && let Some(client) = Client::connect(&socket_of(volume))? {
            return Ok(Self::Served(client));
        }
        let located = find(volume)?;
        match Client::connect(&socket_of(&located.assembly.label.name))? {
            Some(client) => Ok(Self::Served(client)),
            None => Ok(Self::Stopped(Box::new(located))),
        }
    }

    /// The server, for what only a server can do.
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

/// Where sockets of running servers are; made if it is not there.
pub(crate) fn run_time() -> Result<PathBuf, Error> {
    let directory = directories::run_time();
    match directories::make(&directory) {
        Ok(()) => Ok(directory),
        Err(error) => Err(Error::new(format!("cannot make the directory {}: {error}", directory.display()))),
    }
}

/// Lets a server be asked about itself where commands look for it.
pub(crate) fn control(server: &mut Server, located: &Located, held: Held) -> Result<Arc<Mutex<Held>>, Error> {
    let label = held.label().clone();
    run_time()?;
    let about = About::of(&label, located)
        .ok_or_else(|| Error::new(format!("volume '{}': its scheme '{}' is not known", label.name, label.scheme)))?;
    let held = Arc::new(Mutex::new(held));
    server.control(&Endpoint::Unix(socket_of(&label.name)), about, Some(Arc::clone(&held)))?;
    Ok(held)
}

/// Lets go of the drives of a server that has ended. After a drain the home drive becomes a plain one; says so.
pub(crate) fn let_go(held: &Mutex<Held>, summary: &Summary) -> Result<Option<String>, Error> {
    // Held until nothing is written any more.
    let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
    if !summary.drained || held.label().guard.is_none() {
        if summary.clean {
            held.close()?;
        }
        return Ok(None);
    }
    held.lower_guard()?;
    let guarded = held.label().guard.map(|(member, _)| held.label().member_name(member));
    Ok(guarded.map(|member| format!("{member} is a plain disk now: what lies on it can be used without bimetal")))
}

/// Starts a server that only does what `request` asks, for a volume that nobody serves, and gives its answer.
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
        Ok(None) => Err(Error::new(format!("the server of '{name}' went away before it was asked"))),
        Err(error) => Err(error.into()),
    };
    // After a drain it ends by itself, and a second word would make it end at once.
    let ends = answer.is_ok() && matches!(request, Request::Drain { detach: true, .. });
    if !ends {
        // It may have been interrupted meanwhile.
        let _ = handle.stop();
    }
    let ended = thread.join().map_err(|_| Error::new(format!("the server of '{name}' broke: please report this")))?;
    if let Some(message) = let_go(&held, &ended?)? {
        note(message);
    }
    answer
}

/// Asks a server and shows how far it is. What it says at the end is given; what it cannot do is an error.
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
        reply => Ok(reply),
    }
}
