//! A home whose beginning lies in two copies at its end (the guard): what a read returned stays
//! until the next change, whichever copy answers.

mod story;

use bimetal_core::block::BlockSize;
use bimetal_core::guard::Area;
use bimetal_core::guard::redirect::Redirect;
use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange, Sectors};
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

/// A flush failed, and the drive dropped what one copy had got since the flush before. The client
/// read one content, a later flush was done, and the other copy answered with the other content.
#[test]
fn flush_that_drops_one_copy_is_not_read_as_both() {
    for dropped in 0..2 {
        let mut guarded = Guarded::new(1);
        guarded.run(OpKind::Write, 0, 64, |_| false);
        guarded.run(OpKind::Flush, 0, 0, |_| false);
        let place = guarded.area.copies()[dropped].start.0;
        let home = usize::from(HDD);
        let old: Vec<_> = (0..64).map(|at| guarded.story.drives[home].content(place + at)).collect();
        guarded.run(OpKind::Write, 0, 64, |_| false);
        let flush = guarded.run(OpKind::Flush, 0, 0, |part| part.command.kind == OpKind::Flush && part.target == HDD);
        assert_eq!(guarded.status(flush), Status::MediaError);
        (place..).zip(old).for_each(|(at, sector)| guarded.story.drives[home].replace(at, sector));
        let first = guarded.read_failing(0, 64, None).expect("both copies can be read");
        guarded.run(OpKind::Flush, 0, 0, |_| false);
        let flush = guarded.run(OpKind::Flush, 0, 0, |_| false);
        assert_eq!(guarded.status(flush), Status::Done);
        let second = guarded.read_failing(0, 64, Some(0));
        assert!(second.is_err() || second == Ok(first.clone()), "copy {dropped}: {first:?}, then {second:?}");
    }
}

/// Sends `redirect` an operation of eight sectors; `status` ends the parts in turn. Returns the
/// status of the whole operation.
fn status_of(
    redirect: &mut Redirect<Tags>,
    kind: OpKind,
    start: u64,
    mut status: impl FnMut(usize) -> Status,
) -> Status {
    let payload = if kind == OpKind::Write { Tags::written(1, start, 8) } else { Tags::default() };
    let command = Command { kind, range: SectorRange::new(start, 8), fua: false };
    redirect.submit(Operation { token: Token(7), target: HDD, command, payload });
    for turn in 0.. {
        let token = redirect.next_operation().expect("a part is left").token;
        let completion = Completion { token, status: status(turn), payload: Tags::default() };
        if let Some(ended) = redirect.complete(completion) {
            return ended.status;
        }
    }
    unreachable!("an operation ends")
}

/// Two writes failed, and each was repeated with success. The copies were equal again, and the
/// sectors between the two could not be read from the second copy.
#[test]
fn copies_that_are_equal_again_serve_both() {
    let mut redirect = Redirect::<Tags>::new(Area::on(SIZE).unwrap());
    let fails_first = |turn| if turn == 0 { Status::MediaError } else { Status::Done };
    for start in [0, 1024] {
        assert_eq!(status_of(&mut redirect, OpKind::Write, start, |_| Status::MediaError), Status::MediaError);
    }
    let read = |redirect: &mut Redirect<Tags>| {
        [0, 512, 1024].map(|start| status_of(redirect, OpKind::Read, start, fails_first))
    };
    assert_eq!(read(&mut redirect), [Status::MediaError, Status::Done, Status::MediaError]);
    assert_eq!(status_of(&mut redirect, OpKind::Write, 0, |_| Status::Done), Status::Done);
    assert_eq!(read(&mut redirect), [Status::Done, Status::Done, Status::MediaError]);
    assert_eq!(status_of(&mut redirect, OpKind::Write, 1024, |_| Status::Done), Status::Done);
    assert_eq!(read(&mut redirect), [Status::Done; 3]);
}

/// A flush makes changes stable that ended before it began: a later flush that fails does not count
/// against them.
#[test]
fn failed_flush_doubts_only_changes_since_the_flush_before() {
    let mut redirect = Redirect::<Tags>::new(Area::on(SIZE).unwrap());
    let fails_first = |turn| if turn == 0 { Status::MediaError } else { Status::Done };
    let flush = |redirect: &mut Redirect<Tags>, status| {
        let command = Command::FLUSH;
        redirect.submit(Operation { token: Token(8), target: HDD, command, payload: Tags::default() });
        let token = redirect.next_operation().expect("the drive is flushed").token;
        redirect.complete(Completion { token, status, payload: Tags::default() }).expect("the flush ends").status
    };
    status_of(&mut redirect, OpKind::Write, 0, |_| Status::Done);
    assert_eq!(flush(&mut redirect, Status::Done), Status::Done);
    status_of(&mut redirect, OpKind::Write, 8, |_| Status::Done);
    assert_eq!(flush(&mut redirect, Status::MediaError), Status::MediaError);
    let read = [0, 8].map(|start| status_of(&mut redirect, OpKind::Read, start, fails_first));
    assert_eq!(read, [Status::Done, Status::MediaError]);
}
