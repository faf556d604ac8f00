# Shared by the scripts that record three cold starts of a program: films lie in front of the program, and one is watched
# after each start. A mark, a read of the device's last block, stands in front of each start and behind it. To be
# sourced behind common.sh by a script that defines the functions
#
#   install_program  puts the program into the directory $1 on the device
#   start            starts it there, and returns when it has ended
prepare() {
  local i
  mkdir -p "$work/films" "$1/films"
  for i in 1 2 3 4 5 6; do
    [[ -e $work/films/$i ]] || head -c 150M /dev/urandom >"$work/films/$i"
    cp "$work/films/$i" "$1/films/film-$i.mp4"
  done
  install_program "$1"
}

watch_film() {
  local at
  for at in $(seq 0 19); do
    dd if="$1" of=/dev/null bs=1M count=1 skip="$at" status=none
    sleep 0.2
  done
}

workload() {
  local i device
  device=$(findmnt -no SOURCE "$1")
  for i in 1 2 3; do
    forget
    mark "$device"
    start "$1"
    mark "$device"
    sleep 5
    watch_film "$1/films/film-$i.mp4"
    sleep 10
  done
}
