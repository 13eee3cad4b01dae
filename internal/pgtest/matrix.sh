#!/bin/sh
# Holds the PostgreSQL store to the conformance suite on every version that
# Daybook supports: directly, in the strictest isolation, with the simple protocol
# and through PgBouncer (the tests named TestStore…).
set -eu
cd "$(dirname "$0")/../.."
for version in ${VERSIONS:-15 16 17 18}; do
    internal/pgtest/install.sh "$version" >/dev/null
    bin=$(internal/pgtest/install.sh where)/$version/bin
    echo "PostgreSQL $("$bin/postgres" --version)"
    DAYBOOK_TEST_POSTGRES=1 DAYBOOK_TEST_MODES=1 DAYBOOK_PG_BIN=$bin go test -count=1 -timeout 60m -run 'TestStore' ./store/postgres
done
