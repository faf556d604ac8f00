//! Server over files, and clients for it.

#![allow(unreachable_pub, dead_code, reason = "each test uses its part of it")]

pub mod failing;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use bimetal_core::block::BlockSize;
use bimetal_core::layout::{LayoutRequest, MemberInfo, Role};
use bimetal_core::schemes;
use bimetal_core::settings::Settings;
use bimetal_core::units::{Bytes, Sectors};

use bimetal_core::volume::{self, Recovery, Volume, VolumeConfig};
use bimetal_device::buffer::Buffers;
use bimetal_device::drive::file::DriveFile;
use bimetal_device::drive::{Drive, Engine, attach};
use bimetal_serve::server::{Endpoint, Handle, ServeError, Server, ServerOptions, Summary};
use bimetal_volumes::about::{About, AboutMember};
use bimetal_volumes::startup;

/// Directory that is removed at the end of the test.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// Makes a new directory.
    pub fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("bimetal-serve-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Returns the path of a file in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Makes an empty file of this size, in MiB.
    pub fn file(&self, name: &str, mib: u64) -> PathBuf {
        let path = self.path(name);
        fs::File::create(&path).unwrap().set_len(mib << 20).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Volume to be made.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Name of the scheme.
    pub scheme: &'static str,
    /// Settings of the scheme.
    pub settings: &'static [(&'static str, &'static str)],
    /// Size of the SSD, in MiB.
    pub ssd_mib: u64,
    /// Size of the HDD, in MiB; 0 for no HDD.
    pub hdd_mib: u64,
    /// Way in which operations are carried out.
    pub engine: Engine,
}

/// Running server.
pub struct Running {
    /// Handle to query and stop the server.
    pub handle: Handle,
    /// URI of the export.
    pub uri: String,
    /// URL of the metrics.
    pub metrics: String,
    /// Directory of the server's files.
    pub scratch: Scratch,
    thread: JoinHandle<Result<Summary, ServeError>>,
}

/// Makes the drives of a plan, with a new volume or the recovered volume on the drives.
pub fn volume(plan: Plan, scratch: &Scratch, fresh: bool) -> (Volume<Buffers>, Vec<Box<dyn Drive>>) {
    let mut members = vec![(Role::Ssd, "ssd", plan.ssd_mib)];
    if plan.hdd_mib > 0 {
        members.push((Role::Hdd, "hdd", plan.hdd_mib));
    }
    let scheme = schemes::find(plan.scheme).unwrap();
    let settings = Settings::new(scheme.name, scheme.parameters, plan.settings.iter().copied()).unwrap();
    let infos: Vec<MemberInfo> =
        members.iter().map(|&(role, _, mib)| MemberInfo { role, capacity: Bytes::from_mib(mib).sectors() }).collect();
    let layout = LayoutRequest { block: BlockSize::default(), members: &infos, units: &[] as &[Sectors] };
    let config = VolumeConfig { scheme, settings: &settings, layout, identity: 1, drives: &[] };
    let mut drives = Vec::new();
    for (_, name, mib) in members {
        let path = if fresh { scratch.file(name, mib) } else { scratch.path(name) };
        drives.push(attach(DriveFile::open(&path).unwrap(), plan.engine).unwrap());
    }
    if fresh {
        startup::format(volume::format(&config).unwrap(), &mut drives).unwrap();
    }
    let recovery = Recovery::new(&config, &[]).unwrap();
    (startup::recover(recovery, &mut drives, |_, _| {}).unwrap(), drives)
}

/// Starts a server for a new volume over new files, at a Unix socket.
pub fn serve(plan: Plan) -> Running {
    start(plan, Scratch::new(), true, ServerOptions::default())
}

/// Starts a server for the existing volume in `scratch`.
pub fn serve_again(plan: Plan, scratch: Scratch) -> Running {
    start(plan, scratch, false, ServerOptions::default())
}

/// Starts a server.
pub fn start(plan: Plan, scratch: Scratch, fresh: bool, options: ServerOptions) -> Running {
    let (volume, drives) = volume(plan, &scratch, fresh);
    start_serving(plan, scratch, volume, drives, options)
}

/// Starts a server for this volume over these drives.
pub fn start_with(plan: Plan, scratch: Scratch, volume: Volume<Buffers>, drives: Vec<Box<dyn Drive>>) -> Running {
    start_serving(plan, scratch, volume, drives, ServerOptions::default())
}

fn start_serving(
    plan: Plan,
    scratch: Scratch,
    volume: Volume<Buffers>,
    drives: Vec<Box<dyn Drive>>,
    options: ServerOptions,
) -> Running {
    let options = ServerOptions { signals: false, names: vec!["disk".into()], ..options };
    let mut server = Server::new(volume, drives, options).unwrap();
    let uri = server.listen(&Endpoint::Unix(scratch.path("nbd.sock"))).unwrap();
    server.control(&Endpoint::Unix(scratch.path("control.sock")), about(plan, &scratch), None).unwrap();
    let metrics = server.metrics("127.0.0.1:0").unwrap();
    let handle = server.handle();
    let thread = std::thread::spawn(move || server.run());
    Running { handle, uri, metrics, scratch, thread }
}

/// Returns the description of a plan, as from labels.
pub fn about(plan: Plan, scratch: &Scratch) -> About {
    let scheme = schemes::find(plan.scheme).unwrap();
    let settings = Settings::new(scheme.name, scheme.parameters, plan.settings.iter().copied()).unwrap();
    let members = [("ssd", plan.ssd_mib), ("hdd", plan.hdd_mib)].into_iter().filter(|&(_, mib)| mib > 0);
    let members = members.map(|(id, mib)| AboutMember {
        id: id.into(),
        path: Some(scratch.path(id).display().to_string()),
        bytes: Bytes::from_mib(mib),
        ..AboutMember::default()
    });
    About {
        name: "disk".into(),
        uuid: None,
        scheme,
        settings: settings.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        members: members.collect(),
    }
}

impl Running {
    /// Connects a client to the block device.
    pub fn connect(&self) -> Disk {
        Disk::connect(&self.scratch.path("nbd.sock"))
    }

    /// Waits until the server has ended by itself.
    pub fn wait(self) -> (Summary, Scratch) {
        (self.thread.join().unwrap().unwrap(), self.scratch)
    }

    /// Stops the server, as a first SIGTERM would.
    pub fn stop(self) -> (Summary, Scratch) {
        self.handle.stop().unwrap();
        let summary = self.thread.join().unwrap().unwrap();
        (summary, self.scratch)
    }

    /// Stops the server, as a second SIGTERM would.
    pub fn stop_at_once(self) -> Scratch {
        self.handle.stop().unwrap();
        // The server may have ended after the first call.
        let _ = self.handle.stop();
        self.thread.join().unwrap().unwrap();
        self.scratch
    }
}

/// Returns true if all these programs are installed; prints the first missing program.
pub fn has(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        !std::env::split_paths(&paths).any(|path| path.join(program).is_file())
    });
    let Some(missing) = missing else { return true };
    assert!(std::env::var_os("BIMETAL_REQUIRE_ALL").is_none(), "no {missing}");
    println!("skipped: no {missing}");
    false
}

/// Runs a program for at most a minute. The program must succeed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = run_any(program, arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{out}\n{err}", output.status);
    out
}

/// Runs a program for at most a minute.
pub fn run_any(program: &str, arguments: &[&str]) -> Output {
    Command::new("timeout").args(["-k", "1", "60", program]).args(arguments).output().unwrap()
}

/// Returns pseudo-random bytes: no two positions have the same content.
pub fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..bytes.div_ceil(8)).flat_map(|_| next().to_le_bytes()).take(bytes).collect()
}

/// Client of the block device that waits for each reply. The client supports reads, writes and
/// flushes.
pub struct Disk {
    socket: UnixStream,
    requests: u64,
}

impl Disk {
    /// Connects to the export "disk".
    pub fn connect(path: &std::path::Path) -> Self {
        let mut socket = UnixStream::connect(path).unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        let mut greeting = [0; 18];
        socket.read_exact(&mut greeting).unwrap();
        // Fixed newstyle without zeroes; then NBD_OPT_EXPORT_NAME.
        let mut hello = 3u32.to_be_bytes().to_vec();
        hello.extend(b"IHAVEOPT");
        hello.extend(1u32.to_be_bytes());
        hello.extend(4u32.to_be_bytes());
        hello.extend(b"disk");
        socket.write_all(&hello).unwrap();
        socket.read_exact(&mut [0; 10]).unwrap();
        Self { socket, requests: 0 }
    }

    /// Sends a request. Returns the data of a read, or the error.
    pub fn ask(&mut self, kind: u16, offset: u64, length: u32, data: &[u8]) -> Result<Vec<u8>, u32> {
        self.requests += 1;
        let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
        request.extend(0u16.to_be_bytes());
        request.extend(kind.to_be_bytes());
        request.extend(self.requests.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(length.to_be_bytes());
        request.extend(data);
        self.socket.write_all(&request).unwrap();
        let mut reply = [0; 16];
        self.socket.read_exact(&mut reply).unwrap();
        assert_eq!(reply[8..], self.requests.to_be_bytes());
        match u32::from_be_bytes(reply[4..8].try_into().unwrap()) {
            0 => {}
            error => return Err(error),
        }
        let mut read = vec![0; if kind == 0 { length as usize } else { 0 }];
        self.socket.read_exact(&mut read).unwrap();
        Ok(read)
    }

    /// Reads from the device.
    pub fn read(&mut self, offset: u64, bytes: u32) -> Vec<u8> {
        self.ask(0, offset, bytes, &[]).unwrap()
    }

    /// Writes to the device.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        self.ask(1, offset, data.len() as u32, data).unwrap();
    }

    /// Flushes the device.
    pub fn flush(&mut self) {
        self.ask(3, 0, 0, &[]).unwrap();
    }
}
