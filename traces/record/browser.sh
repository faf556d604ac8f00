#!/usr/bin/env bash
# A browser with its profile and cache on the disk is started and visits pages, is closed and started again after memory
# has forgotten. The pages come from this machine. Needs: chromium, python3 (and the package python3.11-doc, downloaded,
# for pages).
name=browser
disk_size=2G
. "$(dirname "$0")/common.sh"

prepare() {
  if [[ ! -d $work/pages ]]; then
    (cd "$work" && download python3.11-doc && dpkg-deb -x python3.11-doc_*.deb pages)
  fi
  # The program itself lies on the disk too, as it does for most of us.
  cp -rL /usr/lib/chromium "$1/chromium"
  mkdir -p "$1/profile"
}

# Starts the browser once for each page, as -headless ends when it has seen its page.
visit() {
  local page
  for page in "${@:2}"; do
    timeout 30 "$1/chromium/chromium" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
      --user-data-dir="$1/profile" --virtual-time-budget=3000 --screenshot="$1/shot.png" \
      "http://127.0.0.1:8947/$page" >/dev/null 2>&1 || true
  done
}

workload() {
  local pages
  pages=$(dirname "$(find "$work/pages" -name genindex-all.html | head -1)")
  (cd "$pages" && exec python3 -m http.server --bind 127.0.0.1 8947 >/dev/null 2>&1) &
  server=$!
  trap 'kill "$server" 2>/dev/null || true' EXIT
  sleep 1
  kill -0 "$server" || { echo "the server of the pages did not start" >&2; exit 1; }
  visit "$1" index.html library/index.html library/asyncio.html library/functions.html
  sleep 3
  forget
  visit "$1" tutorial/index.html genindex-all.html reference/datamodel.html library/re.html
  sleep 3
  visit "$1" library/stdtypes.html whatsnew/3.11.html library/os.html genindex-all.html
  forget
  visit "$1" library/string.html library/socket.html library/stdtypes.html index.html
}

main "$@"
