#!/usr/bin/env bash
# Three hours of a desktop: a browser visits pages in spells, mail comes in, a document is written and saved, a small
# program is changed and built, photographs are imported, a film is watched, packages are upgraded, and a log is written
# all the time. Each minute has a tick of the background programs; some minutes have an activity of the person.
#
# The pauses are not slept. When an activity is over, its file system is synchronised, as the kernel would do by itself
# half a minute later, and a read of the device's last block marks the place. Behind the recording, each mark is taken
# out, and what follows begins at the next minute: requests, their order and their spacing within an activity are
# recorded, the rest of each minute is composed. REAL_TIME=1 sleeps instead, for three hours.
#
# Needs: chromium, libreoffice-writer-nogui, sqlite3, gcc, git, python3, what package-install.sh downloads.
name=desktop
disk_size=8G
event=issue
with_files=yes
. "$(dirname "$0")/common.sh"

minutes=180
pages="http://127.0.0.1:8948"

# Programs, the profiles that a first start makes, mail of the past, a program's source.
prepare() {
  mkdir -p "$1"/{profile,mail,documents,photos,films,log,site} "$1/system/var/lib/dpkg/"{info,updates,triggers}
  touch "$1/system/var/lib/dpkg/"{status,available}
  cp -rL /usr/lib/chromium "$1/chromium"
  cp -rL /usr/lib/libreoffice "$1/office"
  local i
  for i in $(seq 40); do
    printf '<html><body><h1>Page %s</h1><img src="%s.bin"><img src="%s.bin">%s</body></html>' \
      "$i" $((i % 12)) $(((i + 5) % 12)) "$(seq $((i * 200)))" >"$1/site/$i.html"
    head -c $((40 + 30 * (i % 12)))K /dev/urandom >"$1/site/$((i % 12)).bin"
  done
  sqlite3 "$1/mail/index.db" "
    pragma journal_mode = wal;
    create table message(id integer primary key, sender text, subject text, body text);
    create index by_sender on message(sender);
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
    insert into message select i, 'sender ' || i % 300, 'subject ' || i, hex(randomblob(400)) from n;" >/dev/null
  head -c 60M /dev/urandom >"$1/mail/inbox"
  head -c 300M /dev/urandom >"$1/films/film"
  python3 - "$1/project" <<'PROGRAM'
import os, sys
os.makedirs(sys.argv[1])
for i in range(60):
    body = "".join(f"int f{i}_{k}(int x) {{ return x * {k} + {i}; }}\n" for k in range(150))
    open(f"{sys.argv[1]}/part{i}.c", "w").write(body)
rule = "program: $(patsubst %.c,%.o,$(wildcard *.c))\n\tgcc -shared -o $@ $^\n%.o: %.c\n\tgcc -O1 -g -fPIC -c -o $@ $<\n"
open(f"{sys.argv[1]}/Makefile", "w").write(rule)
PROGRAM
  (cd "$1/project" && make -s && git init -q && git add ./*.c Makefile && GIT_AUTHOR_NAME=r GIT_AUTHOR_EMAIL=r@example.org \
    GIT_COMMITTER_NAME=r GIT_COMMITTER_EMAIL=r@example.org git commit -qm "Import")
  mkdir -p "$work/debs" "$work/camera"
  (cd "$work/debs" && for package in git-man manpages manpages-dev; do ls "$package"_*.deb >/dev/null 2>&1 || download "$package"; done)
  for i in $(seq 60); do
    [[ -e $work/camera/$i ]] || head -c $((1500 + 37 * i))K /dev/urandom >"$work/camera/$i"
  done
  printf 'A first line.\n' >"$1/documents/report.txt"
  (cd "$1/site" && exec python3 -m http.server --bind 127.0.0.1 8948 >/dev/null 2>&1) &
  server=$!
  sleep 1
  browse "$1" 1
  write_document "$1" 0
  kill "$server"
}

# What programs do that nobody looks at: log lines, each durable; mail is asked for, and some comes.
tick() {
  local line
  for line in 1 2 3; do
    printf '%s minute %s: the service %s is still at work, and says so in a line of some length\n' "$(date)" "$2" "$line" >>"$1/log/system"
    sync "$1/log/system"
  done
  (($2 % 3)) || {
    head -c $((2000 + 500 * ($2 % 40))) /dev/urandom >>"$1/mail/inbox"
    sqlite3 "$1/mail/index.db" "insert into message(sender, subject, body) values('sender $(($2 % 300))', 'new $2', hex(randomblob(400)));"
  }
}

browse() {
  timeout 60 "$1/chromium/chromium" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
    --user-data-dir="$1/profile" --virtual-time-budget=2000 --screenshot="$1/shot.png" "$pages/$2.html" >/dev/null 2>&1 || true
}

# The text grows, and is saved in the program's own format over the file before.
write_document() {
  printf 'Line %s of the document that is written in this minute.\n' $(seq $(($2 * 40)) $(($2 * 40 + 40))) >>"$1/documents/report.txt"
  office "$1/office" "-env:UserInstallation=file://$1/office-profile" --convert-to odt --outdir "$1/documents" \
    "$1/documents/report.txt"
}

build() {
  local i
  for i in $(($2 % 60)) $(($2 * 7 % 60)); do
    echo "int added_$2_$i(void) { return $2; }" >>"$1/project/part$i.c"
  done
  make -s -C "$1/project"
  (($2 % 4)) || git -C "$1/project" -c user.name=r -c user.email=r@example.org commit -qam "Change $2"
}

read_mail() {
  sqlite3 "$1/mail/index.db" "select count(*) from message where sender = 'sender $(($2 % 300))'; select body from message order by id desc limit 30;" >/dev/null
}

import_photos() {
  local i
  for i in $(seq "$2" $(($2 + 8))); do
    cp "$work/camera/$((i % 60 + 1))" "$1/photos/$i"
    head -c 20K "$1/photos/$i" >"$1/photos/$i.thumb"
  done
}

watch_film() { dd if="$1/films/film" of=/dev/null bs=1M skip=$((6 * ($2 % 40))) count=6 status=none; }

upgrade() {
  dpkg --root="$1/system" --force-depends --force-breaks --unpack "$work"/debs/{git-man,manpages,manpages-dev}_*.deb >/dev/null
}

# The activity of the minute $2: the plan of the three hours.
activity() {
  local minute=$2
  case $minute in
    5 | 125) upgrade "$1" ;;
    60 | 61 | 62 | 150) import_photos "$1" $((minute * 10)) ;;
    9[0-9] | 10[0-4]) watch_film "$1" "$minute" ;;
    *)
      # Spells of half an hour, with a cup of coffee between them.
      case $((minute / 30)):$((minute % 30)) in
        *:2[89] | *:1[45]) ;;
        0:* | 3:*) ((minute % 2)) || browse "$1" $((minute % 40 + 1)) ;;
        1:* | 4:*) if ((minute % 5)); then ((minute % 4)) || read_mail "$1" "$minute"; else write_document "$1" "$minute"; fi ;;
        *) if ((minute % 3)); then ((minute % 7)) || browse "$1" $((minute % 40 + 1)); else build "$1" "$minute"; fi ;;
      esac
      ;;
  esac
}

# The rest of a minute that began at $SECONDS = $3.
rest() {
  sync -f "$1"
  if [[ ${REAL_TIME:-} ]]; then
    sleep $((60 - (SECONDS - $3) > 0 ? 60 - (SECONDS - $3) : 0))
  else
    sleep 0.05
    mark "$2"
    sleep 0.05
  fi
}

workload() {
  local minute device began
  device=$(findmnt -no SOURCE "$1")
  (cd "$1/site" && exec python3 -m http.server --bind 127.0.0.1 8948 >/dev/null 2>&1) &
  server=$!
  trap 'kill "$server" 2>/dev/null || true' EXIT
  sleep 1
  for minute in $(seq 0 $((minutes - 1))); do
    began=$SECONDS
    # Other programs need the memory now and then.
    ((minute % 20)) || forget
    tick "$1" "$minute"
    activity "$1" "$minute"
    rest "$1" "$device" "$began"
  done
}

# Takes the marks out, and lets what is behind a mark begin at the next minute.
compose() {
  python3 - "$1" "$2" "$(($(stat -c %s "$3") / 512 - 8))" <<'PROGRAM'
import sys
MINUTE = 60_000_000_000
source, target, mark = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(source) as lines, open(target, "w") as out:
    head = lines.readline()
    out.write(head)
    columns = head.rstrip("\n").split(",")
    time, op, lba = (columns.index(name) for name in ("time_ns", "op", "lba"))
    shift = 0
    for line in lines:
        fields = line.rstrip("\n").split(",")
        now = int(fields[time]) + shift
        if fields[op] == "read" and int(fields[lba]) == mark:
            # Work of more than a minute delays what follows.
            shift += -now % MINUTE
            continue
        fields[time] = str(now)
        out.write(",".join(fields) + "\n")
PROGRAM
}

finish() {
  local trace=$1/$name.bin.zst
  [[ ${REAL_TIME:-} ]] && return
  "$bimetal" convert "$trace" "$work/recorded.csv"
  compose "$work/recorded.csv" "$work/composed.csv" "$disk"
  "$bimetal" convert "$work/composed.csv" "$trace"
}

main "$@"
