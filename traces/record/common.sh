# Shared by the scripts beside it: a workload runs on an ext4 file system on a loop device, and `bimetal record` writes
# down what the device is asked for. To be sourced by a script that sets
#
#   name       of the trace
#   disk_size  of the loop device
#
# and defines the functions
#
#   prepare    what is done before the recording, in the directory $1 on the device
#   workload   what is recorded, in the same directory
#
# Usage of such a script, as root: SCRIPT OUTPUT_DIRECTORY. Environment: BIMETAL (the program), WORK (where the disk's
# file and downloads are put; it needs some GiB on an SSD).
set -euo pipefail

bimetal=${BIMETAL:-bimetal}
work=${WORK:-${TMPDIR:-/tmp}/bimetal-record}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Memory forgets what it has cached, as on a machine whose memory is small against its data.
forget() {
  sync
  echo 3 >/proc/sys/vm/drop_caches
}

# Fetches Debian packages into the current directory.
download() {
  apt-get -qq -o APT::Sandbox::User=root download "$@"
}

tear_down() {
  local status=$?
  trap - EXIT INT TERM
  declare -F clean_up >/dev/null && clean_up "$mount_point" || true
  cd /
  if mountpoint -q "$mount_point"; then
    timeout 60 umount "$mount_point" || timeout 60 umount -l "$mount_point"
  fi
  [[ -n ${loop:-} ]] && timeout 60 losetup -d "$loop"
  rm -f "$disk"
  rmdir "$mount_point"
  exit "$status"
}

record_workload() {
  local output=$1
  mkdir -p "$work" "$output"
  disk=$work/$name.disk
  mount_point=$work/$name.mount
  mkdir -p "$mount_point"
  rm -f "$disk"
  truncate -s "$disk_size" "$disk"
  trap tear_down EXIT
  trap 'exit 1' INT TERM
  loop=$(losetup --find --show --direct-io=on "$disk")
  # Nothing that ext4 still has to do in the background mixes with the workload.
  mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$loop"
  mount -o noatime "$loop" "$mount_point"
  prepare "$mount_point"
  forget
  rm -f "$work/$name.done"
  "$bimetal" record "$loop" -o "$output/$name.bin.zst" -- "$0" --workload "$mount_point"
  [[ -e $work/$name.done ]] || { echo "$name: the workload failed" >&2; exit 1; }
  "$bimetal" analyze "$output/$name.bin.zst"
}

main() {
  if [[ ${1:-} == --workload ]]; then
    workload "$2"
    sync -f "$2"
    touch "$work/$name.done"
  else
    [[ $# == 1 && $(id -u) == 0 ]] || { echo "usage, as root: $0 OUTPUT_DIRECTORY" >&2; exit 2; }
    record_workload "$(realpath -m "$1")"
  fi
}
