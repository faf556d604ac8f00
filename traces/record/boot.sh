#!/usr/bin/env bash
# The start of a system, twice: a small Debian server in a virtual machine, whose disk is the device, with a database,
# a web server and remote access. Loader, kernel and initial file system are read from the device, too. Each start lies
# between two marks: the host leaves the first, and the guest the second when it has started everything. Then the guest
# stops itself. The disk's cache in the host is off, so every start reads the device. An unrecorded start goes before,
# which does what a system does only once.
#
# ACCELERATION=kvm where the processor has it; without, the processor is emulated, and think times are far longer than
# on a real one. So the unrecorded start also times a fixed piece of work in the guest, and the script says how much
# longer it takes than outside. The think times of the trace are left as they were. For an emulated processor no service
# has a time limit, two processors are emulated by two threads, and two timers that are no part of a start are masked.
#
# The host has not mounted the device while the guest runs, so another `bimetal` command may search it for labels: start
# none, or the trace has its reads.
#
# Needs: qemu-system-x86, mmdebstrap, extlinux.
name=boot
disk_size=4G
event=issue
# A system that starts reads the last block itself, and whole blocks only.
mark_bytes=6144
. "$(dirname "$0")/common.sh"

packages=systemd-sysv,udev,dbus,rsyslog,cron,openssh-server,apache2,postgresql,python3

# Programs that start, and a program that computes.
fixed_work='i=0; while [ $i -lt 100 ]; do ls /usr/bin; i=$((i + 1)); done; python3 -c "sum(i * i for i in range(2000000))"'

prepare() {
  [[ -e $work/guest.tar ]] ||
    mmdebstrap --quiet --variant=minbase --include="$packages,linux-image-cloud-amd64" bookworm "$work/guest.tar"
  tar -C "$1" --exclude=./dev/\* -xf "$work/guest.tar"
  install_loader "$1"
  echo "/dev/vda / ext4 noatime 0 1" >"$1/etc/fstab"
  # An emulated processor takes longer than services may.
  mkdir -p "$1/etc/systemd/system.conf.d"
  printf '[Manager]\nDefaultTimeoutStartSec=infinity\nDefaultDeviceTimeoutSec=infinity\n' >"$1/etc/systemd/system.conf.d/slow.conf"
  local unit
  # Nobody logs in over the serial line, and no timer fires in a start.
  for unit in serial-getty@ttyS0.service apt-daily.timer apt-daily-upgrade.timer; do
    ln -s /dev/null "$1/etc/systemd/system/$unit"
  done
  stop_when_started "$1"
  # The first start makes keys and caches, and is not recorded.
  echo "$fixed_work" >"$1/fixed-work"
  local outside inside device
  outside=$(date +%s%N)
  chroot "$1" sh /fixed-work >"$work/guest.console"
  outside=$((($(date +%s%N) - outside) / 1000000))
  device=$(findmnt -no SOURCE "$1")
  umount "$1"
  start "$device"
  mount -o noatime "$device" "$1"
  rm "$1/fixed-work"
  inside=$(sed -n 's/.*the fixed work took \([0-9]*\) ms.*/\1/p' "$work/guest.console")
  echo "$name: the fixed work took $outside ms outside and ${inside:?the guest did not time it} ms in the guest" >&2
}

install_loader() {
  mkdir "$1/boot/extlinux"
  extlinux --install "$1/boot/extlinux" >/dev/null 2>&1
  local kernel
  kernel=$(basename "$(readlink "$1/vmlinuz")")
  cat >"$1/boot/extlinux/extlinux.conf" <<CONF
DEFAULT linux
LABEL linux
  LINUX /boot/$kernel
  INITRD /boot/${kernel/vmlinuz/initrd.img}
  APPEND root=/dev/vda console=ttyS0 quiet no_timer_check
CONF
}

stop_when_started() {
  cat >"$1/etc/systemd/system/stop-when-started.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=idle
ExecStart=/bin/sh /usr/local/sbin/stop-when-started
UNIT
  mkdir -p "$1/etc/systemd/system/multi-user.target.wants"
  ln -s ../stop-when-started.service "$1/etc/systemd/system/multi-user.target.wants/"
  cat >"$1/usr/local/sbin/stop-when-started" <<'SCRIPT'
# The second mark of a start, or the time of a fixed piece of work.
if [ -e /fixed-work ]; then
  start=$(date +%s%N)
  sh /fixed-work >/run/fixed-work
  echo "the fixed work took $((($(date +%s%N) - start) / 1000000)) ms" >/dev/console
else
  size=$(($(cat /sys/block/vda/size) * 512))
  dd if=/dev/vda of=/dev/null bs=6144 count=1 skip=$((size - 6144)) iflag=direct,skip_bytes status=none
fi
systemctl poweroff
SCRIPT
}

start() {
  timeout 1200 qemu-system-x86_64 -accel "${ACCELERATION:-tcg,thread=multi}" -cpu max -smp 2 -m 1024 \
    -nographic -no-reboot -nic none -device virtio-rng-pci \
    -drive "file=$1,if=virtio,format=raw,cache=none,aio=native" </dev/null >"$work/guest.console" 2>&1
}

# The guest has the file system, so the host lets it go.
workload() {
  local device
  device=$(findmnt -no SOURCE "$1")
  umount "$1"
  for _ in 1 2; do
    mark "$device"
    start "$device"
  done
  mount -o noatime "$device" "$1"
}

with_files=yes
main "$@"
