//! TLS: the certificates that a server shows and asks for, and the encryption of one connection.
//!
//! The files are named as nbdkit, qemu and libvirt name them, so that one directory serves all.

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

/// Plain bytes that wait to be encrypted and sent, at most.
const BUFFER_BYTES: usize = 256 << 10;
/// Parts of replies encrypted at once.
const PARTS_MAX: usize = 64;

/// What a server shows to its clients, and what it wants to see of them.
#[derive(Clone, Debug)]
pub struct Credentials(Arc<ServerConfig>);

/// Why certificates are of no use.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file cannot be read, or holds nothing of what it is for.
    #[error("cannot read {what} from '{}': {error}; expected it there in PEM form", path.display())]
    File {
        /// What was expected in it.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        error: rustls::pki_types::pem::Error,
    },
    /// The library refuses what the files hold.
    #[error("'{}' {what}: {error}", directory.display())]
    Refused {
        /// Where the files are.
        directory: PathBuf,
        /// What they hold.
        what: &'static str,
        /// Why.
        error: String,
    },
}

impl Credentials {
    /// Reads `server-cert.pem` and `server-key.pem` of `directory`. With `verify_peer` clients are let in whose certificate
    /// `ca-cert.pem` has signed and `ca-crl.pem`, if it is there, does not revoke; else all.
    ///
    /// # Errors
    /// A file that is missing or makes no sense, or a key that is not the certificate's.
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

/// The encryption of one connection.
pub(super) struct Tls {
    connection: ServerConnection,
    /// Bytes that are decrypted and not taken.
    plain_bytes: usize,
}

/// A socket as the library wants one. It never waits.
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

    /// Whether there is something for the codec that needs no socket.
    pub(super) fn has_plain(&self) -> bool {
        self.plain_bytes > 0
    }

    /// Whether everything that was encrypted is sent.
    pub(super) fn is_sent(&self) -> bool {
        !self.connection.wants_write()
    }

    /// Receives once. `readable` goes when the socket has no more. An error means that the client is gone.
    pub(super) fn receive(&mut self, socket: &OwnedFd, readable: &mut bool, codec: &mut Codec) -> io::Result<()> {
        if self.plain_bytes == 0 {
            if !self.read_wire(socket, readable)? {
                return Ok(());
            }
            match self.connection.process_new_packets() {
                Ok(state) => self.plain_bytes = state.plaintext_bytes_to_read(),
                Err(error) => {
                    // The client is told why, if it still listens.
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

    /// Whether anything came.
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

    /// Sends what there is and what the socket takes. `writable` goes when it takes no more.
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
            // Everything encrypted is sent, so there is room.
            let mut slices = [IoSlice::new(&[]); PARTS_MAX];
            let count = codec.outbox().slices(&mut slices);
            let taken = self.connection.writer().write_vectored(&slices[..count])?;
            codec.sent(taken);
        }
    }

    /// Says that nothing more comes, if the socket takes it.
    pub(super) fn say_goodbye(&mut self, socket: &OwnedFd) {
        self.connection.send_close_notify();
        let _ = self.connection.write_tls(&mut Wire(socket));
    }
}
