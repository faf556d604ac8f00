//! What may wait (files, labels) is done outside the loop, on a thread of its own that knows nothing of the server; what it
//! gives is applied inside, when its letter is read.

use std::io;
use std::thread::{Builder, JoinHandle};

use super::Server;
use super::handle::Letter;

impl Server {
    /// Does `work` outside and then `apply`s what it gave.
    pub(super) fn outside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        apply: impl FnOnce(&mut Server, T) + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let handle = self.handle();
        Builder::new().name("bimetal-outside".to_owned()).spawn(move || {
            let given = work();
            // A server that has stopped meanwhile has no use for it.
            let _ = handle.post(Letter::Apply(Box::new(move |server| apply(server, given))));
        })
    }
}
