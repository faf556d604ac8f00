//! `msr`: the CSV of the MSR Cambridge traces (README of the traces; Narayanan et al., FAST 2008,
//! section 3).
//!
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`: ticks of 100 ns since 1601,
//! offset and size in bytes, response time in ticks. The device is the disk number; disks of the
//! second and further hosts of a file count from 1000, 2000 and so on. A response time that is 0 or
//! empty was not measured.

use bimetal_core::operation::OpKind;
use bimetal_core::units::Nanoseconds;

use super::LineFormat;
use super::devices::DeviceNames;
use super::lines::append_line;
use crate::Request;
use crate::entry::{Bad, Entry, byte_range};
use crate::fields::{Fields, number, scaled};
use crate::format::{Encode, Encoding, Format};

/// Description of the `msr` format.
pub const INFO: Format = Format {
    name: "msr",
    summary: "CSV: timestamp (100 ns since 1601), hostname, disk number, Read or Write, offset \
              (bytes), size (bytes), response time (100 ns)",
    source: "README of the MSR Cambridge traces; Narayanan et al., Write Off-Loading, FAST 2008",
    encoding: Some(Encoding { start: |_, _| Box::new(Encoder), keeps_fua: false, is_compressed: false }),
    ..Format::of_lines::<Msr>()
};

/// Number of nanoseconds in a tick.
const TICK_NS: u64 = 100;

/// Distance between the numbers of the first disks of two hosts.
const DISKS_OF_A_HOST: u32 = 1000;

/// Reader of the `msr` format.
#[derive(Default)]
pub(crate) struct Msr {
    hosts: DeviceNames,
}

impl LineFormat for Msr {
    #[inline]
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        if line.starts_with(b"Timestamp,") {
            return Ok(None);
        }
        let mut fields = Fields::of_csv(line);
        let timestamp = fields.number("Timestamp")?;
        let hostname = fields.text("Hostname")?;
        let disk = fields.device("DiskNumber")?;
        let kind = match fields.text("Type")? {
            b"Read" => OpKind::Read,
            b"Write" => OpKind::Write,
            other => return Err(Bad::form("Type", other, "Read or Write")),
        };
        let (offset, size) = (fields.number("Offset")?, fields.number("Size")?);
        let response = fields.text("ResponseTime")?;
        let response = if response.is_empty() { 0 } else { number("ResponseTime", response)? };
        fields.end()?;
        let device = self.device(hostname, disk)?;
        let time = scaled("Timestamp", timestamp, TICK_NS)?;
        let mut entry = Entry::request(time, device, kind, byte_range(offset, size)?);
        if response > 0 {
            entry.response = Some(Nanoseconds(scaled("ResponseTime", response, TICK_NS)?));
        }
        Ok(Some(entry))
    }

    fn device_name(&self, device: u32) -> Option<String> {
        match self.hosts.name(device / DISKS_OF_A_HOST).or_else(|| self.hosts.name(0)) {
            Some(host) if self.hosts.name(1).is_some() => Some(format!("{host} disk {}", device % DISKS_OF_A_HOST)),
            Some(host) => Some(format!("{host} disk {device}")),
            None => None,
        }
    }
}

impl Msr {
    #[inline]
    fn device(&mut self, hostname: &[u8], disk: u32) -> Result<u32, Box<Bad>> {
        match self.hosts.number("Hostname", hostname)? {
            0 => Ok(disk),
            host if disk < DISKS_OF_A_HOST => Ok(host * DISKS_OF_A_HOST + disk),
            _ => Err(Bad::value("DiskNumber", disk, "a number below 1000 in a file of several hosts")),
        }
    }
}

/// Encoder of the `msr` format.
struct Encoder;

impl Encode for Encoder {
    fn request(&mut self, request: &Request, out: &mut Vec<u8>) -> bool {
        let Request { arrival, device, kind, range, response, .. } = *request;
        let kind = match kind {
            OpKind::Read => "Read",
            OpKind::Write => "Write",
            _ => return false,
        };
        let (offset, size) = (range.start.bytes().0, range.len.bytes().0);
        // A response below one tick would read as not measured.
        let response = response.map_or(0, |response| (response.0 / TICK_NS).max(1));
        let ticks = arrival.0 / TICK_NS;
        append_line(out, format_args!("{ticks},bimetal,{device},{kind},{offset},{size},{response}"));
        true
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::units::SectorRange;

    use super::*;

    #[test]
    fn ticks_bytes_and_response_times_are_converted() {
        let entry = Msr::default().entry(b"128170000000001234,alpha,2,Read,1073741824,24576,41286").unwrap().unwrap();
        let expected = Entry {
            response: Some(Nanoseconds(4_128_600)),
            ..Entry::request(12_817_000_000_000_123_400, 2, OpKind::Read, SectorRange::new(2_097_152, 48))
        };
        assert_eq!(entry, expected);
    }

    #[test]
    fn disks_of_a_second_host_are_kept_apart() {
        let mut msr = Msr::default();
        let mut device = |line: &str| msr.entry(line.as_bytes()).unwrap().unwrap().device;
        assert_eq!(device("1,usr,1,Write,0,512,1"), 1);
        assert_eq!(device("2,proj,1,Write,0,512,1"), 1001);
        assert_eq!(device("3,usr,1,Write,0,512,1"), 1);
        assert_eq!(msr.device_name(1001).as_deref(), Some("proj disk 1"));
        assert_eq!(msr.device_name(1).as_deref(), Some("usr disk 1"));
    }

    #[test]
    fn a_header_is_read_past_and_what_is_wrong_is_named() {
        let mut msr = Msr::default();
        assert_eq!(msr.entry(b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime"), Ok(None));
        let named = [
            ("184467440737095517,h,0,Read,0,512,1", "Timestamp"),
            ("1,h,0,read?,0,512,1", "Type"),
            ("1,h,0,Read,-1,512,1", "Offset"),
            ("1,h,0,Read,0,0,1", "size"),
            ("1,h,0,Read,0,512", "ResponseTime"),
            ("1,h,0,Read,0,512,1,9", "line"),
        ];
        for (line, field) in named {
            assert_eq!(msr.entry(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
