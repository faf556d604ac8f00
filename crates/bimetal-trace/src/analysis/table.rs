//! Prints an analysis as text for a terminal, at most 80 columns wide.

use std::fmt;

use super::figures::{Analysis, QUOTED_SECONDS, Within};

/// Columns of the longest bar in the size histogram.
const BAR_COLUMNS: usize = 40;

impl fmt::Display for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_volume(f)?;
        self.write_shape(f)?;
        self.write_overwrites(f)?;
        self.write_intervals(f)?;
        self.write_sizes(f)?;
        self.write_files(f)
    }
}

impl Analysis {
    fn write_volume(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "requests     {}: {} reads, {} writes, {} flushes, {} discards",
            grouped(self.requests),
            grouped(self.reads),
            grouped(self.writes),
            grouped(self.flushes),
            grouped(self.discards)
        )?;
        write!(f, "data         {} read, {} written", size(self.read_bytes), size(self.write_bytes))?;
        match self.mean_request_bytes {
            Some(mean) => writeln!(f, ", {} a request", size(mean as u64))?,
            None => writeln!(f)?,
        }
        match (self.duration_s, self.mean_interarrival_ms) {
            (Some(duration), Some(gap)) => writeln!(f, "time         {duration:.1} s, a request every {gap:.4} ms")?,
            _ => writeln!(f, "time         not recorded")?,
        }
        writeln!(
            f,
            "addresses    {} touched below {}, {} device{}",
            size(self.footprint_bytes),
            size(self.address_end_bytes),
            self.devices,
            if self.devices == 1 { "" } else { "s" }
        )?;
        writeln!(
            f,
            "block I/Os   {} of {}, {} reads",
            grouped(self.block_ios),
            size(self.block_bytes),
            percent(self.read_fraction)
        )
    }

    fn write_shape(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "sequential   {} of requests; {} of writes are random",
            percent(self.sequential_fraction),
            percent(self.random_write_fraction)
        )?;
        writeln!(f, "aligned      {} of requests start and end on a block", percent(self.aligned_fraction))
    }

    fn write_overwrites(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        writeln!(f, "write savings of an ideal write cache    {:>7}", percent(self.max_write_savings))?;
        writeln!(f, "overwrites in the top 1 % of blocks      {:>7}", percent(self.overwrites_in_top_1pct))?;
        writeln!(f, "reads in those blocks                    {:>7}", percent(self.reads_in_top_1pct))
    }

    fn write_intervals(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        write!(f, "{:<18}", "intervals within")?;
        for seconds in QUOTED_SECONDS {
            write!(f, "{:>10}", format!("{seconds} s"))?;
        }
        writeln!(f)?;
        for (name, within) in [("write after write", self.waw), ("read after write", self.raw)] {
            writeln!(f, "{name:<18}{}", row(within))?;
        }
        Ok(())
    }

    fn write_sizes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: u64 = self.request_size_sectors.values().sum();
        let largest = self.request_size_sectors.values().copied().max().unwrap_or(0);
        if largest == 0 {
            return Ok(());
        }
        writeln!(f, "\nrequest size up to")?;
        for (&sectors, &count) in &self.request_size_sectors {
            let columns = (count as f64 / largest as f64 * BAR_COLUMNS as f64).ceil() as usize;
            let label = size(sectors.saturating_mul(512));
            let bar = "█".repeat(columns);
            writeln!(f, "{}", format!("{label:>18} {:>8} {bar}", percent(super::share(count, total))).trim_end())?;
        }
        Ok(())
    }

    fn write_files(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(files) = self.files.as_ref().filter(|files| !files.is_empty()) else { return Ok(()) };
        writeln!(f, "\noverwrites  waw 900 s  raw 900 s  file")?;
        for file in files {
            let within_900 = |within: Option<Within>| percent(within.map(|within| within.s900));
            writeln!(
                f,
                "{:>10} {:>10} {:>10}  {}",
                grouped(file.overwrites),
                within_900(file.waw),
                within_900(file.raw),
                file.path
            )?;
        }
        Ok(())
    }
}

fn row(within: Option<Within>) -> String {
    let shares = within.map(|within| [within.s30, within.s60, within.s900, within.s3600]);
    (0..QUOTED_SECONDS.len()).map(|column| format!("{:>10}", percent(shares.map(|shares| shares[column])))).collect()
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// Returns `number` with a comma between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats `bytes` in the largest unit that leaves a whole part, with two decimals unless exact.
fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 5] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")];
    let (factor, unit) = UNITS.into_iter().find(|(factor, _)| bytes >= *factor).unwrap_or((1, "B"));
    if bytes.is_multiple_of(factor) {
        format!("{} {unit}", bytes / factor)
    } else {
        format!("{:.2} {unit}", bytes as f64 / factor as f64)
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::{Bytes, Nanoseconds, SectorRange};

    use super::*;
    use crate::Request;
    use crate::analysis::{Analyzer, FileMap};

    fn request(seconds: u64, kind: OpKind, start: u64, len: u64) -> Request {
        Request {
            arrival: Nanoseconds::from_seconds(seconds),
            device: 0,
            kind,
            fua: false,
            range: SectorRange::new(start, len),
            response: None,
        }
    }

    #[test]
    fn the_table_says_the_figures_in_plain_words() {
        let map = FileMap::read("map.csv", "0,4096,/var/log/syslog\n".as_bytes()).unwrap();
        let mut analyzer = Analyzer::new(Bytes::from_kib(4)).unwrap().with_files(map);
        for (seconds, kind, start, len) in [
            (0, OpKind::Write, 0, 8),
            (10, OpKind::Write, 0, 8),
            (110, OpKind::Write, 0, 8),
            (115, OpKind::Read, 0, 16),
            (120, OpKind::Flush, 0, 0),
        ] {
            analyzer.request(&request(seconds, kind, start, len));
        }
        let expected = "\
requests     5: 1 reads, 3 writes, 1 flushes, 0 discards
data         8 KiB read, 12 KiB written, 5 KiB a request
time         120.0 s, a request every 30000.0000 ms
addresses    8 KiB touched below 8 KiB, 1 device
block I/Os   5 of 4 KiB, 40.0 % reads
sequential   0.0 % of requests; 100.0 % of writes are random
aligned      100.0 % of requests start and end on a block

write savings of an ideal write cache     66.7 %
overwrites in the top 1 % of blocks      100.0 %
reads in those blocks                     50.0 %

intervals within        30 s      60 s     900 s    3600 s
write after write     50.0 %    50.0 %   100.0 %   100.0 %
read after write     100.0 %   100.0 %   100.0 %   100.0 %

request size up to
             4 KiB   75.0 % ████████████████████████████████████████
             8 KiB   25.0 % ██████████████

overwrites  waw 900 s  raw 900 s  file
         2    100.0 %    100.0 %  /var/log/syslog
";
        assert_eq!(analyzer.finish().to_string(), expected);
    }

    #[test]
    fn what_does_not_apply_is_a_dash() {
        let mut analyzer = Analyzer::new(Bytes::from_kib(4)).unwrap();
        analyzer.request(&request(0, OpKind::Read, 0, 8));
        let table = analyzer.finish().to_string();
        assert!(table.contains("time         not recorded\n"), "{table}");
        assert!(table.contains("ideal write cache          -\n"), "{table}");
        assert!(table.contains("\nwrite after write          -         -         -         -\n"), "{table}");
    }

    #[test]
    fn numbers_are_grouped_and_sizes_scaled() {
        assert_eq!(["0", "999", "1,000", "1,141,869"], [0, 999, 1000, 1_141_869].map(grouped)[..]);
        assert_eq!(["0 B", "512 B", "1.50 KiB", "10 GiB"], [0, 512, 1536, 10 << 30].map(size)[..]);
    }
}
