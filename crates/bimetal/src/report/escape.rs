//! Escapes for text from outside (trace names, paths, parameters) in the parts of a page.

/// Returns `text` escaped as content of an element or of a quoted attribute.
pub(crate) fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Characters that change the direction of the text around them could disguise a name.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => escaped.push('\u{fffd}'),
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Returns `json` escaped as content of a script element: no `<` is left that could end the element
/// or open a comment. In JSON, `<` occurs only inside strings, where its escape means the same.
pub(crate) fn json_in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(html("<a href=\"x\" id='y'>&"), "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;");
        assert_eq!(html("a\u{202e}b\u{0}c"), "a\u{fffd}b\u{fffd}c");
    }

    #[test]
    fn nothing_in_the_data_ends_its_script() {
        assert_eq!(json_in_script("[\"</script><!--\"]"), "[\"\\u003c/script>\\u003c!--\"]");
    }
}
