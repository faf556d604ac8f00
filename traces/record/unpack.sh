#!/usr/bin/env bash
# Archives that lie on the disk are unpacked beside it: a part of Linux's source tree from a compressed tar archive, read
# once as a search does, and ten packages. Memory forgets in between. Needs: apt-get, the package linux-source-6.1 and
# ten more (downloaded).
name=unpack
disk_size=3G
event=issue
with_files=yes
. "$(dirname "$0")/common.sh"

packages="git-man perl-modules-5.36 libperl5.36 libicu72 cpp-12 gcc-12 libgcc-12-dev g++-12 libstdc++-12-dev manpages-dev"
parts="block fs kernel mm net include lib drivers/md drivers/block drivers/scsi"

prepare() {
  mkdir -p "$work/debs" "$1/archives"
  (cd "$work/debs" && for package in $packages; do ls "$package"_*.deb >/dev/null 2>&1 || download "$package"; done)
  if [[ ! -e $work/linux-source.tar ]]; then
    (cd "$work" && download linux-source-6.1 && dpkg-deb -x linux-source-6.1_*.deb linux-source)
    xz -dc "$work"/linux-source/usr/src/linux-source-6.1.tar.xz >"$work/linux-source.tar"
  fi
  (
    cd "$1/archives"
    mkdir tree && tar -C tree -xf "$work/linux-source.tar" $(printf 'linux-source-6.1/%s ' $parts)
    tar -C tree -cf - . | zstd -q -1 -o source.tar.zst
    rm -rf tree
    cp "$work"/debs/*.deb .
  )
}

workload() {
  cd "$1"
  mkdir source packages
  forget
  zstd -dc archives/source.tar.zst | tar -C source -xf -
  sync -f .
  sleep 5
  forget
  grep -rl "struct bio" source | wc -l
  sleep 5
  local archive
  for archive in archives/*.deb; do
    dpkg-deb -x "$archive" packages
  done
  sync -f .
  sleep 5
  rm -rf source
  forget
  mkdir source-again
  zstd -dc archives/source.tar.zst | tar -C source-again -xf -
}

main "$@"
