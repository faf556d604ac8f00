#!/usr/bin/env bash
# A small database server: PostgreSQL with little memory of its own under pgbench's TPC-B-like transactions at a steady
# rate, with read-only clients beside them, a report over a whole table now and then, and checkpoints; memory forgets
# every 30 s. Needs: postgresql (its programs in $PG, by default the newest under /usr/lib/postgresql).
name=pgbench
disk_size=4G
. "$(dirname "$0")/common.sh"

pg=${PG:-$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)}
as_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups env HOME=/ PGHOST="$socket" "$@"; }
socket=/tmp

prepare() {
  install -d -o postgres "$1/data"
  as_postgres "$pg/initdb" -A trust -D "$1/data" >/dev/null
  cat >>"$1/data/postgresql.conf" <<EOF
listen_addresses = ''
unix_socket_directories = '$socket'
port = 54329
shared_buffers = 16MB
checkpoint_timeout = 60s
max_wal_size = 256MB
EOF
  start "$1"
  as_postgres "$pg/createdb" -p 54329 bench
  as_postgres "$pg/pgbench" -p 54329 -q -i -s 30 bench 2>/dev/null
}

start() { as_postgres "$pg/pg_ctl" -w -s -D "$1/data" -l "$1/data/server.log" start; }

clean_up() { [[ ! -e $1/data/postmaster.pid ]] || timeout 60 setpriv --reuid=postgres --regid=postgres --clear-groups "$pg/pg_ctl" -s -m immediate -D "$1/data" stop; }

workload() {
  as_postgres "$pg/pgbench" -p 54329 -n -c 4 -R 12 -T 240 bench >/dev/null 2>&1 &
  local writers=$!
  as_postgres "$pg/pgbench" -p 54329 -n -S -c 2 -R 25 -T 240 bench >/dev/null 2>&1 &
  local readers=$!
  for _ in 1 2 3 4 5 6 7; do
    sleep 30
    forget
  done
  as_postgres "$pg/psql" -p 54329 -qAt -c "select count(*), sum(abalance) from pgbench_accounts where aid < 1000000" bench
  wait "$writers" "$readers"
  as_postgres "$pg/pg_ctl" -s -m fast -D "$1/data" stop
}

main "$@"
