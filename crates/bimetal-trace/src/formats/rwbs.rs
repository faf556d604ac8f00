//! Letters by which blktrace, blkparse and the kernel's block events describe the operation of a
//! request.
//!
//! In order: `F` (a flush precedes the request), the operation (`R` read, `W` write, `WZ` write
//! zeroes, `D` discard, `DE` secure erase, `FF` flush, `N` none, `ZA` and so on for zones), then
//! flags: `F` force unit access, `A` read ahead, `S` synchronous, `M` metadata, `B` barrier, `U`
//! atomic.

use bimetal_core::operation::OpKind;
use bimetal_core::units::SectorRange;

use crate::entry::{Bad, Entry, Moment, sector_range};

/// Operation and flags that the letters stand for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rwbs {
    /// Operation; `None` if the letters stand for neither a request for data nor a flush.
    pub(crate) kind: Option<OpKind>,
    pub(crate) preflush: bool,
    pub(crate) fua: bool,
}

impl Rwbs {
    /// Parses the letters.
    ///
    /// # Errors
    /// Refuses unknown letters.
    #[inline]
    pub(crate) fn read(field: &'static str, letters: &[u8]) -> Result<Self, Box<Bad>> {
        let is_letter = u8::is_ascii_uppercase;
        if letters.is_empty() || letters.len() > 10 || !letters.iter().all(is_letter) {
            return Err(Bad::form(field, letters, "letters like R, WS, FWFS or D"));
        }
        let (preflush, rest) = match letters {
            [b'F', rest @ ..] => (true, rest),
            _ => (false, letters),
        };
        let (kind, flags) = match rest {
            [b'R', flags @ ..] => (Some(OpKind::Read), flags),
            [b'W', b'Z', flags @ ..] => (Some(OpKind::WriteZeroes), flags),
            [b'W', flags @ ..] => (Some(OpKind::Write), flags),
            [b'D', b'E', flags @ ..] | [b'D', flags @ ..] => (Some(OpKind::Discard), flags),
            // `FF`, `FN`, or a lone `F` of older tools.
            _ if preflush => (Some(OpKind::Flush), &[][..]),
            [b'N' | b'Z', ..] => (None, &[][..]),
            _ => return Err(Bad::form(field, letters, "letters like R, WS, FWFS or D")),
        };
        Ok(Self { kind, preflush, fua: flags.contains(&b'F') })
    }

    /// Returns the entry of a request or completion of `sectors` sectors from `sector` on, `None`
    /// for other events. An event without sectors is a flush if the letters name a flush. A
    /// completion of a write without sectors means that a write or a flush from `sector` on is
    /// stable.
    ///
    /// # Errors
    /// Refuses a request without sectors that is not a flush, and an impossible range.
    #[inline]
    pub(crate) fn entry(
        self,
        time: u64,
        device: u32,
        moment: Moment,
        sector: u64,
        sectors: u64,
    ) -> Result<Option<Entry>, Box<Bad>> {
        let Some(kind) = self.kind else { return Ok(None) };
        let (kind, range) = match (kind, sectors) {
            (OpKind::Flush, _) => (OpKind::Flush, SectorRange::default()),
            (_, 0) if self.preflush => (OpKind::Flush, SectorRange::default()),
            (OpKind::Write, 0) if moment == Moment::Completed => (kind, SectorRange::new(sector, 0)),
            (_, 0) if moment == Moment::Completed => return Ok(None),
            _ => (kind, sector_range(sector, sectors)?),
        };
        let mut entry = Entry { moment, ..Entry::request(time, device, kind, range) };
        entry.fua = self.fua && kind == OpKind::Write;
        entry.preflush = self.preflush && kind != OpKind::Flush;
        Ok(Some(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(letters: &str) -> (Option<OpKind>, bool, bool) {
        let Rwbs { kind, preflush, fua } = Rwbs::read("rwbs", letters.as_bytes()).unwrap();
        (kind, preflush, fua)
    }

    #[test]
    fn letters_mean_operation_flush_and_fua_by_their_place() {
        assert_eq!(read("R"), (Some(OpKind::Read), false, false));
        assert_eq!(read("RSM"), (Some(OpKind::Read), false, false));
        assert_eq!(read("WFS"), (Some(OpKind::Write), false, true));
        assert_eq!(read("FWFSM"), (Some(OpKind::Write), true, true));
        assert_eq!(read("FWS"), (Some(OpKind::Write), true, false));
        assert_eq!(read("FF"), (Some(OpKind::Flush), true, false));
        assert_eq!(read("FN"), (Some(OpKind::Flush), true, false));
        assert_eq!(read("F"), (Some(OpKind::Flush), true, false));
        assert_eq!(read("WZS"), (Some(OpKind::WriteZeroes), false, false));
        assert_eq!(read("DE"), (Some(OpKind::Discard), false, false));
        assert_eq!(read("D"), (Some(OpKind::Discard), false, false));
        assert_eq!(read("N"), (None, false, false));
        assert_eq!(read("ZR"), (None, false, false));
        for wrong in ["", "r", "+", "X", "WWWWWWWWWWWWW"] {
            assert!(Rwbs::read("rwbs", wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_has_no_sectors_is_a_flush_or_the_end_of_one_or_bad() {
        let entry =
            |letters: &str, moment| Rwbs::read("rwbs", letters.as_bytes()).unwrap().entry(1, 0, moment, u64::MAX, 0);
        assert_eq!(entry("FF", Moment::Completed).unwrap().unwrap().kind, OpKind::Flush);
        assert_eq!(entry("FWS", Moment::Queued).unwrap().unwrap().kind, OpKind::Flush);
        let stable = entry("WS", Moment::Completed).unwrap().unwrap();
        assert_eq!((stable.kind, stable.range), (OpKind::Write, SectorRange::new(u64::MAX, 0)));
        assert_eq!(entry("R", Moment::Completed), Ok(None));
        assert_eq!(entry("WS", Moment::Issued).unwrap_err().field, "size");
    }
}
