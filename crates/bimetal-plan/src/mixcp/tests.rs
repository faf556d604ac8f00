use bimetal_core::units::{Bytes, Nanoseconds, SectorRange};
use bimetal_trace::analysis::Analyzer;
use bimetal_trace::synthetic::{Generator, Skew, WorkloadSpec};
use proptest::prelude::*;

use super::training::{measure, samples, sized, small};
use super::*;

const DRIVE: &str = "super-talent-32gb";

/// Returns the drive with memory for all of DFTL's map, which is quicker to simulate.
fn drive() -> Profile {
    let mut profile = Profile::load(DRIVE).unwrap();
    profile.set("map_cache", "128MiB").unwrap();
    profile
}

fn workload() -> Characteristics {
    Characteristics {
        sequentiality: 0.3,
        request_sectors: 24.0,
        interarrival_ms: 60.0,
        utilisation: 0.8,
        read_fraction: 0.3,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The averages equal the averages of `analyze`, which counts with separate code.
    #[test]
    fn characteristics_are_those_of_analyze(
        seed in any::<u64>(),
        sequential in 0.0..1.0f64,
        read_fraction in 0.0..1.0f64,
        kib in 1u64..64,
    ) {
        let spec = WorkloadSpec {
            read_fraction,
            sequential,
            size: Bytes(kib << 10).to_string().parse().unwrap(),
            skew: Skew::Uniform,
            ..WorkloadSpec::new(500, Bytes(16 << 20))
        };
        let requests: Vec<Request> = Generator::new(&[spec], seed).unwrap().collect();
        let mut analyzer = Analyzer::new(Bytes(4096)).unwrap();
        requests.iter().for_each(|request| analyzer.request(request));
        let twin = analyzer.finish();
        let own = Characteristics::of(&requests, 0.5);
        for (own, twin) in [
            (own.sequentiality, twin.sequential_fraction),
            (own.request_sectors * 512.0, twin.mean_request_bytes),
            (own.interarrival_ms, twin.mean_interarrival_ms),
            (own.read_fraction, twin.request_read_fraction),
        ] {
            prop_assert!((own - twin.unwrap()).abs() < 1e-6, "{own} {twin:?}");
        }
    }
}

#[test]
fn what_is_neither_read_nor_written_has_no_characteristics() {
    let request = |kind, start, ms| Request {
        arrival: Nanoseconds::from_millis(ms),
        device: 0,
        kind,
        fua: false,
        range: SectorRange::new(start, 8),
        response: None,
    };
    let requests = [request(OpKind::Write, 0, 0), request(OpKind::Flush, 0, 1), request(OpKind::Write, 8, 10)];
    let own = Characteristics::of(&requests, 0.5);
    assert_eq!((own.sequentiality, own.interarrival_ms, own.read_fraction), (0.5, 10.0, 0.0));
    let nothing = Characteristics::of(&[], 0.5);
    assert_eq!(nothing.values(), [0.0, 0.0, 0.0, 0.5, 0.0]);
}

#[test]
fn training_gives_the_same_on_one_thread_and_on_four() {
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let count = std::sync::atomic::AtomicUsize::new(0);
        let over = || {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        };
        let samples = pool.install(|| samples(&drive(), &Spans::PAPER, 6, 7, &over)).unwrap();
        assert_eq!(count.into_inner(), 6, "each workload is told of");
        samples
    };
    let one = on(1);
    assert_eq!(one, on(4));
    assert_ne!(one, samples(&drive(), &Spans::PAPER, 6, 8, &|| {}).unwrap(), "another seed, other workloads");
}

/// A drive eight times as large has the same response time and erase rate.
#[test]
fn the_small_drive_does_as_a_larger_one() {
    let (small, size) = small(&drive()).unwrap();
    let large = sized(&drive(), Bytes(size.0 * 8)).unwrap();
    for (utilisation, read_fraction) in [(0.5, 0.0), (0.8, 0.3), (0.9, 0.0)] {
        let wanted = Characteristics { utilisation, read_fraction, ..workload() };
        let small = measure(&small, size, &wanted, 1).unwrap();
        let large = measure(&large, Bytes(size.0 * 8), &wanted, 1).unwrap();
        let response = relative(small.measured.response_ms, large.measured.response_ms);
        let erases = relative(small.measured.erases_per_s, large.measured.erases_per_s);
        println!(
            "utilisation {utilisation}: {:?} {:?}, off by {response:.3} and {erases:.3}",
            small.measured, large.measured
        );
        assert!(response < 0.02 && erases < 0.06, "{response} {erases}");
    }
}

/// A trained model predicts more wear for faster and larger writes and for fuller flash. The model
/// predicts less wear for more reads.
#[test]
fn trained_model_predicts_more_wear_for_heavier_writes() {
    let samples = samples(&drive(), &Spans::PAPER, 80, 1, &|| {}).unwrap();
    let model = Model::fit(&drive(), Spans::PAPER, &samples, false).unwrap();
    assert_eq!(model.ftl, "dftl");
    assert!(model.response.adjusted_r2 > 0.6 && model.erases.adjusted_r2 > 0.6, "{model:?}");
    assert!(model.inflation.iter().all(|factor| *factor < 2.0), "{model:?}");
    let erases = |change: fn(&mut Characteristics)| {
        let mut workload = workload();
        change(&mut workload);
        model.predict(&workload).erases_per_s
    };
    let usual = erases(|_| {});
    assert!(erases(|workload| workload.interarrival_ms *= 2.0) < 0.9 * usual);
    assert!(erases(|workload| workload.request_sectors *= 2.0) > 1.1 * usual);
    assert!(erases(|workload| workload.utilisation = 0.4) < 0.8 * usual);
    assert!(erases(|workload| workload.read_fraction = 0.8) < 0.8 * usual);
    let (response, wear) = model.errors(&samples);
    assert!(response < 0.6 && wear < 0.8, "{response} {wear}");
}

#[test]
fn training_set_with_dependent_predictors_is_refused() {
    let mut samples = samples(&drive(), &Spans::PAPER, 12, 1, &|| {}).unwrap();
    for sample in &mut samples {
        sample.workload.request_sectors = 10.0 + 100.0 * sample.workload.sequentiality;
    }
    let error = Model::fit(&drive(), Spans::PAPER, &samples, false).unwrap_err().to_string();
    let expected = "super-talent-32gb: response time: sequentiality and request_sectors depend on each other";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn a_disk_has_no_model() {
    let disk = Profile::load("ibm-ultrastar-36z15-36gb").unwrap();
    let error = samples(&disk, &Spans::PAPER, 12, 1, &|| {}).unwrap_err().to_string();
    assert_eq!(error, "ibm-ultrastar-36z15-36gb is not a flash drive: MixCP is a model of SSDs");
}

#[test]
fn a_life_is_rated_cycles_over_erases() {
    let profile = drive();
    let size = Bytes(1 << 30).sectors();
    let Body::Flash(flash) = &profile.body else { panic!("it is flash") };
    let blocks = flash.geometry(profile.capacity, Some(size)).unwrap().physical_bytes().0 / (128 << 10);
    let behaviour = Behaviour { response_ms: 1.0, erases_per_s: 0.5 };
    let seconds = blocks as f64 * 100_000.0 / 0.5;
    let years = behaviour.life_years(&profile, size).unwrap();
    assert!((years - seconds / (365.25 * 86_400.0)).abs() < 1e-6 * years, "{years}");
    assert_eq!(Behaviour { erases_per_s: 0.0, ..behaviour }.life_years(&profile, size), None);
}
