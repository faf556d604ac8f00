//! The trace inside the program, for users without a trace of their own.

use bimetal_trace::{OpenOptions, Trace, TraceError};

/// Name of the sample in results.
pub const NAME: &str = "office-server (embedded sample)";

/// Four minutes of a small server, recorded by this project; `traces/README.md` describes how.
pub const BYTES: &[u8] = include_bytes!("../../../traces/office-server.bin.zst");

/// Opens the sample.
///
/// # Errors
/// `options` select no request of the sample: they name, for example, a device that the sample does
/// not have.
pub fn open(options: &OpenOptions) -> Result<Trace, TraceError> {
    Trace::from_reader(NAME, BYTES, Some(BYTES.len() as u64), options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::units::Bytes;
    use bimetal_trace::analysis::Analyzer;

    #[test]
    fn the_sample_is_the_workload_that_its_description_says() {
        let mut analyzer = Analyzer::new(Bytes::from_kib(4)).unwrap();
        for request in open(&OpenOptions::default()).unwrap() {
            analyzer.request(&request.unwrap());
        }
        let analysis = analyzer.finish();
        assert_eq!((analysis.requests, analysis.reads, analysis.writes), (53_806, 20_860, 30_420));
        assert_eq!(analysis.footprint_bytes >> 20, 419);
    }
}
