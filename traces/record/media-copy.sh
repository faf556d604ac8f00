#!/usr/bin/env bash
# Large files that do not compress, as films and photographs are: copied onto the disk, read back, copied from folder to
# folder, some deleted and replaced. Needs nothing.
name=media-copy
disk_size=4G
event=issue
with_files=yes
. "$(dirname "$0")/common.sh"

prepare() {
  mkdir -p "$work/media"
  local i
  for i in 1 2 3; do
    [[ -e $work/media/film-$i ]] || head -c $((150 * i))M /dev/urandom >"$work/media/film-$i"
  done
  for i in $(seq 150); do
    [[ -e $work/media/photo-$i ]] || head -c $((1500 + 37 * i))K /dev/urandom >"$work/media/photo-$i"
  done
}

workload() {
  cd "$1"
  mkdir films photos album
  local i
  for i in 1 2 3; do
    cp "$work/media/film-$i" films/
    sleep 4
  done
  cp "$work"/media/photo-* photos/
  forget
  md5sum films/film-2 >/dev/null
  sleep 4
  # Watched: at the pace of a film.
  for i in $(seq 0 39); do
    dd if=films/film-1 of=/dev/null bs=1M count=1 skip="$i" status=none
    sleep 0.2
  done
  cp photos/photo-1* album/
  forget
  cat album/* >/dev/null
  rm films/film-3
  cp films/film-2 films/film-2-cut
  fstrim .
  sleep 4
  forget
  cat photos/* films/film-2-cut >/dev/null
}

main "$@"
