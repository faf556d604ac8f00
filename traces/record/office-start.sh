#!/usr/bin/env bash
# An office program started three times from a cold disk to open a document and write it as PDF, behind films of which
# one is watched after each start. Program, profile and document lie on the disk. Needs: libreoffice-writer-nogui.
name=office-start
disk_size=2G
event=issue
with_files=yes
. "$(dirname "$0")/common.sh"
. "$here/starts.sh"

install_program() {
  # Links to configuration and pictures are followed, so that all lies on the disk.
  cp -rL /usr/lib/libreoffice "$1/office"
  printf 'A document of the recording.\n%.0s' $(seq 5000) >"$1/letter.txt"
  start "$1"
}

start() {
  office "$1/office" "-env:UserInstallation=file://$1/profile" --convert-to pdf --outdir "$1" "$1/letter.txt"
}

main "$@"
