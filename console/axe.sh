#!/bin/sh
# Puts axe-core, which looks for what keeps people out of a page, where the browser
# tests find it, and says where: it is never part of this repository.
#
# It needs npm, and does nothing if that release is there already. The folder is
# $DAYBOOK_AXE_DIR, or else the user's cache.
set -eu
release=4.14.1 # named, so that today's run and next year's ask the same
place=${DAYBOOK_AXE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/daybook/axe}/$release
if [ ! -s "$place/axe.min.js" ]; then
    command -v npm >/dev/null || {
        echo "axe.sh: npm is missing (Debian: apt-get install -y nodejs npm)" >&2
        exit 1
    }
    mkdir -p "$place"
    fresh=$(mktemp -d)
    trap 'rm -rf "$fresh"' EXIT
    (cd "$fresh" && npm pack --loglevel=error "axe-core@$release" >/dev/null && tar -xzf ./*.tgz)
    cp "$fresh/package/axe.min.js" "$place/axe.min.js"
fi
echo "$place/axe.min.js"
