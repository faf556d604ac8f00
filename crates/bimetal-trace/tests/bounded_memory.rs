//! A trace passes through in memory that does not grow with its length. This test has a process of
//! its own, because it measures the process's peak.

#![cfg(target_os = "linux")]

use std::io::{self, Read};

use bimetal_trace::{OpenOptions, Trace};

/// File of `lines` lines, generated while it is read.
struct Endless<F> {
    line: F,
    next: u64,
    lines: u64,
    pending: Vec<u8>,
}

impl<F: FnMut(u64) -> String> Read for Endless<F> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.pending.len() < out.len() && self.next < self.lines {
            self.pending.extend_from_slice((self.line)(self.next).as_bytes());
            self.next += 1;
        }
        let n = self.pending.len().min(out.len());
        out[..n].copy_from_slice(&self.pending[..n]);
        self.pending.drain(..n);
        Ok(n)
    }
}

fn requests(lines: u64, line: impl FnMut(u64) -> String + Send + 'static) -> u64 {
    let reader = Endless { line, next: 0, lines, pending: Vec::new() };
    let trace = Trace::from_reader("endless", reader, None, &OpenOptions::default()).unwrap();
    trace.map(Result::unwrap).count() as u64
}

/// Returns the peak memory of the process so far.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Millions of requests are read within 64 MiB, even if none of them ever completes.
#[test]
fn millions_of_open_requests_need_little_memory() {
    let before = peak_bytes();
    let msr = |number: u64| format!("{},alpha,0,Read,{},4096,0\n", number * 10, number % 100_000 * 4096);
    assert_eq!(requests(2_000_000, msr), 2_000_000);
    let tracefs = |number: u64| {
        let (seconds, micros) = (number / 1_000_000, number % 1_000_000);
        format!("x-1 [000] ..... {seconds}.{micros:06}: block_bio_queue: 7,0 W {} + 8 [x]\n", number % 100_000 * 8)
    };
    assert_eq!(requests(1_000_000, tracefs), 1_000_000);
    let grown = peak_bytes() - before;
    assert!(grown < 64 << 20, "grew by {} MiB", grown >> 20);
    eprintln!("grew by {} MiB", grown >> 20);
}
