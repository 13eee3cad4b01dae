package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
)

func (a *app) inventoryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "inventory", Short: "Show the book's counts, and beside them the rings that lie in the bell",
		Example: example("daybook inventory", "daybook inventory -o json"),
		Args:    cobra.NoArgs,
	}
	cmd.RunE = with(a, func(ctx context.Context, book counted, _ []string) error {
		inv, err := book.Inventory(ctx)
		if err != nil {
			return err
		}
		for i := range inv.Queues {
			inv.Queues[i].Kinds = orEmpty(inv.Queues[i].Kinds)
		}
		head := []string{"QUEUE", "ELIGIBLE", "LATER", "HELD", "RUNNING", "SET ASIDE", "SUCCEEDED", "RINGS IN THE BELL"}
		err = showList(a, inv, inv.Queues, head, func(t *table, q daybook.QueueInventory) {
			rings := "-"
			if q.Rings != nil {
				rings = strconv.FormatInt(*q.Rings, 10)
			}
			t.row(q.Queue, q.Eligible, q.Later, q.Held, q.Running, q.SetAside, q.Succeeded, rings)
		})
		if err != nil || a.json() {
			return err
		}
		for _, s := range inv.Strays {
			a.note("%s for queue %q, which the book doesn't know", count(s.Rings, "ring"), cut(s.Queue, cellMax))
		}
		if inv.BellError != "" {
			a.note("%s", inv.BellError)
		}
		a.note("%s", inv.Sentence)
		return nil
	})
	return cmd
}
