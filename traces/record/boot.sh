#!/usr/bin/env bash
# The start of a system, twice: a small Debian server in a virtual machine, whose disk is the device, with a
# database, a web server and remote access, until it has started everything and stops itself. The disk's cache in the
# host is off, so every start reads the device. A mark, a read of the device's last block, stands behind each. Needs:
# qemu-system-x86, mmdebstrap. ACCELERATION=kvm where the processor has it; without, the processor is emulated and takes
# most of the time.
name=boot
disk_size=4G
event=issue
. "$(dirname "$0")/common.sh"

packages=systemd-sysv,udev,dbus,rsyslog,cron,openssh-server,apache2,postgresql,python3

prepare() {
  [[ -e $work/guest.tar ]] ||
    mmdebstrap --quiet --variant=minbase --include="$packages,linux-image-cloud-amd64" bookworm "$work/guest.tar"
  tar -C "$1" --exclude=./dev/\* -xf "$work/guest.tar"
  cp -L "$1/vmlinuz" "$work/guest.vmlinuz"
  cp -L "$1/initrd.img" "$work/guest.initrd"
  echo "/dev/vda / ext4 noatime 0 1" >"$1/etc/fstab"
  # An emulated processor takes longer than services may.
  mkdir -p "$1/etc/systemd/system.conf.d"
  printf '[Manager]\nDefaultTimeoutStartSec=infinity\nDefaultDeviceTimeoutSec=infinity\n' >"$1/etc/systemd/system.conf.d/slow.conf"
  # The system stops itself when all has started.
  cat >"$1/etc/systemd/system/stop-when-started.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=idle
ExecStart=/bin/sh -c "sleep 2; systemctl poweroff"
UNIT
  mkdir -p "$1/etc/systemd/system/graphical.target.wants" "$1/etc/systemd/system/multi-user.target.wants"
  ln -s ../stop-when-started.service "$1/etc/systemd/system/multi-user.target.wants/"
  # Nobody logs in over the serial line.
  ln -s /dev/null "$1/etc/systemd/system/serial-getty@ttyS0.service"
}

start() {
  timeout 1200 qemu-system-x86_64 -accel "${ACCELERATION:-tcg}" -m 1024 -nographic -no-reboot -nic user,restrict=on \
    -kernel "$work/guest.vmlinuz" -initrd "$work/guest.initrd" -append "root=/dev/vda console=ttyS0 quiet no_timer_check" \
    -drive "file=$1,if=virtio,format=raw,cache=none,aio=native" </dev/null >"$work/guest.console" 2>&1
}

# The guest has the file system, so the host lets it go.
workload() {
  local device
  device=$(findmnt -no SOURCE "$1")
  umount "$1"
  for _ in 1 2; do
    start "$device"
    mark "$device"
  done
  mount -o noatime "$device" "$1"
}

with_files=yes
main "$@"
