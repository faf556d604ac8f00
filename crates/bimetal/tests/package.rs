//! The package for Debian: built by `scripts/deb`, installed in an empty root, and run from that
//! root.

use std::fs;
use std::path::Path;
use std::process::Command;

const BIMETAL: &str = env!("CARGO_BIN_EXE_bimetal");

/// Runs a command that must succeed, and returns its output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn package_installs_in_an_empty_root_and_runs() {
    for program in ["dpkg-deb", "dpkg"] {
        if Command::new(program).arg("--version").output().is_err() {
            println!("skipped: no {program}");
            return;
        }
    }
    let directory = std::env::temp_dir().join(format!("bimetal-package-{}", std::process::id()));
    let root = directory.join("root");
    let database = root.join("var/lib/dpkg");
    for folder in ["info", "updates", "triggers"] {
        fs::create_dir_all(database.join(folder)).expect("a folder");
    }
    fs::write(database.join("status"), "").expect("an empty database");

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/deb");
    let built =
        run(Command::new(script).args([BIMETAL.as_ref(), directory.as_os_str()]).env("DEB_COMPRESSION", "none"));
    let package = built.trim();
    // The empty root has no C library, and the user may not be root.
    let log = format!("--log={}", directory.join("log").display());
    let install = ["--force-not-root", "--force-depends", "--install", package];
    run(Command::new("dpkg").arg(format!("--root={}", root.display())).arg(log).args(install));

    let program = root.join("usr/bin/bimetal");
    assert_eq!(run(Command::new(&program).arg("--version")), run(Command::new(BIMETAL).arg("--version")));
    let table = run(Command::new(&program).args(["compare", "--schemes", "hdd-only,smart-response"]));
    assert!(table.contains("smart-response"), "{table}");
    for file in [
        "man/man1/bimetal.1.gz",
        "man/man1/bimetal-create.1.gz",
        "bash-completion/completions/bimetal",
        "zsh/vendor-completions/_bimetal",
        "fish/vendor_completions.d/bimetal.fish",
        "doc/bimetal/copyright",
        "doc/bimetal/docs/operator.md",
    ] {
        let path = root.join("usr/share").join(file);
        assert!(path.metadata().is_ok_and(|metadata| metadata.len() > 100), "{file}");
    }
    // Each unit starts the program where the package has it.
    let units = root.join("usr/lib/systemd/system");
    for unit in ["bimetal@.service", "bimetal-scrub@.service"] {
        let text = fs::read_to_string(units.join(unit)).expect("a unit");
        let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=/")).expect("a command");
        assert_eq!(root.join(start.split(' ').next().expect("a path")), program, "{unit}");
    }
    fs::remove_dir_all(directory).expect("the folder is removed");
}
