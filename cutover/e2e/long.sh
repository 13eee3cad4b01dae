#!/bin/sh
# The long form of the cutovers' tests: 1,500 jobs a system on SQLite and on
# PostgreSQL, movers killed thirty times, nobody lets time go by at once.
set -eu
cd "$(dirname "$0")/../.."
export DAYBOOK_TEST_OLD=1
DAYBOOK_TEST_POSTGRES=1 DAYBOOK_CUTOVER_JOBS=1500 go test -count=1 -v -timeout 1h ./cutover/e2e
go test -count=1 -timeout 1h ./cutover/asynq ./cutover/bullmq ./cutover/rq ./cutover/sidekiq
go test -count=1 -timeout 20m -run 'TestCutover|TestL75' ./cmd/daybook
