package postgres

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// table is what the server knows of one of the book's tables.
type table struct {
	name        string
	live, dead  int64
	size        int64         // with indexes
	vacuumed    time.Duration // ago; -1 is never
	analyzed    bool
	neverVacuum bool
}

const tablesQuery = `SELECT c.relname, coalesce(s.n_live_tup, 0), coalesce(s.n_dead_tup, 0),
		coalesce(pg_total_relation_size(c.oid), 0),
		coalesce(extract(epoch FROM now() - greatest(s.last_vacuum, s.last_autovacuum))::bigint, -1),
		EXISTS (SELECT FROM pg_stats p WHERE p.schemaname = n.nspname AND p.tablename = c.relname),
		coalesce(array_to_string(c.reloptions, ' ') ~* 'autovacuum_enabled=(false|off|no|0)', false)
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
	WHERE n.nspname = $1::text AND c.relkind = 'r' ORDER BY c.relname`

const (
	// bigTable is when a table without statistics is planned for wrongly.
	bigTable = 8 << 20
	// A table of rows that come and go hurts when it has more dead rows than
	// these, and more than live ones.
	manyDead, tooManyDead = 200_000, 2_000_000
	// bloated is a size for which there should be many rows.
	bloated = 512 << 20
)

// tables looks at what vacuum does with the book's tables.
func (e *exam) tables() error {
	var list []table
	err := e.rows(tablesQuery, []any{string(e.s.schema)}, func(row []any) error {
		list = append(list, table{name: text(row[0]), live: num(row[1]), dead: num(row[2]), size: num(row[3]),
			vacuumed: elapsed(row[4]), analyzed: truth(row[5]), neverVacuum: truth(row[6])})
		return nil
	})
	if err != nil {
		return err
	}
	held, _, err := e.oldest()
	if err != nil {
		return err
	}
	var unknown, off []string
	for _, t := range list {
		if !t.analyzed && t.size >= bigTable {
			unknown = append(unknown, t.name)
		}
		if t.neverVacuum {
			off = append(off, t.name)
		}
		switch t.name {
		case "ready", "owned", "outbox", "session":
			level, advice := t.judge(e.s.schema.quoted(), held.blames(e.old))
			e.note("rows of "+t.name, level, t.describe(), advice)
		}
	}
	e.note("statistics", LevelWarn.unless(len(unknown) == 0), cmp.Or(join(unknown), "on every big table"),
		"these have none, so plans are guesses: ANALYZE them")
	e.note("autovacuum of tables", LevelBad.unless(len(off) == 0), cmp.Or(join(off), "on"),
		"it is switched off on these: ALTER TABLE … RESET (autovacuum_enabled)")
	return nil
}

func (t table) describe() string {
	vacuumed := "never vacuumed"
	if t.vacuumed >= 0 {
		vacuumed = "vacuumed " + t.vacuumed.String() + " ago"
	}
	return fmt.Sprintf("%d live, %d dead, %d MiB, %s", t.live, t.dead, t.size>>20, vacuumed)
}

// judge says what to do about a table of rows that come and go. blame names who
// keeps vacuum from them, if somebody does.
func (t table) judge(schema, blame string) (Level, string) {
	level := LevelOK
	switch {
	case t.dead > max(tooManyDead, t.live):
		level = LevelBad
	case t.dead > max(manyDead, t.live):
		level = LevelWarn
	case t.size > bloated && t.size/(t.live+t.dead+1) > 10_000:
		return LevelWarn, fmt.Sprintf("it is mostly empty space: REINDEX TABLE CONCURRENTLY %s.%s, "+
			"and VACUUM FULL it in a quiet hour", schema, t.name)
	}
	if blame != "" {
		return level, "vacuum may not take the dead rows: " + blame
	}
	return level, fmt.Sprintf("autovacuum doesn't keep up: VACUUM %s.%s now, and raise autovacuum_max_workers or "+
		"autovacuum_vacuum_cost_limit", schema, t.name)
}

// index is one that the schema's scripts make.
type index struct {
	name, table string
	unique      bool
	make        string // the statement; "" is one that its table's statement makes
}

var (
	tableText = regexp.MustCompile(`(?ms)^CREATE TABLE daybook\.(\w+) \(\n(.*?)^\)`)
	keyText   = regexp.MustCompile(`(?m)^\s*(?:(\w+)\s.*)?\b(PRIMARY KEY|UNIQUE)\b`)
	indexText = regexp.MustCompile(
		`(?m)^CREATE (UNIQUE )?INDEX\s+(?:CONCURRENTLY )?(?:IF NOT EXISTS )?(\w+)\s+ON daybook\.(\w+) [^;]*`)
	dropText = regexp.MustCompile(`(?m)^DROP INDEX (?:CONCURRENTLY )?(?:IF EXISTS )?daybook\.(\w+)`)
)

// wantedIndexes reads the schema's scripts.
func wantedIndexes() (map[string]index, error) {
	all := map[string]index{}
	for _, name := range versions() {
		script, err := scripts.ReadFile(name)
		if err != nil {
			return nil, err
		}
		text := string(script)
		for _, t := range tableText.FindAllStringSubmatch(text, -1) {
			for _, k := range keyText.FindAllStringSubmatch(t[2], -1) {
				i := index{name: t[1] + "_pkey", table: t[1], unique: true}
				if k[2] == "UNIQUE" {
					i.name = t[1] + "_" + k[1] + "_key"
				}
				all[i.name] = i
			}
		}
		for _, m := range indexText.FindAllStringSubmatch(text, -1) {
			all[m[2]] = index{name: m[2], table: m[3], unique: m[1] != "", make: m[0]}
		}
		for _, m := range dropText.FindAllStringSubmatch(text, -1) {
			delete(all, m[1])
		}
	}
	return all, nil
}

// indexes compares those that are there with those that the scripts make.
func (e *exam) indexes() error {
	missing, err := wantedIndexes()
	if err != nil {
		return err
	}
	var broken []string
	found := 0
	err = e.rows(`SELECT c.relname, t.relname, i.indisunique, i.indisvalid AND i.indisready
		FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
		JOIN pg_namespace n ON n.oid = t.relnamespace WHERE n.nspname = $1::text ORDER BY c.relname`,
		[]any{string(e.s.schema)}, func(row []any) error {
			name := text(row[0])
			found++
			if !truth(row[3]) {
				broken = append(broken, name)
			}
			if want, ok := missing[name]; ok && want.table == text(row[1]) && want.unique == truth(row[2]) {
				delete(missing, name)
			}
			return nil
		})
	if err != nil {
		return err
	}
	if len(broken) > 0 {
		e.note("invalid indexes", LevelBad, join(broken),
			fmt.Sprintf("REINDEX INDEX CONCURRENTLY %s.%s, and so on", e.s.schema.quoted(), broken[0]))
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		i := missing[name]
		e.note("missing index", LevelBad, name+" on "+i.table,
			cmp.Or(e.s.schema.in(oneLine(i.make)), "make it as daybook schema print has it"))
	}
	if len(broken) == 0 && len(missing) == 0 {
		e.note("indexes", LevelOK, fmt.Sprintf("%d, all that there should be", found), "")
	}
	return nil
}

// oneLine is a statement without its line ends.
func oneLine(sql string) string { return strings.Join(strings.Fields(sql), " ") }
