//! Patterns of `--exclude`.

/// Returns true if `pattern` matches a file or a directory above it. `*` is any text without a
/// slash, `**` any text, `?` any letter except a slash. A pattern without a slash is compared with
/// each name of the path, and a pattern with a slash with the whole path.
pub(super) fn excludes(pattern: &str, path: &str) -> bool {
    if pattern.contains('/') {
        let pattern = pattern.trim_end_matches('/');
        let ends = path.char_indices().filter(|&(at, letter)| letter == '/' && at > 0).map(|(at, _)| at);
        ends.chain([path.len()]).any(|end| matches(pattern.as_bytes(), &path.as_bytes()[..end]))
    } else {
        path.split('/').any(|name| matches(pattern.as_bytes(), name.as_bytes()))
    }
}

/// Returns true if a pattern matches a text. A mismatch goes back to the last star only, or to the
/// last double star, which may stand for any text: the time is bounded by a product of lengths.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // reached[at]: the pattern up to here matches the first `at` bytes of the text.
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    let mut rest = pattern;
    while let Some((&first, behind)) = rest.split_first() {
        let is_double = rest.starts_with(b"**");
        if first == b'*' {
            for at in 1..=text.len() {
                reached[at] |= reached[at - 1] && (is_double || text[at - 1] != b'/');
            }
        } else {
            for at in (1..=text.len()).rev() {
                let letter = text[at - 1];
                reached[at] = reached[at - 1] && (letter == first || (first == b'?' && letter != b'/'));
            }
            reached[0] = false;
        }
        rest = if is_double { &rest[2..] } else { behind };
    }
    reached[text.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_without_a_slash_matches_each_name() {
        for path in ["/srv/a.log", "/srv/a.log/b", "x.log"] {
            assert!(excludes("*.log", path), "{path}");
        }
        assert!(!excludes("*.log", "/srv/a.log2") && !excludes("log", "/srv/a.log"));
        assert!(excludes("?.txt", "/a.txt") && !excludes("?.txt", "/ab.txt"));
    }

    #[test]
    fn pattern_with_a_slash_matches_the_whole_path() {
        assert!(excludes("/srv/*/cache", "/srv/a/cache/x/y"));
        assert!(!excludes("/srv/*/cache", "/srv/a/b/cache"));
        assert!(excludes("/srv/**/cache", "/srv/a/b/cache/x"));
        assert!(excludes("/srv/", "/srv/a") && !excludes("/srv/", "/srv2/a"));
    }

    #[test]
    fn many_stars_take_no_long_time() {
        let text = "a".repeat(2000);
        assert!(!excludes(&format!("{}b", "a*".repeat(200)), &text));
    }
}
