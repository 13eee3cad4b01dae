package pgtest

import (
	"fmt"
	"testing"
)

// timeline is the one that a server writes to, as its WAL files are named.
func timeline(t *testing.T, s *Server) string {
	t.Helper()
	return answer(t, s.URL("postgres"), "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)")
}

// TestFailover: what the primary commits after Detach is lost by Promote, what
// it committed before is not, and the timeline is another.
func TestFailover(t *testing.T) {
	primary := start(t, Options{})
	answer(t, primary.URL("postgres"), "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)")
	want(t, "the timeline", timeline(t, primary), "00000001")

	standby, err := primary.Standby(Options{Settings: map[string]string{"work_mem": "5MB"}})
	must(t, err)
	t.Cleanup(func() { must(t, standby.Stop()) })
	url := standby.URL("postgres")
	want(t, "a setting", answer(t, url, "SHOW work_mem"), "5MB")
	want(t, "that it is a standby", answer(t, url, "SELECT pg_is_in_recovery()"), "t")
	want(t, "that it is asynchronous", answer(t, primary.URL("postgres"),
		"SELECT DISTINCT sync_state FROM pg_stat_replication WHERE state = 'streaming'"), "async")
	answer(t, primary.URL("postgres"), "INSERT INTO kept VALUES (2)")
	must(t, standby.CatchUp())
	want(t, "the rows", answer(t, url, "SELECT n FROM kept ORDER BY n"), "1\n2")

	must(t, standby.Detach())
	answer(t, primary.URL("postgres"), "INSERT INTO kept VALUES (3)")
	must(t, primary.Kill())
	must(t, standby.Promote())
	want(t, "the timeline after the failover", timeline(t, standby), "00000002")
	answer(t, url, "INSERT INTO kept VALUES (4)")
	want(t, "the rows after the failover", answer(t, url, "SELECT n FROM kept ORDER BY n"), "1\n2\n4")

	next, err := standby.Standby(Options{}) // a standby of the new primary, which was cut off itself
	must(t, err)
	t.Cleanup(func() { must(t, next.Stop()) })
	must(t, next.CatchUp())
	must(t, next.Promote())
	want(t, "the timeline after another", timeline(t, next), "00000003")
	want(t, "the rows after another", answer(t, next.URL("postgres"), "SELECT n FROM kept ORDER BY n"), "1\n2\n4")
}

// TestStandbyOfBusyServer: the copy is whole although the files change meanwhile.
func TestStandbyOfBusyServer(t *testing.T) {
	primary := start(t, Options{})
	url := primary.URL("postgres")
	answer(t, url, "CREATE TABLE busy (n int PRIMARY KEY, text text); CREATE SEQUENCE done")
	writer, err := openSession(url)
	must(t, err)
	go fmt.Fprintln(writer.in, `DO $$ BEGIN
		FOR i IN 1..100000 LOOP
			INSERT INTO busy VALUES (i, repeat('x', i % 300));
			UPDATE busy SET text = text || 'y' WHERE n = i / 2;
			DELETE FROM busy WHERE n % 7 = 3 AND n = i / 3;
			IF i % 50 = 0 THEN COMMIT; END IF;
			EXIT WHEN (SELECT is_called FROM done);
		END LOOP; END $$;`)
	must(t, primary.untilTrue("the writer writes", "SELECT count(*) > 100 FROM busy"))
	standby, err := primary.Standby(Options{})
	must(t, err)
	t.Cleanup(func() { must(t, standby.Stop()) })
	answer(t, url, "SELECT nextval('done')")
	_, err = writer.close()
	must(t, err)
	must(t, standby.CatchUp())
	sum := "SELECT count(*), sum(n), md5(string_agg(text, '' ORDER BY n)) FROM busy"
	want(t, "the standby's rows", answer(t, standby.URL("postgres"), sum), answer(t, url, sum))
	must(t, standby.Promote())
	answer(t, standby.URL("postgres"), "CREATE EXTENSION amcheck; SELECT bt_index_check('busy_pkey', true)")
}

func TestOnlyStandbys(t *testing.T) {
	s := &Server{}
	for name, do := range map[string]func() error{"CatchUp": s.CatchUp, "Detach": s.Detach, "Promote": s.Promote} {
		if err := do(); err != errNoStandby {
			t.Errorf("%s: %v", name, err)
		}
	}
}
