//! The decider: it answers the questions of the volume about requests. The scheme decides, unless a
//! director was given: another program, such as a class in Python, that chooses for each read and
//! write whether the blocks go into slots. With a director, the scheme makes all other decisions:
//! the blocks that leave, and the time at which dirty blocks are written back. A director is only
//! for the simulator.

use std::collections::BTreeMap;

use super::Volume;
use crate::block::BlockRun;
use crate::operation::Token;
use crate::payload::Payload;
use crate::scheme::{Access, Destination, Director, Host, Placement, Promotion, Reason, Scheme, View};
use crate::units::Nanoseconds;

/// See the [module](self).
pub(super) struct Decider {
    pub(super) scheme: Box<dyn Scheme>,
    directed: Option<Directed>,
    host: Option<Box<dyn Host>>,
}

/// Director, with its decisions about the requests under way.
struct Directed {
    director: Box<dyn Director>,
    decisions: BTreeMap<Token, Destination>,
}

impl Decider {
    pub(super) fn new(scheme: Box<dyn Scheme>) -> Self {
        Self { scheme, directed: None, host: None }
    }

    fn take_director(&mut self, director: Box<dyn Director>) {
        self.directed = Some(Directed { director, decisions: BTreeMap::new() });
    }

    /// Takes a simulated host, which gives hints from now on.
    pub(super) fn take_host(&mut self, host: Box<dyn Host>) {
        self.host = Some(host);
    }

    /// Tells the director of a request that has been submitted and may have to wait.
    pub(super) fn submitted(&mut self, now: Nanoseconds, token: Token) {
        if let Some(directed) = &mut self.directed {
            directed.director.submitted(now, token);
        }
    }

    /// Tells scheme and director of a read or write that begins, and passes the host's hints to the
    /// scheme.
    pub(super) fn arrived(&mut self, view: &View, access: &Access, token: Token) {
        self.scheme.arrived(view, access);
        if let Some(host) = &mut self.host
            && let Some(hints) = self.scheme.hints()
        {
            host.requests(view, access, hints);
        }
        if let Some(Directed { director, decisions }) = &mut self.directed {
            let decision = director.direct(view, access, token);
            decisions.extend(decision.map(|decision| (token, decision)));
        }
    }

    pub(super) fn finished(&mut self, now: Nanoseconds, token: Token) {
        if let Some(Directed { director, decisions }) = &mut self.directed {
            decisions.remove(&token);
            director.finished(now, token);
        }
    }

    fn decision(&self, token: Token) -> Option<Destination> {
        self.directed.as_ref()?.decisions.get(&token).copied()
    }

    /// Returns the destination of the first blocks of `rest`, by the director or, without a
    /// director, by the scheme.
    pub(super) fn place_write(
        &mut self,
        view: &View,
        token: Token,
        access: &Access,
        rest: BlockRun,
    ) -> (Placement, u64) {
        let placement = match self.decision(token) {
            None => return self.scheme.place_write(view, access, rest),
            Some(Destination::Home) => return (Placement::Home(Some(Reason::NOT_ADMITTED)), rest.count),
            Some(Destination::Slot) => Placement::Slot,
            Some(Destination::Both) => Placement::Both,
        };
        match view.free_slots {
            _ if !view.slots_online() => (Placement::Home(Some(Reason::MEMBER_GONE)), rest.count),
            0 => (Placement::Home(Some(Reason::NO_SPACE)), rest.count),
            free => (placement, rest.count.min(free)),
        }
    }

    /// Decides if `missing`, which the request `token` reads from home, gets copies in slots.
    pub(super) fn promote(&mut self, view: &View, token: Token, access: &Access, missing: BlockRun) -> Promotion {
        match self.decision(token) {
            None => self.scheme.promote(view, access, missing),
            Some(Destination::Home) => Promotion::Bypass(Reason::NOT_ADMITTED),
            Some(_) if !view.slots_online() => Promotion::Bypass(Reason::MEMBER_GONE),
            Some(Destination::Slot | Destination::Both) => Promotion::Admit,
        }
    }
}

impl<P: Payload> Volume<P> {
    /// Takes a director; to be called before the first request of a simulation. Returns false if
    /// the scheme is not a cache whose admission can be chosen.
    pub fn take_director(&mut self, make: &dyn Fn(&View) -> Box<dyn Director>) -> bool {
        let takes = !P::CARRIES_DATA && self.store.cache().is_some() && self.decider.scheme.takes_director();
        if takes {
            self.decider.take_director(make(&self.view));
        }
        takes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;

    use super::*;
    use crate::operation::OpKind::{Read, Write};
    use crate::testing::Bench;
    use crate::units::SectorRange;

    /// Schemes that take a director.
    const DIRECTED: [&str; 4] = ["smart-response", "dataplex", "smq", "bcache"];

    /// Gives the decisions of a list in turn, and keeps a record of the requests.
    #[derive(Default)]
    struct Listed {
        decisions: Vec<Option<Destination>>,
        record: Arc<Mutex<Vec<(&'static str, u64)>>>,
    }

    impl Listed {
        fn note(&self, what: &'static str, token: Token) {
            self.record.lock().unwrap().push((what, token.0));
        }
    }

    impl Director for Listed {
        fn submitted(&mut self, _now: Nanoseconds, token: Token) {
            self.note("submitted", token);
        }

        fn direct(&mut self, _view: &View, _access: &Access, token: Token) -> Option<Destination> {
            self.note("direct", token);
            self.decisions[(token.0 - 1) as usize % self.decisions.len()]
        }

        fn finished(&mut self, _now: Nanoseconds, token: Token) {
            self.note("finished", token);
        }
    }

    fn directed(bench: &mut Bench, decisions: &[Option<Destination>]) -> Arc<Mutex<Vec<(&'static str, u64)>>> {
        let record = Arc::default();
        let made = Listed { decisions: decisions.to_vec(), record: Arc::clone(&record) };
        let made = Mutex::new(Some(made));
        assert!(bench.volume.take_director(&|_| Box::new(made.lock().unwrap().take().unwrap())));
        record
    }

    /// A decider is asked by hand, without a volume: the bench only has the view.
    #[test]
    fn decision_of_director_ends_with_its_request() {
        let bench = Bench::new("smart-response", &[]);
        let view = bench.volume.view();
        let info = crate::schemes::find("smart-response").unwrap();
        let settings = crate::settings::Settings::new(info.name, info.parameters, []).unwrap();
        let mut decider = Decider::new((info.build)(&settings, &view.layout).unwrap());
        decider.take_director(Box::new(Listed { decisions: vec![Some(Destination::Home)], ..Listed::default() }));
        let access = super::super::access(&view.layout, Write, SectorRange::new(80, 8));
        let home = Placement::Home(Some(Reason::NOT_ADMITTED));
        decider.arrived(view, &access, Token(1));
        assert_eq!(decider.place_write(view, Token(1), &access, access.blocks), (home, 1));
        assert_eq!(decider.promote(view, Token(1), &access, access.blocks), Promotion::Bypass(Reason::NOT_ADMITTED));
        assert_eq!(decider.place_write(view, Token(2), &access, access.blocks), (Placement::Both, 1), "the scheme's");
        decider.finished(view.now, Token(1));
        assert_eq!(decider.place_write(view, Token(1), &access, access.blocks), (Placement::Both, 1));
    }

    #[test]
    fn director_chooses_the_place_of_each_request() {
        for scheme in DIRECTED {
            let mut bench = Bench::new(scheme, &[]);
            let of = |destination| vec![Some(destination)];
            let record = directed(&mut bench, &[of(Destination::Home), of(Destination::Slot)].concat());
            bench.request(Write, 80, 8);
            assert_eq!(bench.take_log(), ["hdd write 8"], "{scheme}");
            bench.request(Write, 800, 8);
            assert_eq!(bench.take_log()[..1], ["ssd write 8"], "{scheme}");
            bench.pass(Nanoseconds::from_seconds(100));
            bench.take_log();
            bench.request(Read, 8000, 8);
            assert_eq!(bench.take_log(), ["hdd read 8"], "{scheme}");
            bench.request(Read, 8080, 8);
            assert_eq!(bench.take_log()[..2], ["hdd read 8", "ssd write 8"], "{scheme}");
            let each = |token| ["submitted", "direct", "finished"].map(|what| (what, token));
            assert_eq!(*record.lock().unwrap(), [each(1), each(2), each(3), each(4)].concat(), "{scheme}");
            assert!(bench.volume.decider.directed.as_ref().is_some_and(|directed| directed.decisions.is_empty()));
        }
    }

    #[test]
    fn write_to_both_leaves_nothing_dirty() {
        let mut bench = Bench::new("smart-response", &[("mode", "maximized")]);
        directed(&mut bench, &[Some(Destination::Both)]);
        bench.request(Write, 80, 8);
        assert_eq!(bench.take_log(), ["hdd write 8", "ssd write 8"]);
        assert_eq!(bench.volume.view().map.dirty_blocks(), 0);
    }

    #[test]
    fn scheme_without_admission_takes_no_director() {
        for info in crate::schemes::every().filter(|info| !DIRECTED.contains(&info.name)) {
            if ["raid0", "raid1"].contains(&info.name) {
                continue;
            }
            let mut bench = Bench::new(info.name, &[]);
            assert!(!bench.volume.take_director(&|_| Box::new(Listed::default())), "{}", info.name);
        }
    }

    fn destination() -> impl Strategy<Value = Option<Destination>> {
        prop_oneof![
            Just(None),
            Just(Some(Destination::Home)),
            Just(Some(Destination::Slot)),
            Just(Some(Destination::Both)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Whatever a director says, each request ends, and the volume's own tables agree. The
        /// requests fill the cache several times over, so that dirty blocks must leave.
        #[test]
        fn any_decisions_leave_a_sound_volume(
            decisions in prop::collection::vec(destination(), 1..20),
            requests in prop::collection::vec((any::<bool>(), 0_u64..3000, 1_u64..300), 40..120),
        ) {
            for scheme in DIRECTED {
                let mut bench = Bench::new(scheme, &[]);
                let record = directed(&mut bench, &decisions);
                for &(write, place, sectors) in &requests {
                    bench.request(if write { Write } else { Read }, place * 40, sectors);
                    bench.pass(Nanoseconds::from_millis(3));
                    bench.volume.check_invariants();
                }
                let finished = record.lock().unwrap().iter().filter(|(what, _)| *what == "finished").count();
                prop_assert_eq!(finished, requests.len());
            }
        }

        /// With a director that sends all writes to slots, the cache goes on to take writes after
        /// it has filled.
        #[test]
        fn full_cache_makes_room_for_directed_writes(seed in 0_u64..1000) {
            for scheme in DIRECTED {
                let mut bench = Bench::new(scheme, &[]);
                directed(&mut bench, &[Some(Destination::Slot)]);
                let slots = u64::from(bench.volume.view().map.slots());
                for at in 0..3 * slots {
                    bench.request(Write, (seed + at * 7) % 8000 * 8, 8);
                    bench.pass(Nanoseconds::from_millis(1));
                }
                let written = bench.volume.statistics().written_blocks_to_slots;
                prop_assert!(written > 2 * slots, "{}: {} of {}", scheme, written, 3 * slots);
            }
        }
    }
}
