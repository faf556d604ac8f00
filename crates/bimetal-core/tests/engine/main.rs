//! Tests of whole volumes over drives in memory.
//!
//! One program, since each test program compiles the engine for its payload again.

mod composition;
mod counting;
mod hostile;
mod lives;
mod migration_memory;
mod migration_runs;
mod troubles;
mod world;
