//! Connection of a client: its socket, and its encryption. Bytes go between the socket and the
//! client's codec.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, readv};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::select::Ready;
use super::tls::{Credentials, Tls};
use crate::nbd::Codec;

/// Maximum of parts sent with one call.
const PARTS_MAX: usize = 256;

/// See the [module](self).
pub(super) struct Connection {
    socket: OwnedFd,
    /// Certificates for a connection that requests TLS, and its encryption once TLS has begun.
    credentials: Option<Credentials>,
    tls: Option<Tls>,
    /// Set while the socket may have bytes to receive, and while it may accept bytes.
    readable: bool,
    writable: bool,
    /// Set once the client has closed its end, which the kernel announces once.
    is_ended: bool,
}

impl Connection {
    /// Makes the connection of a new socket.
    pub(super) fn new(socket: OwnedFd, credentials: Option<Credentials>) -> Self {
        Self { socket, credentials, tls: None, readable: true, writable: true, is_ended: false }
    }

    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn needs_tls(&self) -> bool {
        self.credentials.is_some()
    }

    /// Records that the socket may have bytes to receive, or may accept bytes, or that the client
    /// has closed its end.
    pub(super) fn ready(&mut self, ready: Ready) {
        self.readable |= ready.readable;
        self.writable |= ready.writable;
        self.is_ended |= ready.is_ended;
    }

    /// Returns true if the socket may have bytes to receive.
    pub(super) fn has_input(&self) -> bool {
        self.readable || self.tls.as_ref().is_some_and(Tls::has_plain)
    }

    /// Returns true if no encrypted bytes are left to be sent.
    pub(super) fn is_sent(&self) -> bool {
        self.tls.as_ref().is_none_or(Tls::is_sent)
    }

    /// Ends the encryption, before the socket is closed.
    pub(super) fn say_goodbye(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.say_goodbye(&self.socket);
        }
    }

    /// Receives once. An error means that the client has disconnected.
    pub(super) fn receive(&mut self, codec: &mut Codec) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            return tls.receive(&self.socket, &mut self.readable, codec);
        }
        let mut room = codec.input();
        let wanted = room.iter().map(|slice| slice.len()).sum::<usize>();
        let received = if room[0].is_empty() {
            rustix::io::read(&self.socket, &mut *room[1])
        } else {
            readv(&self.socket, &mut room)
        };
        match received {
            Ok(0) => return Err(Errno::CONNRESET.into()),
            Ok(count) => {
                // The socket is empty after a short read; an event announces further bytes. The end
                // of the connection may have been announced with these bytes.
                self.readable = count == wanted || self.is_ended;
                codec.received(count);
            }
            Err(Errno::AGAIN) => self.readable = false,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Sends as many bytes as the socket takes. An error means that the client has disconnected.
    pub(super) fn send(&mut self, codec: &mut Codec) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            return tls.send(&self.socket, &mut self.writable, codec);
        }
        while self.writable && !codec.outbox().is_empty() {
            let mut slices = [IoSlice::new(&[]); PARTS_MAX];
            let count = codec.outbox().slices(&mut slices);
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match sendmsg(&self.socket, &slices[..count], &mut SendAncillaryBuffer::default(), flags) {
                Ok(sent) => codec.sent(sent),
                Err(Errno::AGAIN) => self.writable = false,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if codec.tls_begins() && codec.outbox().is_empty() {
            self.begin_tls(codec)?;
        }
        Ok(())
    }

    fn begin_tls(&mut self, codec: &mut Codec) -> io::Result<()> {
        let credentials = self.credentials.as_ref().expect("only where there are credentials a client may ask for TLS");
        self.tls = Some(Tls::new(credentials).map_err(io::Error::other)?);
        codec.tls_has_begun();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use super::super::select::Source;
    use super::*;
    use crate::nbd::{Export, Limits};

    /// Regression: bytes and the end of the connection came with one event. The bytes were read, no
    /// further event came, and the client counted as connected for ever.
    #[test]
    fn end_that_comes_with_bytes_is_noticed() {
        let (mut client, server) = UnixStream::pair().expect("sockets");
        server.set_nonblocking(true).expect("a socket");
        client.write_all(&[0, 0, 0, 3]).and_then(|()| client.shutdown(Shutdown::Write)).expect("it is connected");
        let mut connection = Connection::new(server.into(), None);
        connection.ready(Ready { source: Source::Client(0), readable: true, writable: true, is_ended: true });
        let (name, description, bytes) = (String::new(), String::new(), 1 << 20);
        let export = Export { name, description, bytes, block_min_bytes: 512, block_preferred_bytes: 4096 };
        let mut codec = Codec::new(Arc::from([export]), Limits::default());
        assert!(connection.receive(&mut codec).is_ok(), "the client's flags");
        assert!(connection.has_input(), "no further event comes");
        assert!(connection.receive(&mut codec).is_err(), "the client has gone");
    }
}
