//! Emulated drives: their pace in virtual time, their data in real time.

use bimetal_core::operation::Command;
use bimetal_models::profile::{DEFAULT_HDD, DEFAULT_SSD};
use proptest::prelude::*;

use super::*;
use crate::drive::tests::{FILE_SECTORS, Temporary, operation, pattern, run};

fn read(start: u64) -> Command {
    Command { kind: OpKind::Read, range: SectorRange::new(start, 8), fua: false }
}

fn ended(token: u64) -> Completion<Buffers> {
    Completion { token: Token(token), status: Status::Done, payload: Buffers::empty() }
}

fn hdd() -> Pace {
    Pace::new(Profile::load(DEFAULT_HDD).unwrap().build(None, 0).unwrap(), "a drive".into())
}

/// Returns the times of the model itself, as in a simulation.
fn simulated(starts: &[u64]) -> Vec<(Token, Nanoseconds)> {
    let mut model = Profile::load(DEFAULT_HDD).unwrap().build(None, 0).unwrap();
    for (number, &start) in starts.iter().enumerate() {
        model.submit(Nanoseconds::ZERO, Token(number as u64), read(start));
    }
    let mut finished = Vec::new();
    while finished.len() < starts.len() {
        model.advance(model.next_event().unwrap(), &mut finished);
    }
    finished.into_iter().map(|one| (one.token, one.at)).collect()
}

const STARTS: [u64; 4] = [1_500_000_000, 8, 900_000_000, 4096];

#[test]
fn operations_end_at_the_times_of_the_model_and_in_its_order() {
    let mut pace = hdd();
    for (number, start) in STARTS.into_iter().enumerate() {
        pace.submit(Nanoseconds::ZERO, Token(number as u64), read(start));
        pace.real_ended(Nanoseconds(10), ended(number as u64));
    }
    let mut seen = Vec::new();
    let mut given = Vec::new();
    while let Some((at, true)) = pace.next_event() {
        pace.advance(Nanoseconds(at.0 - 1), &mut given);
        assert!(given.is_empty(), "nothing ends before its time");
        pace.advance(at, &mut given);
        seen.extend(given.drain(..).map(|completion| (completion.token, at)));
    }
    assert_eq!(seen, simulated(&STARTS));
    assert_eq!((pace.counted().operations, pace.counted().overruns), (4, 0));
    assert_eq!(pace.under_way(), 0);
}

/// A single poll long after the end gives all completions in the order of the model's times.
#[test]
fn late_poll_gives_all_completions_in_model_order() {
    let mut pace = hdd();
    for (number, start) in STARTS.into_iter().enumerate() {
        pace.submit(Nanoseconds::ZERO, Token(number as u64), read(start));
        pace.real_ended(Nanoseconds(10), ended(number as u64));
    }
    let mut given = Vec::new();
    pace.advance(Nanoseconds::from_seconds(1), &mut given);
    let order: Vec<Token> = given.iter().map(|completion| completion.token).collect();
    assert_eq!(order, simulated(&STARTS).into_iter().map(|(token, _)| token).collect::<Vec<_>>());
}

/// A real operation that takes longer than the model is counted as an overrun. The overrun delays
/// only its own operation.
#[test]
fn overrun_of_the_real_part_delays_only_its_own_operation() {
    let mut pace = hdd();
    pace.submit(Nanoseconds::ZERO, Token(0), read(STARTS[0]));
    pace.submit(Nanoseconds::ZERO, Token(1), read(STARTS[1]));
    pace.real_ended(Nanoseconds(10), ended(1));
    let times = simulated(&STARTS[..2]);
    let due = |token: u64| times.iter().find(|(of, _)| of.0 == token).unwrap().1;
    let mut given = Vec::new();
    pace.advance(Nanoseconds::from_millis(100), &mut given);
    assert_eq!(given, [ended(1)]);
    let late = Nanoseconds::from_millis(150);
    pace.real_ended(late, ended(0));
    pace.advance(late, &mut given);
    assert_eq!(given[1..], [ended(0)]);
    let counted = pace.counted();
    assert_eq!((counted.operations, counted.overruns), (2, 1));
    assert_eq!(counted.overrun_total, late - due(0));
    assert_eq!(counted.overrun_max, late - due(0));
}

#[test]
fn the_time_of_an_operation_counts_from_when_it_was_asked_for() {
    let due = simulated(&STARTS[..1])[0].1;
    let late = Nanoseconds::from_millis(1);
    let mut pace = hdd();
    pace.submit(Nanoseconds::ZERO, Token(0), read(STARTS[0]));
    // The server began late; the real part takes as long as the model's time.
    pace.real_begins(late, Token(0));
    pace.real_ended(late + due, ended(0));
    let mut given = Vec::new();
    pace.advance(late + due, &mut given);
    assert_eq!((given.len(), pace.counted().overruns), (1, 0));
    // An operation submitted at a past time counts from the latest time so far.
    pace.submit(due, Token(1), read(8));
    assert!(pace.next_event().is_some_and(|(at, _)| at > late + due));
}

#[test]
fn what_goes_wrong_on_either_side_goes_wrong() {
    let failed = Completion { status: Status::MediaError, ..ended(0) };
    let mut pace = hdd();
    pace.submit(Nanoseconds::ZERO, Token(0), read(8));
    pace.real_ended(Nanoseconds(10), failed.clone());
    let hint = Command { kind: OpKind::Hint, ..read(8) };
    pace.submit(Nanoseconds::ZERO, Token(1), hint);
    pace.real_ended(Nanoseconds(10), ended(1));
    let mut given = Vec::new();
    pace.advance(Nanoseconds::from_seconds(1), &mut given);
    given.sort_by_key(|completion| completion.token);
    assert_eq!(given, [failed, Completion { status: Status::Unsupported, ..ended(1) }]);
}

fn open(temporary: &Temporary, profile: &str, settings: &[(&str, &str)]) -> Emulated {
    let player = Player::new(profile, settings.iter().copied()).unwrap();
    Emulated::new(DriveFile::open(&temporary.0).unwrap(), &player, SectorRange::default()).unwrap()
}

/// An emulated drive returns the data that was written and takes at least as long as its model.
#[test]
fn emulated_drive_keeps_data_and_the_time_of_its_model() {
    let temporary = Temporary::new();
    let mut drive = open(&temporary, DEFAULT_HDD, &[("write_cache", "off")]);
    let begun = Instant::now();
    let writes: Vec<_> = (0..4).map(|at| operation(OpKind::Write, at * 1000, pattern(at, 8), 8, false)).collect();
    assert!(run(&mut drive, writes).iter().all(|end| end.status == Status::Done));
    // Four writes at different angles of a disk that turns in 8.3 ms.
    assert!(begun.elapsed().as_millis() >= 4, "{:?}", begun.elapsed());
    let reads = (0..4).map(|at| operation(OpKind::Read, at * 1000, Buffers::empty(), 8, false)).collect();
    for (at, end) in run(&mut drive, reads).into_iter().enumerate() {
        assert!(end.payload == pattern(at as u64, 8));
    }
    let outside = run(&mut drive, vec![operation(OpKind::Read, FILE_SECTORS, Buffers::empty(), 8, false)]);
    assert_eq!(outside[0].status, Status::OutOfRange);
    let counted = drive.emulation().unwrap();
    assert_eq!((counted.profile.as_str(), counted.operations), (DEFAULT_HDD, 8));
}

#[test]
fn a_misspelt_profile_or_setting_is_refused_kindly() {
    let error = |profile, setting| Player::new(profile, [setting]).unwrap_err().to_string();
    let misspelt = error("samsung-970-evo-plus-500g", ("volatile_cache", "on"));
    assert!(misspelt.contains("did you mean 'samsung-970-evo-plus-500gb'?"), "{misspelt}");
    assert_eq!(error(DEFAULT_HDD, ("volatile_cache", "yes")), "volatile_cache=yes: expected on or off");
    assert!(error(DEFAULT_HDD, ("volatile_cach", "on")).contains("unknown key 'volatile_cach'"));
}

/// Operation of a test: kind, range, and the seed of written data.
#[derive(Clone, Debug)]
enum Deed {
    Write { start: u64, len: u64, seed: u64, fua: bool },
    Zero { start: u64, len: u64 },
    Read { start: u64, len: u64 },
    Flush,
}

fn deed() -> impl Strategy<Value = Deed> {
    // Few addresses, so that ranges overlap; some ranges exceed the cache.
    let range = (0..200_u64, prop_oneof![8 => 1..24_u64, 1 => Just(900)]);
    prop_oneof![
        6 => (range.clone(), any::<u64>(), prop::bool::weighted(0.1))
            .prop_map(|((start, len), seed, fua)| Deed::Write { start, len, seed: seed % 251, fua }),
        1 => range.clone().prop_map(|(start, len)| Deed::Zero { start, len }),
        3 => range.prop_map(|(start, len)| Deed::Read { start, len }),
        1 => Just(Deed::Flush),
    ]
}

/// Contents allowed after a power cut, per sector: the last stable content, or any later write.
struct Shadow {
    /// Allowed contents of each sector; a read returns the last of these contents.
    sectors: Vec<Vec<Vec<u8>>>,
}

impl Shadow {
    fn write(&mut self, start: u64, data: &[u8], stable: bool) {
        for (at, bytes) in data.chunks(512).enumerate() {
            let sector = &mut self.sectors[start as usize + at];
            if stable {
                sector.clear();
            }
            sector.push(bytes.to_vec());
        }
    }

    fn flush(&mut self) {
        for sector in &mut self.sectors {
            sector.drain(..sector.len() - 1);
        }
    }
}

fn bytes_of(payload: &Buffers) -> Vec<u8> {
    payload.to_metadata()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Reads see writes that are not flushed. The end of the process loses no flushed write.
    #[test]
    fn reads_see_unflushed_writes_and_a_kill_keeps_flushed_ones(
        deeds in prop::collection::vec(deed(), 1..120)
    ) {
        let temporary = Temporary::new();
        let mut shadow = Shadow { sectors: vec![vec![vec![0; 512]]; FILE_SECTORS as usize] };
        let mut drive = open(&temporary, DEFAULT_SSD, &[("volatile_cache", "on")]);
        // Small enough for the operations to overflow it.
        drive.volatile = Some(VolatileCache::new(Bytes(64 << 10)));
        for deed in deeds {
            let (operation, expected) = match deed {
                Deed::Write { start, len, seed, fua } => {
                    let data = pattern(seed, len);
                    shadow.write(start, &bytes_of(&data), fua);
                    (operation(OpKind::Write, start, data, len, fua), None)
                }
                Deed::Zero { start, len } => {
                    shadow.write(start, &vec![0; len as usize * 512], false);
                    (operation(OpKind::WriteZeroes, start, Buffers::empty(), len, false), None)
                }
                Deed::Read { start, len } => {
                    let sectors = &shadow.sectors[start as usize..(start + len) as usize];
                    let expected = sectors.iter().flat_map(|sector| sector[sector.len() - 1].clone()).collect::<Vec<_>>();
                    (operation(OpKind::Read, start, Buffers::empty(), len, false), Some(expected))
                }
                Deed::Flush => {
                    shadow.flush();
                    (operation(OpKind::Flush, 0, Buffers::empty(), 0, false), None)
                }
            };
            let end = run(&mut drive, vec![operation]).remove(0);
            prop_assert_eq!(end.status, Status::Done);
            if let Some(expected) = expected {
                prop_assert!(bytes_of(&end.payload) == expected);
            }
        }
        // Dropping equals killing the process: memory content is lost.
        drop(drive);
        let bytes = std::fs::read(&temporary.0).unwrap();
        for (at, sector) in bytes.chunks(512).enumerate() {
            prop_assert!(shadow.sectors[at].iter().any(|may| may == sector), "sector {}", at);
        }
    }

    #[test]
    fn ended_writes_are_in_the_file_without_a_volatile_cache(
        writes in prop::collection::vec((0..200_u64, 1..24_u64, 0..251_u64), 1..40)
    ) {
        let temporary = Temporary::new();
        let mut drive = open(&temporary, DEFAULT_SSD, &[]);
        let mut expected = vec![0; FILE_SECTORS as usize * 512];
        for (start, len, seed) in writes {
            let data = pattern(seed, len);
            expected[start as usize * 512..][..len as usize * 512].copy_from_slice(&bytes_of(&data));
            run(&mut drive, vec![operation(OpKind::Write, start, data, len, false)]);
        }
        drop(drive);
        prop_assert!(std::fs::read(&temporary.0).unwrap() == expected);
    }
}

#[test]
fn unflushed_writes_are_lost_with_the_process() {
    let temporary = Temporary::new();
    let mut drive = open(&temporary, DEFAULT_SSD, &[("volatile_cache", "on")]);
    run(&mut drive, vec![operation(OpKind::Write, 0, pattern(1, 8), 8, false)]);
    run(&mut drive, vec![operation(OpKind::Flush, 0, Buffers::empty(), 0, false)]);
    run(&mut drive, vec![operation(OpKind::Write, 8, pattern(2, 8), 8, false)]);
    drop(drive);
    let mut drive = open(&temporary, DEFAULT_SSD, &[]);
    let read = |drive: &mut Emulated, start| {
        run(drive, vec![operation(OpKind::Read, start, Buffers::empty(), 8, false)]).remove(0).payload
    };
    assert!(read(&mut drive, 0) == pattern(1, 8));
    assert!(read(&mut drive, 8) == Buffers::zeroes(Sectors(8)));
}
