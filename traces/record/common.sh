# Shared by the scripts beside it: a workload runs on an ext4 file system on a loop device, and `bimetal record` writes
# down what the device is asked for. To be sourced by a script that sets
#
#   name       of the trace
#   disk_size  of the loop device
#   event      that counts as an arrival, as in `bimetal record --event` (default: queue)
#   mark_bytes size of a mark (default: 4096)
#   with_files if set, which file lies where is written beside the trace, as `bimetal place` sees it at the end
#
# and defines the functions
#
#   prepare    what is done before the recording, in the directory $1 on the device
#   workload   what is recorded, in the same directory
#   finish     what is done to the trace in the directory $1 behind the recording (may be missing)
#   clean_up   what is to be stopped in the end (may be missing)
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

# Marks a place in the recording: reads the end of the device $1, which no file has, past memory.
mark() {
  local size=${mark_bytes:-4096}
  dd if="$1" of=/dev/null bs="$size" count=1 skip="$(($(blockdev --getsize64 "$1") - size))" \
    iflag=direct,skip_bytes status=none
}

# Fetches Debian packages into the current directory.
download() {
  apt-get -qq -o APT::Sandbox::User=root download "$@"
}

# Runs LibreOffice from its copy in the folder $1, over the installed one's path, which no other program sees. It ends
# with 81 when it has made a profile and wants to be started again.
office() {
  local status=0
  office_once "$@" || status=$?
  ((status != 81)) || { status=0 && office_once "$@" || status=$?; }
  return "$status"
}

office_once() {
  unshare -m sh -c 'mount --bind "$0" /usr/lib/libreoffice && exec /usr/lib/libreoffice/program/soffice.bin "$@"' "$1" \
    --headless --norestore "${@:2}" >/dev/null 2>&1
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

# Writes the map of the files that lie on the device now.
write_files() {
  (cd "$mount_point" && "$bimetal" place . -o "$1/$name.files.csv")
  zstd -q --rm -f -19 "$1/$name.files.csv"
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
  "$bimetal" record "$loop" --event "${event:-queue}" -o "$output/$name.bin.zst" -- "$0" --workload "$mount_point"
  [[ -e $work/$name.done ]] || { echo "$name: the workload failed" >&2; exit 1; }
  [[ -z ${with_files:-} ]] || write_files "$output"
  ! declare -F finish >/dev/null || finish "$output"
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
