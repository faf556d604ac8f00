//! The tester notices lies of drives, which no scheme can survive. Each lie is caught under every
//! scheme.

use bimetal_core::schemes;
use bimetal_fault::drive::Lie;
use bimetal_fault::{Options, run_case};

/// Number of cases within which a lie must be caught.
const SEEDS: u64 = 40;

fn caught(lie: Lie, expected: &[&str]) {
    for scheme in schemes::every() {
        let options = Options { faults: false, lie: Some(lie), ..Options::default() };
        let failures = (0..SEEDS).filter_map(|seed| run_case(scheme, seed, options).err());
        let messages: Vec<String> = failures.map(|failure| failure.to_string()).collect();
        assert!(!messages.is_empty(), "{}: nobody notices {lie:?}", scheme.name);
        for message in messages {
            assert!(expected.iter().any(|expected| message.contains(expected)), "{}: {message}", scheme.name);
            assert!(message.contains("Replay: bimetal fault --scheme"), "{message}");
        }
    }
}

/// Messages for a wrong value. A read finds the wrong value, or the check at the end of a flush
/// finds it. Or else a checksum fails without a fault, or the engine copies the value to another
/// drive.
const WRONG: [&str; 4] = ["reads as", "was made stable as", "no fault explains it", "does not belong there"];

#[test]
fn a_drive_that_acknowledges_a_write_and_drops_it_is_caught() {
    caught(Lie::DropsWrites, &WRONG);
}

#[test]
fn a_drive_that_tears_a_write_is_caught() {
    caught(Lie::TearsWrites, &WRONG);
}

#[test]
fn a_drive_that_puts_a_write_where_another_belongs_is_caught() {
    caught(Lie::SwapsWrites, &WRONG);
}

#[test]
fn a_drive_that_reads_what_was_there_before_is_caught() {
    caught(Lie::ReadsStale, &WRONG);
}

#[test]
fn a_drive_that_acknowledges_a_flush_and_does_nothing_is_caught() {
    caught(Lie::DropsFlushes, &["was not flushed"]);
}
