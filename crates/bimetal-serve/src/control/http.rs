//! The part of HTTP/1.1 that serves one page: one request is received, one reply is sent, and the
//! connection ends. This module has no socket.

use super::exchange::Exchange;

/// Maximum size of a request's head.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// Request of one client, and its reply.
#[derive(Debug, Default)]
pub struct Codec {
    exchange: Exchange,
    answered: bool,
}

/// Request for a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Path of the page.
    pub path: String,
    /// Set if only the head of the reply is wanted.
    pub head_only: bool,
}

impl Codec {
    /// Returns the buffers of received bytes and of bytes to be sent.
    pub fn exchange(&mut self) -> &mut Exchange {
        &mut self.exchange
    }

    /// Returns the bytes that are still to be sent.
    pub fn unsent(&self) -> &[u8] {
        self.exchange.unsent()
    }

    /// Returns true if the connection is over once everything is sent.
    pub fn is_answered(&self) -> bool {
        self.answered
    }

    /// Returns the request, once its head has arrived. An invalid request is answered at once.
    pub fn next_request(&mut self) -> Option<Asked> {
        if self.answered {
            return None;
        }
        let input = self.exchange.input();
        let end = input.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        if end.is_none() && input.len() <= HEAD_BYTES_MAX {
            return None;
        }
        let head = String::from_utf8_lossy(&input[..end.unwrap_or(0)]).into_owned();
        let mut words = head.lines().next().unwrap_or_default().split(' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some(method @ ("GET" | "HEAD")), Some(path), Some(version), None) if version.starts_with("HTTP/1.") => {
                let path = path.split('?').next().unwrap_or_default().to_owned();
                Some(Asked { path, head_only: method == "HEAD" })
            }
            (Some(_), Some(_), Some(version), None) if version.starts_with("HTTP/1.") => {
                self.reply("405 Method Not Allowed", "text/plain", "expected GET\n", false);
                None
            }
            _ => {
                self.reply("400 Bad Request", "text/plain", "expected a request of HTTP/1.1\n", false);
                None
            }
        }
    }

    /// Sends the reply.
    pub fn reply(&mut self, status: &str, kind: &str, body: &str, head_only: bool) {
        self.answered = true;
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let output = self.exchange.output();
        output.extend_from_slice(head.as_bytes());
        if !head_only {
            output.extend_from_slice(body.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answer(text: &[u8]) -> (Option<Asked>, String) {
        let mut codec = Codec::default();
        codec.exchange().received(text);
        let asked = codec.next_request();
        (asked, String::from_utf8_lossy(codec.unsent()).into_owned())
    }

    #[test]
    fn a_page_is_asked_for_and_given() {
        let mut codec = Codec::default();
        for part in ["GET /metrics?a=b HTT", "P/1.1\r\nHost: localhost\r\n\r", "\n"] {
            assert_eq!(codec.next_request(), None);
            codec.exchange().received(part.as_bytes());
        }
        assert_eq!(codec.next_request(), Some(Asked { path: "/metrics".into(), head_only: false }));
        codec.reply("200 OK", "text/plain", "x 1\n", false);
        let text = String::from_utf8_lossy(codec.unsent()).into_owned();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("Content-Length: 4\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\nx 1\n") && codec.is_answered());
        assert_eq!(codec.next_request(), None, "one request a connection");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        assert!(answer(b"POST /metrics HTTP/1.1\r\n\r\n").1.starts_with("HTTP/1.1 405"));
        assert!(answer(b"nonsense\r\n\r\n").1.starts_with("HTTP/1.1 400"));
        assert!(answer(&[b'x'; HEAD_BYTES_MAX + 1]).1.starts_with("HTTP/1.1 400"));
        assert!(answer(b"HEAD / HTTP/1.0\r\n\r\n").0.unwrap().head_only);
    }

    proptest! {
        #[test]
        fn whatever_comes_nothing_breaks(bytes in proptest::collection::vec(any::<u8>(), 0..10_000)) {
            let (asked, text) = answer(&bytes);
            prop_assert!(asked.is_none() || text.is_empty());
        }
    }
}
