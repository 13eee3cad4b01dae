package pgtest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// holdServer starts a server and a PgBouncer, says where they are, and waits to
// be killed.
func holdServer() {
	s, err := Start(Options{})
	if err != nil {
		panic(err)
	}
	b, err := StartBouncer(s, nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(s.process.cmd.Process.Pid, b.process.cmd.Process.Pid, s.Dir(), b.home.dir)
	select {}
}

// TestDeathOfParent: a server dies with the process that started it, even when
// that one is killed, and leaves no folder.
func TestDeathOfParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), roleVariable+"=holder")
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	must(t, err)
	must(t, parent.Start())
	var server, bouncer int
	var dir, bouncerDir string
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	_, err = fmt.Sscan(line, &server, &bouncer, &dir, &bouncerDir)
	must(t, err)
	family, err := children(server)
	must(t, err)
	if len(family) == 0 || gone(server) || gone(bouncer) {
		t.Fatalf("no server runs in process %d with %v, or no PgBouncer in %d", server, family, bouncer)
	}

	must(t, parent.Process.Kill())
	parent.Wait()
	must(t, until("the processes are gone", func() bool {
		return !slices.ContainsFunc(append(family, server, bouncer), func(pid int) bool { return !gone(pid) })
	}))
	must(t, until("the folders are gone", func() bool { return missingFile(dir) && missingFile(bouncerDir) }))
}

func missingFile(path string) bool {
	_, err := os.Stat(path)
	return os.IsNotExist(err)
}
