//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/internal/pgtest"
	"github.com/daybookdev/daybook/reconcile"
	"github.com/daybookdev/daybook/store/postgres"
	"github.com/daybookdev/daybook/worker"
)

const (
	asChild = "DAYBOOK_TRANSFER_CHILD" // the database
	diesAt  = "DAYBOOK_TRANSFER_DIES"  // at which step
	killsOf = "DAYBOOK_TRANSFER_KILLS" // how many, in the test
)

func TestMain(m *testing.M) {
	if url := os.Getenv(asChild); url != "" {
		at, err := strconv.Atoi(os.Getenv(diesAt))
		if err == nil {
			err = child(context.Background(), url, int64(at))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	pgtest.Main(m)
}

// child works off transfers and dies, as by kill -9, at a step of the first: a
// statement of the handler, or a round trip of the book, before or after it.
func child(ctx context.Context, url string, at int64) error {
	var steps atomic.Int64
	var begun atomic.Bool
	step := func(where string) {
		begun.Store(true)
		if steps.Add(1) == at {
			fmt.Println("died", where)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	book, err := postgres.Open(ctx, url, postgres.Options{Book: daybook.Options{Bell: daybook.NoBell{}},
		Fault: func(call string, did bool) error {
			if begun.Load() {
				step(placeOf(call, did))
			}
			return nil
		}})
	if err != nil {
		return err
	}
	defer book.Close()
	w := worker.New(book, worker.Config{Queues: []string{"money"}, Concurrency: 1, Lease: time.Second, NoLoops: true})
	worker.Handle(w, "transfer", bank{step}.Handle)
	return w.Drain(ctx)
}

// placeOf names a round trip of the book by the beginning of its statement.
func placeOf(call string, did bool) string {
	words := strings.Fields(call)
	place := strings.Join(words[:min(3, len(words))], " ")
	if did {
		return "after " + place
	}
	return "before " + place
}

// stepsMost is beyond the last step of a transfer.
const stepsMost = 24

// TestTransferOnce kills the worker at every step of its transaction, many times:
// each transfer is booked once.
func TestTransferOnce(t *testing.T) {
	kills := 40
	if n, err := strconv.Atoi(os.Getenv(killsOf)); err == nil {
		kills = n
	}
	url := pgtest.Database(t)
	ctx := t.Context()
	if err := prepare(ctx, url); err != nil {
		t.Fatal(err)
	}
	book, err := postgres.Open(ctx, url, postgres.Options{Book: daybook.Options{Bell: daybook.NoBell{}}})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	where := map[string]int{}
	for n := range kills {
		_, err := book.Enqueue(ctx, daybook.Request{Queue: "money", Kind: "transfer", Key: fmt.Sprint("order ", n),
			MaxFailures: 1000, Args: []byte(`{"from": "ada", "to": "eve", "cents": 1}`)})
		if err != nil {
			t.Fatal(err)
		}
		if place := killed(t, url, 1+rand.IntN(stepsMost)); place != "" {
			where[place]++
		}
	}
	finish(t, book)
	for place, n := range where {
		t.Logf("%4d died %s", n, place)
	}
	if len(where) < 8 {
		t.Errorf("died in %d places, want each of the transaction's", len(where))
	}
	once(t, url, kills)
	daybooktest.Check(t, book)
}

// killed runs a worker that dies at a step, and says where it died; "" when it
// had nothing left to die at.
func killed(t *testing.T, url string, at int) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asChild+"="+url, diesAt+"="+strconv.Itoa(at))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	died := lines.Scan()
	err = cmd.Wait()
	if !died {
		if err != nil {
			t.Fatalf("the worker ended with %v", err)
		}
		return ""
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the worker ended with %v, want killed", err)
	}
	return strings.TrimPrefix(lines.Text(), "died ")
}

// finish works off what the killed ones left, as a reconciler and another worker
// do.
func finish(t *testing.T, book *daybook.Book) {
	t.Helper()
	w := worker.New(book, worker.Config{Queues: []string{"money"}, Lease: 10 * time.Second,
		Log: slog.New(slog.DiscardHandler), Reconcile: reconcile.Options{Every: 100 * time.Millisecond}})
	worker.Handle(w, "transfer", bank{step: func(string) {}}.Handle)
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for range look.C {
		_, queues, err := book.Backlog(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(queues) == 1 && queues[0].Waiting+queues[0].Running == 0 {
			return
		}
	}
}

// once holds the accounts and the book to each other.
func once(t *testing.T, url string, transfers int) {
	t.Helper()
	for query, want := range map[string]string{
		"SELECT count(*) FROM entry": strconv.Itoa(2 * transfers),
		"SELECT count(*) FROM (SELECT 1 FROM entry GROUP BY job HAVING count(*) <> 2) twice": "0",
		"SELECT cents FROM account WHERE name = 'eve'":                                       strconv.Itoa(transfers),
		"SELECT sum(cents) FROM account":                                                     "0",
		"SELECT count(*) FROM daybook.jobs WHERE state = 'succeeded'":                        strconv.Itoa(transfers),
	} {
		got, err := pgtest.Psql(url, query)
		if err != nil || strings.TrimSpace(got) != want {
			t.Errorf("%s: got %s, %v; want %s", query, got, err, want)
		}
	}
}
