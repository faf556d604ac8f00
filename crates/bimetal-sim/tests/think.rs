//! Replays with think times, and replays of several rounds.

use bimetal_core::operation::OpKind;
use bimetal_core::schemes;
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_sim::experiment::{Experiment, NoProgress};
use bimetal_sim::lifetime::Unknown;
use bimetal_sim::results::Document;
use bimetal_sim::setup::{Choices, Setup};
use bimetal_sim::simulator::{Measured, Play, Replay, simulate};
use bimetal_sim::survey::Survey;
use bimetal_sim::workload::Workload;
use bimetal_sim::workload::rounds::Rounds;
use bimetal_trace::Request;

const TIMED: Replay = Replay::Timed { speedup: 1.0 };
const THINK: Replay = Replay::Think { speedup: 1.0 };

fn millis(time: u64) -> Nanoseconds {
    Nanoseconds::from_millis(time)
}

fn request(arrival: Nanoseconds, kind: OpKind, start: u64, response: Option<Nanoseconds>) -> Request {
    Request { arrival, device: 0, kind, fua: false, range: SectorRange::new(start, 8), response }
}

/// Returns requests in random places, a second apart.
fn one_at_a_time(count: u64) -> Vec<Request> {
    let kind = |at: u64| if at.is_multiple_of(3) { OpKind::Write } else { OpKind::Read };
    let place = |at: u64| at * 7919 % 100_000 * 8;
    (0..count).map(|at| request(millis(1000 * at), kind(at), place(at), None)).collect()
}

fn measured(workload: &Vec<Request>, scheme: &str, replay: Replay) -> Measured {
    let choices = Choices::default();
    let survey = Survey::of(workload, choices.block, &|_| {}).unwrap();
    let mut setup = Setup::new(schemes::find(scheme).unwrap(), &choices, &survey).unwrap();
    let play = Play { replay, warmup_requests: 0, block_layer: None };
    simulate(&mut setup, workload.open().unwrap(), play, &|_| {}).unwrap()
}

fn document(workload: &dyn Workload, scheme: &str, settings: &[(&str, &str)], replay: Replay, merge: bool) -> Document {
    let settings = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    let choices = Choices { settings, merge, steady_wear: true, ..Choices::default() };
    let schemes = vec![schemes::find(scheme).unwrap().into()];
    let experiment = Experiment { workload, schemes, trees: Vec::new(), choices, replay, warmup: 0.0, keep: None };
    experiment.run(&NoProgress, |_, summary| summary).unwrap()
}

/// A replay on the drives that recorded the trace returns the recording. A longer prefix
/// ends with the answer to its last request, so the prefixes have the response times.
#[test]
fn drives_that_recorded_the_trace_give_the_recording_back() {
    for scheme in ["hdd-only", "ssd-only", "smart-response"] {
        let mut requests = one_at_a_time(16);
        for at in 0..requests.len() {
            let prefix = requests[..=at].to_vec();
            let response = measured(&prefix, scheme, TIMED).end - requests[at].arrival;
            assert!(response > Nanoseconds::ZERO && response < millis(1000), "{scheme}: {response:?}");
            requests[at].response = Some(response);
        }
        let ends = [TIMED, THINK].map(|replay| measured(&requests, scheme, replay).end);
        assert_eq!(ends[0], ends[1], "{scheme}");
        // An answer that took 100 ms longer lets the host think for less.
        requests[3].response = requests[3].response.map(|response| response + millis(100));
        let sooner = ends[0] - measured(&requests, scheme, THINK).end;
        assert!(sooner.0.abs_diff(millis(100).0) < millis(20).0, "{scheme}: {sooner:?}");
    }
}

/// Three requests, of which the second comes while the first is under way: the replay ends with the
/// think time of the third, 950 ms, and its answer, after the slower of the two.
#[test]
fn requests_that_overlapped_do_and_the_third_waits_for_both() {
    let third = request(millis(1000), OpKind::Read, 80_000, Some(millis(5)));
    let both = vec![
        request(Nanoseconds::ZERO, OpKind::Read, 0, Some(millis(50))),
        request(Nanoseconds(100), OpKind::Read, 400_000, Some(millis(3))),
    ];
    let all = [both.clone(), vec![third]].concat();
    let end_of_both = measured(&both, "hdd-only", THINK).end;
    assert_eq!(end_of_both, measured(&both, "hdd-only", TIMED).end);
    let think = measured(&all, "hdd-only", THINK);
    let late = request(end_of_both + millis(950), OpKind::Read, 80_000, None);
    let issued_then = measured(&[both, vec![late]].concat(), "hdd-only", TIMED);
    assert_eq!(think.end, issued_then.end);
    assert_eq!((think.queue_depth.max(), issued_then.queue_depth.max()), (2, 2));
}

/// Griffin's timer and the idle detection of Writeboost need time between requests, which a closed
/// replay does not have.
#[test]
fn schemes_that_work_in_idle_time_do_so_while_the_host_thinks() {
    let write = |at: u64| request(millis(3000 * at), OpKind::Write, at * 7919 % 1000 * 8, Some(millis(10)));
    let writes: Vec<Request> = (0..100).map(write).collect();
    let hdd_writes = |scheme: &str, settings: &[(&str, &str)], replay| {
        let run = document(&writes, scheme, settings, replay, false).runs.remove(0);
        run.devices.hdd.writes.unwrap_or(0)
    };
    let schemes: [(&str, &[(&str, &str)]); 2] = [("writeboost", &[]), ("griffin", &[("timeout", "30s")])];
    for (scheme, settings) in schemes {
        let [closed, think] = [Replay::Closed { depth: 1 }, THINK].map(|replay| hdd_writes(scheme, settings, replay));
        assert_eq!(closed, 0, "{scheme}");
        assert!(think > 0, "{scheme}");
    }
}

#[test]
fn speedup_divides_the_think_times_only() {
    let mut requests = one_at_a_time(10);
    requests.iter_mut().for_each(|request| request.response = Some(millis(100)));
    let [one, four] = [1.0, 4.0].map(|speedup| measured(&requests, "ssd-only", Replay::Think { speedup }).end);
    let thought = millis(900 * 9);
    assert_eq!(one - thought, four - Nanoseconds(thought.0 / 4));
}

/// A trace that was recorded on flash was offered a replay with think times, which then refused to
/// tell a life.
#[test]
fn life_with_think_times_is_that_of_the_times_of_the_trace() {
    let write = |at: u64| request(millis(10 * at), OpKind::Write, at * 7919 % 1000 * 8, Some(millis(1)));
    let writes: Vec<Request> = (0..500).map(write).collect();
    for scheme in ["ssd-only", "bcache", "griffin"] {
        let [timed, think] = [TIMED, THINK].map(|replay| {
            let run = document(&writes, scheme, &[], replay, false).runs.remove(0);
            (run.devices.ssd.flash.lifetime_years, run.devices.ssd.flash.dwpd)
        });
        assert!(timed.0.is_some() && timed.1.is_some(), "{scheme}: {timed:?}");
        assert_eq!(think, timed, "{scheme}");
    }
}

/// Every scheme serves a trace with think times, merged or not, with and without response times;
/// requests of one moment are held back together, and must not wait for requests that are held back
/// with them.
#[test]
fn all_schemes_play_think_times_and_say_what_they_rest_on() {
    let at = |number: u64| Nanoseconds(number / 4 * 2_000_000 + number % 4 * 10_000);
    let kind = |number: u64| if number.is_multiple_of(2) { OpKind::Write } else { OpKind::Read };
    let with = |response: Option<u64>| -> Vec<Request> {
        let place = |number: u64| number * 131 % 4000 * 8;
        (0..400).map(|it| request(at(it), kind(it), place(it), response.map(Nanoseconds))).collect()
    };
    for scheme in schemes::ALL {
        for (response, merge) in [(None, true), (Some(5_000), true), (Some(900_000), true), (None, false)] {
            let document = document(&with(response), scheme.name, &[], Replay::Think { speedup: 2.0 }, merge);
            let found = document.findings.iter().any(|finding| finding.id == "no-response-times");
            assert_eq!(found, response.is_none(), "{}", scheme.name);
            assert_eq!(document.options["replay"], "think, speedup 2");
            let run = &document.runs[0];
            assert_eq!((document.trace.requests, run.cost.score), (400, None), "{}", scheme.name);
            let unknown = run.devices.ssd.flash.lifetime_unknown;
            assert_ne!(unknown, Some(Unknown::NeedsTimes), "{}", scheme.name);
        }
    }
}

#[test]
fn without_response_times_one_request_is_under_way_at_a_time() {
    let requests: Vec<Request> = one_at_a_time(50)
        .into_iter()
        .map(|request| Request { arrival: Nanoseconds(request.arrival.0 / 100_000), ..request })
        .collect();
    assert_eq!(measured(&requests, "hdd-only", THINK).queue_depth.max(), 1);
    assert!(measured(&requests, "hdd-only", TIMED).queue_depth.max() > 10);
}

#[test]
fn rounds_count_in_all_figures() {
    let requests = one_at_a_time(40);
    let of = |rounds, replay| {
        let workload = Rounds::of(&requests, rounds).unwrap();
        document(&workload, "hdd-only", &[], replay, false)
    };
    for replay in [TIMED, THINK, Replay::Closed { depth: 4 }] {
        let (one, three) = (of(1, replay), of(3, replay));
        assert_eq!((one.trace.requests, three.trace.requests), (40, 120), "{replay}");
        let bytes = [one, three].map(|document| document.runs[0].devices.hdd.read_bytes);
        assert_eq!(bytes[1], bytes[0].map(|bytes| bytes * 3), "{replay}");
    }
    let plain = document(&requests, "hdd-only", &[], THINK, false);
    assert_eq!(plain.runs[0].response_time_ms, of(1, THINK).runs[0].response_time_ms);
}
