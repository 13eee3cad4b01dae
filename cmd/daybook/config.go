package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/postgres"
)

// globals are the flags of every command.
type globals struct {
	db, schema          string
	schemaGiven         bool // on the command line itself, as the next two
	dbGiven, bellGiven  bool
	bell, server, token string // server is "" where the book is at hand
	torn                error  // both places are given, and neither wins
	command             string // as people type it
	config              string
	logLevel, logFormat string
	output              string
	actor               string
	kinds               map[string]map[string]string // [kind.NAME] of the configuration
}

// environment names the variables that stand for flags.
var environment = map[string]string{
	"db": "DAYBOOK_DB", "schema": "DAYBOOK_SCHEMA", "bell": "DAYBOOK_BELL", "server": "DAYBOOK_SERVER",
	"token": "DAYBOOK_TOKEN",
}

func (a *app) registerGlobals(root *cobra.Command) {
	g, fs := &a.flags, root.PersistentFlags()
	fs.StringVar(&g.db, "db", "sqlite:daybook.db", "the book, "+dbForms+" (or DAYBOOK_DB)")
	fs.StringVar(&g.schema, "schema", postgres.SchemaDefault,
		"the schema that a PostgreSQL book is in (1–63 bytes; or DAYBOOK_SCHEMA)")
	fs.StringVar(&g.bell, "bell", "", "what carries rings, "+bellForms+
		" (or DAYBOOK_BELL; default postgres: for a book on PostgreSQL, else local:)")
	fs.StringVar(&g.server, "server", "",
		"speak to the daybook serve at this URL instead (or DAYBOOK_SERVER; default none)")
	fs.StringVar(&g.token, "token", "", "lets you in at the server (or DAYBOOK_TOKEN; default none)")
	fs.StringVar(&g.config, "config", "",
		"TOML file with flags by name, and tables [work], [serve] and [kind.NAME]")
	choiceVar(fs, &g.logLevel, "log-level", "", "info", "how much to log: debug, info, warn or error",
		"debug", "info", "warn", "error")
	choiceVar(fs, &g.logFormat, "log-format", "", "text", "how to log: text or json", "text", "json")
	choiceVar(fs, &g.output, "output", "o", outputTable, "how to answer: table, json (one line) or jsonl",
		outputTable, outputJSON, outputLines)
	fs.StringVar(&g.actor, "actor", "",
		"who does this, for the record (default the user's name, at a server always the token's; at most 1024 bytes)")
}

// settle fills in what flags left open: flags win over the environment, and
// the environment over the configuration file.
func (a *app) settle(cmd *cobra.Command) error {
	conf, err := readConfig(a.flags.config)
	if err != nil {
		return err
	}
	root := cmd.Root().PersistentFlags()
	if err := conf.check(root, flagsOf(cmd, "work"), flagsOf(cmd, "serve")); err != nil {
		return err
	}
	a.flags.kinds, a.flags.schemaGiven = conf.kinds, root.Changed("schema")
	a.flags.dbGiven, a.flags.bellGiven = root.Changed("db"), root.Changed("bell")
	a.flags.command = cmd.CommandPath()
	places := placesOf(root, conf.global, "db", "server", "token", "schema", "bell", "actor")
	var fail error
	root.VisitAll(func(f *pflag.Flag) {
		if value, ok := os.LookupEnv(environment[f.Name]); ok && value != "" && !f.Changed {
			fail = errors.Join(fail, setFlag(root, environment[f.Name], f.Name, []string{value}))
		}
	})
	fail = errors.Join(fail, conf.global.apply(root, ""))
	if cmd.Parent() == cmd.Root() {
		switch cmd.Name() {
		case "work":
			fail = errors.Join(fail, conf.work.apply(cmd.Flags(), "work."))
		case "serve":
			fail = errors.Join(fail, conf.serve.apply(cmd.Flags(), "serve."))
		}
	}
	if a.flags.actor == "" {
		a.flags.actor = userName()
	}
	return errors.Join(fail, a.flags.choose(places))
}

// flagsOf are the flags of a command, which the table of its name may set.
func flagsOf(cmd *cobra.Command, name string) *pflag.FlagSet {
	found, _, _ := cmd.Root().Find([]string{name})
	return found.LocalNonPersistentFlags()
}

// setFlag gives a flag its values, the first of which replaces the default.
func setFlag(fs *pflag.FlagSet, from, name string, values []string) error {
	for _, value := range values {
		if err := fs.Set(name, value); err != nil {
			return usage("%s: %s", from, flagProblem(err))
		}
	}
	return nil
}

// section is one table of the configuration: flag names and their values.
type section map[string][]string

func (s section) apply(fs *pflag.FlagSet, prefix string) error {
	for name, values := range s {
		if fs.Changed(name) {
			continue
		}
		if err := setFlag(fs, "config: "+prefix+name, name, values); err != nil {
			return err
		}
	}
	return nil
}

// config is a configuration file as read, before it is held to the flags.
type config struct {
	path   string
	global section
	work   section
	serve  section
	kinds  map[string]map[string]string
}

// kindKeys are what the tables [kind.NAME] may hold.
var kindKeys = []string{"endpoint-policy", "http", "max-failures", "on-lost", "priority", "sensitive", "timeout",
	"window"}

func readConfig(path string) (config, error) {
	c := config{path: path, global: section{}, work: section{}, serve: section{},
		kinds: map[string]map[string]string{}}
	if path == "" {
		return c, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return c, usage("--config %s can't be read; give an existing TOML file", path)
	}
	tree := map[string]any{}
	if err := toml.Unmarshal(text, &tree); err != nil {
		where := ""
		if e, ok := errors.AsType[*toml.DecodeError](err); ok {
			row, _ := e.Position()
			where = fmt.Sprintf(" at line %d", row)
		}
		return c, usage("--config %s is not TOML%s: %s", path, where, err)
	}
	return c, c.read(tree)
}

func (c config) read(tree map[string]any) error {
	for key, value := range tree {
		table, isTable := value.(map[string]any)
		var err error
		switch {
		case key == "work" && isTable:
			err = c.work.read(table)
		case key == "serve" && isTable:
			err = c.serve.read(table)
		case key == "kind" && isTable:
			err = c.readKinds(table)
		case isTable:
			err = usage("there is no table [%s]; known are [work], [serve] and [kind.NAME]", key)
		default:
			err = c.global.read(map[string]any{key: value})
		}
		if err != nil {
			return usage("--config %s: %s", c.path, err)
		}
	}
	return nil
}

func (c config) readKinds(tables map[string]any) error {
	for kind, value := range tables {
		table, ok := value.(map[string]any)
		if !ok {
			return usage("kind.%s is not a table", kind)
		}
		if err := daybook.CheckName("kind", kind); err != nil {
			return err
		}
		values := section{}
		if err := values.read(table); err != nil {
			return err
		}
		c.kinds[kind] = map[string]string{}
		for name, value := range values {
			if !slices.Contains(kindKeys, name) {
				return usage("unknown key kind.%s.%s; known are %v", kind, name, kindKeys)
			}
			c.kinds[kind][name] = value[len(value)-1]
		}
	}
	return nil
}

func (s section) read(table map[string]any) error {
	for key, value := range table {
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, item := range list {
			text, err := scalar(key, item)
			if err != nil {
				return err
			}
			s[key] = append(s[key], text)
		}
	}
	return nil
}

// scalar writes a TOML value as it would stand on the command line.
func scalar(key string, value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	}
	return "", usage("key %s wants a string, a number, true or false, or a list of them", key)
}

// check refuses keys that no flag is named by, whatever command is run: a
// misspelled key would be a setting that silently isn't there.
func (c config) check(root, work, serve *pflag.FlagSet) error {
	for name := range c.global {
		if root.Lookup(name) == nil || name == "config" {
			return usage("--config %s: unknown key %s; keys are flag names, see daybook --help", c.path, name)
		}
	}
	for name := range c.work {
		if work.Lookup(name) == nil || name == "help" {
			return usage("--config %s: unknown key work.%s; keys are flag names, see daybook work --help",
				c.path, name)
		}
	}
	for name := range c.serve {
		if serve.Lookup(name) == nil || name == "help" {
			return usage("--config %s: unknown key serve.%s; keys are flag names, see daybook serve --help",
				c.path, name)
		}
	}
	return nil
}

func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	return "unknown"
}
