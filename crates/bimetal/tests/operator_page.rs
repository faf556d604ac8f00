//! Every command of the manual's page for operators, run as it stands on the page, in the page's
//! order.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns the content of the page's shell blocks, one after the other.
fn commands(page: &str) -> String {
    let mut script = String::new();
    let mut within = false;
    for line in page.lines() {
        match line {
            "```sh" => within = true,
            "```" => within = false,
            _ if within => {
                script.push_str(line);
                script.push('\n');
            }
            _ => {}
        }
    }
    script
}

fn missing() -> Option<String> {
    let programs =
        ["nbdfuse", "fusermount3", "losetup", "mkfs.ext4", "e2fsck", "blkid", "mount", "openssl", "nbdinfo", "timeout"];
    let has = |program: &&str| {
        Command::new("which").arg(program).stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    if let Some(program) = programs.into_iter().find(|program| !has(program)) {
        return Some(format!("no {program}"));
    }
    (!rustix::process::geteuid().is_root()).then(|| "not root: nothing can be mounted".to_owned())
}

#[test]
fn every_command_of_the_operators_page_works() {
    if let Some(reason) = missing() {
        assert!(std::env::var_os("BIMETAL_REQUIRE_ALL").is_none(), "{reason}");
        println!("skipped: {reason}");
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operator.md");
    let script = commands(&fs::read_to_string(page).expect("the page"));
    assert!(script.lines().count() > 30, "the page has its commands");
    let directory = std::env::temp_dir().join(format!("bimetal-operator-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a folder for the test");
    let take_down = "trap 'status=$?; set +e; umount -l mnt 2>/dev/null; losetup -d \"$device\" 2>/dev/null; fusermount3 -u -z disk 2>/dev/null; \
                     kill -9 $(jobs -p) 2>/dev/null; exit $status' EXIT\n";
    fs::write(directory.join("page.sh"), format!("set -ex\n{take_down}{script}")).expect("the script");
    let program = Path::new(env!("CARGO_BIN_EXE_bimetal")).parent().expect("the program's folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("timeout")
        .args(["--kill-after=5", "120", "bash", "page.sh"])
        .current_dir(&directory)
        .env("PATH", path)
        .env("XDG_STATE_HOME", directory.join("state"))
        .env("XDG_RUNTIME_DIR", directory.join("run"))
        .output()
        .expect("a shell");
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let _ = fs::remove_dir_all(&directory);
    assert!(output.status.success(), "{said}\n{told}");
}
