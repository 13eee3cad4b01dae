#!/bin/sh
# A worker in sh: puts four jobs into a book of its own, works on them, and
# shows how they ended. Wants daybook in the PATH.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$(mktemp -d)"
export DAYBOOK_DB=sqlite:checksums.db

echo hello >a.txt
for args in '{"file":"a.txt"}' '{"file":"gone.txt"}' '{"file":"b.part"}' '{"name":"a.txt"}'; do
	daybook enqueue --queue files --kind checksum --max-failures 1 --args "$args" >>ids
done

# --drain ends when nothing is eligible; without it the worker goes on.
daybook work --queue files --exec "sh '$here/checksum.sh'" --timeout 10s --drain

for id in $(cat ids); do
	daybook job show "$id"
	echo
done
