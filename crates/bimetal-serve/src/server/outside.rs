//! Work outside the loop: calls that may block (on files, labels) run on their own thread, which
//! has no access to the server. The result is applied inside the loop, when its message is read.

use std::io;
use std::thread::{Builder, JoinHandle};

use super::Server;
use super::handle::Letter;

impl Server {
    /// Runs `work` on another thread and then `apply` with its result inside the loop.
    pub(super) fn outside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        apply: impl FnOnce(&mut Server, T) + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let handle = self.handle();
        Builder::new().name("bimetal-outside".to_owned()).spawn(move || {
            let given = work();
            // A server that has stopped meanwhile needs no result.
            let _ = handle.post(Letter::Apply(Box::new(move |server| apply(server, given))));
        })
    }
}
