package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/daybookdev/daybook"
)

func scanCutover(row []driver.Value) (c daybook.Cutover, err error) {
	if err = json.Unmarshal([]byte(text(row[0])), &c); err != nil {
		return c, fmt.Errorf("reading a cutover: %w", err)
	}
	c.Changes = num(row[1])
	return c, nil
}

// Cutover loads one; in a write nobody else writes.
func (v *view) Cutover(_ context.Context, name string) (c daybook.Cutover, found bool, err error) {
	err = v.q.rows("SELECT doc, changes FROM cutover WHERE name = ?", []driver.Value{name},
		func(row []driver.Value) (err error) {
			found = true
			c, err = scanCutover(row)
			return err
		})
	return c, found, err
}

// Cutovers lists all.
func (v *view) Cutovers(context.Context) (list []daybook.Cutover, err error) {
	err = v.q.rows("SELECT doc, changes FROM cutover ORDER BY n", nil, func(row []driver.Value) error {
		c, err := scanCutover(row)
		list = append(list, c)
		return err
	})
	return list, err
}

// SaveCutover inserts one, or updates it where nobody changed it meanwhile.
func (t *tx) SaveCutover(_ context.Context, c daybook.Cutover) error {
	doc, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("writing a cutover: %w", err)
	}
	var n int64
	if c.Changes == 0 {
		n, err = t.q.exec("INSERT INTO cutover (name, changes, doc) VALUES (?, 1, ?) ON CONFLICT DO NOTHING", c.Name,
			string(doc))
	} else {
		n, err = t.q.exec("UPDATE cutover SET changes = changes + 1, doc = ? WHERE name = ? AND changes = ?", string(doc),
			c.Name, c.Changes)
	}
	if err != nil {
		return err
	}
	return sure(n, 1, "cutovers")
}

const itemColumns = "cutover, id, occurrence, term, place, first, last, arrived, asked, again, seen_at, " +
	"missed, doc, old"

// SaveItems inserts items or overwrites them.
func (t *tx) SaveItems(_ context.Context, cutover string, items []daybook.Item) error {
	for _, i := range items {
		doc, err := json.Marshal(i)
		if err != nil {
			return fmt.Errorf("writing an item: %w", err)
		}
		old, err := i.Old.Keep()
		if err != nil {
			return fmt.Errorf("writing an item: %w", err)
		}
		if _, err = t.q.exec("INSERT INTO cutover_item ("+itemColumns+") VALUES ("+marks(14)+`)
			ON CONFLICT (cutover, id, occurrence) DO UPDATE SET term = excluded.term, place = excluded.place,
			first = excluded.first, last = excluded.last, arrived = excluded.arrived, asked = excluded.asked,
			again = excluded.again, seen_at = excluded.seen_at, missed = excluded.missed,
			doc = excluded.doc, old = excluded.old`,
			cutover, i.ID, int64(i.Occurrence), string(i.Term), i.Place, string(i.First), string(i.Last), flag(i.Arrived),
			flag(i.Asked), i.Again, int64(i.SeenAt), int64(i.Missed()), string(doc), nullText(old)); err != nil {
			return err
		}
	}
	return nil
}

// scanItem reads n, doc, old.
func scanItem(row []driver.Value) (i daybook.Item, n int64, err error) {
	if err = json.Unmarshal([]byte(text(row[1])), &i); err == nil {
		i.Old, err = daybook.KeptOld(text(row[2]))
	}
	if err != nil {
		return i, 0, fmt.Errorf("reading an item: %w", err)
	}
	return i, num(row[0]), nil
}

// ItemsOf loads the items of these ids.
func (v *view) ItemsOf(_ context.Context, cutover string, ids []string) (items []daybook.Item, err error) {
	for _, id := range ids {
		err = v.q.rows("SELECT n, doc, old FROM cutover_item WHERE cutover = ? AND id = ? ORDER BY occurrence",
			[]driver.Value{cutover, id}, func(row []driver.Value) error {
				i, _, err := scanItem(row)
				items = append(items, i)
				return err
			})
		if err != nil {
			return nil, err
		}
	}
	return items, nil
}

// Items lists a page.
func (v *view) Items(_ context.Context, f daybook.ItemFilter) (page daybook.Page[daybook.Item], err error) {
	after, err := openCursor(f.Cursor)
	if err != nil {
		return page, err
	}
	if f.Limit <= 0 {
		f.Limit = daybook.ListDefault
	}
	where, args := []string{"cutover = ?"}, []driver.Value{f.Cutover}
	add := func(sql string, value driver.Value) { where, args = append(where, sql), append(args, value) }
	if f.ID != "" {
		add("id = ?", f.ID)
	}
	if f.Term != "" {
		add("term = ?", string(f.Term))
	}
	if f.Last != "" {
		add("last = ?", string(f.Last))
	}
	if f.SeenBefore != 0 {
		add("seen_at < ?", int64(f.SeenBefore))
	}
	if f.NotGone {
		where = append(where, "missed < 2")
	}
	old, order := "NULL", "n"
	if f.Whole {
		old = "old"
	}
	if f.Backward {
		order = "place DESC, n DESC"
	} else if len(after) == 1 {
		add("n > ?", after[0])
	}
	var last []int64
	err = v.q.rows("SELECT n, doc, "+old+" FROM cutover_item WHERE "+strings.Join(where, " AND ")+" ORDER BY "+order+
		" LIMIT ?", append(args, int64(f.Limit)+1), func(row []driver.Value) error {
		i, n, err := scanItem(row)
		page.Items, last = append(page.Items, i), append(last, n)
		return err
	})
	if err == nil && len(page.Items) > f.Limit {
		page.Items = page.Items[:f.Limit]
		page.Cursor = closeCursor(last[f.Limit-1 : f.Limit])
	}
	return page, err
}

// ItemCounts counts the items that are alike.
func (v *view) ItemCounts(_ context.Context, cutover string) (counts []daybook.ItemCount, err error) {
	err = v.q.rows(`SELECT first, last, term, arrived, asked, missed > 0, count(*), sum(again)
		FROM cutover_item WHERE cutover = ?
		GROUP BY first, last, term, arrived, asked, missed > 0
		ORDER BY first, last, term, arrived, asked, missed > 0`, []driver.Value{cutover},
		func(row []driver.Value) error {
			counts = append(counts, daybook.ItemCount{First: daybook.OldState(text(row[0])),
				Last: daybook.OldState(text(row[1])), Term: daybook.Term(text(row[2])), Arrived: num(row[3]) != 0,
				Asked: num(row[4]) != 0, Missed: num(row[5]) != 0, Items: num(row[6]), Again: num(row[7])})
			return nil
		})
	return counts, err
}
