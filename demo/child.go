package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/procs"
	"github.com/daybookdev/daybook/store/sqlite"
)

// child is one process of the demo, seen from inside.
type child struct {
	setup
	book *daybook.Book
	out  *procs.Lines
	gate *gate
	log  *slog.Logger
}

// Child is what the program named by Options.Command calls: it takes orders
// from in, reports on out, logs to logs, and returns when in ends. It is of no
// use to people.
func Child(in io.Reader, out, logs io.Writer) error {
	orders := bufio.NewReader(in)
	c := child{out: &procs.Lines{W: out}, log: slog.New(slog.NewTextHandler(logs, nil))}
	first, err := orders.ReadBytes('\n')
	if err != nil || json.Unmarshal(first, &c.setup) != nil {
		return daybook.Fail(daybook.CodeInvalid, "a process of the demo is started by daybook demo, not by hand")
	}
	if err := c.live(orders); err != nil {
		c.out.Write(report{Error: err.Error()})
		return err
	}
	return nil
}

// live opens the book and does what the role is, until the orders end.
func (c *child) live(orders *bufio.Reader) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c.gate = newGate(c.out)
	options := daybook.Options{Log: c.log, Hook: c.gate.reached}
	book, err := sqlite.Open(ctx, c.Book, sqlite.Options{Book: options})
	if err != nil {
		return err
	}
	defer book.Close()
	c.book = book
	sends := newInbox()
	go func() {
		if err := procs.ReadLines(orders, func(o order) { c.obey(o, sends) }); err != nil {
			c.log.Error("the parent can't be understood; ending", "err", err)
		}
		time.AfterFunc(parting, func() { os.Exit(1) })
		stop()
	}()
	if c.Role == roleEnqueuer {
		return c.accept(ctx, sends)
	}
	return c.work(ctx)
}

// parting is how long a child may take to end once its orders ended. A child
// that stands in a gap while its parent dies would stay for ever otherwise.
const parting = 5 * time.Second

// obey carries one order out. It never blocks: the parent may write while this
// process's own reports wait to be read.
func (c *child) obey(o order, sends *inbox) {
	switch {
	case o.Arm != nil:
		c.gate.arm(*o.Arm)
	case o.Go != 0:
		c.gate.goOn(o.Go)
	case o.Send != nil:
		sends.put(o.Send)
	}
}
