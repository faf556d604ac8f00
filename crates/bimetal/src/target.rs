//! A live volume as a command finds it: served by somebody who can be asked, or by nobody.

use std::path::Path;

use bimetal_core::label::check_name;
use bimetal_live::control::client::Client;
use bimetal_live::control::message::{Progress as Step, Reply, Request};
use bimetal_live::control::socket_of;
use bimetal_live::member::find::{Located, find};

use crate::error::Error;
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
                Err(Error::new(format!(
                    "volume '{name}' is not being served, so {what}: start it with `bimetal serve {name}`"
                )))
            }
        }
    }
}

/// Asks a server and shows how far it is. What it says at the end is given; what it cannot do is an error.
pub(crate) fn ask(client: &mut Client, request: &Request) -> Result<Reply, Error> {
    let mut bar: Option<Progress> = None;
    let mut trouble = None;
    let reply = client.ask(request, |reply| {
        let Reply::Progress(Step { done_bytes, left_bytes, trouble: now, .. }) = reply else { return };
        bar.get_or_insert_with(|| Progress::new(Some(done_bytes + left_bytes), "bytes")).set(*done_bytes);
        if now.is_some() && *now != trouble {
            crate::output::note(now.as_deref().unwrap_or_default());
        }
        trouble.clone_from(now);
    });
    drop(bar);
    match reply? {
        Reply::Error { message } => Err(Error::new(message)),
        reply => Ok(reply),
    }
}
