//! TLS: the certificates that a server presents and requires, and the encryption of one connection.
//!
//! The files have the names that nbdkit, qemu and libvirt use, so that one directory serves all of
//! them.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

use crate::nbd::Codec;

/// Maximum of plain bytes that wait to be encrypted and sent.
const BUFFER_BYTES: usize = 256 << 10;
/// Maximum of parts of replies encrypted with one call.
const PARTS_MAX: usize = 64;

/// Certificates that a server presents to its clients, and certificates that it requires of
/// clients.
#[derive(Clone, Debug)]
pub struct Credentials(Arc<ServerConfig>);

/// Reasons for which certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file cannot be read, or lacks the expected content.
    #[error("cannot read {what} from '{}': {error}; expected it there in PEM form", path.display())]
    File {
        /// Content that was expected in the file.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the reader.
        error: rustls::pki_types::pem::Error,
    },
    /// The TLS library refuses the content of the files.
    #[error("'{}' {what}: {error}", directory.display())]
    Refused {
        /// Directory of the files.
        directory: PathBuf,
        /// Content of the files.
        what: &'static str,
        /// Error of the library.
        error: String,
    },
}

impl Credentials {
    /// Reads `server-cert.pem` and `server-key.pem` of `directory`. With `verify_peer`, only
    /// clients are accepted whose certificate is signed by `ca-cert.pem` and not revoked by
    /// `ca-crl.pem`, if that file exists. Without `verify_peer`, all clients are accepted.
    ///
    /// # Errors
    /// Fails if a file is missing or invalid, or if the key does not belong to the certificate.
    pub fn read(directory: &Path, verify_peer: bool) -> Result<Self, CredentialsError> {
        let refused = |what, error: String| CredentialsError::Refused { directory: directory.to_owned(), what, error };
        let chain = certificates(directory, "server-cert.pem", "the server's certificate")?;
        let path = directory.join("server-key.pem");
        let key = PrivateKeyDer::from_pem_file(&path).map_err(|error| CredentialsError::File {
            what: "the server's key",
            path,
            error,
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| refused("cannot be used", error.to_string()))?;
        let builder = if verify_peer {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(directory, "ca-cert.pem", "the authority's certificate")? {
                roots.add(certificate).map_err(|error| refused("holds an unusable ca-cert.pem", error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .with_crls(revocations(directory)?)
                .build()
                .map_err(|error| refused("cannot be used to verify clients", error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let config = builder
            .with_single_cert(chain, key)
            .map_err(|error| refused("holds a certificate and a key that do not fit", error.to_string()))?;
        Ok(Self(Arc::new(config)))
    }
}

fn certificates(
    directory: &Path,
    name: &str,
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let path = directory.join(name);
    let read = CertificateDer::pem_file_iter(&path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(CredentialsError::File { what, path, error: rustls::pki_types::pem::Error::NoItemsFound }),
        Err(error) => Err(CredentialsError::File { what, path, error }),
    }
}

fn revocations(directory: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, CredentialsError> {
    let path = directory.join("ca-crl.pem");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let read = CertificateRevocationListDer::pem_file_iter(&path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    read.map_err(|error| CredentialsError::File { what: "revoked certificates", path, error })
}

/// Encryption of one connection.
pub(super) struct Tls {
    connection: ServerConnection,
    /// Number of bytes that are decrypted and were not taken.
    plain_bytes: usize,
}

/// Socket with the interface of the TLS library. Calls on the socket never wait.
struct Wire<'a>(&'a OwnedFd);

impl Read for Wire<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, room)?)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        Ok(sendmsg(self.0.as_fd(), slices, &mut SendAncillaryBuffer::default(), flags)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Tls {
    pub(super) fn new(credentials: &Credentials) -> Result<Self, rustls::Error> {
        let mut connection = ServerConnection::new(Arc::clone(&credentials.0))?;
        connection.set_buffer_limit(Some(BUFFER_BYTES));
        Ok(Self { connection, plain_bytes: 0 })
    }

    /// Returns true if decrypted bytes wait for the codec.
    pub(super) fn has_plain(&self) -> bool {
        self.plain_bytes > 0
    }

    /// Returns true if all encrypted bytes are sent.
    pub(super) fn is_sent(&self) -> bool {
        !self.connection.wants_write()
    }

    /// Receives once. Clears `readable` when the socket is empty. An error means that the client
    /// has disconnected.
    pub(super) fn receive(&mut self, socket: &OwnedFd, readable: &mut bool, codec: &mut Codec) -> io::Result<()> {
        if self.plain_bytes == 0 {
            if !self.read_wire(socket, readable)? {
                return Ok(());
            }
            match self.connection.process_new_packets() {
                Ok(state) => self.plain_bytes = state.plaintext_bytes_to_read(),
                Err(error) => {
                    // The client gets the reason, if it still reads.
                    let _ = self.connection.write_tls(&mut Wire(socket));
                    return Err(io::Error::other(error));
                }
            }
        }
        let mut taken = 0;
        for room in codec.input() {
            let count = room.len().min(self.plain_bytes);
            let mut room = room;
            self.connection.reader().read_exact(&mut room[..count])?;
            self.plain_bytes -= count;
            taken += count;
        }
        codec.received(taken);
        Ok(())
    }

    /// Reads from the socket. Returns true if bytes arrived.
    fn read_wire(&mut self, socket: &OwnedFd, readable: &mut bool) -> io::Result<bool> {
        match self.connection.read_tls(&mut Wire(socket)) {
            Ok(0) => Err(ErrorKind::ConnectionReset.into()),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                *readable = false;
                Ok(false)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends as many bytes as the socket takes. Clears `writable` when the socket is full.
    pub(super) fn send(&mut self, socket: &OwnedFd, writable: &mut bool, codec: &mut Codec) -> io::Result<()> {
        loop {
            while *writable && self.connection.wants_write() {
                match self.connection.write_tls(&mut Wire(socket)) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => *writable = false,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            if !*writable || codec.outbox().is_empty() {
                return Ok(());
            }
            // All encrypted bytes are sent, so there is room.
            let mut slices = [IoSlice::new(&[]); PARTS_MAX];
            let count = codec.outbox().slices(&mut slices);
            let taken = self.connection.writer().write_vectored(&slices[..count])?;
            codec.sent(taken);
        }
    }

    /// Announces the end of the encrypted connection to the client, if the socket takes the
    /// message.
    pub(super) fn say_goodbye(&mut self, socket: &OwnedFd) {
        self.connection.send_close_notify();
        let _ = self.connection.write_tls(&mut Wire(socket));
    }
}
