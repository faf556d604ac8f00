#!/bin/sh
# Fills corpus/read_any from ../fuzz-corpus: each file behind the byte that chooses its format, and behind a 0; and
# corpus/read_hints with the hints there as they are.
set -eu
cd "$(dirname "$0")"
mkdir -p corpus/read_any corpus/read_hints
cp ../fuzz-corpus/hints/* corpus/read_hints
number=0
for format in msr spc disksim mqsim ssdsim linnos blkparse blktrace tracefs wiscsee fio diskmon cloudphysics-csv vscsi \
    hadoop-csv fiu systor17 alibaba tencent lis keys32le csv bin; do
    number=$((number + 1))
    for file in ../fuzz-corpus/"$format"/*; do
        name=$format-$(basename "$file")
        { printf "\\$(printf %03o "$number")"; cat "$file"; } >"corpus/read_any/$name"
        { printf '\000'; cat "$file"; } >"corpus/read_any/any-$name"
    done
done
