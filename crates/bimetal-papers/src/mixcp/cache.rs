//! Training sets of MixCP, kept in a folder between runs.
//!
//! A file has the samples of one training set. The name of the file is a digest of everything that
//! a training set depends on: the version, the profile with its settings, the spans, the number of
//! workloads and the seed. A change of the simulator does not change this digest. So the first
//! workloads of a set are simulated again, and the results are compared with the file. If the
//! results differ, the simulator has changed. A file that is damaged, or comes from another model,
//! is trained again.

use std::fs;
use std::path::{Path, PathBuf};

use bimetal_models::profile::Profile;
use bimetal_plan::mixcp::training::{self, Sample, Spans};
use bimetal_plan::mixcp::{Behaviour, Characteristics, ModelError};
use bimetal_plan::sweep::key;

/// First line of a file, before its digest. A change of the format changes this line.
const FORMAT: &str = "bimetal mixcp training 1";

/// Number of workloads that are simulated again to recognise the model.
const PROBES: usize = 4;

/// A folder of training sets. Without a folder, nothing is kept.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    /// The folder, which the first training creates.
    pub folder: Option<PathBuf>,
}

/// A training set that is wanted.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) profile: &'a Profile,
    pub(super) spans: &'a Spans,
    pub(super) count: usize,
    pub(super) seed: u64,
}

impl Wanted<'_> {
    /// Returns the digest of everything that the training set depends on.
    fn digest(&self) -> String {
        let Self { profile, spans, count, seed } = self;
        let figures: String = profile.figures().map(|(key, value, _)| format!("{key}={value}\n")).collect();
        let version = env!("CARGO_PKG_VERSION");
        let all = format!("{FORMAT}\n{version}\n{}\n{figures}{spans:?}\n{count}\n{seed}\n", profile.name);
        digest_of(&all)
    }

    fn train(&self, count: usize, progress: &(dyn Fn() + Sync)) -> Result<Vec<Sample>, ModelError> {
        training::samples(self.profile, self.spans, count, self.seed, progress)
    }
}

impl Cache {
    /// Returns the wanted training set: as it is kept, or trained and kept from now on. Calls
    /// `progress` for each workload. A folder that cannot be written is not an error: the next run
    /// trains again.
    pub(super) fn samples(&self, wanted: Wanted<'_>, progress: &(dyn Fn() + Sync)) -> Result<Vec<Sample>, ModelError> {
        let digest = wanted.digest();
        let path = self.folder.as_ref().map(|folder| folder.join(format!("{digest}.csv")));
        if let Some(samples) = path.as_deref().and_then(|path| read(path, &digest, wanted.count)) {
            let probes = wanted.train(PROBES.min(wanted.count), &|| {})?;
            if samples.starts_with(&probes) {
                (0..wanted.count).for_each(|_| progress());
                return Ok(samples);
            }
        }
        let samples = wanted.train(wanted.count, progress)?;
        if let Some(path) = path {
            let _ = write(&path, &text(&digest, &samples));
        }
        Ok(samples)
    }
}

/// Reads a file; `None` if it is missing, damaged, or not the wanted one.
fn read(path: &Path, digest: &str, count: usize) -> Option<Vec<Sample>> {
    let text = fs::read_to_string(path).ok()?;
    let (body, end) = text.trim_end().rsplit_once("end ")?;
    if end != digest_of(body) {
        return None;
    }
    let mut lines = body.lines();
    if lines.next()? != format!("{FORMAT} {digest}") {
        return None;
    }
    let samples: Vec<Sample> = lines.map(sample).collect::<Option<_>>()?;
    (samples.len() == count).then_some(samples)
}

/// Returns the text of a file. Numbers are as long as their exact value needs.
fn text(digest: &str, samples: &[Sample]) -> String {
    let lines = samples.iter().map(|Sample { workload, measured }| {
        let figures = workload.values().into_iter().chain([measured.response_ms, measured.erases_per_s]);
        figures.map(|figure| figure.to_string()).collect::<Vec<_>>().join(",") + "\n"
    });
    let body = format!("{FORMAT} {digest}\n{}", lines.collect::<String>());
    format!("{body}end {}\n", digest_of(&body))
}

/// Returns the sample of a line.
fn sample(line: &str) -> Option<Sample> {
    let figures: Vec<f64> = line.split(',').map(|figure| figure.parse().ok()).collect::<Option<_>>()?;
    let [sequentiality, request_sectors, interarrival_ms, utilisation, read_fraction, response_ms, erases_per_s] =
        figures.try_into().ok()?;
    Some(Sample {
        workload: Characteristics { sequentiality, request_sectors, interarrival_ms, utilisation, read_fraction },
        measured: Behaviour { response_ms, erases_per_s },
    })
}

/// Writes a file, which appears under its name only when it is whole.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let partial = path.with_extension(format!("{}.partial", std::process::id()));
    fs::write(&partial, text).and_then(|()| fs::rename(&partial, path)).inspect_err(|_| {
        let _ = fs::remove_file(&partial);
    })
}

/// Returns the digest of a text, as the keys of sweeps have it.
fn digest_of(text: &str) -> String {
    key::digest(text.as_bytes()).expect("text in memory can be read")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::drive;
    use super::*;

    /// Number of workloads of a set: more than are probed.
    const COUNT: usize = PROBES + 2;

    /// A folder of a test, and a wanted training set.
    struct Kept {
        cache: Cache,
        profile: Profile,
    }

    impl Kept {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("bimetal-mixcp-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            Self { cache: Cache { folder: Some(folder.join("mixcp")) }, profile: drive().unwrap() }
        }

        fn wanted(&self) -> Wanted<'_> {
            Wanted { profile: &self.profile, spans: &Spans::PAPER, count: COUNT, seed: 1 }
        }

        fn samples(&self) -> Vec<Sample> {
            let workloads = AtomicU64::new(0);
            let count = || {
                workloads.fetch_add(1, Ordering::Relaxed);
            };
            let samples = self.cache.samples(self.wanted(), &count).unwrap();
            assert_eq!(workloads.into_inner(), COUNT as u64);
            samples
        }

        /// Returns the only file of the folder.
        fn file(&self) -> PathBuf {
            let mut files = fs::read_dir(self.cache.folder.as_ref().unwrap()).unwrap();
            let file = files.next().unwrap().unwrap().path();
            assert!(files.next().is_none(), "nothing else is left in the folder");
            file
        }
    }

    impl Drop for Kept {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(self.cache.folder.as_ref().unwrap().parent().unwrap());
        }
    }

    #[test]
    fn kept_training_set_is_the_trained_one() {
        let kept = Kept::new("kept");
        let trained = kept.samples();
        // A sample behind the probes tells a file that is read from a training.
        let mut other = trained.clone();
        other[COUNT - 1].measured.response_ms = 7.0;
        write(&kept.file(), &text(&kept.wanted().digest(), &other)).unwrap();
        assert_eq!(kept.samples(), other);
        assert_eq!(Cache::default().samples(kept.wanted(), &|| {}).unwrap(), trained);
    }

    #[test]
    fn damaged_or_foreign_file_is_trained_again() {
        let kept = Kept::new("damaged");
        let trained = kept.samples();
        let whole = fs::read_to_string(kept.file()).unwrap();
        let digest = kept.wanted().digest();
        // A figure of the last sample, which is not probed.
        let (before, after) = whole.rsplit_once('.').unwrap();
        let mut of_other_model = trained.clone();
        of_other_model[0].measured.response_ms *= 1.001;
        let bad = [
            String::new(),
            whole[..whole.len() / 2].to_owned(),
            format!("{before}.9{after}"),
            text("0123456789abcdef", &trained),
            text(&digest, &trained[..COUNT - 1]),
            text(&digest, &of_other_model),
        ];
        for bad in bad {
            assert_ne!(bad, whole);
            fs::write(kept.file(), bad).unwrap();
            assert_eq!(kept.samples(), trained);
            assert_eq!(fs::read_to_string(kept.file()).unwrap(), whole);
        }
    }

    #[test]
    fn digest_depends_on_all_that_training_depends_on() {
        let kept = Kept::new("digest");
        let (wanted, mut profile) = (kept.wanted(), kept.profile.clone());
        profile.set("rated_cycles", "20000").unwrap();
        let spans = Spans { utilisation: (0.1, 0.9), ..Spans::PAPER };
        let others = [
            Wanted { profile: &profile, ..wanted },
            Wanted { spans: &spans, ..wanted },
            Wanted { count: COUNT + 1, ..wanted },
            Wanted { seed: 2, ..wanted },
        ];
        assert!(others.iter().all(|other| other.digest() != wanted.digest()));
    }

    #[test]
    fn folder_that_cannot_be_written_stops_nothing() {
        let kept = Kept::new("unwritable");
        let folder = kept.cache.folder.as_ref().unwrap();
        fs::create_dir_all(folder.parent().unwrap()).unwrap();
        fs::write(folder, "a file").unwrap();
        assert_eq!(kept.samples().len(), COUNT);
    }
}
