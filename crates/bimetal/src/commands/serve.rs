//! `bimetal serve`: serves a volume as a network block device.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bimetal_core::scheme::Foresight;
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_serve::control::socket_of;
use bimetal_serve::server::{
    CLIENTS_MAX, Credentials, Endpoint, Handle, ScrubPlan, Server, ServerOptions, SocketAccess, Tcp,
};
use bimetal_sim::setup::WANT_FILES;
use bimetal_volumes::attach::{Attached, Options, attach};
use bimetal_volumes::find::find;
use bimetal_volumes::memory::refuse_too_little;
use bimetal_volumes::plan::Plan;
use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::files::{file_extents, refuse_map_beyond};
use crate::options::JsonOption;
use crate::output::{Versioned, note, print};
use crate::progress::Progress;
use crate::target::{control, let_go, run_time};

/// Smallest time between scrubs.
const SCRUB_PERIOD_MIN: Nanoseconds = Nanoseconds::from_millis(1000);
/// Smallest rate of a scrub, in bytes per second.
const SCRUB_RATE_MIN: Bytes = Bytes::from_kib(64);

/// Serve a volume as a block device, by the NBD protocol
///
/// Prints `ready NAME URI` when clients can connect, with --json a JSON document on one line for
/// each address. `bimetal status`, `drain` and other commands
/// then ask the server. SIGTERM or Ctrl-C completes every request, makes all writes durable and
/// stops. A second signal stops at once, and loses no more than a power cut would.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal serve mail\n  \
    bimetal serve /dev/sdb1 --nbd unix:/run/mail.sock\n  \
    bimetal serve mail --nbd tcp:0.0.0.0:10809 --tls-certificates /etc/pki/bimetal --tls-verify-peer\n  \
    nbdinfo 'nbd+unix:///mail?socket=/run/mail.sock'")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives
    volume: String,
    /// Address for clients: unix:PATH or tcp:HOST:PORT [default: the socket NAME.sock in the
    /// run-time directory]
    #[arg(long, value_name = "ENDPOINT")]
    nbd: Vec<Endpoint>,
    /// Also serve as a block device of this machine's kernel, /dev/ublkbN; needs a build with
    /// --features ublk
    #[arg(long)]
    ublk: bool,
    /// Address of this machine, HOST:PORT, at which Prometheus fetches /metrics
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Directory with server-cert.pem and server-key.pem: TCP clients must use TLS
    #[arg(long, value_name = "DIR", conflicts_with = "insecure_tcp")]
    tls_certificates: Option<PathBuf>,
    /// Accept only clients whose certificate ca-cert.pem has signed and ca-crl.pem does not revoke;
    /// both lie in DIR, ca-crl.pem if wanted
    #[arg(long, requires = "tls_certificates")]
    tls_verify_peer: bool,
    /// Serve TCP without encryption, on this machine only
    #[arg(long)]
    insecure_tcp: bool,
    /// Most clients at the same time; further clients are refused
    #[arg(long, value_name = "N", default_value_t = CLIENTS_MAX, value_parser = clients_max)]
    clients_max: usize,
    /// Mode of the Unix sockets for clients, in octal
    #[arg(long, value_name = "MODE", default_value = "0600", value_parser = socket_mode)]
    socket_mode: u32,
    /// Group of the Unix sockets for clients, by name or number [default: the group of the process]
    #[arg(long, value_name = "GROUP", value_parser = group)]
    socket_group: Option<u32>,
    /// Time between scrubs, like 7d; a scrub reads all blocks off home and compares them with their
    /// checksums [default: never]
    #[arg(long, value_name = "DURATION", value_parser = scrub_period)]
    scrub_every: Option<Nanoseconds>,
    /// Most bytes that a scrub reads in a second, like 50MiB, at least 64KiB; needs --scrub-every
    /// [default: all that requests leave free]
    #[arg(long, value_name = "SIZE", requires = "scrub_every", value_parser = scrub_rate)]
    scrub_rate: Option<Bytes>,
    /// Map of files, as `bimetal place -o` writes it, for combo, dataplex and os-managed; read
    /// again whenever it changes
    #[arg(long, value_name = "MAP.csv")]
    files: Option<PathBuf>,
    /// List of the map's files that belong on the SSD, a path a line, for strategy=list; read again
    /// with the map
    #[arg(long, value_name = "LIST", requires = "files")]
    list: Option<PathBuf>,
    /// Serve although drives are missing, if nothing on them is needed
    #[arg(long)]
    degraded: bool,
    /// Serve the remaining content, and give up content that is lost
    #[arg(long)]
    accept_loss: bool,
    #[command(flatten)]
    json: JsonOption,
}

/// Reads a number of clients.
fn clients_max(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(clients @ 1..=4096) => Ok(clients),
        _ => Err("expected a number of clients from 1 to 4096, like 64".to_owned()),
    }
}

/// Reads the time between scrubs.
fn scrub_period(text: &str) -> Result<Nanoseconds, String> {
    match text.parse() {
        Ok(period) if period >= SCRUB_PERIOD_MIN => Ok(period),
        Ok(_) => {
            Err("expected a duration of at least 1s, like 7d; without --scrub-every there are no scrubs".to_owned())
        }
        Err(error) => Err(format!("{error}")),
    }
}

/// Reads the rate of a scrub.
fn scrub_rate(text: &str) -> Result<Bytes, String> {
    match text.parse() {
        Ok(rate) if rate >= SCRUB_RATE_MIN => Ok(rate),
        Ok(_) => Err(format!("expected a size of at least {SCRUB_RATE_MIN}, like 50MiB")),
        Err(error) => Err(format!("{error}")),
    }
}

/// Reads the mode of a file, as `chmod` takes it in octal.
fn socket_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode @ 0..=0o777) if !text.starts_with('+') => Ok(mode),
        _ => Err("expected a mode in octal, like 0660".to_owned()),
    }
}

/// Returns the number of a group. `getent` is asked for a group that `/etc/group` does not have,
/// because the group may come from another source.
fn group(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let of = |table: &str| {
        let mut lines = table.lines().map(|line| line.split(':').collect::<Vec<_>>());
        lines.find(|fields| fields[0] == text).and_then(|fields| fields.get(2)?.parse().ok())
    };
    let local = std::fs::read_to_string("/etc/group").ok().and_then(|table| of(&table));
    let asked = || {
        let output = Command::new("getent").args(["group", "--", text]).output().ok()?;
        of(&String::from_utf8_lossy(&output.stdout))
    };
    local.or_else(asked).ok_or_else(|| "there is no such group: expected its name or number, like disk".to_owned())
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let tcp = tcp(&arguments)?;
    let located = find(&arguments.volume)?;
    check_places(&arguments, &located.assembly.label.name, &tcp)?;
    let list = arguments.list.clone();
    let files = arguments.files.as_deref().map(|files| file_extents(files, list.as_deref())).transpose()?;
    let plan = Plan::of_label(&located.assembly.label);
    let layout = plan.as_ref().and_then(|plan| plan.lay_out().ok());
    if let (Some(plan), Some(layout)) = (&plan, &layout)
        && let Err(lack) = refuse_too_little(plan.config().scheme, layout)
    {
        note(format_args!("'{}': {}", located.assembly.label.name, lack.warning()));
    }
    let exported = layout.map_or(Bytes(u64::MAX), |layout| layout.exported());
    if let (Some(extents), Some(path)) = (&files, &arguments.files) {
        refuse_map_beyond(extents, path, exported)?;
    }
    let options = Options { degraded: arguments.degraded, accept_loss: arguments.accept_loss, ..Options::default() };
    let mut progress: Option<Progress> = None;
    let attached = attach(&located, options, |done, total| {
        progress.get_or_insert_with(|| Progress::new(Some(total.0), "bytes")).set(done.0);
    });
    drop(progress);
    let Attached { mut volume, drives, held } = attached?;
    let name = held.label().name.clone();
    match &files {
        Some(files) => {
            volume.foresee(&Foresight { tells_half: false, files });
            if list.is_none() && held.label().scheme_settings().any(|setting| setting == ("strategy", "list")) {
                note(format_args!(
                    "'{name}': strategy=list moves no file without a list: `bimetal optimize` writes a list, and \
                     --list LIST gives it"
                ));
            }
        }
        None => {
            if let Some((key, value)) = held.label().scheme_settings().find(|setting| WANT_FILES.contains(setting)) {
                note(format_args!(
                    "'{name}': {key}={value} has no effect without a map of files: `bimetal place DIRECTORY -o \
                     MAP.csv` writes a map, and --files MAP.csv gives it"
                ));
            }
        }
    }
    if let Some(reason) = volume.began_without() {
        note(format_args!("'{name}': the volume is served without a drive: {reason}"));
    }
    if let Some(damage) = volume.began_empty() {
        let cost = match volume.gave_up() {
            Some(_) => "content that only it had is given up (--accept-loss)",
            None => "home had everything, so nothing is lost",
        };
        note(format_args!("'{name}': the cache begins empty: {damage}; {cost}"));
    }
    if held.has_overwritten() {
        note(format_args!(
            "'{name}': another program had overwritten the beginning of its home drive, and its writes there were \
             given up (--accept-loss): the volume has its own beginning again; check the file systems on the volume"
        ));
    }
    if let Some(text) = held.copies_that_differed() {
        note(text);
    }
    if let Some(failed) = held.copy_failed() {
        note(format_args!(
            "'{name}': the second copy of a label cannot be written, {failed}: the volume uses the first copy alone; \
             check that drive"
        ));
    }
    let access = SocketAccess { mode: arguments.socket_mode, group: arguments.socket_group };
    let clients_max = arguments.clients_max;
    let scrub = ScrubPlan { every: arguments.scrub_every, rate: arguments.scrub_rate };
    let options =
        ServerOptions { names: vec![name.clone()], tcp, clients_max, access, scrub, ..ServerOptions::default() };
    let mut server = Server::new(volume, drives, options)?;
    let held = control(&mut server, &located, held)?;
    if let Some(path) = arguments.files.clone() {
        read_when_changed(path, list, exported, server.handle());
    }
    let volume = name.clone();
    server.on_trouble(move |line| note(format_args!("'{volume}': {line}")));
    if let Some(address) = &arguments.metrics {
        let url = server.metrics(address)?;
        note(format_args!("metrics of '{name}' are at {url}"));
    }
    let _device = if arguments.ublk { Some(block_device(&mut server, &name, arguments.json.json)?) } else { None };
    let endpoints = if arguments.nbd.is_empty() { vec![own_socket(&name)?] } else { arguments.nbd };
    for endpoint in &endpoints {
        let uri = server.listen(endpoint)?;
        print(&ready(&name, &uri.to_string(), arguments.json.json)?)?;
    }
    let summary = server.run()?;
    let drained = let_go(&held, &summary)?;
    drained.into_iter().for_each(note);
    if summary.clean {
        return Ok(());
    }
    Err(Error::new(format!("volume '{}' was stopped at once: writes that were not flushed may be lost", name)))
}

/// Interval at which the map of files is checked for changes.
const FILES_LOOKED_AT: Duration = Duration::from_secs(1);

/// Reads the map of files at `path` again whenever it has changed, until the server has stopped. If
/// the new map cannot be read, or ends beyond the `volume`, the error is reported once and the
/// previous map stays.
fn read_when_changed(path: PathBuf, list: Option<PathBuf>, volume: Bytes, server: Handle) {
    let changed = move |path: &Path| std::fs::metadata(path).and_then(|file| Ok((file.modified()?, file.len()))).ok();
    let mut seen = changed(&path);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(FILES_LOOKED_AT);
            let now = changed(&path);
            if now.is_none() || std::mem::replace(&mut seen, now) == now {
                continue;
            }
            let files = file_extents(&path, list.as_deref());
            let files = files.and_then(|files| refuse_map_beyond(&files, &path, volume).map(|()| files));
            match files {
                Ok(files) => match server.take_files(files) {
                    Ok(()) => note(format_args!("{}: the map of files was read again", path.display())),
                    Err(_) => return,
                },
                Err(error) => note(format_args!("{error}; the previous map of files stays in use")),
            }
        }
    });
}

/// Checks sockets and endpoints before the volume is attached. A refusal after the attachment
/// would leave the home drive guarded, and no longer a plain disk.
fn check_places(arguments: &Arguments, name: &str, tcp: &Tcp) -> Result<(), Error> {
    if arguments.ublk {
        has_ublk()?;
    }
    run_time()?;
    Endpoint::Unix(socket_of(name)).check_path()?;
    if arguments.nbd.is_empty() {
        own_socket(name)?.check_path()?;
    }
    for endpoint in &arguments.nbd {
        endpoint.check(tcp)?;
    }
    if let Some(address) = &arguments.metrics {
        Endpoint::of_metrics(address)?.check(&Tcp::Plain)?;
    }
    Ok(())
}

#[cfg(feature = "ublk")]
fn has_ublk() -> Result<(), Error> {
    Ok(bimetal_serve::ublk::check()?)
}

#[cfg(not(feature = "ublk"))]
fn has_ublk() -> Result<(), Error> {
    Err(Error::new(
        "this bimetal was built without ublk: build it with `cargo build --release --features ublk` (needs libclang)",
    ))
}

/// Address at which clients can connect.
#[derive(Serialize)]
struct Ready<'a> {
    /// Name of the volume.
    volume: &'a str,
    /// Address for clients, or the path of a block device.
    uri: &'a str,
}

/// Returns the line that tells that clients can connect.
fn ready(volume: &str, uri: &str, json: bool) -> Result<String, Error> {
    match json {
        true => Ok(serde_json::to_string(&Versioned::new("serve", &Ready { volume, uri }))? + "\n"),
        false => Ok(format!("ready {volume} {uri}\n")),
    }
}

/// Makes a block device of the kernel, which prints a `ready` line like an endpoint.
#[cfg(feature = "ublk")]
fn block_device(server: &mut Server, name: &str, json: bool) -> Result<bimetal_serve::ublk::Device, Error> {
    use bimetal_serve::ublk::{Device, QUEUES};
    let lines = (0..QUEUES).map(|_| server.connect()).collect::<Result<_, _>>()?;
    let (handle, name) = (server.handle(), name.to_owned());
    let ready = move |outcome: Result<String, _>| match outcome {
        // The reader of standard output may have gone.
        Ok(path) => drop(ready(&name, &path, json).and_then(|line| print(&line))),
        Err(error) => {
            crate::output::note(format!("no block device: {error}"));
            let _ = handle.stop();
        }
    };
    Ok(Device::new(&server.exports()[0], lines, ready)?)
}

#[cfg(not(feature = "ublk"))]
fn block_device(_: &mut Server, _: &str, _: bool) -> Result<(), Error> {
    has_ublk()
}

/// Returns the kind of TCP that the flags allow.
fn tcp(arguments: &Arguments) -> Result<Tcp, Error> {
    let Some(directory) = &arguments.tls_certificates else {
        return Ok(if arguments.insecure_tcp { Tcp::Plain } else { Tcp::Refused });
    };
    if !arguments.nbd.iter().any(|endpoint| matches!(endpoint, Endpoint::Tcp(_))) {
        return Err(Error::new("--tls-certificates is for TCP, and nothing is served there: add --nbd tcp:HOST:PORT"));
    }
    if !arguments.tls_verify_peer {
        note(
            "any client that reaches the TCP port can read and write the volume: require certificates of clients with \
             --tls-verify-peer",
        );
    }
    Ok(Tcp::Tls(Credentials::read(directory, arguments.tls_verify_peer)?))
}

/// Returns the default socket of a volume, for which the user named none.
fn own_socket(name: &str) -> Result<Endpoint, Error> {
    Ok(Endpoint::Unix(run_time()?.join(format!("{name}.sock"))))
}
