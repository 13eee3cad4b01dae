package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// shout answers each line in capitals and counts the lines it saw.
func shout(t *testing.T) (addr string, seen chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	seen = make(chan string, 100)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				lines := bufio.NewScanner(c)
				for lines.Scan() {
					seen <- lines.Text()
					fmt.Fprintln(c, strings.ToUpper(lines.Text()))
				}
			}()
		}
	}()
	return listener.Addr().String(), seen
}

func start(t *testing.T) (p *Proxy, seen chan string) {
	t.Helper()
	addr, seen := shout(t)
	p, err := Start(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, seen
}

func dial(t *testing.T, p *Proxy) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, bufio.NewReader(c)
}

func ask(t *testing.T, c net.Conn, answers *bufio.Reader, line string) (string, error) {
	t.Helper()
	if _, err := fmt.Fprintln(c, line); err != nil {
		return "", err
	}
	answer, err := answers.ReadString('\n')
	return strings.TrimSpace(answer), err
}

func TestForwards(t *testing.T) {
	p, _ := start(t)
	c, answers := dial(t, p)
	if got, err := ask(t, c, answers, "hello"); got != "HELLO" || err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
}

// TestDropsAnswers: the server saw the request, the client no answer.
func TestDropsAnswers(t *testing.T) {
	p, seen := start(t)
	c, answers := dial(t, p)
	p.DropAnswers(1)
	if got, err := ask(t, c, answers, "pay"); !errors.Is(err, io.EOF) {
		t.Fatalf("got %q, %v, want a cut connection", got, err)
	}
	if got := <-seen; got != "pay" || p.Dropped() != 1 {
		t.Fatalf("the server saw %q, %d answers were dropped", got, p.Dropped())
	}
	c, answers = dial(t, p)
	if got, err := ask(t, c, answers, "again"); got != "AGAIN" || err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
}

// TestStalls: nothing passes until the stall ends, and then everything does.
func TestStalls(t *testing.T) {
	p, seen := start(t)
	c, answers := dial(t, p)
	if _, err := ask(t, c, answers, "one"); err != nil {
		t.Fatal(err)
	}
	<-seen
	p.Stall(true)
	if _, err := fmt.Fprintln(c, "two"); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if got, err := answers.ReadString('\n'); err == nil {
		t.Fatalf("got %q through a stalled proxy", got)
	}
	if len(seen) != 0 {
		t.Fatal("the server was reached through a stalled proxy")
	}
	c.SetReadDeadline(time.Time{})
	p.Stall(false)
	if got, err := answers.ReadString('\n'); got != "TWO\n" || err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestCutAndDown(t *testing.T) {
	p, _ := start(t)
	c, answers := dial(t, p)
	if _, err := ask(t, c, answers, "one"); err != nil {
		t.Fatal(err)
	}
	p.Cut()
	if _, err := ask(t, c, answers, "two"); err == nil {
		t.Fatal("an answer came over a connection that was cut")
	}
	p.Down(true)
	c, answers = dial(t, p)
	if _, err := ask(t, c, answers, "three"); err == nil {
		t.Fatal("an answer came while the proxy was down")
	}
	p.Down(false)
	c, answers = dial(t, p)
	if got, err := ask(t, c, answers, "four"); got != "FOUR" || err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
}

// TestFreeze: what was open passes nothing and doesn't end; what comes after works.
func TestFreeze(t *testing.T) {
	p, seen := start(t)
	frozen, answers := dial(t, p)
	if _, err := ask(t, frozen, answers, "one"); err != nil {
		t.Fatal(err)
	}
	<-seen
	p.Freeze()
	if _, err := fmt.Fprintln(frozen, "two"); err != nil {
		t.Fatal(err)
	}
	c, others := dial(t, p)
	if got, err := ask(t, c, others, "three"); got != "THREE" || err != nil {
		t.Fatalf("a new connection got %q, %v", got, err)
	}
	if got := <-seen; got != "three" {
		t.Fatalf("the server saw %q through a frozen connection", got)
	}
	frozen.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	var late net.Error
	if got, err := answers.ReadString('\n'); !errors.As(err, &late) || !late.Timeout() {
		t.Fatalf("a frozen connection got %q, %v, want nothing", got, err)
	}
	p.Cut()
	frozen.SetReadDeadline(time.Time{})
	if got, err := answers.ReadString('\n'); err == nil {
		t.Fatalf("got %q over a connection that was cut", got)
	}
}

// One exchange of several is spoiled: its request never gets there, or its answer
// is lost behind it.
func TestSpoil(t *testing.T) {
	for _, request := range []bool{true, false} {
		p, seen := start(t)
		c, answers := dial(t, p)
		said := func(text string) error {
			fmt.Fprintln(c, text)
			_, err := answers.ReadString('\n')
			return err
		}
		arrived := make(chan int, 1)
		p.Spoil(2, request, func() { arrived <- len(seen) })
		if err := said("one"); err != nil {
			t.Fatal(err)
		}
		if err := said("two"); err == nil {
			t.Error("the second was answered")
		}
		if got, want := <-arrived, map[bool]int{true: 1, false: 2}[request]; got != want || p.Passed() != 2 {
			t.Errorf("%d requests arrived, want %d; %d passed", got, want, p.Passed())
		}
	}
}
