//! A home whose beginning lies in two copies at its end (the guard): what a read returned stays
//! until the next change, whichever copy answers.

mod story;

use bimetal_core::block::BlockSize;
use bimetal_core::guard::Area;
use bimetal_core::guard::redirect::Redirect;
use bimetal_core::operation::{Completion, OpKind, Operation, Status};
use bimetal_core::units::{Bytes, Nanoseconds, Sectors};
use bimetal_fault::payload::Tags;
use story::{ALL, HDD, Story};

const SIZE: Sectors = Bytes::from_mib(8).sectors();

/// A volume over a guarded HDD.
struct Guarded {
    story: Story,
    redirect: Redirect<Tags>,
    area: Area,
}

impl Guarded {
    fn new(seed: u64) -> Self {
        let area = Area::on(SIZE).unwrap();
        let settings = [("stream_bypass", "4KiB")];
        let mut story =
            Story::with_home(seed, "smart-response", &settings, (4000, area.capacity()), BlockSize::default());
        // The guard is raised: both copies have the content of the beginning.
        for copy in area.copies() {
            for at in 0..area.place().len.0 {
                let content = story.drives[usize::from(HDD)].content(at);
                story.drives[usize::from(HDD)].replace(copy.start.0 + at, content);
            }
        }
        Self { story, redirect: Redirect::new(area), area }
    }

    /// Answers all operations. An operation of the home drive below the guard fails if `fails` says
    /// so.
    fn answer(&mut self, mut fails: impl FnMut(&Operation<Tags>) -> bool) {
        while !self.story.answer_some(ALL, 0) {
            let Some(operation) = self.story.waiting.pop_front() else { return };
            self.story.now += Nanoseconds(1000);
            let completion = if operation.target == HDD {
                self.redirect.submit(operation);
                loop {
                    let part = self.redirect.next_operation().expect("an operation ends");
                    let token = part.token;
                    let completion = match fails(&part) {
                        true => Completion { token, status: Status::MediaError, payload: Tags::default() },
                        false => self.story.apply(part),
                    };
                    if let Some(ended) = self.redirect.complete(completion) {
                        break ended;
                    }
                }
            } else {
                self.story.apply(operation)
            };
            let now = self.story.now;
            self.story.volume().complete(now, completion);
        }
    }

    fn run(&mut self, kind: OpKind, start: u64, sectors: u64, fails: impl FnMut(&Operation<Tags>) -> bool) -> u64 {
        let request = self.story.send(kind, start, sectors, false);
        self.answer(fails);
        request
    }

    fn status(&self, request: u64) -> Status {
        self.story.finished[&request].status
    }

    /// Reads sectors, and fails the reads of one copy of the beginning.
    fn read_failing(&mut self, start: u64, sectors: u64, copy: Option<usize>) -> Result<Vec<u64>, Status> {
        let bad = copy.map(|copy| self.area.copies()[copy]);
        let read = self.run(OpKind::Read, start, sectors, |part| {
            part.command.kind == OpKind::Read && bad.is_some_and(|bad| bad.overlaps(part.command.range))
        });
        match self.status(read) {
            Status::Done => Ok(self.story.found_by(read)),
            status => Err(status),
        }
    }
}

/// A write reaches one copy of the beginning, and the drive refuses it in the other copy. The
/// client learns of the error, and reads: the content is old or new. A flush is answered. Then one
/// read of the first copy fails, and the second copy answers with the other content.
#[test]
fn write_that_reached_one_copy_is_not_read_as_both() {
    for refused in 0..2 {
        let mut guarded = Guarded::new(1);
        guarded.run(OpKind::Write, 0, 64, |_| false);
        guarded.run(OpKind::Flush, 0, 0, |_| false);
        let place = guarded.area.copies()[refused];
        let write = guarded
            .run(OpKind::Write, 0, 64, |part| part.command.kind == OpKind::Write && place.overlaps(part.command.range));
        assert_eq!(guarded.status(write), Status::MediaError);
        let first = guarded.read_failing(0, 64, None).expect("both copies can be read");
        // The first flush may report the failed write.
        guarded.run(OpKind::Flush, 0, 0, |_| false);
        let flush = guarded.run(OpKind::Flush, 0, 0, |_| false);
        assert_eq!(guarded.status(flush), Status::Done);
        let second = guarded.read_failing(0, 64, Some(0));
        assert!(
            second.is_err() || second == Ok(first.clone()),
            "copy {refused} refused: {:?} was read first, then {:?}",
            first[0],
            second.map(|read| read[0])
        );
    }
}

/// A drive may zero discarded sectors, keep them, or do either sector by sector: two copies that
/// are discarded may differ from then on.
#[test]
fn discarded_beginning_reads_the_same_from_both_copies() {
    for seed in 0..40 {
        let mut guarded = Guarded::new(seed);
        guarded.run(OpKind::Write, 0, 64, |_| false);
        guarded.run(OpKind::Flush, 0, 0, |_| false);
        let discard = guarded.run(OpKind::Discard, 0, 64, |_| false);
        assert_eq!(guarded.status(discard), Status::Done);
        let first = guarded.read_failing(0, 64, None).expect("both copies can be read");
        let flush = guarded.run(OpKind::Flush, 0, 0, |_| false);
        assert_eq!(guarded.status(flush), Status::Done);
        let second = guarded.read_failing(0, 64, Some(0));
        assert!(second.is_err() || second == Ok(first.clone()), "seed {seed}: {first:?}, then {second:?}");
    }
}
