//! Records block events with the programs blktrace and blkparse, for kernels that keep tracefs
//! closed.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal};

use super::device::Device;
use super::{RecordError, Source};
use crate::formats::LineFormat;
use crate::formats::blkparse::Blkparse;

/// Output format of blkparse, as its `-f` takes it: the default, with sector, sectors and program
/// always printed.
const FORMAT: &str = "%D %c %s %T.%9t %p %a %d %S + %n [%C]\\n";

/// Processes of blktrace and of blkparse, which reads from it. A dropped value ends both processes.
/// The processes do not belong to the terminal's group: Ctrl-C would end blkparse before it has
/// read the last events.
pub(super) struct Blktrace {
    tracer: Child,
    parser: Child,
    text: ChildStdout,
    reader: Blkparse,
    /// Set once blkparse has ended.
    is_over: bool,
}

/// Reasons for which blktrace cannot record.
#[derive(Debug, thiserror::Error)]
pub(super) enum BlktraceError {
    /// A program cannot be started.
    #[error("{0}: {1}")]
    Program(&'static str, io::Error),
    /// The program ended as soon as it was started.
    #[error("ended at once: {0}")]
    Ended(String),
}

impl Blktrace {
    pub(super) fn start(device: &Device) -> Result<Self, BlktraceError> {
        let mut tracer = Command::new("blktrace")
            .args(["-a", "queue", "-a", "issue", "-a", "complete", "-o", "-", "-d"])
            .arg(&device.path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| BlktraceError::Program("blktrace", error))?;
        // Under kernel lockdown blktrace ends with status 0 without doing anything, so its survival
        // is checked.
        std::thread::sleep(Duration::from_millis(500));
        if let Ok(Some(_)) = tracer.try_wait() {
            let mut message = String::new();
            if let Some(mut stderr) = tracer.stderr.take() {
                let _ = stderr.read_to_string(&mut message);
            }
            return Err(BlktraceError::Ended(message.trim().replace('\n', " ")));
        }
        Self::parse_output_of(tracer)
    }

    fn parse_output_of(mut tracer: Child) -> Result<Self, BlktraceError> {
        let binary = tracer.stdout.take().map_or_else(Stdio::null, Stdio::from);
        let mut parser = Command::new("blkparse")
            .args(["-q", "-i", "-", "-f", FORMAT])
            .stdin(binary)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| {
                end(&mut tracer);
                BlktraceError::Program("blkparse", error)
            })?;
        let no_output = || BlktraceError::Program("blkparse", io::Error::other("has no output"));
        let text = parser.stdout.take().ok_or_else(no_output);
        let started = text.and_then(|text| {
            rustix::fs::fcntl_setfl(&text, OFlags::NONBLOCK)
                .map_err(|error| BlktraceError::Program("blkparse", error.into()))?;
            Ok(text)
        });
        match started {
            Ok(text) => Ok(Self { tracer, parser, text, reader: Blkparse::default(), is_over: false }),
            Err(error) => {
                end(&mut tracer);
                end(&mut parser);
                Err(error)
            }
        }
    }
}

impl Source for Blktrace {
    fn read(&mut self, text: &mut Vec<u8>) -> Result<bool, RecordError> {
        let mut buffer = [0; 1 << 16];
        match self.text.read(&mut buffer) {
            Ok(length) => {
                self.is_over |= length == 0;
                text.extend_from_slice(&buffer[..length]);
                Ok(length > 0)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(false),
            Err(error) => Err(RecordError::Io { path: PathBuf::from("blkparse"), error }),
        }
    }

    fn stop(&mut self) -> Result<(), RecordError> {
        interrupt(&self.tracer);
        // The rest is read to its end: both programs end by themselves.
        rustix::fs::fcntl_setfl(&self.text, OFlags::empty())
            .map_err(|error| RecordError::Io { path: PathBuf::from("blkparse"), error: error.into() })
    }

    fn lost_events(&mut self) -> Result<u64, RecordError> {
        let mut message = String::new();
        if let Some(mut stderr) = self.tracer.stderr.take() {
            let _ = stderr.read_to_string(&mut message);
        }
        Ok(dropped_of(&message))
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn reader(&mut self) -> &mut dyn LineFormat {
        &mut self.reader
    }

    fn name(&self) -> &'static str {
        "blktrace"
    }
}

impl Drop for Blktrace {
    fn drop(&mut self) {
        end(&mut self.tracer);
        end(&mut self.parser);
    }
}

/// Interrupts a program: blktrace switches the kernel's tracing off when blktrace is interrupted,
/// but not when blktrace is killed.
fn interrupt(child: &Child) {
    if let Some(process) = Pid::from_raw(child.id().cast_signed()) {
        let _ = rustix::process::kill_process(process, Signal::INT);
    }
}

/// Ends a program: interrupts the program, waits two seconds, then kills it.
fn end(child: &mut Child) {
    if matches!(child.try_wait(), Ok(Some(_))) {
        return;
    }
    interrupt(child);
    for _ in 0..40 {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Parses `You have 12 (unknown) dropped events`, which blktrace prints at the end.
fn dropped_of(message: &str) -> u64 {
    message
        .lines()
        .filter(|line| line.contains("dropped events"))
        .filter_map(|line| line.split_whitespace().find_map(|word| word.parse::<u64>().ok()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_events_are_counted() {
        assert_eq!(dropped_of("You have 12 dropped events\nConsider using a larger buffer size\n"), 12);
        assert_eq!(dropped_of(""), 0);
    }
}
