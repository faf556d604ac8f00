//! The README's picture is today's report. The picture carries the words that it shows, and these
//! words are the words of the page that `bimetal compare --report` writes today.
//!
//! With `BIMETAL_PICTURE=overwrite` a browser makes the picture anew; look at it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Size of the picture in pixels.
const SIZE: (u32, u32) = (1200, 1500);

/// Keyword of the text in the picture.
const KEYWORD: &[u8] = b"Description";

fn picture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report.png")
}

/// Writes the report of `make demo` about the embedded sample, and returns its path.
fn report() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("readme-picture-{}.html", std::process::id()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_bimetal"));
    let done = command
        .args(["compare", "--capacity", "8TB", "--csv", "--report"])
        .arg(&path)
        .output()
        .expect("the program runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    path
}

/// Returns the words of a page from its heading to the end of its first table, a line for each
/// block.
fn first_screen(page: &str) -> String {
    let from = page.find("<h1").expect("the page has a heading");
    let to = page[from..].find("</table>").expect("the page has a table") + from;
    let mut words = String::new();
    for part in page[from..to].split('<') {
        let (tag, text) = part.split_once('>').unwrap_or(("", part));
        let is_block = ["h1", "h2", "h3", "p", "li", "tr", "div", "section"]
            .iter()
            .any(|block| tag.strip_prefix(block).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')));
        words.push_str(if is_block { "\n" } else { " " });
        words.push_str(text);
    }
    let words = words.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let lines = words.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Returns the checksum of a chunk, as the PNG specification defines it.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 })
    })
}

/// Returns the chunks of a picture: kind and content.
fn chunks(png: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut rest = png.strip_prefix(b"\x89PNG\r\n\x1a\n").expect("a PNG file");
    let mut chunks = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let (chunk, after) = after.split_at(4 + length);
        assert_eq!(after[..4], crc(chunk).to_be_bytes(), "the picture is damaged");
        chunks.push(chunk.split_at(4));
        rest = &after[4..];
    }
    chunks
}

/// Returns the text that a picture carries.
fn text_of(png: &[u8]) -> Option<String> {
    let texts = chunks(png).into_iter().filter(|(kind, _)| *kind == b"iTXt");
    // Keyword, compression (none), language and translated keyword (empty), text.
    let text = texts.filter_map(|(_, content)| content.strip_prefix(KEYWORD)?.strip_prefix(&[0; 5])).next()?;
    String::from_utf8(text.to_vec()).ok()
}

/// Returns a picture with `text` in it.
fn with_text(png: &[u8], text: &str) -> Vec<u8> {
    let mut all = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut push = |kind: &[u8], content: &[u8]| {
        let chunk = [kind, content].concat();
        all.extend((content.len() as u32).to_be_bytes());
        all.extend(&chunk);
        all.extend(crc(&chunk).to_be_bytes());
    };
    for (kind, content) in chunks(png) {
        if kind == b"IEND" {
            push(b"iTXt", &[KEYWORD, &[0; 5], text.as_bytes()].concat());
        }
        push(kind, content);
    }
    all
}

/// Makes the picture of a page with a browser.
fn drawn(page: &Path) -> Vec<u8> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let browsers = std::env::split_paths(&path)
        .flat_map(|folder| ["chromium", "chromium-browser", "google-chrome"].map(|name| folder.join(name)));
    let browser = browsers.into_iter().find(|file| file.is_file()).expect("chromium makes the picture");
    let shot = page.with_extension("png");
    let status = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=10000"])
        .arg(format!("--user-data-dir={}", page.with_extension("profile").display()))
        .arg(format!("--window-size={},{}", SIZE.0, SIZE.1))
        .arg(format!("--screenshot={}", shot.display()))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(status.is_ok_and(|status| status.success()), "the browser makes a picture");
    std::fs::read(shot).expect("a picture")
}

#[test]
fn picture_of_the_readme_shows_todays_report() {
    let page = report();
    let words = first_screen(&std::fs::read_to_string(&page).expect("a page"));
    assert!(words.contains("What to choose") && words.contains("griffin"), "{words}");
    if std::env::var("BIMETAL_PICTURE").is_ok_and(|mode| mode == "overwrite") {
        std::fs::write(picture(), with_text(&drawn(&page), &words)).expect("the picture is written");
    }
    let png = std::fs::read(picture()).expect("the README's picture");
    let (_, head) = chunks(&png)[0];
    assert_eq!((&head[..4], &head[4..8]), (&SIZE.0.to_be_bytes()[..], &SIZE.1.to_be_bytes()[..]));
    let shown = text_of(&png).unwrap_or_default();
    assert_eq!(shown, words, "BIMETAL_PICTURE=overwrite makes docs/report.png anew");
}

#[test]
fn text_in_a_picture_is_read_back() {
    let bare = std::fs::read(picture()).expect("the README's picture");
    let (kinds, text) = (|png: &[u8]| chunks(png).len(), "p99 1369 ms ± 4\n$80");
    let marked = with_text(&bare, text);
    assert_eq!(kinds(&marked), kinds(&bare) + 1);
    let last = chunks(&marked).into_iter().filter(|(kind, _)| *kind == b"iTXt").count();
    assert_eq!(last, chunks(&bare).into_iter().filter(|(kind, _)| *kind == b"iTXt").count() + 1);
    assert!(marked.windows(text.len()).any(|window| window == text.as_bytes()));
}
