//! Counters of the server, taken for display elsewhere.

use bimetal_core::layout::MemberId;
use bimetal_core::units::Bytes;

use super::Server;
use super::stop::Phase;
use super::troubles::no_room;
use crate::snapshot::{MemberSnapshot, Snapshot};

impl Server {
    pub(super) fn snapshot(&self) -> Snapshot {
        let view = self.volume.view();
        let loads = view.members.iter().zip(&self.drives).zip(&self.traffic.1);
        let members = loads.map(|((load, drive), traffic)| MemberSnapshot {
            no_room: drive.no_room().map(no_room),
            role: load.role,
            state: load.state,
            failing: traffic.failing(),
            is_home: false,
            drive: drive.describe(),
            foreground: load.foreground,
            background: load.background,
            emulation: drive.emulation(),
            read_bytes: traffic.read,
            write_bytes: traffic.written,
            errors: traffic.errors,
            last_error: traffic.trouble(),
            bad_pages: 0,
        });
        let homes = if view.layout.is_mirrored() { Vec::new() } else { view.layout.homes() };
        let mut members: Vec<MemberSnapshot> = members.collect();
        for (number, member) in members.iter_mut().enumerate() {
            member.is_home = homes.contains(&MemberId(number as u16));
        }
        for (member, pages) in self.bad_pages() {
            members[usize::from(member.0)].bad_pages = pages;
        }
        Snapshot {
            uptime: self.now.saturating_sub(self.time_before),
            exports: self.exports.iter().map(|export| (export.name.clone(), Bytes(export.bytes))).collect(),
            clients: self.clients_connected(),
            clients_max: self.options.clients_max,
            clients_refused: self.clients_turned_away(),
            requests_under_way: self.volume.requests_under_way(),
            statistics: self.volume.statistics().clone(),
            members,
            latencies: self.latencies.clone(),
            read_bytes: self.traffic.0.read,
            write_bytes: self.traffic.0.written,
            block_bytes: view.block().bytes(),
            lost_blocks: self.volume.lost_blocks().max(self.known_report().lost_blocks()),
            newest_is_gone: self.volume.newest_is_gone(),
            report: self.known_report().clone(),
            units: view.layout.units.iter().map(|unit| unit.first.0).collect(),
            dirty_blocks: u64::from(view.map.dirty_blocks()),
            dirty_blocks_before: self.dirty_blocks_before,
            dirty_age: self.volume.dirty_since().map(|since| self.now.saturating_sub(since)),
            layout: view.layout.clone(),
            slots: view.layout.slots.map_or(0, |slots| slots.count.into()),
            occupied_slots: view.map.slots_in_use(),
            drain: self.volume.drain_progress(),
            stopping: !matches!(self.phase, Phase::Serving),
        }
    }
}
