//! A page without scripts, in the style of the report.

use super::STYLE;
use super::escape::html as escaped;

/// Returns the page. `title` and `kicker` (the line above the heading) are plain text; `heading`
/// and `content` are HTML.
pub(crate) fn html(title: &str, kicker: &str, heading: &str, content: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src \
         data:; base-uri 'none'; form-action 'none'\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title} – Bimetal</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n\
         <p class=\"kicker\">Bimetal {version} · {kicker}</p>\n<h1>{heading}</h1>\n{content}\n\
         <footer><p>Made by Bimetal {version}.</p></footer>\n</body>\n</html>\n",
        title = escaped(title),
        kicker = escaped(kicker),
        version = env!("CARGO_PKG_VERSION"),
    )
}
