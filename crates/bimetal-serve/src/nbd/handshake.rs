//! Handshake: the client's options and their replies.

use super::Export;
use super::codec::{Closed, Codec, Encryption, State};
use super::protocol::{self as nbd, Fields, export_flag, info, option, option_reply};

impl Codec {
    pub(super) fn client_flags(&mut self) {
        let flags = self.fields(4).u32().unwrap_or_default();
        if flags & !(nbd::CLIENT_FIXED_NEWSTYLE | nbd::CLIENT_NO_ZEROES) != 0 {
            return self.close(Closed::Protocol("unknown flags in its handshake"));
        }
        self.no_zeroes = flags & nbd::CLIENT_NO_ZEROES != 0;
        self.state = State::OptionHeader;
    }

    pub(super) fn option_header(&mut self) {
        let mut fields = self.fields(16);
        let header = (|| Some((fields.u64()?, fields.u32()?, fields.u32()?)))();
        let Some((nbd::OPTION_MAGIC, option, len)) = header else {
            return self.close(Closed::Protocol("an option without its magic number"));
        };
        if len <= nbd::OPTION_BYTES_MAX {
            self.state = State::OptionData { option, len: len as usize };
        } else if option == option::EXPORT_NAME {
            self.close(Closed::Protocol("a name that is too long"));
        } else {
            self.refuse(option, option_reply::ERR_TOO_BIG, "the option is too long");
            self.state = State::Skip { left: len.into(), handshake: true };
        }
    }

    pub(super) fn answer_option(&mut self, option: u32, data: &[u8]) {
        if self.encryption == Encryption::Needed && !matches!(option, option::STARTTLS | option::ABORT) {
            return match option {
                option::EXPORT_NAME => self.close(Closed::NeedsTls),
                _ => self.refuse(option, option_reply::ERR_TLS_REQD, "this server requires TLS: connect with nbds://"),
            };
        }
        match option {
            option::EXPORT_NAME => self.export_name(data),
            option::STARTTLS if self.encryption != Encryption::None => self.start_tls(data),
            option::ABORT => {
                self.answer(option, option_reply::ACK, &[]);
                self.close(Closed::Disconnected);
            }
            option::LIST | option::STRUCTURED_REPLY if !data.is_empty() => self.malformed(option),
            option::LIST => self.list(),
            option::INFO | option::GO => self.info(option, data).unwrap_or_else(|| self.malformed(option)),
            option::STRUCTURED_REPLY => {
                self.structured = true;
                self.answer(option, option_reply::ACK, &[]);
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.meta_contexts(option, data).unwrap_or_else(|| self.malformed(option));
            }
            _ => self.refuse(option, option_reply::ERR_UNSUP, "this server does not know the option"),
        }
    }

    fn start_tls(&mut self, data: &[u8]) {
        if !data.is_empty() || self.encryption == Encryption::Begun {
            return self.malformed(option::STARTTLS);
        }
        // An attacker between client and server could have inserted these bytes, and they would
        // pass for encrypted ones.
        if self.has_input() {
            return self.close(Closed::Protocol("unencrypted bytes after the request for TLS"));
        }
        self.answer(option::STARTTLS, option_reply::ACK, &[]);
        self.encryption = Encryption::Begins;
    }

    fn find_export(&self, name: &[u8]) -> Option<usize> {
        if name.is_empty() {
            return Some(0);
        }
        self.exports.iter().position(|export| export.name.as_bytes() == name)
    }

    fn export_flags(&self) -> u16 {
        let flags = export_flag::HAS_FLAGS
            | export_flag::SEND_FLUSH
            | export_flag::SEND_FUA
            | export_flag::SEND_TRIM
            | export_flag::SEND_WRITE_ZEROES
            | export_flag::CAN_MULTI_CONN;
        if self.structured { flags | export_flag::SEND_DF } else { flags }
    }

    /// Handles `NBD_OPT_EXPORT_NAME`, which can be refused only by closing the connection.
    fn export_name(&mut self, name: &[u8]) {
        let Some(export) = self.find_export(name) else {
            return self.close(Closed::UnknownExport);
        };
        if self.full {
            self.turned_away = true;
            return self.close(Closed::Full);
        }
        self.outbox.push_head(&self.exports[export].bytes.to_be_bytes());
        self.outbox.push_head(&self.export_flags().to_be_bytes());
        if !self.no_zeroes {
            self.outbox.push_head(&[0; 124]);
        }
        self.begin_transmission(export);
    }

    fn list(&mut self) {
        for number in 0..self.exports.len() {
            let Export { name, description, .. } = &self.exports[number];
            let length = (name.len() as u32).to_be_bytes();
            let entry = [&length, name.as_bytes(), description.as_bytes()].concat();
            self.answer(option::LIST, option_reply::SERVER, &entry);
        }
        self.answer(option::LIST, option_reply::ACK, &[]);
    }

    fn info(&mut self, option: u32, data: &[u8]) -> Option<()> {
        let mut fields = Fields(data);
        let name = fields.text()?;
        let count = fields.u16()?;
        let asked = (0..count).map(|_| fields.u16()).collect::<Option<Vec<u16>>>()?;
        if !fields.0.is_empty() {
            return None;
        }
        let Some(number) = self.find_export(name) else {
            self.refuse(option, option_reply::ERR_UNKNOWN, "unknown export");
            return Some(());
        };
        if option == option::GO && self.full {
            self.turned_away = true;
            self.refuse(
                option,
                option_reply::ERR_POLICY,
                "the largest number of clients is connected: try again later",
            );
            return Some(());
        }
        let Export { name, description, bytes, block_min_bytes, block_preferred_bytes } = self.exports[number].clone();
        let flags = self.export_flags();
        self.answer_info(option, info::EXPORT, &[&bytes.to_be_bytes(), &flags.to_be_bytes()]);
        let sizes = [block_min_bytes, block_preferred_bytes, super::REQUEST_BYTES_MAX].map(u32::to_be_bytes);
        self.answer_info(option, info::BLOCK_SIZE, &[&sizes.concat()]);
        if asked.contains(&info::NAME) {
            self.answer_info(option, info::NAME, &[name.as_bytes()]);
        }
        if asked.contains(&info::DESCRIPTION) {
            self.answer_info(option, info::DESCRIPTION, &[description.as_bytes()]);
        }
        self.answer(option, option_reply::ACK, &[]);
        if option == option::GO {
            self.begin_transmission(number);
        }
        Some(())
    }

    fn meta_contexts(&mut self, option: u32, data: &[u8]) -> Option<()> {
        let mut fields = Fields(data);
        let name = fields.text()?;
        let count = fields.u32()?;
        // Each query takes at least the four bytes of its length, so a count that is too large
        // fails at once.
        let mut queries = Vec::new();
        for _ in 0..count {
            queries.push(fields.text()?);
        }
        if !fields.0.is_empty() {
            return None;
        }
        if option == option::SET_META_CONTEXT {
            self.meta_context = None;
        }
        let Some(number) = self.find_export(name) else {
            self.refuse(option, option_reply::ERR_UNKNOWN, "unknown export");
            return Some(());
        };
        if !self.structured {
            self.refuse(option, option_reply::ERR_INVALID, "block status needs structured replies");
            return Some(());
        }
        let full = nbd::BASE_ALLOCATION.as_bytes();
        let (wanted, id) = match option {
            option::SET_META_CONTEXT => (queries.contains(&full), nbd::BASE_ALLOCATION_ID),
            _ => (queries.is_empty() || queries.iter().any(|&query| query == full || query == b"base:"), 0),
        };
        if wanted {
            self.answer(option, option_reply::META_CONTEXT, &[&id.to_be_bytes(), full].concat());
        }
        if wanted && option == option::SET_META_CONTEXT {
            self.meta_context = Some(number);
        }
        self.answer(option, option_reply::ACK, &[]);
        Some(())
    }

    fn answer_info(&mut self, option: u32, kind: u16, parts: &[&[u8]]) {
        self.answer(option, option_reply::INFO, &[&kind.to_be_bytes(), parts.concat().as_slice()].concat());
    }

    fn malformed(&mut self, option: u32) {
        self.refuse(option, option_reply::ERR_INVALID, "the option is malformed");
    }

    fn refuse(&mut self, option: u32, error: u32, message: &str) {
        self.answer(option, error, message.as_bytes());
    }

    fn answer(&mut self, option: u32, reply: u32, data: &[u8]) {
        self.outbox.push_head(&nbd::OPTION_REPLY_MAGIC.to_be_bytes());
        self.outbox.push_head(&option.to_be_bytes());
        self.outbox.push_head(&reply.to_be_bytes());
        self.outbox.push_head(&(data.len() as u32).to_be_bytes());
        self.outbox.push_head(data);
    }
}
