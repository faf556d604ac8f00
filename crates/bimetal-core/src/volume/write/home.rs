//! The operations of a write on home.

use super::WriteJob;
use crate::operation::{Command, OpKind};
use crate::payload::Payload;
use crate::units::{SectorRange, Sectors};
use crate::volume::{TaskId, Volume};

impl<P: Payload> Volume<P> {
    /// Writes home with one operation for each run of adjacent blocks, whether or not some of the
    /// blocks are also written to slots.
    pub(super) fn write_homes(&mut self, task: TaskId, job: &mut WriteJob<P>) {
        job.is_sent_home |= job.homes.iter().any(|home| !self.home_is_gone(home.blocks.first));
        let mut homes = job.homes.iter().map(|home| home.blocks).peekable();
        while let Some(mut run) = homes.next() {
            while let Some(next) = homes.next_if(|next| next.first.0 == run.end()) {
                run.count += next.count;
            }
            let fua = job.fua || self.home_goes_first(run);
            self.write_home(task, job, self.sectors_of(job.sectors, run), fua);
        }
    }

    fn write_home(&mut self, task: TaskId, job: &WriteJob<P>, sectors: SectorRange, fua: bool) {
        let mut done = 0;
        while done < sectors.len.0 {
            let rest = SectorRange::new(sectors.start.0 + done, sectors.len.0 - done);
            let (member, range) = self.home_piece(rest);
            let at = Sectors(rest.start.0 - job.sectors.start.0);
            let payload = job.payload.slice(at, range.len);
            let command = Command { kind: OpKind::Write, range, fua };
            self.change_home(task, member, command, payload);
            done += range.len.0;
        }
    }
}
