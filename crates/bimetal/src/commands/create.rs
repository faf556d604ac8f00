//! `bimetal create`: makes a volume of drives.

use std::fmt::Write as _;
use std::path::PathBuf;

use bimetal_core::label::Label;
use bimetal_core::layout::{Layout, LayoutError, MemberId, Role};
use bimetal_core::scheme::{Holds, SchemeInfo};
use bimetal_core::schemes;
use bimetal_core::units::{Bytes, SECTOR_BYTES};
use bimetal_device::drive::emulated::Player;
use bimetal_sim::setup::WANT_FILES;
use bimetal_volumes::about::RATED_WRITES;
use bimetal_volumes::create::{Created, DriveChoice, Request, create};
use bimetal_volumes::rating::rated_writes;
use bimetal_volumes::verdict::Verdict;
use clap::Args;
use serde::Serialize;

use crate::emulated_files::{FileSize, MadeFiles, file_size};
use crate::error::Error;
use crate::files::{file_extents, refuse_map_beyond};
use crate::names::schemes_named;
use crate::options::{BlockOption, JsonOption};
use crate::output::{note, print, print_json};
use crate::volume::{DrivePath, drive_path, member, setting, size};

/// Size for which the form of a rating is checked.
const RATED_DRIVE: Bytes = Bytes(1_000_000_000_000);

/// Make a hybrid volume from drives: check the drives, write their metadata and label them
///
/// A drive is a block device (a disk or a partition) or a file. The drives of a volume are found by
/// their labels, under any device name. A drive is refused if it is mounted, in use, too small,
/// labelled already, or has content that would be harmed. A file system on the drive that is home
/// of all addresses stays, as the content of the volume, if it ends before the volume's metadata at
/// the drive's end.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal create mail --scheme smart-response --ssd /dev/nvme0n1p3 --hdd /dev/sdb1\n  \
    bimetal create mail --scheme smart-response --ssd /dev/nvme0n1p3 --hdd /dev/sdb1 --dry-run\n  \
    bimetal create logs --scheme griffin --ssd /dev/sda2 --hdd /dev/sdb1 --set timeout=5min\n  \
    bimetal create try --scheme smart-response --ssd ssd.img \\\n    \
    --hdd emulate:seagate-barracuda-7200.12-1tb:hdd.img --hdd-size drive")]
pub(crate) struct Arguments {
    /// The volume's name
    name: String,
    /// Scheme by which the drives work together; see `bimetal schemes`
    #[arg(long, value_name = "SCHEME")]
    scheme: String,
    /// The SSD: a block device, a file, or emulate:PROFILE:FILE, a file that is as slow as the
    /// profile's drive
    #[arg(long, value_name = "PATH", value_parser = drive_path)]
    ssd: Option<DrivePath>,
    /// The HDD: a block device, a file, or emulate:PROFILE:FILE, as for --ssd
    #[arg(long, value_name = "PATH", value_parser = drive_path)]
    hdd: Option<DrivePath>,
    /// Make the sparse file of an emulated SSD with this size, like 32GiB; drive: the size in the
    /// profile
    #[arg(long, value_name = "SIZE|drive", value_parser = file_size, allow_hyphen_values = true)]
    ssd_size: Option<FileSize>,
    /// Make the sparse file of an emulated HDD with this size, like 1TiB; drive: the size in the
    /// profile
    #[arg(long, value_name = "SIZE|drive", value_parser = file_size, allow_hyphen_values = true)]
    hdd_size: Option<FileSize>,
    /// A separate drive for a role: log=PATH puts Griffin's log on that drive
    #[arg(long, value_name = "ID=PATH", value_parser = member)]
    member: Vec<(Role, DrivePath)>,
    /// A parameter of the scheme (timeout=30s) or of an emulated drive (hdd.volatile_cache=on)
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Map of files, as `bimetal place -o` writes it; strategy=type and metadata=on need it
    #[arg(long, value_name = "MAP.csv")]
    files: Option<PathBuf>,
    #[command(flatten)]
    block: BlockOption,
    /// Erase what lies on the drives, except a file system that can stay on its home; a drive that
    /// is in use is never erased
    #[arg(long)]
    force: bool,
    /// Check the drives, print the volume that they would become, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let scheme = match schemes_named(&arguments.scheme)?.as_slice() {
        [scheme] => *scheme,
        _ => return Err(Error::new(format!("--scheme {}: expected one scheme for a volume", arguments.scheme))),
    };
    if schemes::ARRAYS.iter().any(|array| array.name == scheme.name) {
        return Err(Error::new(format!(
            "--scheme {0}: {0} is for simulations; make an array of drives with mdadm, and give the array to another \
             scheme as one drive",
            scheme.name
        )));
    }
    let drives = drives_of(&arguments, scheme)?;
    let settings = settings_of(&arguments.set, scheme, &drives)?;
    let map = arguments.files.as_deref().map(|path| file_extents(path, None)).transpose()?;
    if map.is_none() {
        refuse_settings_for_files(&settings)?;
    }
    let made = MadeFiles::make(&drives, |role| match role {
        Role::Ssd => arguments.ssd_size,
        Role::Hdd => arguments.hdd_size,
        Role::Log => None,
    })?;
    let request = Request {
        name: arguments.name,
        scheme,
        settings,
        block: arguments.block.size()?,
        drives,
        force: arguments.force,
        dry_run: arguments.dry_run,
        created_by: concat!("bimetal ", env!("CARGO_PKG_VERSION")).to_owned(),
    };
    if let (Some(extents), Some(path)) = (map, &arguments.files) {
        let planned = create(&Request { dry_run: true, ..request.clone() })?;
        refuse_map_beyond(&extents, path, planned.layout.exported())?;
    }
    let created = create(&request)?;
    let json = arguments.json.json;
    if request.dry_run {
        return if json {
            print_json("create", &document(&created, scheme, true))
        } else {
            print(&format!("{}Nothing was written (--dry-run).\n", describe(&created, scheme)))
        };
    }
    made.keep();
    let files = arguments.files.as_ref();
    if let Some(error) = &created.forgotten {
        note(format_args!(
            "the file paths of '{}' cannot be stored ({error}): name the volume by the path of one of its drives",
            request.name
        ));
    }
    if json {
        return print_json("create", &document(&created, scheme, false));
    }
    print(&describe(&created, scheme))?;
    let with_files = files.map_or_else(String::new, |path| format!(" --files {}", path.display()));
    print(&format!("Serve it with: bimetal serve {}{with_files}\n", created.label.name))
}

/// Refuses settings that require a map of files.
fn refuse_settings_for_files(settings: &[(String, String)]) -> Result<(), Error> {
    let by_files = settings.iter().find(|(key, value)| WANT_FILES.contains(&(key.as_str(), value.as_str())));
    let Some((key, value)) = by_files else { return Ok(()) };
    let why = match key.as_str() {
        "strategy" if value == "list" => "strategy=list moves files by name, and only a map has their addresses",
        "strategy" => "strategy=type finds programs by the names of files, and only a map has their addresses",
        _ => "metadata=on finds metadata as addresses outside of all files, and only a map has the addresses of files",
    };
    Err(Error::new(format!(
        "--set {key}={value}: {why}: expected --files MAP.csv beside it; `bimetal place DIRECTORY -o MAP.csv` writes \
         a map"
    )))
}

/// Returns the drives in the order of the scheme's members.
fn drives_of(arguments: &Arguments, scheme: &SchemeInfo) -> Result<Vec<DriveChoice>, Error> {
    let given = [(Role::Ssd, &arguments.ssd), (Role::Hdd, &arguments.hdd)];
    let given = given.into_iter().filter_map(|(role, path)| Some((role, path.as_ref()?)));
    let given: Vec<_> = given.chain(arguments.member.iter().map(|(role, path)| (*role, path))).collect();
    let has = |wanted: Role| given.iter().any(|(role, _)| *role == wanted);
    for &(role, holds) in scheme.members {
        let given = has(role) || (holds == Holds::Log && has(Role::Log));
        if !given {
            let (name, what) = (role.name(), holds_what(holds));
            let message = format!("scheme {} needs a drive that holds {what}: give it with --{name} PATH", scheme.name);
            return Err(Error::new(message));
        }
    }
    for (role, _) in &given {
        let count = given.iter().filter(|(other, _)| other == role).count();
        if count > 1 {
            return Err(LayoutError::TooMany { role: *role, count }.into());
        }
    }
    for (_, drive) in &given {
        if let Some(profile) = &drive.emulates {
            Player::new(profile, [])?;
        }
    }
    let mut choices: Vec<DriveChoice> = given.into_iter().map(|(role, path)| path.choice(role)).collect();
    let place = |role: Role| scheme.members.iter().position(|&(member, _)| member == role).unwrap_or(usize::MAX);
    choices.sort_by_key(|choice| place(choice.role));
    Ok(choices)
}

fn holds_what(holds: Holds) -> &'static str {
    match holds {
        Holds::Home | Holds::Copy => "every address",
        Holds::Cache => "the cache",
        Holds::Ranges => "a part of the addresses",
        Holds::Log => "the log",
    }
}

/// Returns the settings as the label keeps them: without the scheme's name before a key. The
/// settings of drives are checked.
fn settings_of(
    given: &[(String, String)],
    scheme: &SchemeInfo,
    drives: &[DriveChoice],
) -> Result<Vec<(String, String)>, Error> {
    let mut settings: Vec<(String, String)> = Vec::new();
    for (key, value) in given {
        let key = match key.split_once('.') {
            Some((of, key)) if of == scheme.name => key,
            Some((of, of_drive)) => {
                check_drive_setting(of, of_drive, value, drives)?;
                key.as_str()
            }
            None => key.as_str(),
        };
        settings.retain(|(other, _)| other != key);
        settings.push((key.to_owned(), value.clone()));
    }
    Ok(settings)
}

/// Checks the setting of a drive. Only an emulated drive has settings, those of its model.
fn check_drive_setting(role: &str, key: &str, value: &str, drives: &[DriveChoice]) -> Result<(), Error> {
    let of_role: Vec<&DriveChoice> = drives.iter().filter(|drive| drive.role.name() == role).collect();
    if of_role.is_empty() {
        return Err(Error::new(format!("--set {role}.{key}: this volume has no drive or scheme '{role}'")));
    }
    for drive in of_role {
        let Some(profile) = &drive.emulates else {
            if key == RATED_WRITES {
                // The size of the drive does not decide on the form.
                rated_writes(value, RATED_DRIVE).map_err(|error| Error::new(format!("--set {role}.{key}: {error}")))?;
                continue;
            }
            return Err(Error::new(format!(
                "--set {role}.{key}: {} is a real drive, and only emulated drives have settings",
                drive.path.display()
            )));
        };
        Player::new(profile, [(key, value)])?;
    }
    Ok(())
}

/// Returns a summary of the new volume: the exported size, the layout of each member, and the
/// losses of the worst crash and of a lost drive.
fn describe(created: &Created, scheme: &SchemeInfo) -> String {
    let Created { label, layout, .. } = created;
    let block = layout.block.bytes();
    let exported = layout.exported();
    let mut text = format!(
        "{}: {} exported ({} bytes), {}, {block} blocks\n",
        label.name,
        size(exported),
        exported.0,
        scheme.name
    );
    // Writing to a string cannot fail.
    for (at, (path, verdict)) in created.drives.iter().enumerate() {
        let member = MemberId(at as u16);
        let _ =
            writeln!(text, "  {:<4} {}: {}", label.member_name(member), path.display(), lies_on(label, layout, member));
        let emulates = &label.members[at].emulates;
        if let Some(profile) = emulates {
            let _ = writeln!(text, "       as slow as {profile}");
        }
        let _ = match verdict {
            Verdict::Empty => Ok(()),
            Verdict::Adopted { name, .. } => writeln!(text, "the {name} on it stays, as the content of the volume"),
            Verdict::Erased(names) => writeln!(text, "       what lay on it is erased ({})", names.join(", ")),
        };
    }
    let _ = writeln!(text, "worst crash  loses {}", scheme.worst_crash);
    for (role, loss) in [(Role::Ssd, scheme.ssd_loss), (Role::Hdd, scheme.hdd_loss)] {
        if scheme.members.iter().any(|&(member, _)| member == role) {
            let _ = writeln!(text, "{} lost     loses {}", role.name().to_uppercase(), scheme.loss_in_words(loss));
        }
    }
    text.push_str(match (layout.home.len(), label.guard) {
        (1, Some(_)) => {
            "drained      the home drive is a plain disk again, without Bimetal; while attached, it must not be used \
             alone\n"
        }
        (1, None) => "alone        the drive is a plain disk, with Bimetal or without\n",
        _ => "drained      no drive is a plain disk: each has a part of the addresses\n",
    });
    text
}

/// A new volume, for programs.
#[derive(Serialize)]
struct Document<'a> {
    volume: &'a str,
    scheme: &'a str,
    exported_bytes: u64,
    block_bytes: u64,
    /// Set if the drives were only checked, and nothing was written.
    dry_run: bool,
    members: Vec<MemberDocument>,
    /// Data that the worst crash loses.
    worst_crash: &'a str,
}

/// Drive of a new volume, for programs.
#[derive(Serialize)]
struct MemberDocument {
    member: String,
    path: PathBuf,
    /// Content found on the drive that is erased.
    erased: Vec<&'static str>,
    /// File system that stays, as the content of the volume.
    adopted: Option<&'static str>,
    /// Profile of the model that an emulated drive is as slow as.
    emulates: Option<String>,
}

fn document<'a>(created: &'a Created, scheme: &'a SchemeInfo, dry_run: bool) -> Document<'a> {
    let Created { label, layout, .. } = created;
    let member = |(at, (path, verdict)): (usize, &(PathBuf, Verdict))| MemberDocument {
        member: label.member_name(MemberId(at as u16)).to_string(),
        path: path.clone(),
        erased: if let Verdict::Erased(names) = verdict { names.clone() } else { Vec::new() },
        adopted: if let Verdict::Adopted { name, .. } = verdict { Some(*name) } else { None },
        emulates: label.members[at].emulates.as_ref().map(ToString::to_string),
    };
    Document {
        volume: &label.name,
        scheme: scheme.name,
        exported_bytes: layout.exported().0,
        block_bytes: layout.block.bytes().0,
        dry_run,
        members: created.drives.iter().enumerate().map(member).collect(),
        worst_crash: scheme.worst_crash,
    }
}

/// Returns the parts of the volume that lie on a member.
fn lies_on(label: &Label, layout: &Layout, member: MemberId) -> String {
    let block = layout.block.bytes().0;
    let mut parts = Vec::new();
    for home in layout.home.iter().filter(|home| home.member == member) {
        let held = size(Bytes(home.blocks.count * block));
        let which = if layout.home.len() == 1 { "every address" } else { "a part of the addresses" };
        parts.push(format!("home of {which}, {held}"));
    }
    if let Some(slots) = layout.slots.filter(|slots| slots.member == member) {
        parts.push(format!("{} of slots", size(Bytes(u64::from(slots.count) * block))));
    }
    if let Some(metadata) = layout.metadata.filter(|metadata| metadata.member == member) {
        parts.push(format!("{} of metadata", size(Bytes(metadata.sectors * SECTOR_BYTES))));
    }
    if label.area_of(member).is_some() {
        parts.push("2MiB for its beginning while attached".to_owned());
    }
    parts.push("128KiB for its label and the volume's state".to_owned());
    parts.join(", ")
}
