//! A volume as a block device of the kernel of this machine, by ublk (a feature of the build).
//!
//! The kernel passes requests to the threads of this module. Each thread is a client of the server
//! over its own socket. So all rules for clients apply, and the server's loop waits for no thread.
//! Each queue has one request under way, because the device is meant for convenience and not for
//! speed. NBD clients that keep many requests under way are faster.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use libublk::ctrl::{UblkCtrl, UblkCtrlBuilder};
use libublk::helpers::IoBuf;
use libublk::io::{BufDescList, UblkDev, UblkQueue};
use libublk::{BufDesc, UblkError, UblkFlags, UblkIORes, sys};

use crate::nbd::Export;
use crate::nbd::protocol::{self as nbd, command, command_flag, option};

/// Path at which the kernel takes new devices.
const CONTROL: &str = "/dev/ublk-control";
/// Number of queues of a device, each with a thread and a connection.
pub const QUEUES: u16 = 4;
/// Maximum of requests that wait in a queue.
const DEPTH: u16 = 64;
/// Size of the largest request, in bytes.
const REQUEST_BYTES_MAX: u32 = 512 << 10;
/// Size of the largest range discarded or zeroed with one request, in sectors.
const RANGE_SECTORS_MAX: u32 = 1 << 21;

/// Reasons for which there is no device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The kernel has no ublk.
    #[error("{CONTROL} does not exist: this kernel has no ublk, or its module is not loaded (modprobe ublk_drv)")]
    NoUblk,
    /// The kernel refuses.
    #[error("the kernel cannot make a ublk device: {0}")]
    Refused(#[from] UblkError),
    /// The system refuses to start a thread.
    #[error("cannot start a thread for the ublk device: {0}")]
    Thread(io::Error),
    /// The device's thread ended before the kernel answered.
    #[error("the thread of the ublk device ended before the kernel answered")]
    Ended,
}

/// Checks that the kernel has ublk.
///
/// # Errors
/// Fails if the kernel has no ublk.
pub fn check() -> Result<(), DeviceError> {
    if Path::new(CONTROL).exists() { Ok(()) } else { Err(DeviceError::NoUblk) }
}

/// Block device that exists until it is dropped.
pub struct Device {
    number: i32,
    thread: Option<JoinHandle<()>>,
}

impl Device {
    /// Makes a device of an export. `lines` are [`QUEUES`] connections to its server. Once the
    /// server runs and the device exists, `ready` gets its path, or otherwise the error.
    ///
    /// # Errors
    /// Fails if the kernel has no ublk, or makes no device.
    pub fn new(
        export: &Export,
        lines: Vec<UnixStream>,
        ready: impl FnOnce(Result<String, UblkError>) + Send + Sync + 'static,
    ) -> Result<Self, DeviceError> {
        check()?;
        // The library's connection to the kernel belongs to the thread that opened it.
        let (made, is_made) = mpsc::sync_channel(1);
        let export = export.clone();
        let builder = std::thread::Builder::new().name("ublk".into());
        let work = move || match new_control() {
            Ok(control) => {
                // The receiver waits until this message arrives.
                let _ = made.send(Ok(control.dev_info().dev_id as i32));
                run(&control, &export, lines, ready);
                let _ = control.del_dev();
            }
            Err(error) => drop(made.send(Err(error))),
        };
        let thread = builder.spawn(work).map_err(DeviceError::Thread)?;
        let number = is_made.recv().map_err(|_| DeviceError::Ended)??;
        Ok(Self { number, thread: Some(thread) })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Requests under way end with errors: the server has ended.
        let killed = UblkCtrl::new_simple(self.number).and_then(|control| control.kill_dev());
        // If killing fails, the device's threads would wait forever; the kernel removes the device
        // when the process ends.
        if killed.is_ok() {
            let _ = self.thread.take().map(JoinHandle::join);
        }
    }
}

fn new_control() -> Result<UblkCtrl, UblkError> {
    UblkCtrlBuilder::default()
        .name("bimetal")
        .nr_queues(QUEUES)
        .depth(DEPTH)
        .io_buf_bytes(REQUEST_BYTES_MAX)
        .dev_flags(UblkFlags::UBLK_DEV_F_ADD_DEV)
        .build()
}

type Ready = Arc<Mutex<Option<Box<dyn FnOnce(Result<String, UblkError>) + Send + Sync>>>>;

fn tell(ready: &Ready, outcome: Result<String, UblkError>) {
    let ready = ready.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(ready) = ready {
        ready(outcome);
    }
}

fn run(
    control: &UblkCtrl,
    export: &Export,
    lines: Vec<UnixStream>,
    ready: impl FnOnce(Result<String, UblkError>) + Send + Sync + 'static,
) {
    let ready: Ready = Arc::new(Mutex::new(Some(Box::new(ready))));
    let lines: io::Result<Vec<Line>> = lines.into_iter().map(|socket| Line::new(socket, &export.name)).collect();
    let lines = match lines {
        Ok(lines) => Arc::new(Mutex::new(lines)),
        Err(error) => return tell(&ready, Err(UblkError::IOError(error))),
    };
    let set_up = |device: &mut UblkDev| {
        describe(device, export);
        Ok(())
    };
    let queue = move |number: u16, device: &UblkDev| {
        let line = lines.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(line) = line {
            // The kernel reports a queue without a thread, and starts no device.
            let _ = work(number, device, line);
        }
    };
    let when_there = Arc::clone(&ready);
    let ended = control.run_target(set_up, queue, move |control| tell(&when_there, Ok(control.get_bdev_path())));
    if let Err(error) = ended {
        tell(&ready, Err(error));
    }
}

/// Sets the device's parameters for the kernel.
fn describe(device: &mut UblkDev, export: &Export) {
    device.set_default_params(export.bytes);
    let params = &mut device.tgt.params;
    params.types |= sys::UBLK_PARAM_TYPE_DISCARD;
    params.basic.attrs |= sys::UBLK_ATTR_FUA;
    params.basic.logical_bs_shift = export.block_min_bytes.trailing_zeros() as u8;
    let preferred = export.block_preferred_bytes.trailing_zeros() as u8;
    (params.basic.physical_bs_shift, params.basic.io_min_shift, params.basic.io_opt_shift) =
        (preferred, preferred, preferred);
    params.discard.discard_granularity = export.block_preferred_bytes;
    params.discard.max_discard_sectors = RANGE_SECTORS_MAX;
    params.discard.max_write_zeroes_sectors = RANGE_SECTORS_MAX;
    params.discard.max_discard_segments = 1;
}

/// Handles the requests of a queue until the device is removed.
fn work(number: u16, device: &UblkDev, mut line: Line) -> Result<(), UblkError> {
    let mut buffers = device.alloc_queue_io_bufs();
    let queue = UblkQueue::new(number, device)?.submit_fetch_commands_unified(BufDescList::Slices(Some(&buffers)))?;
    queue.wait_and_handle_io(|queue, tag, _| {
        let buffer = &mut buffers[usize::from(tag)];
        let result = answer(queue, tag, buffer, &mut line);
        // The call fails only when the queue is removed, and then no requester waits.
        let _ = queue.complete_io_cmd_unified(tag, BufDesc::Slice(buffer.as_slice()), Ok(UblkIORes::Result(result)));
    });
    Ok(())
}

/// Returns the number of bytes done, or the negative number of an error.
fn answer(queue: &UblkQueue<'_>, tag: u16, buffer: &mut IoBuf<u8>, line: &mut Line) -> i32 {
    let asked = queue.get_iod(tag);
    let bytes = asked.nr_sectors << 9;
    let asks = match asked.op_flags & 0xff {
        sys::UBLK_IO_OP_READ => command::READ,
        sys::UBLK_IO_OP_WRITE => command::WRITE,
        sys::UBLK_IO_OP_FLUSH => command::FLUSH,
        sys::UBLK_IO_OP_DISCARD => command::TRIM,
        sys::UBLK_IO_OP_WRITE_ZEROES => command::WRITE_ZEROES,
        _ => return -(rustix::io::Errno::OPNOTSUPP.raw_os_error()),
    };
    let fua = asked.op_flags & sys::UBLK_IO_F_FUA != 0;
    let len = if asks == command::FLUSH { 0 } else { bytes };
    let carried = if matches!(asks, command::READ | command::WRITE) { len as usize } else { 0 };
    let Some(data) = buffer.as_mut_slice().get_mut(..carried) else {
        return -(rustix::io::Errno::INVAL.raw_os_error());
    };
    match line.ask(asks, fua, asked.start_sector << 9, len, data) {
        Ok(0) => bytes as i32,
        Ok(_) | Err(_) => -(rustix::io::Errno::IO.raw_os_error()),
    }
}

/// Connection to the server, with one request at a time.
struct Line(UnixStream);

impl Line {
    /// Chooses the export: the fixed newstyle handshake without zeroes, and `NBD_OPT_EXPORT_NAME`.
    fn new(mut socket: UnixStream, export: &str) -> io::Result<Self> {
        socket.read_exact(&mut [0; 18])?;
        let length = (export.len() as u32).to_be_bytes();
        let hello: [&[u8]; 5] = [
            &(nbd::CLIENT_FIXED_NEWSTYLE | nbd::CLIENT_NO_ZEROES).to_be_bytes(),
            &nbd::OPTION_MAGIC.to_be_bytes(),
            &option::EXPORT_NAME.to_be_bytes(),
            &length,
            export.as_bytes(),
        ];
        socket.write_all(&hello.concat())?;
        socket.read_exact(&mut [0; 10])?;
        Ok(Self(socket))
    }

    /// Sends a request and waits. Returns the server's error, or 0.
    fn ask(&mut self, asks: u16, fua: bool, offset: u64, len: u32, data: &mut [u8]) -> io::Result<u32> {
        let head: [&[u8]; 6] = [
            &nbd::REQUEST_MAGIC.to_be_bytes(),
            &(if fua { command_flag::FUA } else { 0 }).to_be_bytes(),
            &asks.to_be_bytes(),
            &[0; 8],
            &offset.to_be_bytes(),
            &len.to_be_bytes(),
        ];
        self.0.write_all(&head.concat())?;
        if asks == command::WRITE {
            self.0.write_all(data)?;
        }
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply)?;
        let error = u32::from_be_bytes([reply[4], reply[5], reply[6], reply[7]]);
        if error == 0 && asks == command::READ {
            self.0.read_exact(data)?;
        }
        Ok(error)
    }
}
