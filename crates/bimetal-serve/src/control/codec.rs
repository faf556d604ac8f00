//! Protocol of the control socket, without a socket: bytes in, requests out; replies in, bytes out.

use super::exchange::Exchange;
use super::message::{Reply, Request};

/// Maximum size of a request.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Maximum of reply bytes that wait for a client which does not read. Beyond this maximum, no
/// progress is sent and no request is read.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// The server's side of a connection with one client.
#[derive(Debug, Default)]
pub struct Codec {
    exchange: Exchange,
    /// Set once the client has sent a request that is too long.
    broken: bool,
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

    /// Returns true if more bytes may be received now.
    pub fn wants_input(&self) -> bool {
        !self.broken && self.exchange.unsent().len() < WAITING_BYTES_MAX
    }

    /// Returns true if the connection is over once everything is sent.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Returns the next request; an invalid request is an error to be answered.
    pub fn next_request(&mut self) -> Option<Result<Request, String>> {
        loop {
            let Some(end) = self.exchange.input().iter().position(|&byte| byte == b'\n') else {
                if self.exchange.input().len() <= REQUEST_BYTES_MAX || self.broken {
                    return None;
                }
                self.broken = true;
                return Some(Err(format!("request of more than {REQUEST_BYTES_MAX} bytes: expected one line of JSON")));
            };
            let line = self.exchange.take(end + 1);
            let line = line.trim_ascii();
            if !line.is_empty() {
                return Some(serde_json::from_slice(line).map_err(|error| refused(line, &error)));
            }
        }
    }

    /// Sends a reply. Progress is left out for a client which does not read.
    pub fn reply(&mut self, reply: &Reply) {
        if !reply.is_last() && self.exchange.unsent().len() >= WAITING_BYTES_MAX {
            return;
        }
        let output = self.exchange.output();
        let start = output.len();
        match serde_json::to_writer(&mut *output, reply) {
            Ok(()) => output.push(b'\n'),
            // Every reply has a JSON form. For a reply without one, the connection is closed, so
            // that the client does not wait.
            Err(_) => {
                output.truncate(start);
                self.broken = true;
            }
        }
    }
}

fn refused(line: &[u8], error: &serde_json::Error) -> String {
    const SHOWN: usize = 80;
    let text = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]);
    let more = if line.len() > SHOWN { "…" } else { "" };
    format!("'{text}{more}' is not a request: {error}; expected a line like {{\"request\":\"status\"}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::message::Done;
    use bimetal_volumes::status::Progress;
    use proptest::prelude::*;

    fn requests(codec: &mut Codec, bytes: &[u8]) -> Vec<Result<Request, String>> {
        codec.exchange().received(bytes);
        std::iter::from_fn(|| codec.next_request()).collect()
    }

    #[test]
    fn requests_come_a_line_each_however_they_are_cut() {
        let text = b"{\"request\":\"status\"}\n\n{\"request\":\"drain\",\"detach\":true}\r\n{\"request\":\"set\",\"key\":\"timeout\",\"value\":\"30s\"}\n";
        let mut whole = Codec::default();
        let expected = [
            Request::Status {},
            Request::Drain { detach: true, force: false },
            Request::Set { key: "timeout".into(), value: "30s".into() },
        ];
        assert_eq!(requests(&mut whole, text), expected.clone().map(Ok));
        let mut cut = Codec::default();
        let single: Vec<_> = text.iter().flat_map(|&byte| requests(&mut cut, &[byte])).collect();
        assert_eq!(single, expected.map(Ok));
    }

    #[test]
    fn what_is_no_request_is_answered_with_what_is_wrong() {
        let mut codec = Codec::default();
        for (text, says) in [
            ("hello\n", "'hello' is not a request"),
            ("{\"request\":\"fly\"}\n", "unknown variant `fly`"),
            ("{\"request\":\"set\",\"key\":\"a\"}\n", "missing field `value`"),
            ("{\"request\":\"drain\",\"deatch\":true}\n", "unknown field `deatch`"),
        ] {
            let answers = requests(&mut codec, text.as_bytes());
            let [Err(message)] = &answers[..] else { panic!("{answers:?}") };
            assert!(message.contains(says), "{message}");
        }
    }

    #[test]
    fn a_line_without_an_end_ends_the_conversation() {
        let mut codec = Codec::default();
        let answers = requests(&mut codec, &vec![b'x'; REQUEST_BYTES_MAX + 1]);
        assert!(matches!(&answers[..], [Err(message)] if message.contains("65536")));
        assert!(codec.is_broken() && !codec.wants_input());
    }

    #[test]
    fn who_does_not_read_gets_no_more_progress_but_the_end() {
        let mut codec = Codec::default();
        let progress = Reply::Progress(Progress { task: "drain".into(), ..Progress::default() });
        (0..100_000).for_each(|_| codec.reply(&progress));
        assert!(codec.exchange().unsent().len() < WAITING_BYTES_MAX + 1024);
        assert!(!codec.wants_input());
        codec.reply(&Reply::Done(Done::new("all is home")));
        assert!(codec.exchange().unsent().ends_with(b"\"all is home\",\"check\":null}\n"));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_answered_or_waited_for(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let mut codec = Codec::default();
            let lines = bytes.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n"));
            let lines = lines.filter(|line| !line.trim_ascii().is_empty()).count();
            prop_assert_eq!(requests(&mut codec, &bytes).len(), lines);
        }
    }
}
