package nats
import ("testing";"context";"time";"fmt";"github.com/daybookdev/daybook")
func TestDbg(t *testing.T) {
	h := place(t, Options{JetStream: true, Acknowledge: time.Second})
	a := h.Open(t).(*Bell); defer a.Close()
	r := h.Open(t).(*Bell); defer r.Close()
	ch, _ := a.Listen(context.Background(), nil)
	go func(){ for x := range ch { fmt.Println(time.Now().Format("05.000"), "heard", x.Queue, x.Again); x.Finish(true) } }()
	for i := range 12 {
		time.Sleep(300*time.Millisecond)
		if i > 3 { r.Ring(context.Background(), fmt.Sprintf("new-%d", i)); time.Sleep(100*time.Millisecond); fmt.Println(i); continue }
		ctx, c := context.WithTimeout(context.Background(), 3*time.Second)
		err := r.Publish(ctx, []daybook.Ring{{Queue: fmt.Sprintf("new-%d", i)}})
		c()
		fmt.Println(time.Now().Format("05.000"), "publish", i, err)
		if e, ok := err.(*daybook.Error); ok { fmt.Println(e.Err) }
		fmt.Printf("%+v\n%+v\n", a.Stats(), r.Stats())
	}
}
