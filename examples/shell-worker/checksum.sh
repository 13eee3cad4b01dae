#!/bin/sh
# One job: the checksum of a file. The args come on standard input, like
# {"file":"a.txt"}; what is printed is the result; the exit status says how the
# attempt ended. DAYBOOK_JOB, DAYBOOK_ATTEMPT and others are in the environment.
file=$(sed -n 's/.*"file" *: *"\([^"]*\)".*/\1/p')

case $file in
'')
	echo "args have no file" >&2
	exit 65 # data error: trying again is useless, a person must look
	;;
*.part)
	echo "$file is not written to its end yet" >&2
	exit 75 # try again later; this costs no failure
	;;
esac

sum=$(cksum <"$file") || exit 1 # anything else has failed, and is tried again
printf '{"file":"%s","cksum":%s}\n' "$file" "${sum%% *}"
