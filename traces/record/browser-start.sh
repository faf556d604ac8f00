#!/usr/bin/env bash
# A browser started three times from a cold disk to show a page of a file, behind films of which one is watched after
# each start. Program, profile and cache lie on the disk. Needs: chromium.
name=browser-start
disk_size=3G
event=issue
with_files=yes
. "$(dirname "$0")/common.sh"
. "$here/starts.sh"

install_program() {
  cp -rL /usr/lib/chromium "$1/chromium"
  mkdir "$1/profile"
  printf '<html><body>%s</body></html>' "$(seq 2000)" >"$1/page.html"
  # The first start makes the profile.
  start "$1"
}

start() {
  timeout 60 "$1/chromium/chromium" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
    --user-data-dir="$1/profile" --virtual-time-budget=2000 --screenshot="$1/shot.png" \
    "file://$1/page.html" >/dev/null 2>&1
}

main "$@"
