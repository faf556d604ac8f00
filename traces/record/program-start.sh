#!/usr/bin/env bash
# A program of many files started three times from a cold disk, behind films that are watched in between: Python with what it
# imports, read through the page cache. Writes beside the trace which file lies where, for strategies that go by files.
# Needs a Python that runs where it was copied to (PYTHON_PREFIX), and zstd.
name=program-start
disk_size=2G
with_files=yes
. "$(dirname "$0")/common.sh"

prefix=${PYTHON_PREFIX:-$(python3 -c 'import sys; print(sys.base_prefix)')}

prepare() {
  local i
  mkdir -p "$work/films" "$1/films" "$1/python/bin" "$1/python/lib"
  # The films come first, and lie low.
  for i in 1 2 3 4 5 6; do
    [[ -e $work/films/$i ]] || head -c 150M /dev/urandom >"$work/films/$i"
    cp "$work/films/$i" "$1/films/film-$i.mp4"
  done
  cp -L "$prefix/bin/python3" "$1/python/bin/"
  cp -L "$prefix"/lib/libpython3.*.so* "$1/python/lib/" 2>/dev/null || true
  cp -a "$prefix"/lib/python3.* "$1/python/lib/"
  rm -rf "$1"/python/lib/python3.*/test "$1"/python/lib/python3.*/config-*
}

# Everything of the library that can be imported without a screen, and what is installed beside it.
start() {
  PYTHONHOME=$1/python LD_LIBRARY_PATH=$1/python/lib PYTHONDONTWRITEBYTECODE=1 "$1/python/bin/python3" - <<'PROGRAM'
import importlib, pkgutil, sys
skipped = {"antigravity", "this", "idlelib", "turtledemo", "turtle", "lib2to3", "ensurepip", "msilib", "tkinter"}
for name in sorted(sys.stdlib_module_names - skipped) + ["IPython", "botocore.session", "pytest", "yaml", "numpy"]:
    try:
        importlib.import_module(name)
    except BaseException:
        pass
PROGRAM
}

watch() {
  local at
  for at in $(seq 0 19); do
    dd if="$1" of=/dev/null bs=1M count=1 skip="$at" status=none
    sleep 0.2
  done
}

workload() {
  local i
  for i in 1 2 3; do
    forget
    start "$1"
    sleep 5
    watch "$1/films/film-$i.mp4"
    sleep 20
  done
}

main "$@"
