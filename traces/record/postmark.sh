#!/usr/bin/env bash
# A mail server's small files: PostMark makes 4000 files of 500 bytes to 60 KB, then 10,000 transactions read, append,
# create and delete them, then all are deleted; twice. Memory forgets every second while it runs. Needs: postmark.
name=postmark
disk_size=2G
event=issue
with_files=yes
. "$(dirname "$0")/common.sh"

# What the disk holds when the recording ends: files are deleted by each run, so some stay from before.
prepare() {
  mkdir "$1/mail" "$1/kept"
  local i
  for i in $(seq 2000); do
    head -c $((500 + 29 * i)) /dev/urandom >"$1/kept/$i"
  done
}

run() {
  printf 'set location %s\nset seed %s\nset number 4000\nset transactions 10000\nset size 500 60000\nset subdirectories 40\nrun\nquit\n' \
    "$1" "$2" | postmark >/dev/null
}

workload() {
  local i running
  for i in 1 2; do
    run "$1/mail" "$i" &
    running=$!
    while kill -0 "$running" 2>/dev/null; do
      sleep 1
      forget
    done
    sleep 5
  done
}

main "$@"
