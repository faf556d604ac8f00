//! Trees of volumes in a `--config` file: `[volume.NAME]` with its scheme and members,
//! `[drive.NAME]` with its profile.
//!
//! Members are referred to by name, so a file is read from the outermost volume to the inner
//! volumes. Each volume that is not a member of another volume is run; a file may have several such
//! volumes. An error names the file, the table, the key, the value and what was expected.

use std::collections::BTreeMap;
use std::path::Path;

use bimetal_core::layout::{ARRAY_MAX, Role};
use bimetal_core::scheme::SchemeInfo;
use bimetal_core::schemes;
use bimetal_sim::setup::Size;
use bimetal_sim::tree::{MemberChoice, NamedDrive, VolumeChoice};
use toml::{Table, Value};

use crate::config::{self, flatten};
use crate::error::Error;
use crate::options::parse::size;

/// Key of the tables of volumes.
pub(crate) const VOLUME: &str = "volume";
/// Key of the tables of drives.
pub(crate) const DRIVE: &str = "drive";

const ROLES: [Role; 3] = [Role::Ssd, Role::Hdd, Role::Log];

/// Returns the volumes of the file at `path` that are not members of another volume; no volumes if
/// the file has no such tables.
///
/// # Errors
/// The file cannot be read, or its tables do not form a tree.
pub(crate) fn read(path: &Path) -> Result<Vec<VolumeChoice>, Error> {
    trees_of(&config::read(path)?).map_err(|message| Error::new(format!("{}: {message}", path.display())))
}

fn trees_of(table: &Table) -> Result<Vec<VolumeChoice>, String> {
    let volumes = tables(table, VOLUME)?.into_iter().map(|(name, table)| Ok((name, Volume::read(name, table)?)));
    let drives = tables(table, DRIVE)?.into_iter().map(|(name, table)| Ok((name, read_drive(name, table)?)));
    let file =
        File { volumes: volumes.collect::<Result<_, String>>()?, drives: drives.collect::<Result<_, String>>()? };
    file.check_names()?;
    file.trees()
}

/// Returns the tables `[key.NAME]`.
fn tables<'a>(table: &'a Table, key: &str) -> Result<Vec<(&'a str, &'a Table)>, String> {
    let Some(value) = table.get(key) else { return Ok(Vec::new()) };
    let expected = || format!("key '{key}': expected tables like [{key}.NAME], found {value}");
    let tables = value.as_table().ok_or_else(expected)?;
    tables.iter().map(|(name, value)| Ok((name.as_str(), value.as_table().ok_or_else(expected)?))).collect()
}

/// A volume as the file describes it.
struct Volume<'a> {
    scheme: &'static SchemeInfo,
    members: Vec<(Option<Role>, &'a str)>,
    settings: Vec<(String, String)>,
}

struct File<'a> {
    volumes: BTreeMap<&'a str, Volume<'a>>,
    drives: BTreeMap<&'a str, NamedDrive>,
}

/// Returns the text under `key`, which is required.
fn text<'a>(of: &str, table: &'a Table, key: &str, expected: &str) -> Result<&'a str, String> {
    let found = table.get(key).map_or("nothing".to_owned(), Value::to_string);
    let wrong = || format!("{of}: key '{key}': expected {expected}, found {found}");
    table.get(key).and_then(Value::as_str).ok_or_else(wrong)
}

fn known_keys(of: &str, table: &Table, known: &[&str]) -> Result<(), String> {
    match table.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!("{of}: {}", Error::unknown("key", key, known.iter().copied()))),
        None => Ok(()),
    }
}

/// Returns the table `set`, as keys and values.
fn settings(of: &str, table: &Table) -> Result<Vec<(String, String)>, String> {
    let Some(value) = table.get("set") else { return Ok(Vec::new()) };
    let wrong = || format!("{of}: key 'set': expected a table like {{ timeout = \"30s\" }}, found {value}");
    let mut pairs = Vec::new();
    flatten("", value.as_table().ok_or_else(wrong)?, &mut pairs)
        .map_err(|message| format!("{of}: key 'set': {message}"))?;
    Ok(pairs.iter().filter_map(|pair| pair.split_once('=')).map(|(key, value)| (key.into(), value.into())).collect())
}

fn read_drive(name: &str, table: &Table) -> Result<NamedDrive, String> {
    let of = format!("drive '{name}'");
    known_keys(&of, table, &["profile", "size", "set"])?;
    let profile = text(&of, table, "profile", "the name of a profile, or a TOML file")?.to_owned();
    let expected = "a size like \"32GiB\", or a share of the footprint like \"20%\"";
    let given = table.get("size").map(|_| text(&of, table, "size", expected)).transpose()?;
    let given: Option<Size> = given
        .map(|text| size(text).map_err(|_| format!("{of}: key 'size': expected {expected}, found \"{text}\"")))
        .transpose()?;
    Ok(NamedDrive { name: name.to_owned(), profile, size: given, settings: settings(&of, table)? })
}

impl<'a> Volume<'a> {
    fn read(name: &str, table: &'a Table) -> Result<Self, String> {
        let of = format!("volume '{name}'");
        known_keys(&of, table, &["scheme", "members", "set"])?;
        let scheme = text(&of, table, "scheme", "the name of a scheme")?;
        let known = || schemes::every().map(|info| info.name);
        let scheme = schemes::find(scheme)
            .ok_or_else(|| format!("{of}: key 'scheme': {}", Error::unknown("scheme", scheme, known())))?;
        let members = Self::members(&of, scheme, table)?;
        if members.len() > ARRAY_MAX {
            return Err(format!("{of}: key 'members': expected at most {ARRAY_MAX}, found {}", members.len()));
        }
        Ok(Self { scheme, members, settings: settings(&of, table)? })
    }

    /// Returns the members: from a list for an array, from a table of roles for any other scheme.
    fn members(of: &str, scheme: &SchemeInfo, table: &'a Table) -> Result<Vec<(Option<Role>, &'a str)>, String> {
        let value = table.get("members");
        let array = schemes::ARRAYS.iter().any(|array| array.name == scheme.name);
        let expected =
            if array { "a list like [\"left\", \"right\"]" } else { "a table like { ssd = \"a\", hdd = \"b\" }" };
        let found = value.map_or("nothing".to_owned(), Value::to_string);
        let wrong = || format!("{of}: key 'members': {} takes {expected}, found {found}", scheme.name);
        if array {
            let names =
                names(value.ok_or_else(wrong)?).filter(|_| value.is_some_and(Value::is_array)).ok_or_else(wrong)?;
            return Ok(names.into_iter().map(|name| (None, name)).collect());
        }
        let by_role = value.and_then(Value::as_table).ok_or_else(wrong)?;
        if let Some(role) = by_role.keys().find(|key| !ROLES.iter().any(|role| role.name() == key.as_str())) {
            let known = ROLES.iter().map(|role| role.name());
            return Err(format!("{of}: key 'members': {}", Error::unknown("role", role, known)));
        }
        let mut members = Vec::new();
        for role in ROLES {
            let Some(value) = by_role.get(role.name()) else { continue };
            let names = names(value).ok_or_else(wrong)?;
            members.extend(names.into_iter().map(|name| (Some(role), name)));
        }
        Ok(members)
    }
}

/// Returns one name, or a list of names.
fn names(value: &Value) -> Option<Vec<&str>> {
    match value {
        Value::String(name) => Some(vec![name]),
        Value::Array(names) => names.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

impl File<'_> {
    /// Checks that each name has one meaning, also before a key of `--set`.
    fn check_names(&self) -> Result<(), String> {
        for name in self.volumes.keys().chain(self.drives.keys()) {
            let of_scheme = schemes::find(name).is_some();
            if of_scheme || ROLES.iter().any(|role| role.name() == *name) || name.contains(['.', '=']) {
                return Err(format!(
                    "name '{name}': expected a name that is not a scheme or role and has no '.' or '='"
                ));
            }
        }
        match self.volumes.keys().find(|name| self.drives.contains_key(*name)) {
            Some(name) => Err(format!("name '{name}': a volume and a drive both have it: rename one of them")),
            None => Ok(()),
        }
    }

    fn trees(&self) -> Result<Vec<VolumeChoice>, String> {
        let members = || self.volumes.values().flat_map(|volume| volume.members.iter().map(|(_, name)| *name));
        let outermost: Vec<&str> =
            self.volumes.keys().copied().filter(|name| !members().any(|member| member == *name)).collect();
        if let (Some(first), true) = (self.volumes.keys().next(), outermost.is_empty()) {
            // Every volume is a member of another volume, so the way down from any volume ends in a
            // circle.
            self.tree(first, &mut Vec::new(), &mut BTreeMap::new())?;
        }
        let trees = outermost.into_iter().map(|name| self.tree(name, &mut Vec::new(), &mut BTreeMap::new()));
        let trees = trees.collect::<Result<Vec<_>, _>>()?;
        let idle = |name: &&&str| !members().any(|member| member == **name);
        if let Some(name) = self.drives.keys().find(idle) {
            return Err(format!("drive '{name}' is a member of no volume: name it under 'members', or leave it out"));
        }
        let reached: Vec<&str> = trees.iter().flat_map(VolumeChoice::names).collect();
        // A volume that no outermost volume reaches is part of a circle beside the trees.
        match self.volumes.keys().find(|name| !reached.contains(name)) {
            Some(name) => Err(self.tree(name, &mut Vec::new(), &mut BTreeMap::new()).err().unwrap_or_default()),
            None => Ok(trees),
        }
    }

    /// Returns the volume `name` with all volumes and drives below it. `path` has the volumes above
    /// it; `places` maps each member found so far to its volume.
    fn tree<'a>(
        &'a self,
        name: &'a str,
        path: &mut Vec<&'a str>,
        places: &mut BTreeMap<&'a str, &'a str>,
    ) -> Result<VolumeChoice, String> {
        if let Some(from) = path.iter().position(|above| *above == name) {
            let circle = [&path[from..], &[name]].concat().join(" > ");
            return Err(format!("volume '{name}': it is a member of itself: {circle}"));
        }
        path.push(name);
        let volume = &self.volumes[name];
        let mut members = Vec::new();
        for (role, member) in &volume.members {
            if self.volumes.contains_key(member) && path.contains(member) {
                self.tree(member, path, places)?;
            }
            if let Some(other) = places.insert(member, name) {
                return Err(format!(
                    "'{member}' is a member of '{other}' and of '{name}': expected one place in a tree"
                ));
            }
            let choice = if let Some(drive) = self.drives.get(member) {
                MemberChoice::Drive(drive.clone())
            } else if self.volumes.contains_key(member) {
                MemberChoice::Volume(self.tree(member, path, places)?)
            } else {
                let known = self.volumes.keys().chain(self.drives.keys()).copied();
                return Err(format!("volume '{name}': key 'members': {}", Error::unknown("member", member, known)));
            };
            members.push((*role, choice));
        }
        path.pop();
        let (name, settings) = (name.to_owned(), volume.settings.clone());
        Ok(VolumeChoice { name, scheme: volume.scheme, settings, members })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAIN: &str = r#"
        [volume.chain]
        scheme = "smart-response"
        members = { ssd = "durable", hdd = "disk" }
        [volume.durable]
        scheme = "griffin"
        members = { ssd = ["qlc", "qlc2"], log = "slc" }
        set = { timeout = "300s" }
        [drive.disk]
        profile = "seagate"
        [drive.qlc]
        profile = "qlc"
        size = "16GiB"
        [drive.qlc2]
        profile = "qlc"
        [drive.slc]
        profile = "slc"
        size = "20%"
        set = { gc = "greedy" }
    "#;

    fn read(text: &str) -> Result<Vec<VolumeChoice>, String> {
        trees_of(&text.parse().unwrap())
    }

    fn refused(text: &str) -> String {
        read(text).err().expect("it is wrong")
    }

    #[test]
    fn a_file_is_read_from_the_outside_in() {
        let trees = read(CHAIN).unwrap();
        assert_eq!(trees.len(), 1);
        assert_eq!(trees[0].names(), ["chain", "durable", "qlc", "qlc2", "slc", "disk"]);
        let MemberChoice::Volume(durable) = &trees[0].members[0].1 else { panic!("a volume") };
        assert_eq!(durable.settings, [("timeout".to_owned(), "300s".to_owned())]);
        let MemberChoice::Drive(slc) = &durable.members[2].1 else { panic!("a drive") };
        assert_eq!((slc.size, slc.settings.len()), (Some(Size::OfFootprint(0.2)), 1));
        assert!(read("limit = 7").unwrap().is_empty());
    }

    #[test]
    fn volumes_that_are_nobodys_member_are_trees_of_their_own() {
        let text = format!("{CHAIN}\n[volume.alone]\nscheme = \"hdd-only\"\nmembers = {{ hdd = \"disk\" }}");
        let names: Vec<String> = read(&text).unwrap().into_iter().map(|tree| tree.name).collect();
        assert_eq!(names, ["alone", "chain"], "the same drive may be in both: they are two runs");
    }

    #[test]
    fn circles_are_told_whole() {
        let circle = "[volume.a]\nscheme='raid1'\nmembers=['b','c']\n[volume.b]\nscheme='raid1'\nmembers=['a','c']\n\
                      [drive.c]\nprofile='p'";
        assert_eq!(refused(circle), "volume 'a': it is a member of itself: a > b > a");
        let beside = format!("{circle}\n[volume.x]\nscheme='hdd-only'\nmembers={{hdd='c'}}");
        assert_eq!(refused(&beside), "volume 'a': it is a member of itself: a > b > a");
    }

    #[test]
    fn what_is_wrong_is_named_with_what_was_expected() {
        let cases = [
            (CHAIN.replace("[drive.slc]", "[drive.slcc]"), "unknown member 'slc': did you mean"),
            (CHAIN.replace("\"durable\", hdd", "\"disk\", hdd"), "'disk' is a member of 'chain' and of 'chain'"),
            (CHAIN.replace("scheme = \"griffin\"", "scheme = \"grifin\""), "did you mean 'griffin'?"),
            (CHAIN.replace("log =", "lag ="), "volume 'durable': key 'members': unknown role 'lag'"),
            (CHAIN.replace("\"20%\"", "\"much\""), "drive 'slc': key 'size': expected a size like \"32GiB\""),
            (CHAIN.replace("profile = \"slc\"", "prefile = \"slc\""), "drive 'slc': unknown key 'prefile'"),
            (CHAIN.replace("chain]", "griffin]"), "name 'griffin': expected a name that is not a scheme"),
            (CHAIN.replace("chain]", "disk]"), "name 'disk': a volume and a drive both have it"),
            (CHAIN.replace(", \"qlc2\"", ""), "drive 'qlc2' is a member of no volume"),
            (
                CHAIN.replace("members = { ssd = \"durable\", hdd = \"disk\" }", "members = [\"durable\", \"disk\"]"),
                "smart-response takes a table like",
            ),
        ];
        for (text, expected) in cases {
            let message = refused(&text);
            assert!(message.contains(expected), "{message}\n{expected}");
        }
    }
}
