#!/usr/bin/env bash
# An application with its data in SQLite: small transactions, each durable, with a rollback journal at first and a
# write-ahead log later, look-ups between them, and a vacuum. Memory forgets in between. Needs: sqlite3.
name=sqlite
disk_size=1G
. "$(dirname "$0")/common.sh"

prepare() {
  sqlite3 "$1/shop.db" "
    create table item(id integer primary key, name text, price integer, description text);
    create table sale(id integer primary key, item integer, at integer, amount integer);
    create index sale_by_item on sale(item);
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000)
    insert into item select i, 'item ' || i, i % 997, hex(randomblob(150)) from n;
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000)
    insert into sale select i, abs(random()) % 100000, i, i % 7 from n;"
}

# $1 transactions on the database $2, a few of them a look-up or a change of an item.
transactions() {
  awk -v count="$1" -v seed="$3" 'BEGIN {
    srand(seed)
    for (i = 0; i < count; i++) {
      item = int(100000 * rand() ^ 2)
      if (rand() < 0.3) print "select sum(amount) from sale where item = " item ";"
      else if (rand() < 0.5) print "update item set price = price + 1 where id = " item ";"
      else print "insert into sale(item, at, amount) values(" item ", " i ", 1);"
    }
  }' | sqlite3 "$2" >/dev/null
}

workload() {
  transactions 2500 "$1/shop.db" 1
  forget
  sleep 3
  transactions 2500 "$1/shop.db" 2
  forget
  sqlite3 "$1/shop.db" "pragma journal_mode = wal;" >/dev/null
  transactions 2500 "$1/shop.db" 3
  sleep 3
  forget
  sqlite3 "$1/shop.db" "select count(*), max(length(description)) from item;"
  transactions 2500 "$1/shop.db" 4
  sqlite3 "$1/shop.db" "delete from sale where id % 3 = 0; vacuum;"
}

main "$@"
