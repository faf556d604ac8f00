//! `bimetal plan --model mixcp`, as its users see it.

use std::path::PathBuf;
use std::process::{Command, Output};

fn bimetal(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bimetal")).args(arguments).output().expect("the program runs")
}

/// A folder of this test, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bimetal-mixcp-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the folder can be made");
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("the file can be written");
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const SHOP: &str = r#"
[[drive]]
model = "intel-x25-e-32gb"
sizes = ["16MiB", "64MiB", "256MiB"]
prices_usd = [10, 20, 60]
date = "2026-11"
source = "the test"
[[drive]]
model = "seagate-barracuda-7200.12-1tb"
sizes = ["1TB"]
prices_usd = [50]
date = "2026-11"
source = "the test"
"#;

/// Writes of 8 KiB over 40 MiB, 60 ms apart, every fifth request a read.
fn workload(folder: &Folder) -> String {
    let line = |number: u64| {
        let kind = if number.is_multiple_of(5) { "read" } else { "write" };
        format!("{},0,{kind},{},16,0,\n", number * 60_000_000, number * 7919 % 5120 * 16)
    };
    let lines: String = (0..6000).map(line).collect();
    folder.file("load.csv", &format!("time_ns,device,op,lba,sectors,fua,response_ns\n{lines}"))
}

#[test]
fn without_times_or_with_growth_mixcp_says_what_it_needs() {
    let folder = Folder::new("needs");
    let (shop, load) = (folder.file("shop.toml", SHOP), workload(&folder));
    let refused = |flags: &[&str]| {
        let output = bimetal(&[&["plan", &load, "--catalog", &shop, "--model", "mixcp"], flags].concat());
        assert_eq!(output.status.code(), Some(1), "{flags:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let message = refused(&["--replay", "closed"]);
    assert!(message.contains("MixCP predicts from the mean time between arrivals"), "{message}");
    let message = refused(&["--growth", "20%/y"]);
    assert!(message.contains("leave out --growth, or take --model simulate"), "{message}");
}
