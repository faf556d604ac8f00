//! Standby of the spindle, and energy that the drive uses.
//!
//! Power has five levels: the arm moves; sectors are read, written or waited for, on behalf of the
//! host or of the write cache; the drive idles (read-ahead included); the spindle is stopped; the
//! spindle starts.

use super::profile::HddProfile;

/// State of the spindle, and time spent at each level of power so far.
#[derive(Clone, Debug)]
pub struct Power {
    spin_down_after_ns: Option<u64>,
    spin_up_ns: u64,
    watts: Option<Watts>,
    /// Time since which the spindle is stopped; `None` while it turns.
    standby_since_ns: Option<u64>,
    standby_ns: u64,
    service_ns: u64,
    spin_downs: u64,
    spin_ups: u64,
}

#[derive(Clone, Copy, Debug)]
struct Watts {
    active: f64,
    seek: f64,
    idle: f64,
    standby: f64,
    spin_up: f64,
}

impl Power {
    /// Creates the state of a drive that spins, with the figures of `profile`. Without active and
    /// idle power no energy is computed.
    pub fn new(profile: &HddProfile) -> Self {
        let watts = profile.active_watts.zip(profile.idle_watts).map(|(active, idle)| Watts {
            active,
            seek: profile.seek_watts.unwrap_or(active),
            idle,
            standby: profile.standby_watts.unwrap_or(idle),
            spin_up: profile.spin_up_watts.unwrap_or(active),
        });
        Self {
            spin_down_after_ns: profile.spin_down.0.map(|after| after.0),
            spin_up_ns: (profile.spin_up_s.unwrap_or(0.0) * 1e9) as u64,
            watts,
            standby_since_ns: None,
            standby_ns: 0,
            service_ns: 0,
            spin_downs: 0,
            spin_ups: 0,
        }
    }

    /// Returns the time at which the spindle stops, if the drive, idle since `idle_since_ns`, stays
    /// idle.
    #[inline]
    pub fn spin_down_at_ns(&self, idle_since_ns: u64) -> Option<u64> {
        match (self.spin_down_after_ns, self.standby_since_ns) {
            (Some(after), None) => Some(idle_since_ns.saturating_add(after)),
            _ => None,
        }
    }

    /// Stops the spindle.
    pub fn spin_down(&mut self, now_ns: u64) {
        self.standby_since_ns = Some(now_ns);
        self.spin_downs += 1;
    }

    /// Returns the time at which the spindle turns, if it is needed from `now_ns` on: at once if it
    /// turns already, and otherwise after its start.
    #[inline]
    pub fn ready_at_ns(&mut self, now_ns: u64) -> u64 {
        let Some(since) = self.standby_since_ns.take() else { return now_ns };
        self.standby_ns += now_ns - since;
        self.spin_ups += 1;
        now_ns + self.spin_up_ns
    }

    /// Adds time in which the arm moved, or in which sectors were transferred or waited for.
    #[inline]
    pub fn add_service_ns(&mut self, service_ns: u64) {
        self.service_ns += service_ns;
    }

    /// Returns the number of times that the spindle was stopped, and the number of times that it
    /// was started again.
    pub fn spin_downs_and_ups(&self) -> (u64, u64) {
        (self.spin_downs, self.spin_ups)
    }

    /// Returns the joules from time zero to `now_ns`, during which the arm moved for `seek_ns`.
    pub fn energy_joules(&self, now_ns: u64, seek_ns: u64) -> Option<f64> {
        let watts = self.watts?;
        let standing = self.standby_ns + self.standby_since_ns.map_or(0, |since| now_ns - since);
        let starting = self.spin_ups * self.spin_up_ns;
        // Seeks of read-ahead do not count as service; a transfer may still be under way.
        let seeking = seek_ns.min(self.service_ns);
        let idling = now_ns.saturating_sub(self.service_ns + standing + starting);
        let levels = [
            (watts.active, self.service_ns - seeking),
            (watts.seek, seeking),
            (watts.idle, idling),
            (watts.standby, standing),
            (watts.spin_up, starting),
        ];
        Some(levels.iter().map(|(watts, nanoseconds)| watts * *nanoseconds as f64 / 1e9).sum())
    }
}
