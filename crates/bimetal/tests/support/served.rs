//! A folder with a served volume, for tests that compare live volumes with simulations.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The program under test.
pub(crate) const BIMETAL: &str = env!("CARGO_BIN_EXE_bimetal");

/// A directory with drives and with the program's own state.
pub(crate) struct Place(pub(crate) PathBuf);

/// A running server; killed at the end of the test.
pub(crate) struct Running(Child);

impl Place {
    /// Makes an empty folder; `name` is the name of the test.
    pub(crate) fn new(name: &str) -> Self {
        let program = env!("CARGO_CRATE_NAME");
        let directory = std::env::temp_dir().join(format!("bimetal-{program}-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("a folder for the test");
        Self(directory)
    }

    /// Returns a call of `program` in the folder, with words of `line` as arguments.
    pub(crate) fn command(&self, program: &str, line: &str) -> Command {
        let mut command = Command::new(program);
        command.args(line.split_whitespace()).current_dir(&self.0);
        command.env("XDG_STATE_HOME", self.0.join("state")).env("XDG_RUNTIME_DIR", self.0.join("run"));
        command
    }

    /// Serves the volume. Returns when the server is ready.
    pub(crate) fn serve(&self, name: &str) -> Running {
        let mut child =
            self.command(BIMETAL, &format!("serve {name}")).stdout(Stdio::piped()).spawn().expect("bimetal starts");
        let mut ready = String::new();
        let stdout = child.stdout.take().expect("its output is ours");
        BufReader::new(stdout).read_line(&mut ready).expect("it says when it is ready");
        assert!(ready.starts_with("ready "), "{ready}");
        Running(child)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
