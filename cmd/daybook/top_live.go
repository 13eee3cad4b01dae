package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/daybookdev/daybook/console"
)

// glancer is the console, as far as top wants it.
type glancer interface {
	Glance(ctx context.Context) (console.Glance, error)
}

// looked is what came of one look.
type looked struct {
	glance console.Glance
	err    error
}

// topLooks are the looks at a book that may be slow or gone: the keys and the screen
// never wait for it.
type topLooks struct {
	came   chan looked
	asked  time.Time // when the look that goes on began; zero is none
	now    console.Glance
	before console.Glance // what flowed since is said of the newest look
	fault  error          // of the last look
}

// ask looks, unless a look goes on.
func (l *topLooks) ask(ctx context.Context, look glancer) {
	if !l.asked.IsZero() {
		return
	}
	l.asked = time.Now()
	go func() {
		g, err := look.Glance(ctx)
		l.came <- looked{g, err}
	}()
}

// take notes what came of a look.
func (l *topLooks) take(came looked) {
	l.asked, l.fault = time.Time{}, came.err
	if came.err == nil && came.glance.At != l.now.At {
		l.before, l.now = l.now, came.glance
	}
}

// slow is how long a look may take before the frame says that it is old.
const slow = 5 * time.Second

// stale says why the frame is old; "" is that it isn't.
func (l *topLooks) stale() string {
	since := "nothing seen yet"
	if l.now.At != 0 {
		since = "as of " + l.now.At.String()
	}
	switch waits := time.Since(l.asked); {
	case l.fault != nil:
		return fmt.Sprintf(" not live, %s: %s ", since, safe(l.fault.Error()))
	case !l.asked.IsZero() && waits > slow:
		return fmt.Sprintf(" not live, %s: no answer for %s ", since, waits.Round(time.Second))
	}
	return ""
}

// live draws again and again on a screen of its own, until a key or a signal ends
// it. A book that can't be read any more leaves the last frame, which says so.
func (t *top) live(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	s := t.screen()
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	keys := make(chan byte)
	if s.raw {
		go readKeys(ctx, s.in, keys)
	}
	signals := make(chan os.Signal, 8)
	if len(screenSignals) > 0 { // none would be all
		signal.Notify(signals, screenSignals...)
		defer signal.Stop(signals)
	}
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	redraw := time.NewTicker(time.Second) // so that a book that hangs shows, however seldom it is looked at
	defer redraw.Stop()
	l := &topLooks{came: make(chan looked, 1)}
	l.ask(ctx, t.look)
	for {
		if err := t.frame(s, l); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			l.ask(ctx, t.look)
		case <-redraw.C:
			if l.fault != nil {
				l.ask(ctx, t.look)
			}
		case came := <-l.came:
			if l.take(came); l.fault != nil && l.now.At == 0 {
				return quietEnd(ctx, l.fault)
			}
		case sent := <-signals:
			if err := t.signalled(s, sent, signals); err != nil {
				return err
			}
			l.ask(ctx, t.look)
		case key := <-keys:
			switch key {
			case 'q', ctrlC:
				return nil
			case ctrlZ:
				if err := t.suspend(s, signals); err != nil {
					return err
				}
				l.ask(ctx, t.look)
			}
			t.orderBy(key)
		}
	}
}

// Keys that a terminal in raw mode hands on instead of sending a signal.
const ctrlC, ctrlZ = 3, 26

func (t *top) orderBy(key byte) {
	for _, o := range topOrders {
		if o.key == key {
			t.order = o
		}
	}
}

// signalled does what a signal of the terminal asks for; the frame is drawn anew
// behind any.
func (t *top) signalled(s *screen, sent os.Signal, signals chan os.Signal) error {
	switch {
	case stops(sent):
		return t.suspend(s, signals)
	case continues(sent):
		return s.enter() // whoever had the terminal meanwhile may have changed it
	}
	return nil
}

// suspend gives the terminal back as it was and stops, until somebody goes on.
func (t *top) suspend(s *screen, signals chan os.Signal) error {
	s.leave()
	stop := t.stop
	if stop == nil {
		stop = stopSelf
	}
	stop(signals)
	return s.enter()
}

// frame draws what fits the screen.
func (t *top) frame(s *screen, l *topLooks) error {
	wide, high := s.size()
	var whole bytes.Buffer
	if l.now.At == 0 {
		fmt.Fprintln(&whole, "Daybook: looking at the book")
	} else {
		g := l.now
		g.Queues = slices.Clone(g.Queues) // the order of the book is wanted again
		slices.SortStableFunc(g.Queues, t.order.compare)
		if err := t.draw(&whole, g, &l.before); err != nil {
			return err
		}
	}
	lines := fit(strings.Split(strings.TrimRight(whole.String(), "\n"), "\n"), wide, high)
	var text strings.Builder
	text.WriteString("\x1b[H")
	for _, line := range lines {
		text.WriteString(line + "\x1b[K\r\n")
	}
	last := l.stale()
	if last == "" {
		last = " q ends   sort: a attention  o oldest  r ready  n name   now by " + t.order.name + " "
	}
	text.WriteString("\x1b[J\x1b[7m" + cut(last, wide) + "\x1b[0m")
	_, err := io.WriteString(s.out, text.String())
	return err
}

// screen is the terminal, taken over and given back.
type screen struct {
	in  *os.File // nil is none
	out io.Writer
	was *term.State // of in, before it was taken over
	raw bool        // keys come one by one
}

func (t *top) screen() *screen {
	s := &screen{out: t.stdout}
	if in, ok := t.stdin.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		s.in = in
	}
	return s
}

// enter takes the terminal over; again is harmless.
func (s *screen) enter() error {
	if s.in != nil {
		was, err := term.MakeRaw(int(s.in.Fd()))
		if s.raw = err == nil; s.raw && s.was == nil {
			s.was = was
		}
	}
	_, err := io.WriteString(s.out, "\x1b[?1049h\x1b[?25l")
	return err
}

// leave gives it back as it was.
func (s *screen) leave() {
	_, _ = io.WriteString(s.out, "\x1b[?25h\x1b[?1049l")
	if s.was != nil {
		_ = term.Restore(int(s.in.Fd()), s.was)
	}
}

func (s *screen) size() (wide, high int) {
	if out, ok := s.out.(*os.File); ok {
		if w, h, err := term.GetSize(int(out.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	return 80, 24
}

// readKeys hands keys on. It ends with the process: a read of a terminal can't be
// ended.
func readKeys(ctx context.Context, in io.Reader, keys chan<- byte) {
	r := bufio.NewReader(in)
	for {
		key, err := r.ReadByte()
		if err != nil {
			return
		}
		select {
		case keys <- key:
		case <-ctx.Done():
			return
		}
	}
}
