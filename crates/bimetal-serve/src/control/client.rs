//! Client of the control socket: commands send requests to a running server.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::message::{Reply, Request};

/// Maximum time without a byte from a server.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum time for a status, which needs no drive.
const STATUS_PATIENCE: Duration = Duration::from_secs(10);
/// Maximum size of a reply: a longer reply is not from a server of this program.
const REPLY_BYTES_MAX: u64 = 64 << 20;

/// Reasons for which a server gives no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The socket refuses the connection, or fails.
    #[error("control socket {}: {error}", path.display())]
    Io {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// A process listens at the socket and does not answer.
    #[error(
        "control socket {}: no answer of the server for {} s: it was stopped (`kill -CONT` continues it), or the \
         machine is overloaded", path.display(), waited.as_secs()
    )]
    Silent {
        /// Path of the socket.
        path: PathBuf,
        /// Time without an answer.
        waited: Duration,
    },
    /// The server ended before it answered.
    #[error("control socket {}: the server ended before it answered: see `bimetal status`", path.display())]
    Ended {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The received bytes are not a valid answer.
    #[error("control socket {}: invalid answer ({error}): the server may be of another version", path.display())]
    Answer {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the parser.
        error: serde_json::Error,
    },
}

/// Connection to a server.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
    patience: Duration,
}

impl Client {
    /// Connects to the server at `path`. Returns `None` if no server listens at this path.
    ///
    /// # Errors
    /// Fails if the socket cannot be used although a server may listen at the socket.
    pub fn connect(path: &Path) -> Result<Option<Self>, ClientError> {
        match UnixStream::connect(path) {
            Ok(stream) => {
                let stream = BufReader::new(stream);
                Ok(Some(Self { path: path.to_owned(), stream, patience: PATIENCE }))
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                Ok(None)
            }
            Err(error) => Err(ClientError::Io { path: path.to_owned(), error }),
        }
    }

    /// Sends a request and returns the last reply; earlier replies go to `progress`.
    ///
    /// # Errors
    /// Fails if the connection fails or ends. A refusal by the server is an answer, and not an
    /// error.
    pub fn ask(&mut self, request: &Request, mut progress: impl FnMut(&Reply)) -> Result<Reply, ClientError> {
        let mut line = serde_json::to_vec(request).map_err(|error| self.no_answer(error))?;
        line.push(b'\n');
        self.patience = if matches!(request, Request::Status {}) { STATUS_PATIENCE } else { PATIENCE };
        let limited = self.stream.get_ref().set_read_timeout(Some(self.patience));
        limited.map_err(|error| self.failed(error))?;
        self.stream.get_mut().write_all(&line).map_err(|error| self.failed(error))?;
        loop {
            let reply = self.next()?;
            if reply.is_last() {
                return Ok(reply);
            }
            progress(&reply);
        }
    }

    fn next(&mut self) -> Result<Reply, ClientError> {
        let mut line = Vec::new();
        let mut bounded = io::Read::take(&mut self.stream, REPLY_BYTES_MAX);
        match bounded.read_until(b'\n', &mut line) {
            Ok(_) if line.ends_with(b"\n") => serde_json::from_slice(&line).map_err(|error| self.no_answer(error)),
            Ok(_) => Err(ClientError::Ended { path: self.path.clone() }),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: io::Error) -> ClientError {
        let path = self.path.clone();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ClientError::Silent { path, waited: self.patience },
            // The server closed the socket before it read the request.
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => ClientError::Ended { path },
            _ => ClientError::Io { path, error },
        }
    }

    fn no_answer(&self, error: serde_json::Error) -> ClientError {
        ClientError::Answer { path: self.path.clone(), error }
    }
}
