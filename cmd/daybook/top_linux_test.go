package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/console"
)

// theatre is a terminal with top on it, and a book that answers as the test says.
type theatre struct {
	*testing.T
	master  *os.File
	answers chan looked
	told    chan string
	stops   chan bool // what stops the process: the terminal's raw then?
	ended   chan error
	seen    string
}

func (o *theatre) Glance(ctx context.Context) (console.Glance, error) {
	select {
	case came := <-o.answers:
		return came.glance, came.err
	case <-ctx.Done():
		return console.Glance{}, ctx.Err()
	}
}

func raise(t *testing.T) *theatre {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	o := &theatre{T: t, master: master, answers: make(chan looked), told: make(chan string, 1000),
		stops: make(chan bool, 1), ended: make(chan error, 1)}
	o.size(100, 30)
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			n, err := master.Read(buffer)
			if err != nil {
				return
			}
			o.told <- string(buffer[:n])
		}
	}()
	top := &top{app: &app{stdin: slave, stdout: slave}, look: o, order: topOrders[0], every: time.Hour}
	top.stop = func(chan os.Signal) { o.stops <- cooked(t, slave) }
	ctx, end := context.WithCancel(t.Context())
	go func() { o.ended <- top.live(ctx) }()
	t.Cleanup(func() {
		end()
		slave.Close()
		master.Close()
	})
	return o
}

// cooked reports whether a terminal echoes what is typed.
func cooked(t *testing.T, f *os.File) bool {
	how, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil && how.Lflag&unix.ECHO != 0
}

func (o *theatre) size(wide, high uint16) {
	o.Helper()
	if err := unix.IoctlSetWinsize(int(o.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: high, Col: wide}); err != nil {
		o.Fatal(err)
	}
}

// sees waits until the terminal was told a text since the last time.
func (o *theatre) sees(text string) {
	o.Helper()
	late := time.After(30 * time.Second)
	for {
		if at := strings.Index(o.seen, text); at >= 0 {
			o.seen = o.seen[at+len(text):]
			return
		}
		select {
		case more := <-o.told:
			o.seen += more
		case <-late:
			o.Fatalf("the terminal never said %q; it said %q", text, o.seen[max(0, len(o.seen)-2000):])
		}
	}
}

func (o *theatre) press(key byte) {
	o.Helper()
	if _, err := o.master.Write([]byte{key}); err != nil {
		o.Fatal(err)
	}
}

func (o *theatre) ends() error {
	select {
	case err := <-o.ended:
		return err
	case <-time.After(30 * time.Second):
		o.Fatal("top never ended")
	}
	return nil
}

func frameOf(at daybook.Time, queues ...string) looked {
	g := console.Glance{At: at}
	for _, q := range queues {
		g.Queues = append(g.Queues, daybook.Backlog{Queue: q})
	}
	return looked{glance: g}
}

// A book that can't be read leaves the last frame, which says so, and top goes on when
// the book does.
func TestTopOutlivesTheBook(t *testing.T) {
	o := raise(t)
	o.answers <- frameOf(1e6, "mail")
	o.sees("mail")
	o.sees("q ends")
	o.press('o')
	o.sees("now by oldest")
	if err := syscall.Kill(os.Getpid(), syscall.SIGCONT); err != nil { // it looks at once
		t.Fatal(err)
	}
	o.answers <- looked{err: errors.New("the line is \x1bcut")}
	o.sees(`not live, as of 1970-01-01T00:00:01.000000Z: the line is \x1bcut`)
	o.answers <- frameOf(2e6, "mail", "pay")
	o.sees("pay")
	o.sees("q ends")
	o.press('q')
	if err := o.ends(); err != nil {
		t.Error(err)
	}
	o.sees("\x1b[?1049l")
}

// A book that never answers doesn't keep the keys, and one that can't be read at the
// start is an error.
func TestTopWithoutBook(t *testing.T) {
	o := raise(t)
	o.sees("looking at the book")
	o.press(ctrlC)
	if err := o.ends(); err != nil {
		t.Error(err)
	}
	o = raise(t)
	o.answers <- looked{err: errors.New("no such host")}
	if err := o.ends(); err == nil || err.Error() != "no such host" {
		t.Errorf("got %v", err)
	}
}

// A screen of another size is drawn at once; stopping gives the terminal back as it
// was, and takes it again.
func TestTopTerminal(t *testing.T) {
	o := raise(t)
	o.answers <- frameOf(1e6, "mail")
	o.sees("now by attention")
	o.size(12, 6)
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	o.sees(" q ends   s…")
	for _, stop := range []func(){func() { o.press(ctrlZ) }, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGTSTP) }} {
		stop()
		o.sees("\x1b[?1049l")
		if !<-o.stops {
			t.Error("the terminal is raw while top is stopped")
		}
		o.sees("\x1b[?1049h")
		o.sees(" q ends")
		if cooked(t, o.master) {
			t.Error("the terminal isn't raw again")
		}
	}
	o.press('q')
	if err := o.ends(); err != nil {
		t.Error(err)
	}
	if !cooked(t, o.master) {
		t.Error("the terminal stays raw")
	}
}
