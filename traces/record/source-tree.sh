#!/usr/bin/env bash
# A programmer's disk: a part of the Linux source tree is unpacked, put under git, searched, changed, committed, and
# branches are switched; memory forgets in between. Needs: apt-get, git, the package linux-source-6.1 (downloaded).
name=source-tree
disk_size=4G
. "$(dirname "$0")/common.sh"

parts="block fs kernel mm net/core net/ipv4 include/linux include/uapi lib Documentation/filesystems drivers/md drivers/block"

prepare() {
  if [[ ! -e $work/linux-source.tar ]]; then
    (cd "$work" && download linux-source-6.1 && dpkg-deb -x linux-source-6.1_*.deb linux-source)
    xz -dc "$work"/linux-source/usr/src/linux-source-6.1.tar.xz >"$work/linux-source.tar"
  fi
  git config --file "$work/gitconfig" user.name Recorder
  git config --file "$work/gitconfig" user.email recorder@example.org
}

workload() {
  export GIT_CONFIG_GLOBAL=$work/gitconfig
  cd "$1"
  tar -xf "$work/linux-source.tar" $(printf 'linux-source-6.1/%s ' $parts)
  cd linux-source-6.1
  sleep 6
  git init -q && git add . && git commit -qm "Import"
  sleep 6
  forget
  grep -rl "struct bio" . | wc -l
  git checkout -qb change
  # A change all over the tree, as a rename of a function is.
  grep -rl submit_bio . --include=*.[ch] | xargs sed -i 's/submit_bio/send_bio/g'
  git commit -qam "Rename a function"
  forget
  git checkout -q master
  git status --short | wc -l
  sleep 6
  git checkout -q change
  git log --stat -1 | tail -1
  forget
  tar -cf "../backup.tar" .
  sleep 6
  forget
  git gc -q
  grep -rl rcu_read_lock kernel net | wc -l
  rm -rf Documentation drivers
  git checkout -q .
}

main "$@"
