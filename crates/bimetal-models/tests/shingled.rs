//! A drive-managed shingled disk: writes are staged, bands are cleaned, and every command ends.

use bimetal_core::operation::{Command, OpKind, Token};
use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};
use bimetal_models::hdd::{Hdd, ShingledHdd};
use bimetal_models::profile::Profile;
use bimetal_models::statistics::HddStatistics;
use bimetal_models::{DeviceModel, Finished};
use proptest::prelude::*;

const MIB: u64 = 2048;
const BAND: u64 = 32 * MIB;

/// Disk of 100 GB with bands of 32 MiB, a staging area of 256 MiB and a write cache of 64 MiB.
fn profile() -> Profile {
    let mut profile = Profile::load("seagate-exos-x18-18tb").expect("a built-in profile");
    let figures = [
        ("recording", "smr"),
        ("staging_area", "256MiB"),
        ("band", "32MiB"),
        ("clean_after_s", "1"),
        ("capacity", "100GB"),
        ("cache", "128MiB"),
    ];
    profile.set_all(figures).expect("figures of a shingled disk");
    profile
}

fn shingled() -> ShingledHdd {
    let profile = profile();
    ShingledHdd::new(profile.hdd().expect("a disk"), profile.capacity, profile.capacity).expect("a drive")
}

/// A drive with the time that it has reached.
struct Player<D> {
    drive: D,
    now: Nanoseconds,
    sent: u64,
    finished: Vec<Finished>,
}

impl<D: DeviceModel> Player<D> {
    fn new(drive: D) -> Self {
        Self { drive, now: Nanoseconds::ZERO, sent: 0, finished: Vec::new() }
    }

    fn send(&mut self, kind: OpKind, start: u64, sectors: u64) {
        self.drive.submit(
            self.now,
            Token(self.sent),
            Command { kind, range: SectorRange::new(start, sectors), fua: false },
        );
        self.sent += 1;
    }

    /// Lets time pass until all but `left` commands have ended.
    fn wait(&mut self, left: u64) {
        while self.sent - self.finished.len() as u64 > left {
            self.now = self.drive.next_event().expect("commands are under way");
            self.drive.advance(self.now, &mut self.finished);
        }
    }

    /// Lets the drive be idle for `seconds`.
    fn rest(&mut self, seconds: f64) {
        self.now += Nanoseconds::from_seconds_f64(seconds);
        self.drive.advance(self.now, &mut self.finished);
    }

    /// Sends commands, four under way. Returns the number of commands that end in a second.
    fn rate(&mut self, commands: impl IntoIterator<Item = (OpKind, u64, u64)>) -> f64 {
        let (from, sent) = (self.now, self.sent);
        for (kind, start, sectors) in commands {
            self.wait(3);
            self.send(kind, start, sectors);
        }
        self.wait(0);
        (self.sent - sent) as f64 / (self.now - from).as_seconds_f64()
    }

    fn counts(&self) -> HddStatistics {
        self.drive.statistics(self.now).hdd.expect("a disk")
    }
}

/// Writes of 4 KiB at addresses that are spread over the drive.
fn random_writes(count: u64) -> impl Iterator<Item = (OpKind, u64, u64)> {
    let spread = |number: u64| number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99) >> 40;
    (0..count).map(move |number| (OpKind::Write, spread(number) % 24_000_000 * 8, 8))
}

/// 256 MiB of staging area hold 65,536 random writes of 4 KiB. Later writes wait for bands to be
/// cleaned, each with a read and a write of 32 MiB.
#[test]
fn random_writes_beyond_the_staging_area_fall_by_more_than_ten() {
    let mut player = Player::new(shingled());
    let staged = player.rate(random_writes(60_000));
    assert_eq!(player.counts().bands_cleaned, 0);
    player.rate(random_writes(68_000).skip(60_000));
    let full = player.rate(random_writes(69_000).skip(68_000));
    let cleaned = player.counts().bands_cleaned;
    assert!(cleaned > 10, "{cleaned} bands");
    assert!(full < staged / 10.0, "{full} writes a second after {staged}");
    // A conventional disk takes the same writes at the rate of its arm.
    let profile = profile();
    let conventional = Hdd::new(profile.hdd().expect("a disk"), profile.capacity, profile.capacity).expect("a drive");
    let mut conventional = Player::new(conventional);
    conventional.rate(random_writes(40_000));
    let by_arm = conventional.rate(random_writes(44_000).skip(40_000));
    assert!(staged > 2.0 * by_arm && full < by_arm, "{staged}, {by_arm} and {full}");
}

/// A thousand writes are staged. After a second of idleness the drive cleans their bands, and takes
/// the next burst at full rate.
#[test]
fn idle_drive_cleans_its_staging_area() {
    let mut player = Player::new(shingled());
    player.rate(random_writes(1000));
    player.rest(0.9);
    assert_eq!(player.counts().bands_cleaned, 0, "too early");
    while let Some(next) = player.drive.next_event() {
        player.now = next;
        player.drive.advance(next, &mut player.finished);
    }
    let bands: std::collections::BTreeSet<u64> = random_writes(1000).map(|(_, start, _)| start / BAND).collect();
    assert_eq!(player.counts().bands_cleaned, bands.len() as u64, "each band once");
    let seconds = player.now.as_seconds_f64() / bands.len() as f64;
    assert!((0.2..0.6).contains(&seconds), "{seconds} s for a band: two passes over 32 MiB");
}

/// A stream in order is staged up to the first border of a band, and is written directly to the
/// bands from that border on.
#[test]
fn writes_in_order_go_straight_to_their_bands() {
    let mut player = Player::new(shingled());
    let count = 20 * BAND / MIB;
    player.rate((0..count).map(|number| (OpKind::Write, BAND / 2 + number * MIB, MIB)));
    player.send(OpKind::Flush, 0, 0);
    player.wait(0);
    let mib_per_s = count as f64 / player.now.as_seconds_f64();
    assert_eq!(player.counts().staged_writes, BAND / 2 / MIB);
    assert!((mib_per_s * 1.048_576 / 270.0 - 1.0).abs() < 0.1, "{mib_per_s} MiB/s of the outer rate of 270 MB/s");
    player.send(OpKind::Write, 80 * BAND, BAND);
    player.wait(0);
    assert_eq!(player.counts().staged_writes, BAND / 2 / MIB, "a whole band goes straight");
    // What is written straight is no longer staged: only the first half band is to be cleaned.
    player.send(OpKind::Write, BAND, MIB);
    player.send(OpKind::Write, 0, BAND);
    player.send(OpKind::Write, BAND, BAND);
    player.wait(0);
    player.rest(60.0);
    assert_eq!(player.counts().bands_cleaned, 0);
}

/// A stream that ends inside a band leaves the band half written. When other writers have come, the
/// drive rewrites the band.
#[test]
fn half_written_band_is_cleaned() {
    let mut player = Player::new(shingled());
    player.rate((0..3).map(|number| (OpKind::Write, BAND - MIB + number * MIB, MIB)));
    player.rate((0..40).map(|number| (OpKind::Write, (10 + 2 * number) * BAND, BAND)));
    player.rest(120.0);
    assert_eq!(player.counts().bands_cleaned, 2, "that of the staged first write, and the half written one");
}

/// Reads during idle cleaning do not wait for a whole band.
#[test]
fn read_waits_for_a_step_of_cleaning_only() {
    let mut player = Player::new(shingled());
    player.rate(random_writes(2000));
    player.rest(1.2);
    let mut slowest = 0.0_f64;
    for number in 0..50 {
        let from = player.now;
        player.send(OpKind::Read, number * 3_000_017 / 8 * 8, 8);
        player.wait(0);
        slowest = slowest.max((player.now - from).as_millis_f64());
        player.rest(1.3);
    }
    assert!(player.counts().bands_cleaned > 10);
    assert!(slowest < 60.0, "{slowest} ms");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Every command ends once and not before it came, and the idle drive comes to rest with each
    /// staged band clean.
    #[test]
    fn every_command_ends_and_the_drive_comes_to_rest(
        commands in prop::collection::vec((0..6_u8, 0..200_u64, 1..9_u64, 0..40_u64), 1..150),
    ) {
        let mut player = Player::new(shingled());
        let mut sent = Vec::new();
        for (kind, place, length, pause_ms) in commands {
            let kind = [OpKind::Read, OpKind::Write, OpKind::Write, OpKind::WriteZeroes, OpKind::Flush, OpKind::Discard]
                [usize::from(kind)];
            let range = if kind == OpKind::Flush { (0, 0) } else { (place * BAND / 4, length * BAND / 8) };
            sent.push(player.now);
            player.send(kind, range.0, range.1);
            player.rest(pause_ms as f64 * 1e-3);
        }
        while let Some(next) = player.drive.next_event() {
            prop_assert!(next >= player.now);
            player.now = next;
            player.drive.advance(next, &mut player.finished);
        }
        let mut ended: Vec<u64> = player.finished.iter().map(|end| end.token.0).collect();
        prop_assert!(player.finished.iter().all(|end| end.at >= sent[end.token.0 as usize]));
        prop_assert!(player.finished.is_sorted_by_key(|end| end.at));
        ended.sort_unstable();
        prop_assert_eq!(ended, (0..sent.len() as u64).collect::<Vec<_>>());
        let counts = player.drive.statistics(player.now);
        prop_assert_eq!(counts.reads + counts.writes + counts.flushes + counts.discards, sent.len() as u64);
    }
}

#[test]
fn impossible_figures_of_shingles_are_refused() {
    for (key, value, expected) in [
        ("staging_area", "64MiB", "at least 4 bands"),
        ("band", "1000", "in whole sectors of 4096 bytes"),
        ("actuators", "2", "\"cmr\", because there are several actuators"),
        ("clean_after_s", "-1", "a number from 0"),
        ("recording", "hamr", "`cmr` or `smr`"),
    ] {
        let error = profile().set(key, value).expect_err(key).to_string();
        assert!(error.contains(expected), "{key}={value}: {error}");
    }
    assert_eq!(profile().hdd().expect("a disk").band.0.sectors(), Sectors(BAND));
}
