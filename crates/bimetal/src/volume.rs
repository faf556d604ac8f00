//! Shared parts of the commands for live volumes: parsing of drives, members and settings, and
//! display of sizes and times.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use bimetal_core::layout::Role;
use bimetal_core::units::Bytes;
use bimetal_volumes::create::DriveChoice;

/// Path of a drive, or `emulate:PROFILE:FILE`: a file that is as slow as a drive.
#[derive(Debug, Clone)]
pub(crate) struct DrivePath {
    /// Path of a block device or a file.
    pub(crate) path: PathBuf,
    /// Profile of the drive that the file emulates.
    pub(crate) emulates: Option<String>,
}

impl DrivePath {
    /// Returns the choice of this drive for `role`.
    pub(crate) fn choice(&self, role: Role) -> DriveChoice {
        DriveChoice { role, path: self.path.clone(), emulates: self.emulates.clone() }
    }
}

/// Reads a path or `emulate:PROFILE:FILE`.
pub(crate) fn drive_path(text: &str) -> Result<DrivePath, String> {
    let Some(emulated) = text.strip_prefix("emulate:") else {
        return Ok(DrivePath { path: PathBuf::from(text), emulates: None });
    };
    match emulated.split_once(':') {
        Some((profile, file)) if !profile.is_empty() && !file.is_empty() => {
            Ok(DrivePath { path: PathBuf::from(file), emulates: Some(profile.to_owned()) })
        }
        _ => Err("expected emulate:PROFILE:FILE, like emulate:seagate-barracuda-7200.12-1tb:hdd.img".to_owned()),
    }
}

/// Reads `ID=PATH`; the id is a role.
pub(crate) fn member(text: &str) -> Result<(Role, DrivePath), String> {
    let (id, path) = text.split_once('=').ok_or("expected ID=PATH, like log=/dev/sdb1")?;
    let roles = [Role::Ssd, Role::Hdd, Role::Log];
    let role = roles.into_iter().find(|role| role.name() == id);
    let numbered = |role: &Role| id.strip_prefix(role.name()).is_some_and(|number| number.parse::<u16>().is_ok());
    let expected = match roles.iter().find(|role| numbered(role)) {
        Some(role) => format!(
            "a live volume has one drive of each role, and several SSDs behind one log are for simulations: expected \
             {}, or an array of mdadm if one drive is too small",
            role.name()
        ),
        None => "expected ssd, hdd or log".to_owned(),
    };
    let role = role.ok_or_else(|| format!("'{id}' is not the id of a drive: {expected}"))?;
    Ok((role, drive_path(path)?))
}

/// Reads `KEY=VALUE`.
pub(crate) fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, like timeout=30s")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Returns a size for people: exact if the size is a whole number of some unit, and otherwise with
/// a decimal.
pub(crate) fn size(bytes: Bytes) -> String {
    let exact = bytes.to_string();
    if exact.len() <= 7 {
        return exact;
    }
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20)];
    let (unit, shift) = units.into_iter().find(|(_, shift)| bytes.0 >> shift > 0).unwrap_or(("KiB", 10));
    format!("{:.1}{unit}", bytes.0 as f64 / (1u64 << shift) as f64)
}

/// Returns the time since `seconds` after 1970, in words.
pub(crate) fn ago(seconds: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let passed = now.saturating_sub(seconds);
    let (number, unit) = match passed {
        0..120 => (passed, "s"),
        120..7200 => (passed / 60, "min"),
        7200..172_800 => (passed / 3600, "h"),
        _ => (passed / 86_400, "days"),
    };
    format!("{number} {unit} ago")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulated_drive_has_a_profile_and_a_file() {
        let drive = drive_path("emulate:a-drive:dir/a:b.img").unwrap();
        assert_eq!((drive.path, drive.emulates), (PathBuf::from("dir/a:b.img"), Some("a-drive".to_owned())));
        assert!(drive_path("/dev/disk/by-id/x:y").unwrap().emulates.is_none());
        for wrong in ["emulate:a", "emulate::f", "emulate:a:"] {
            assert!(drive_path(wrong).is_err(), "{wrong}");
        }
        assert!(member("cache=/dev/sdb").unwrap_err().contains("expected ssd, hdd or log"));
        let refused = member("ssd2=/dev/sdb").unwrap_err();
        assert!(refused.contains("'ssd2'") && refused.contains("an array of mdadm"), "{refused}");
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(size(Bytes::from_gib(100)), "100GiB");
        assert_eq!(size(Bytes(1_000_204_886_016)), "931.5GiB");
        assert_eq!(size(Bytes(66_000_000)), "62.9MiB");
    }
}
