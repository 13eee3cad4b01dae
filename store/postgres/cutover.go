package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/daybookdev/daybook"
)

func scanCutover(row []any) (c daybook.Cutover, err error) {
	if err = json.Unmarshal([]byte(text(row[0])), &c); err != nil {
		return c, fmt.Errorf("reading a cutover: %w", err)
	}
	c.Changes = num(row[1])
	return c, nil
}

// Cutover loads one.
func (v *view) Cutover(_ context.Context, name string) (daybook.Cutover, bool, error) {
	return v.cutover(name, "")
}

// Cutover of a write holds the record, so that its phase stays what it is while
// jobs move by it.
func (t *tx) Cutover(_ context.Context, name string) (daybook.Cutover, bool, error) {
	return t.cutover(name, " FOR UPDATE")
}

func (v *view) cutover(name, lock string) (c daybook.Cutover, found bool, err error) {
	err = v.look("SELECT doc, changes FROM daybook.cutover WHERE name = $1::text"+lock, []any{name},
		func(row []any) (err error) {
			found = true
			c, err = scanCutover(row)
			return err
		})
	return c, found, err
}

// Cutovers lists all.
func (v *view) Cutovers(context.Context) (list []daybook.Cutover, err error) {
	err = v.look("SELECT doc, changes FROM daybook.cutover ORDER BY n", nil, func(row []any) error {
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
	if c.Changes == 0 {
		t.later(1, "cutovers", "INSERT INTO daybook.cutover (name, changes, doc) VALUES ($1::text, 1, $2::text)"+
			" ON CONFLICT DO NOTHING", c.Name, string(doc))
	} else {
		t.later(1, "cutovers", "UPDATE daybook.cutover SET changes = changes + 1, doc = $2::text WHERE name = $1::text"+
			" AND changes = $3::bigint", c.Name, string(doc), c.Changes)
	}
	return t.flush()
}

// saveItems inserts items or overwrites them, all of a call at once.
const saveItems = `INSERT INTO daybook.cutover_item (cutover, id, occurrence, term, place, first, last, arrived, asked,
		again, seen_at, missed, doc, old)
	SELECT $1::text, u.id, u.occurrence, u.term, u.place, u.first, u.last, u.arrived, u.asked, u.again, u.seen_at,
		u.missed, u.doc, nullif(u.old, '')
	FROM unnest($2::text[], $3::int[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::boolean[], $9::boolean[],
		$10::bigint[], $11::bigint[], $12::int[], $13::text[], $14::text[])
		u(id, occurrence, term, place, first, last, arrived, asked, again, seen_at, missed, doc, old)
	ON CONFLICT (cutover, id, occurrence) DO UPDATE SET term = excluded.term, place = excluded.place,
		first = excluded.first, last = excluded.last, arrived = excluded.arrived, asked = excluded.asked,
		again = excluded.again, seen_at = excluded.seen_at, missed = excluded.missed, doc = excluded.doc, old = excluded.old`

// SaveItems inserts items or overwrites them. Of one that is there twice, which
// one statement can't write, the last counts.
func (t *tx) SaveItems(_ context.Context, cutover string, items []daybook.Item) error {
	type key struct {
		id         string
		occurrence int
	}
	last := make(map[key]int, len(items))
	for n, i := range items {
		last[key{i.ID, i.Occurrence}] = n
	}
	if len(last) == 0 {
		return nil
	}
	var ids, terms, firsts, lasts, docs, olds []string
	var occurrences, places, again, seen, missed []int64
	var arrived, asked []bool
	for n, i := range items {
		if last[key{i.ID, i.Occurrence}] != n {
			continue
		}
		doc, err := json.Marshal(i)
		if err != nil {
			return fmt.Errorf("writing an item: %w", err)
		}
		old, err := i.Old.Keep()
		if err != nil {
			return fmt.Errorf("writing an item: %w", err)
		}
		ids, terms = append(ids, i.ID), append(terms, string(i.Term))
		docs, olds = append(docs, string(doc)), append(olds, old)
		firsts, lasts = append(firsts, string(i.First)), append(lasts, string(i.Last))
		occurrences, places = append(occurrences, int64(i.Occurrence)), append(places, i.Place)
		again, seen = append(again, i.Again), append(seen, int64(i.SeenAt))
		missed = append(missed, int64(i.Missed()))
		arrived, asked = append(arrived, i.Arrived), append(asked, i.Asked)
	}
	t.later(int64(len(last)), "items", saveItems, cutover, ids, occurrences, terms, places, firsts, lasts, arrived, asked,
		again, seen, missed, docs, olds)
	return t.flush()
}

// scanItem reads n, doc, old.
func scanItem(row []any) (i daybook.Item, n int64, err error) {
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
	err = v.look(`SELECT n, doc, old FROM daybook.cutover_item WHERE cutover = $1::text AND id = ANY ($2::text[])
		ORDER BY id, occurrence`, []any{cutover, ids}, func(row []any) error {
		i, _, err := scanItem(row)
		items = append(items, i)
		return err
	})
	return items, err
}

// Items lists a page.
func (v *view) Items(_ context.Context, f daybook.ItemFilter) (page daybook.Page[daybook.Item], err error) {
	after, _, err := openCursor(f.Cursor, 1)
	if err != nil {
		return page, err
	}
	if f.Limit <= 0 {
		f.Limit = daybook.ListDefault
	}
	var p params
	where := []string{"cutover = " + p.add(f.Cutover) + "::text"}
	if f.ID != "" {
		where = append(where, "id = "+p.add(f.ID)+"::text")
	}
	if f.Term != "" {
		where = append(where, "term = "+p.add(string(f.Term))+"::text")
	}
	if f.Last != "" {
		where = append(where, "last = "+p.add(string(f.Last))+"::text")
	}
	if f.SeenBefore != 0 {
		where = append(where, "seen_at < "+p.add(int64(f.SeenBefore))+"::bigint")
	}
	if f.NotGone {
		where = append(where, "missed < 2")
	}
	old, order := "NULL::text", "n"
	if f.Whole {
		old = "old"
	}
	if f.Backward {
		order = "place DESC, n DESC"
	} else if len(after) == 1 {
		where = append(where, "n > "+p.add(after[0])+"::bigint")
	}
	var last []int64
	err = v.look("SELECT n, doc, "+old+" FROM daybook.cutover_item WHERE "+strings.Join(where, " AND ")+" ORDER BY "+
		order+" LIMIT "+p.add(int64(f.Limit)+1)+"::bigint", p, func(row []any) error {
		i, n, err := scanItem(row)
		page.Items, last = append(page.Items, i), append(last, n)
		return err
	})
	if err == nil && len(page.Items) > f.Limit {
		page.Items = page.Items[:f.Limit]
		page.Cursor = closeCursor(last[f.Limit-1:f.Limit], "")
	}
	return page, err
}

// ItemCounts counts the items that are alike.
func (v *view) ItemCounts(_ context.Context, cutover string) (counts []daybook.ItemCount, err error) {
	err = v.look(`SELECT first, last, term, arrived, asked, missed > 0, count(*), sum(again)::bigint
		FROM daybook.cutover_item WHERE cutover = $1::text GROUP BY first, last, term, arrived, asked, missed > 0
		ORDER BY first, last, term, arrived, asked, missed > 0`,
		[]any{cutover}, func(row []any) error {
			counts = append(counts, daybook.ItemCount{First: daybook.OldState(text(row[0])),
				Last: daybook.OldState(text(row[1])), Term: daybook.Term(text(row[2])), Arrived: truth(row[3]),
				Asked: truth(row[4]), Missed: truth(row[5]), Items: num(row[6]), Again: num(row[7])})
			return nil
		})
	return counts, err
}
