//! Key of a job: a digest of everything that the result depends on.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read};

use ring::digest::{Context, SHA256};

/// Number of bytes of a SHA-256 digest that are kept: 128 bits are enough for content that nobody
/// forges.
const DIGEST_BYTES: usize = 16;
/// Number of bytes that are read at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// Returns the digest of all bytes of `content`, in hexadecimal.
///
/// # Errors
/// The content cannot be read.
pub fn digest(mut content: impl Read) -> io::Result<String> {
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        match content.read(&mut buffer) {
            Ok(0) => return Ok(hexadecimal(context)),
            Ok(read) => context.update(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns the key of the job that runs `configuration` over the trace with the digest `trace`, by
/// the engine of this version.
pub fn key(engine: &str, trace: &str, configuration: &BTreeMap<String, String>) -> String {
    let mut context = Context::new(&SHA256);
    // The length before each part keeps parts apart: "ab" + "c" is not "a" + "bc".
    let mut add = |part: &str| {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part.as_bytes());
    };
    add(engine);
    add(trace);
    for (name, value) in configuration {
        add(name);
        add(value);
    }
    hexadecimal(context)
}

fn hexadecimal(context: Context) -> String {
    let digest = context.finish();
    digest.as_ref()[..DIGEST_BYTES].iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_the_front_of_sha_256() {
        assert_eq!(digest(&b"abc"[..]).expect("in memory"), "ba7816bf8f01cfea414140de5dae2223");
        assert_eq!(digest(io::repeat(b'a').take(1_000_000)).expect("in memory"), "cdc76e5c9914fb9281a1c7e284d73e67");
    }

    #[test]
    fn key_differs_with_each_part() {
        let configuration = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let keys = [
            key("1", "t", &configuration(&[("a", "b"), ("c", "d")])),
            key("2", "t", &configuration(&[("a", "b"), ("c", "d")])),
            key("1", "u", &configuration(&[("a", "b"), ("c", "d")])),
            key("1", "t", &configuration(&[("a", "x"), ("c", "d")])),
            key("1", "t", &configuration(&[("a", "b")])),
            key("1", "t", &configuration(&[("ab", ""), ("c", "d")])),
            key("1t", "", &configuration(&[("a", "b"), ("c", "d")])),
        ];
        let distinct: std::collections::BTreeSet<&String> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len(), "{keys:?}");
        assert_eq!(keys[0], key("1", "t", &configuration(&[("c", "d"), ("a", "b")])));
    }
}
