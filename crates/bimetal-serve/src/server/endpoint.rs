//! Endpoints for clients: a Unix socket, or TCP.

use std::fmt;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::tls::Credentials;
use rustix::fs::{Gid, Mode, chmod, chown, fchmod};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_keepalive, set_socket_send_buffer_size, set_tcp_nodelay};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
};

/// Maximum of connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// Maximum length of a socket's path, a limit of the system.
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Size of a socket's send buffer.
const SEND_BUFFER_BYTES: usize = 1 << 20;

/// Encryption of TCP, if TCP is served.
#[derive(Clone, Default, Debug)]
pub enum Tcp {
    /// TCP is not served.
    #[default]
    Refused,
    /// TCP without encryption, on the loopback interface.
    Plain,
    /// TCP with encryption, on any interface.
    Tls(Credentials),
}

/// Address to listen at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// Unix socket, `unix:PATH`: only its owner may connect.
    Unix(PathBuf),
    /// TCP, `tcp:HOST:PORT`; port 0 chooses a free port.
    Tcp(String),
}

/// Permissions of a Unix socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketAccess {
    /// Mode of the socket's file.
    pub mode: u32,
    /// Group of the socket's file; `None` for the group of the process.
    pub group: Option<u32>,
}

impl Default for SocketAccess {
    /// Returns permissions for the owner alone.
    fn default() -> Self {
        Self { mode: 0o600, group: None }
    }
}

/// Reasons for which an endpoint is not possible.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// Metrics need an address of this machine.
    #[error("'{0}' is not an address for metrics: expected HOST:PORT of this machine, like 127.0.0.1:9100")]
    Metrics(String),
    /// The path of a socket is too long for the system.
    #[error("'{path}' has {} bytes, and the path of a socket has at most {SOCKET_PATH_BYTES_MAX}: choose a shorter \
             path (sockets without a given path lie in $XDG_RUNTIME_DIR)", .path.len())]
    TooLong {
        /// Path of the socket.
        path: String,
    },
    /// The directory of the path does not exist.
    #[error("the directory of '{0}' does not exist: make it, or choose another path")]
    NoDirectory(String),
    /// The text has neither form of an endpoint.
    #[error("'{0}' is not an address for clients: expected unix:PATH or tcp:HOST:PORT")]
    Syntax(String),
    /// Another server listens at the endpoint.
    #[error("a server listens at '{0}' already: stop that server, or choose another path")]
    InUse(String),
    /// The path names a file that is not a socket.
    #[error("'{0}' exists and is not a socket: choose another path")]
    InTheWay(String),
    /// TCP without encryption can be read by others in the network.
    #[error(
        "'{0}' would be served without encryption: give certificates with --tls-certificates, allow it with \
         --insecure-tcp, or use a Unix socket"
    )]
    Insecure(String),
    /// TCP without encryption would be open to other machines.
    #[error("'{0}' would be served to other machines without encryption: give certificates with --tls-certificates")]
    InsecureAbroad(String),
    /// Without encryption, only clients on this machine may connect.
    #[error(
        "'{address}' is not an address of this machine alone: without encryption expected 127.0.0.1, ::1 or \
             localhost"
    )]
    NotLoopback {
        /// Address that was given.
        address: String,
    },
    /// The system refuses.
    #[error("cannot listen at '{place}': {error}")]
    System {
        /// Endpoint that was given.
        place: String,
        /// Error of the system.
        error: std::io::Error,
    },
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Endpoint::Unix(path.into())),
            Some(("tcp", address))
                if address
                    .rsplit_once(':')
                    .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) =>
            {
                Ok(Endpoint::Tcp(address.into()))
            }
            _ => Err(EndpointError::Syntax(text.into())),
        }
    }
}

impl Endpoint {
    /// Returns the endpoint for metrics at `HOST:PORT`.
    ///
    /// # Errors
    /// Fails if the address is not of this form.
    pub fn of_metrics(address: &str) -> Result<Self, EndpointError> {
        format!("tcp:{address}").parse().map_err(|_| EndpointError::Metrics(address.to_owned()))
    }

    /// Checks that the endpoint can be listened at, before the endpoint requires changes.
    ///
    /// # Errors
    /// Fails for the reasons of [`EndpointError`].
    pub fn check(&self, tcp: &Tcp) -> Result<(), EndpointError> {
        Listener::bind(self, tcp).map(drop)
    }

    /// Checks an endpoint at which the server of the same volume may listen already.
    ///
    /// # Errors
    /// Fails if no server could ever listen at the endpoint.
    pub fn check_path(&self) -> Result<(), EndpointError> {
        if let Self::Unix(path) = self { check_path(path) } else { Ok(()) }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
            Endpoint::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

enum Bound {
    /// Path, with device and inode of the socket's file: only this very file is removed at the end.
    Unix { path: PathBuf, file: Option<(u64, u64)> },
    /// Host as the user named it, because a certificate may contain this name; and the address.
    Tcp { host: String, address: SocketAddr },
}

/// Socket that listens for clients.
pub(super) struct Listener {
    socket: OwnedFd,
    bound: Bound,
    tls: Option<Credentials>,
}

impl Listener {
    /// Listens at an endpoint; a Unix socket admits its owner alone.
    pub(super) fn bind(endpoint: &Endpoint, tcp: &Tcp) -> Result<Self, EndpointError> {
        Self::bind_for(endpoint, tcp, SocketAccess::default())
    }

    pub(super) fn bind_for(endpoint: &Endpoint, tcp: &Tcp, access: SocketAccess) -> Result<Self, EndpointError> {
        let system = |error: std::io::Error| EndpointError::System { place: endpoint.to_string(), error };
        let (socket, bound, tls) = match endpoint {
            Endpoint::Unix(path) => {
                check_path(path)?;
                remove_stale(path)?;
                let socket = bind_unix(path, access).map_err(|error| system(error.into()))?;
                let file = std::fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
                (socket, Bound::Unix { path: path.clone(), file }, None)
            }
            Endpoint::Tcp(place) => {
                let addresses: Vec<SocketAddr> = place.to_socket_addrs().map_err(system)?.collect();
                let is_own = addresses.iter().all(|address| address.ip().is_loopback());
                let tls = match tcp {
                    Tcp::Refused if is_own => return Err(EndpointError::Insecure(endpoint.to_string())),
                    Tcp::Refused => return Err(EndpointError::InsecureAbroad(endpoint.to_string())),
                    Tcp::Plain if !is_own => {
                        return Err(EndpointError::NotLoopback { address: place.clone() });
                    }
                    Tcp::Plain => None,
                    Tcp::Tls(credentials) => Some(credentials.clone()),
                };
                let listener = TcpListener::bind(&addresses[..]).map_err(system)?;
                listener.set_nonblocking(true).map_err(system)?;
                let host = place.rsplit_once(':').map_or(place.as_str(), |(host, _)| host).to_owned();
                let bound = Bound::Tcp { host, address: listener.local_addr().map_err(system)? };
                (listener.into(), bound, tls)
            }
        };
        Ok(Self { socket, bound, tls })
    }

    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the certificates, if connections are encrypted.
    pub(super) fn tls(&self) -> Option<&Credentials> {
        self.tls.as_ref()
    }

    /// Accepts a client, if a client waits to connect.
    pub(super) fn accept(&self) -> Result<Option<OwnedFd>, Errno> {
        match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => {
                // Replies are complete when they are sent, and a large send buffer takes a large
                // reply with one call. A failure only makes replies slower.
                let _ = set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES);
                if matches!(self.bound, Bound::Tcp { .. }) {
                    let _ = set_tcp_nodelay(&socket, true);
                    // A machine that has lost power closes no connection.
                    let _ = set_socket_keepalive(&socket, true);
                }
                Ok(Some(socket))
            }
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the address of a TCP endpoint.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        if let Bound::Tcp { address, .. } = self.bound { Some(address) } else { None }
    }

    /// Returns the endpoint, as another process of this machine names it.
    pub(super) fn place(&self) -> Endpoint {
        match &self.bound {
            Bound::Unix { path, .. } => Endpoint::Unix(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
            Bound::Tcp { host, address } => Endpoint::Tcp(format!("{host}:{}", address.port())),
        }
    }

    /// Returns the URI of an export at this endpoint.
    pub(super) fn uri(&self, export: &str) -> String {
        let export = percent_encoded(export);
        match &self.bound {
            Bound::Unix { path, .. } => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                format!("nbd+unix:///{export}?socket={}", percent_encoded(&path.display().to_string()))
            }
            Bound::Tcp { host, address } => {
                let scheme = if self.tls.is_some() { "nbds" } else { "nbd" };
                format!("{scheme}://{host}:{}/{export}", address.port())
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Bound::Unix { path, file } = &self.bound {
            let now = std::fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
            if now.is_some() && now == *file {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// Binds a Unix socket that only processes named by `access` can ever open. No client can connect
/// before the socket listens.
fn bind_unix(path: &Path, access: SocketAccess) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The file gets the mode of the socket.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    if let Some(group) = access.group {
        chown(path, None, Some(Gid::from_raw(group)))?;
    }
    if access != SocketAccess::default() {
        chmod(path, Mode::from_raw_mode(access.mode))?;
    }
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Checks a path for faults that the system would report without a reason.
fn check_path(path: &Path) -> Result<(), EndpointError> {
    let place = || path.display().to_string();
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        return Err(EndpointError::TooLong { path: place() });
    }
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    match directory {
        Some(directory) if !directory.is_dir() => Err(EndpointError::NoDirectory(place())),
        _ => Ok(()),
    }
}

/// Removes the socket file of a server that has ended.
fn remove_stale(path: &Path) -> Result<(), EndpointError> {
    use std::os::unix::fs::FileTypeExt;
    let place = || path.display().to_string();
    let system = |error: std::io::Error| EndpointError::System { place: place(), error };
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(EndpointError::InTheWay(place()));
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(|error| system(error.into()))?;
    let address = SocketAddrUnix::new(path).map_err(|error| system(error.into()))?;
    match connect(&socket, &address) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path).map_err(system),
        _ => Err(EndpointError::InUse(place())),
    }
}

/// Encodes bytes that a URI cannot contain as `%XX`.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_as_the_command_line_writes_them() {
        for text in ["unix:/run/x.sock", "tcp:127.0.0.1:10809", "tcp:[::1]:0"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        for text in ["", "unix:", "tcp:", "tcp:localhost", "tcp::10809", "tcp:localhost:http", "/run/x.sock"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }

    #[test]
    fn plain_tcp_needs_leave_and_the_loopback_interface() {
        let local = Endpoint::Tcp("127.0.0.1:0".into());
        assert!(matches!(Listener::bind(&local, &Tcp::Refused), Err(EndpointError::Insecure(_))));
        assert!(Listener::bind(&local, &Tcp::Plain).is_ok());
        let everywhere = Endpoint::Tcp("0.0.0.0:0".into());
        assert!(matches!(Listener::bind(&everywhere, &Tcp::Refused), Err(EndpointError::InsecureAbroad(_))));
        assert!(matches!(Listener::bind(&everywhere, &Tcp::Plain), Err(EndpointError::NotLoopback { .. })));
    }

    #[test]
    fn a_socket_is_its_owners_alone_and_only_a_stale_one_is_removed() {
        let path = std::env::temp_dir().join(format!("bimetal-endpoint-{}.sock", std::process::id()));
        let endpoint = Endpoint::Unix(path.clone());
        let listener = Listener::bind(&endpoint, &Tcp::Refused).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(matches!(Listener::bind(&endpoint, &Tcp::Refused), Err(EndpointError::InUse(_))));
        drop(listener);
        assert!(!path.exists(), "it is gone with its server");
        let shared = SocketAccess { mode: 0o660, group: Some(rustix::process::getegid().as_raw()) };
        let listener = Listener::bind_for(&endpoint, &Tcp::Refused, shared).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o660);
        drop(listener);

        // A killed server leaves its file behind.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(Listener::bind(&endpoint, &Tcp::Refused).unwrap());

        std::fs::write(&path, "mine").unwrap();
        assert!(matches!(Listener::bind(&endpoint, &Tcp::Refused), Err(EndpointError::InTheWay(_))));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn paths_that_no_socket_can_have_are_refused_in_words() {
        let refused = |path: &Path| Listener::bind(&Endpoint::Unix(path.to_owned()), &Tcp::Refused).err();
        let temporary = std::env::temp_dir();
        assert!(matches!(refused(&temporary.join("x".repeat(108))), Some(EndpointError::TooLong { .. })));
        assert!(matches!(refused(&temporary.join("not-there/x.sock")), Some(EndpointError::NoDirectory(_))));
    }

    #[test]
    fn uris_are_encoded() {
        assert_eq!(percent_encoded("/tmp/a b?.sock"), "/tmp/a%20b%3F.sock");
    }
}
