//! Commits that a log begins by itself, after a number of records. No task waits for such a commit,
//! so no task learns of a failure. A flush of a client that follows must tell the failure.

mod story;

use bimetal_core::operation::{OpKind, Operation, Status};
use bimetal_core::units::Nanoseconds;
use bimetal_fault::payload::Tags;
use story::{ALL, HDD, SSD, Story};

/// A scheme with a log, settings under which nothing migrates by itself, and the log's drive.
type Log = (&'static str, &'static [(&'static str, &'static str)], u16);

/// All schemes with a log.
const LOGS: [Log; 2] =
    [("griffin", &[("timeout", "off"), ("read_threshold", "off")], HDD), ("writeboost", &[("idle", "off")], SSD)];

/// Number of blocks of which the records let a log begin a commit.
const BLOCKS: u64 = 8;

/// Time after which an idle log writes its segment.
const IDLE: Nanoseconds = Nanoseconds::from_millis(20);

/// Creates a volume of which a few blocks are stable, and writes [`BLOCKS`] blocks. The operations
/// of these writes wait. Returns for each of the blocks the number of its stable write, or 0, and
/// the number of its second write.
fn written_twice(seed: u64, scheme: &'static str, settings: &[(&str, &str)]) -> (Story, Vec<u64>, Vec<u64>) {
    let mut story = Story::new(seed, scheme, settings, 8000);
    // The records of a commit count for the next commit, so these records are too few for one.
    let mut old: Vec<u64> = (0..BLOCKS / 2).map(|block| story.write(block * 8, 8)).collect();
    old.resize(BLOCKS as usize, 0);
    story.flush();
    story.commit_log_after(BLOCKS as usize);
    let new = (0..BLOCKS).map(|block| story.send(OpKind::Write, block * 8, 8, false)).collect();
    story.pass(IDLE, |_| false);
    (story, old, new)
}

fn is_flush_of(operation: &Operation<Tags>, member: u16) -> bool {
    operation.target == member && operation.command.kind == OpKind::Flush
}

/// Lets the flush of an unasked commit fail. `fails` selects the operations that fail from then on.
/// Returns the status of the next flush of a client.
fn flush_after_failure(story: &mut Story, log: u16, fails: impl Fn(&Operation<Tags>) -> bool) -> Status {
    let mut failed = 0;
    story.answer_failing(|operation| {
        failed += u64::from(is_flush_of(operation, log));
        is_flush_of(operation, log) || failed > 0 && fails(operation)
    });
    assert_eq!((failed, story.volume().statistics().unasked_commits), (1, 1));
    let flush = story.send(OpKind::Flush, 0, 0, false);
    story.answer_failing(|operation| is_flush_of(operation, log) || fails(operation));
    story.finished[&flush].status
}

/// The log's drive has lost what its failed flush was to make stable. The flush had no client, so
/// the next flush of a client reports the loss.
#[test]
fn flush_tells_the_failure_of_an_unasked_commit() {
    for (scheme, settings, log) in LOGS {
        let (mut story, ..) = written_twice(1, scheme, settings);
        let status = flush_after_failure(&mut story, log, |operation| {
            operation.target == log && operation.command.kind == OpKind::Read
        });
        assert_eq!(status, Status::MediaError, "{scheme}");
    }
}

/// The log's drive still has the content, so the content is written home. The next flush of a
/// client succeeds only after that, and a power cut loses nothing.
#[test]
fn flush_after_a_failed_unasked_commit_awaits_the_evacuation() {
    for (scheme, settings, log) in LOGS {
        for seed in 0..20 {
            let (mut story, _, new) = written_twice(seed, scheme, settings);
            assert_eq!(flush_after_failure(&mut story, log, |_| false), Status::Done, "{scheme}");
            story.cut();
            for (block, number) in (0..).zip(new) {
                assert_eq!(story.read(block * 8, 8), [number; 8], "{scheme}, {seed}");
            }
        }
    }
}

/// The power is cut after each operation of an unasked commit. A block has its old content or its
/// new content, and once the commit is over, its new content.
#[test]
fn power_cut_within_an_unasked_commit_tears_no_block() {
    for (scheme, settings, log) in LOGS {
        for (seed, answered) in (0..20).flat_map(|seed| (0..4).map(move |answered| (seed, answered))) {
            let (mut story, old, new) = written_twice(seed, scheme, settings);
            let is_over = story.answer_some(ALL, answered);
            // The segment is written, and then the log's drive is flushed.
            assert_eq!((story.volume().statistics().unasked_commits, is_over), (1, answered > 1));
            assert_eq!(story.waiting.iter().any(|operation| is_flush_of(operation, log)), answered == 1);
            story.cut();
            for (block, (&old, &new)) in (0..).zip(old.iter().zip(&new)) {
                let read = story.read(block * 8, 8);
                assert!(read == [new; 8] || !is_over && read == [old; 8], "{scheme}, {seed}, {answered}: {read:?}");
            }
        }
    }
}
