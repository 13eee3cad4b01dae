// Package pgtest starts private PostgreSQL servers, and PgBouncer before them,
// for tests, drills and benches. It needs their binaries and nothing that runs:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestBook(t *testing.T) {
//		url := pgtest.Database(t) // a fresh database on the process's server
//
// A test that kills its server, promotes a standby or wants settings of its own
// takes a server of its own:
//
//	primary, err := pgtest.Start(pgtest.Options{Version: "15"})
//	standby, err := primary.Standby(pgtest.Options{})
//	err = standby.CatchUp()  // all that the primary committed so far is there
//	err = standby.Detach()   // and nothing that it commits from here on
//	err = primary.Kill()     // as a crash does
//	err = standby.Promote()  // the later commits are lost
//
// A server listens on 127.0.0.1, trusts everybody, and has one superuser,
// postgres. It dies with the process that started it, however that one ends, and
// its folder goes with it. The environment says where things are:
//
//	DAYBOOK_TEST_POSTGRES  set it to run tests that want PostgreSQL
//	DAYBOOK_PG_BIN   the bin folder to use when no version is asked for
//	DAYBOOK_PG_DIR   a folder with 15/bin, 16/bin, … or an npm package in it
//	DAYBOOK_TEST_PG  a URL; this server is the shared one, and none is started
//	TMPDIR           where the servers' folders are made, else /var/tmp
//
// Binaries that are missing are an error with the command that installs them,
// and fail the test; nothing is skipped.
package pgtest
