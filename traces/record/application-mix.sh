#!/usr/bin/env bash
# Eight tasks of a desktop one after another, as the disk suites of PCMark are mixed of: a scan of all files for viruses,
# a game that loads its levels, photographs that are imported, programs that start, a film that is cut, a film that is
# recorded while another is watched, music that is added to a library, and a program that is installed. Memory forgets
# in front of each, and a mark is left: a read of the device's last block. Needs: python3, sqlite3,
# libreoffice-writer-nogui, and what package-install.sh downloads.
name=application-mix
disk_size=6G
event=issue
with_files=yes
. "$(dirname "$0")/common.sh"

files() { # $1 folder, $2 number, $3 KiB of the first, $4 KiB more of each further one
  local i
  mkdir -p "$1"
  for i in $(seq "$2"); do
    head -c $(($3 + $4 * i))K /dev/urandom >"$1/$i"
  done
}

prepare() {
  files "$work/camera" 60 1500 37
  files "$1/levels" 12 8000 2000
  files "$1/films" 2 200000 20000
  files "$work/songs" 40 3000 50
  mkdir -p "$1/photos" "$1/programs" "$1/system/var/lib/dpkg/"{info,updates,triggers} "$work/debs"
  touch "$1/system/var/lib/dpkg/"{status,available}
  cp -rL /usr/lib/libreoffice "$1/programs/office"
  cp -a /usr/lib/python3* "$1/programs/"
  printf 'A document of the recording.\n%.0s' $(seq 5000) >"$1/letter.txt"
  sqlite3 "$1/library.db" "create table song(path text, size integer, digest text);"
  (cd "$work/debs" && for package in git-man g++-12 manpages-dev; do ls "$package"_*.deb >/dev/null 2>&1 || download "$package"; done)
}

scan() { find "$1/programs" "$1/levels" -type f -exec cat {} + | wc -c; }

# A level is read from the front in pieces, with jumps to textures.
play() {
  python3 - "$1/levels" <<'PROGRAM'
import os, random, sys
random.seed(1)
for level in sorted(os.listdir(sys.argv[1])):
    with open(os.path.join(sys.argv[1], level), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        for _ in range(120):
            if random.random() < 0.3:
                file.seek(random.randrange(0, size - 65536))
            file.read(random.choice((4096, 16384, 65536, 262144)))
PROGRAM
}

import_photos() {
  local photo
  for photo in "$work"/camera/*; do
    cp "$photo" "$1/photos/"
    head -c 20K "$photo" >"$1/photos/$(basename "$photo").thumb"
  done
}

start_programs() {
  office "$1/programs/office" "-env:UserInstallation=file://$1/profile" --convert-to pdf --outdir "$1" "$1/letter.txt"
}

cut_film() {
  dd if="$1/films/1" of="$1/films/cut" bs=1M skip=40 count=90 status=none
  dd if="$1/films/2" of="$1/films/cut" bs=1M skip=20 seek=90 count=60 status=none
}

# Recorded in pieces of 1 MiB, watched at the same pace.
record_and_watch() {
  local i
  for i in $(seq 0 59); do
    dd if=/dev/urandom of="$1/films/recorded" bs=1M count=1 seek="$i" conv=notrunc status=none
    dd if="$1/films/2" of=/dev/null bs=1M skip="$i" count=1 status=none
    sleep 0.2
  done
}

add_music() {
  local song
  mkdir -p "$1/music"
  for song in "$work"/songs/*; do
    cp "$song" "$1/music/"
    sqlite3 "$1/library.db" "insert into song values('$(basename "$song")', $(stat -c %s "$song"), '$(md5sum <"$song")');"
  done
}

install_package() {
  dpkg --root="$1/system" --force-depends --force-breaks --unpack "$work"/debs/{git-man,g++-12,manpages-dev}_*.deb >/dev/null
}

workload() {
  local task device
  device=$(findmnt -no SOURCE "$1")
  for task in scan play import_photos start_programs cut_film record_and_watch add_music install_package; do
    forget
    mark "$device"
    "$task" "$1"
    sync -f "$1"
    sleep 3
  done
}

main "$@"
