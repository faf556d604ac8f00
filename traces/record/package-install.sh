#!/usr/bin/env bash
# Packages are installed: Debian's into a root directory of their own (dpkg, which makes every file durable), then
# Python's; memory forgets, everything is read once as programs start, some packages are removed and come back.
# Needs: apt-get, dpkg, python3 with pip.
name=package-install
disk_size=4G
. "$(dirname "$0")/common.sh"

# Packages without scripts, so that nothing of them runs.
packages="git-man perl-modules-5.36 libperl5.36 libicu72 cpp-12 gcc-12 libgcc-12-dev g++-12 libstdc++-12-dev manpages manpages-dev"

prepare() {
  mkdir -p "$work/debs"
  (cd "$work/debs" && for package in $packages; do ls "$package"_*.deb >/dev/null 2>&1 || download "$package"; done)
  ls "$work/wheels"/*.whl >/dev/null 2>&1 || python3 -m pip -q download --only-binary=:all: -d "$work/wheels" django sympy pygments requests
  mkdir -p "$1/system/var/lib/dpkg/"{info,updates,triggers} "$1/system/var/log"
  touch "$1/system/var/lib/dpkg/"{status,available}
}

unpack() { dpkg --root="$1/system" --force-depends --force-breaks --unpack "${@:2}" >/dev/null; }

workload() {
  cd "$work/debs"
  for package in $packages; do
    unpack "$1" "$package"_*.deb
    sleep 1
  done
  forget
  python3 -m pip -q install --no-index --find-links "$work/wheels" --target "$1/site" django sympy pygments requests 2>/dev/null
  forget
  PYTHONPATH="$1/site" python3 -c "import django, sympy, pygments, requests"
  find "$1/system/usr/lib" -type f -name '*.so*' -exec md5sum {} + | wc -l
  sleep 3
  dpkg --root="$1/system" --force-depends --remove manpages-dev perl-modules-5.36 >/dev/null
  unpack "$1" manpages-dev_*.deb perl-modules-5.36_*.deb
  forget
  # An upgrade: the same files again.
  unpack "$1" gcc-12_*.deb libgcc-12-dev_*.deb libicu72_*.deb
  find "$1/system/usr/share" -type f -newer "$1/system/var/lib/dpkg/available" -exec cat {} + | wc -c
}

main "$@"
