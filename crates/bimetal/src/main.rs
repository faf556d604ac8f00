//! The program `bimetal`: everything is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    bimetal::cli::main()
}
