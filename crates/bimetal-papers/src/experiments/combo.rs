//! Claims of the Combo Drive paper.
//!
//! Choices of ours, where the paper leaves them open:
//! - The start of a program is `program-start`: Python with its modules, three times from a cold
//!   disk. The trace is cut at its pauses of more than 3 s; the three longest pieces are the
//!   starts.
//! - The time of a start is the time in which the recording had no request under way, its think
//!   time, and the time of the requests, one after another.
//! - The SSD holds 6 % of the recorded addresses, as in section 5. Files move before the start, by
//!   strategy 1 with the trace's map. SSD and disk alone hold the whole recording.

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_trace::Request;

use super::{CLOSED, ExperimentsError, Note, Plan, Values, percent, ratio};
use crate::combo_hdtune::{self, SUBJECTS, Subject};
use crate::traces::{Loaded, Traces};

const SSD: &str = "combo-ssd1-32gb";
const HDD: &str = "hitachi-travelstar-5k500-500gb";

/// Share of the SSD in the Combo Drive: 32 GB beside 500 GB.
const SSD_SHARE: f64 = 0.06;

/// Alignment of the SSD's size.
const ALIGNMENT: u64 = 1 << 20;

/// Number of starts in the trace.
const STARTS: usize = 3;

/// Pause between the start of a program and what follows it.
const PAUSE: Nanoseconds = Nanoseconds(3_000_000_000);

pub(super) fn measure(traces: &Traces) -> Result<Values, ExperimentsError> {
    let mut values = Values::new();
    let rates = [("combo-read-ssd1", 3, OpKind::Read), ("combo-write-ssd1", 3, OpKind::Write)];
    let faster = [("combo-read-ssd2", 4, OpKind::Read), ("combo-write-ssd2", 4, OpKind::Write)];
    for (claim, subject, kind) in rates.into_iter().chain(faster) {
        let subject: &Subject = &SUBJECTS[subject];
        values.note(claim, Some(combo_hdtune::measure(subject, kind, 1)?.mean_mb_per_s()))?;
    }
    values.note("combo-access", Some(combo_hdtune::measure(&SUBJECTS[0], OpKind::Read, 1)?.mean_access_ms()))?;
    starts(&mut values, traces)?;
    Ok(values)
}

/// Times of the starts on one drive, in seconds, and the share of the blocks that an SSD read.
#[derive(Clone, Copy)]
struct Started {
    seconds: f64,
    from_ssd: Option<f64>,
}

fn starts(values: &mut Values, traces: &Traces) -> Result<(), ExperimentsError> {
    let trace = traces.shipped("program-start")?;
    let (requests, think) = cut(&trace.requests);
    let starts = Loaded { requests, queue_events: trace.queue_events, compact: false };
    let end = trace.requests.iter().map(|request| request.range.end().0).max().unwrap_or(0) * 512;
    let size = Bytes((end as f64 * SSD_SHARE) as u64 / ALIGNMENT * ALIGNMENT);
    let files = traces.program_start_files()?;
    let time = |plan: Plan| -> Result<Started, ExperimentsError> {
        let run = plan.play(&starts, CLOSED)?;
        let figure = run.throughput.iops.ok_or_else(|| ExperimentsError::NoFigure("combo".to_owned()))?;
        let served = run.response_time_ms.all.mean.map(|_| starts.requests.len() as f64 / figure);
        let seconds = think.as_seconds_f64() + served.unwrap_or_default();
        Ok(Started { seconds, from_ssd: run.ssd_hit_ratio.read })
    };
    let combo = |strategy| {
        let mut plan = Plan::new("combo").ssd(SSD).ssd_size(size).hdd(HDD);
        plan.choices.files.clone_from(&files);
        plan.set(&[("strategy", strategy), ("moves", "instant")])
    };
    let hdd = time(Plan::new("hdd-only").hdd(HDD))?;
    let ssd = time(Plan::new("ssd-only").ssd(SSD))?;
    let (plain, optimized) = (time(combo("none"))?, time(combo("type"))?);
    let each = format!(
        "three starts: {:.1} s on the disk, {:.1} s on SSD1, {:.1} s on the Combo Drive, {:.1} s optimized; {:.1} s of each \
         are think time",
        hdd.seconds,
        ssd.seconds,
        plain.seconds,
        optimized.seconds,
        think.as_seconds_f64()
    );
    values.explain("combo-start-hdd", Some(hdd.seconds / ssd.seconds), each.clone())?;
    let gap = Some(hdd.seconds - ssd.seconds);
    let removed = ratio(Some(hdd.seconds - optimized.seconds), gap);
    let share = percent(optimized.from_ssd);
    let before = percent(plain.from_ssd);
    values.explain("combo-start-optimized", removed, format!("{each}; optimized, the SSD serves {share}"))?;
    values.explain(
        "combo-optimizer",
        Some(optimized.seconds / plain.seconds - 1.0),
        format!("the SSD serves {before} of the blocks read without the optimizer, and {share} with it"),
    )
}

/// Returns the requests of the starts, and the time in which none of them was under way.
fn cut(requests: &[Request]) -> (Vec<Request>, Nanoseconds) {
    let (mut segments, mut busy_until): (Vec<(Vec<Request>, Nanoseconds)>, _) = (Vec::new(), Nanoseconds::ZERO);
    for request in requests {
        let gap = request.arrival.saturating_sub(busy_until);
        match segments.last_mut().filter(|_| gap <= PAUSE) {
            Some((segment, think)) => {
                segment.push(*request);
                *think += gap;
            }
            None => segments.push((vec![*request], Nanoseconds::ZERO)),
        }
        busy_until = busy_until.max(request.arrival + request.response.unwrap_or_default());
    }
    // Between the starts are films, and the file system's own work.
    segments.sort_by_key(|(segment, _)| std::cmp::Reverse(segment.len()));
    segments.truncate(STARTS);
    segments.sort_by_key(|(segment, _)| segment.first().map(|request| request.arrival));
    let think = segments.iter().map(|(_, think)| *think).fold(Nanoseconds::ZERO, |sum, think| sum + think);
    (segments.into_iter().flat_map(|(segment, _)| segment).collect(), think)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recording script starts the program three times, and watches twenty pieces of a film
    /// after each start. Taking every second piece of the trace for a start took films for starts,
    /// as the file system's own requests make further pieces.
    #[test]
    fn starts_are_cut_out_without_the_films() {
        let traces = Traces::default();
        let trace = traces.shipped("program-start").unwrap();
        let (starts, think) = cut(&trace.requests);
        let left = trace.requests.len() - starts.len();
        assert!((60..100).contains(&left), "{left} requests belong to films and file system");
        assert!(think > Nanoseconds(1_000_000_000) && think < Nanoseconds(60_000_000_000), "{think:?}");
        let files = traces.program_start_files().unwrap();
        let films: Vec<_> = files.iter().filter(|file| file.path.ends_with(".mp4")).collect();
        let in_film = |request: &&Request| {
            let of = |range: bimetal_core::units::SectorRange| (range.start.0, range.end().0);
            let (start, end) = of(request.range);
            films.iter().any(|film| start < of(film.sectors).1 && of(film.sectors).0 < end)
        };
        assert!(films.len() >= 6 && trace.requests.iter().any(|request| in_film(&request)));
        // The map counts a few blocks as film that each start reads, 4 to 16 KiB at a time.
        let large = |request: &&Request| in_film(request) && request.range.len.0 > 32;
        assert_eq!(starts.iter().filter(large).count(), 0);
        assert!(trace.requests.iter().filter(large).count() > 10);
    }
}
