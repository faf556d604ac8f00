//! The program `bimetal`: all of its code is in the library of the same package.

use std::process::ExitCode;

fn main() -> ExitCode {
    bimetal::cli::main()
}
