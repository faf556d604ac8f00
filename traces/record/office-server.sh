#!/usr/bin/env bash
# The server of a small office, four minutes of it: a PostgreSQL database under steady small transactions, colleagues who
# put photographs into a share and look at them later, a source tree under git in which somebody changes branches and
# searches, and a log that every program writes. Memory forgets every 40 s. Needs what pgbench.sh, source-tree.sh and
# media-copy.sh need.
name=office-server
disk_size=6G
. "$(dirname "$0")/common.sh"

pg=${PG:-$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)}
socket=/tmp
as_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups env HOME=/ PGHOST="$socket" "$@"; }
seconds=240

prepare() {
  export GIT_CONFIG_GLOBAL=$work/gitconfig
  install -d -o postgres "$1/data"
  as_postgres "$pg/initdb" -A trust -D "$1/data" >/dev/null
  cat >>"$1/data/postgresql.conf" <<EOF
listen_addresses = ''
unix_socket_directories = '$socket'
port = 54328
shared_buffers = 16MB
checkpoint_timeout = 60s
max_wal_size = 256MB
EOF
  as_postgres "$pg/pg_ctl" -w -s -D "$1/data" -l "$1/data/server.log" start
  as_postgres "$pg/createdb" -p 54328 bench
  as_postgres "$pg/pgbench" -p 54328 -q -i -s 20 bench 2>/dev/null
  mkdir "$1/share" "$1/log"
  (
    cd "$1"
    tar -xf "$work/linux-source.tar" linux-source-6.1/{fs,kernel,mm,include/linux,net/core,net/ipv4}
    cd linux-source-6.1
    git init -q && git add . && git commit -qm "Import"
    git checkout -qb change
    grep -rlE 'struct (page|inode)\b' . --include=*.[ch] | xargs sed -i 's/struct page/struct folio/g; s/struct inode/struct vnode/g'
    git commit -qam "Rename two structures"
    git gc -q
  )
}

clean_up() { [[ ! -e $1/data/postmaster.pid ]] || timeout 60 setpriv --reuid=postgres --regid=postgres --clear-groups "$pg/pg_ctl" -s -m immediate -D "$1/data" stop; }

share() {
  local i
  for i in $(seq 0 14); do
    mkdir "$1/share/$i"
    cp "$work"/media/photo-$((i * 10 + 1)) "$work"/media/photo-$((i * 10 + 5)) "$work"/media/photo-$((i * 10 + 9)) "$1/share/$i"
    sleep 8
    # Looks at what was put there a while ago, and at the same album again and again.
    ((i < 3)) || cat "$1/share/$((i - 3))"/* "$1"/share/0/* >/dev/null
    sleep 7
  done
}

develop() {
  local i
  cd "$1/linux-source-6.1"
  for i in $(seq 6); do
    git checkout -q master
    sleep 12
    grep -rl rcu_read_lock kernel net >/dev/null
    git status --short >/dev/null
    git checkout -q change
    sleep 12
    git log --stat -1 >/dev/null
    echo "/* $i */" | tee -a fs/ext4/*.c >/dev/null
    git commit -qam "Change $i"
    sleep 10
  done
}

log() {
  local i
  for i in $(seq "$seconds"); do
    printf '%s %0200d\n' "$i" "$i" >>"$1/log/service.log"
    sync -d "$1/log/service.log"
    sleep 1
  done
}

workload() {
  export GIT_CONFIG_GLOBAL=$work/gitconfig
  as_postgres "$pg/pgbench" -p 54328 -n -c 2 -R 8 -T "$seconds" bench >/dev/null 2>&1 &
  as_postgres "$pg/pgbench" -p 54328 -n -S -c 2 -R 15 -T "$seconds" bench >/dev/null 2>&1 &
  share "$1" &
  (develop "$1") &
  log "$1" &
  local i
  for i in 1 2 3 4 5; do
    sleep 40
    forget
  done
  wait
  as_postgres "$pg/pg_ctl" -s -m fast -D "$1/data" stop
}

main "$@"
