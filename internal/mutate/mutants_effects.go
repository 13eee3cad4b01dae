package main

// Where the guards of the ledger stand.
const (
	beginRule  = "ledger.go#) BeginEffect("
	reuseRule  = "ledger.go#) reused("
	openRule   = "ledger.go#) openEffect("
	callRule   = "ledger.go#) callEffect("
	finishRule = "ledger.go#) FinishEffect("
	twiceRule  = "effect.go#) CalledTwice("
	sqlBegin   = "sql/functions_api_effect.sql#FUNCTION daybook.begin_effect("
	sqlCall    = "sql/functions_api_effect.sql#FUNCTION daybook.call_effect("
	sqlFinish  = "sql/functions_api_effect.sql#FUNCTION daybook.finish_effect("
	sqlTwice   = "sql/functions_api_effect.sql#FUNCTION daybook.called_twice("
)

// rule is a mutant of the ledger's pure rules.
func rule(name, guard, file, old, new string) mutant {
	return mutant{"effect-" + name, guard, file, old, new, rules, "TestLedger"}
}

// effectMutants are the guards of effects: the rules, the stores, and the same
// rules for other languages.
var effectMutants = []mutant{
	rule("begin-owner", "only the owner begins an effect", beginRule,
		"if err := j.owner(o); err != nil {", "if err := j.owner(o); err != nil && false {"),
	rule("finish-owner", "only the owner says how an effect ended", finishRule,
		"if err := j.owner(o); err != nil {", "if err := j.owner(o); err != nil && false {"),
	rule("most", "a job has so many effects", beginRule, "if j.Effects >= EffectsMax {", "if false {"),
	rule("reuse", "a name stands for one action of an attempt", reuseRule,
		"if e.Used != o.Generation ||", "if true ||"),
	rule("late-repeat", "a repeat after its call ended gives no new leave", reuseRule,
		"e.Call == b.Call && e.State != EffectAbsent", "e.Call == b.Call"),
	rule("input", "another input is another action", beginRule, "case e.otherInput(b) &&", "case false &&"),
	rule("done", "what is done isn't called again", beginRule, "case e.State == EffectDone:", "case false:"),
	rule("stricter", "a policy becomes stricter, never laxer", beginRule,
		"if strictness[b.Policy] < strictness[e.Policy] {", "if false {"),
	rule("ask", "under ask an open effect is a person's", openRule,
		"case PolicyRepeatable:", "case PolicyRepeatable, PolicyAsk:"),
	rule("quiet", "a probe waits until the call's trace must show", openRule, "if now < settled {", "if false {"),
	rule("window-end", "past its window a key isn't called again", openRule,
		"now < end && (b.Limit == 0 || now.Add(b.Limit) <= end)", "now < end+1000000000000"),
	rule("window-first", "a window is never made longer", "ledger.go#) window(",
		"end = min(end, e.SafeUntil)", "_ = e"),
	rule("lease", "a call begins inside the lease", callRule, "case j.LeaseUntil <= now:", "case false:"),
	rule("lease-limit", "a call ends inside the lease", callRule, "case until > j.LeaseUntil:", "case false:"),
	rule("elder-call", "an elder call may still be at it", callRule, "max(e.CallUntil, until)", "until"),
	rule("next-key", "a new key only when nothing is behind the old one", callRule,
		"e.State == EffectAbsent && (", "(e.State != \"\") && ("),
	rule("unsure", "a call that didn't happen speaks for itself alone", finishRule,
		"case f.Outcome == OutcomeAbsent && !probe && e.Unsure != 0:", "case false:"),
	rule("first-word", "what was said first stays", finishRule, "case e.State != EffectIsOpen:", "case false:"),
	rule("finish-other", "who only met an effect doesn't end it", finishRule,
		"case e.Generation != o.Generation && !probe:", "case false:"),
	rule("doubled", "a finish weighs what came too late", finishRule,
		"e.Doubled = e.Doubled || e.CalledTwice()", "_ = e"),
	rule("one-key", "a key inside its window isn't doubled", twiceRule, "&& !oneKey", "&& (!oneKey || true)"),
	rule("one-key-late", "a key past its window is doubled", twiceRule, "&& l.At <= e.SafeUntil", ""),

	{"sql-effect-generation", "the ledger names the owner's generation", "store/sqlite/ledger.go",
		"WHERE seq = ? AND generation = ? AND session = ?", "WHERE seq = ? AND ? > 0 AND session = ?", store,
		"TestStore/contract/SaveEffect"},
	{"sql-effect-session", "the ledger names the owner's session", "store/sqlite/ledger.go",
		"WHERE seq = ? AND generation = ? AND session = ?", "WHERE seq = ? AND generation = ? AND ? > 0", store,
		"TestStore/contract/SaveEffect"},
	{"effect-doubtful", "what a late owner says makes absent doubtful", beginRule, "if e.Doubtful() {", "if false {",
		"./cmd/daybook", "TestEffectDoubtful"},
	{"effect-settled-key", "what a person found absent keeps its key", callRule, "b.NextKey && e.SettledBy == \"\"",
		"b.NextKey", "./cmd/daybook", "TestEffectKeptKey"},
	{"effect-evidence", "what came too late is kept", "begin.go#func (b *Book) keepEvidence(",
		"tx.SaveRefusals(ctx, []Refusal{r})", "error(nil)", store, "TestStore/scenarios/effect_late"},
	{"effect-evidence-doubled", "what came too late marks the effect", "begin.go#func (b *Book) keepEvidence(",
		"e.Evidence(late[0], tx.Now()))", "EffectWrite{})", store,
		"TestStore/scenarios/effect_late"},
	{"effect-asked-again", "a begin whose answer was lost is told again", "begin.go#func (b *Book) BeginEffect(",
		"if ended == nil && (asked || changed) {", "if ended == nil && (asked && false || changed) {", store,
		"TestStore/scenarios/effect_ask"},
	{"pg-effect-lock", "an owner's begin locks the job", "begin.go#func lockEffect(",
		"jobs, err := tx.Lock(ctx, []ID{job})", "one, _, err := tx.Job(ctx, job)\n\tjobs := []Job{one}", postgres,
		"TestStore/interleave/a_begin_or_a_finish"},
	pg("effect-generation", "the ledger names the owner's generation", "ledger.go",
		`" AND generation = $2::bigint AND session = "`, `" AND $2::bigint > 0 AND session = "`,
		"TestStore/contract/SaveEffect"),
	pg("effect-session", "the ledger names the owner's session", "ledger.go",
		`" AND generation = $2::bigint AND session = "`, `" AND generation = $2::bigint AND 0 < "`,
		"TestStore/contract/SaveEffect"),
	pg("effect-ledger", "the set of completions is told of effects", "ledger.go",
		"SET ledger = true WHERE", "SET ledger = ledger WHERE", "TestStore/contract/Complete_names"),

	pg("sql-effect-reuse", "SQL: a name stands for one action", sqlBegin, "IF NOT repeated THEN", "IF false THEN",
		"TestSQLEffects"),
	pg("sql-effect-input", "SQL: another input is another action", sqlBegin,
		"IF other AND NOT", "IF false AND NOT", "TestSQLEffects"),
	pg("sql-effect-stricter", "SQL: a policy becomes stricter, never laxer", sqlBegin,
		"daybook.strictness(p_policy) < daybook.strictness(e.policy)", "false", "TestSQLEffects"),
	pg("sql-effect-quiet", "SQL: a probe waits", sqlBegin, "WHEN now_at < settled THEN", "WHEN false THEN",
		"TestSQLEffects"),
	pg("sql-effect-unsure", "SQL: a call speaks for itself alone", sqlFinish,
		"AND NOT probe AND e.unsure IS NOT NULL", "AND false", "TestSQLEffects"),
	pg("sql-effect-doubled", "SQL: a finish weighs what came too late", sqlFinish,
		"e.doubled OR daybook.called_twice(e)", "e.doubled", "TestSQLEffects"),
	pg("sql-effect-evidence", "SQL: a late word marks the effect", evidence,
		"PERFORM daybook.weigh_evidence(id, effect, generation, now_at)", "NULL", "TestSQLEffects"),
	pg("sql-effect-probe", "SQL: who was told to probe called nothing", sqlTwice,
		" AND c.generation = v.generation", "", "TestSQLEffects"),
	pg("sql-effect-doubtful", "SQL: what a late owner says makes absent doubtful", sqlBegin,
		"IF daybook.doubtful(e) THEN", "IF false THEN", "TestSQLEffects"),
	pg("sql-effect-settled-key", "SQL: what a person found absent keeps its key", sqlCall,
		"next_key AND e.settled_by IS NULL", "next_key", "TestSQLEffects"),
	pg("lock-rest", "a set of jobs is at rest when no row of its own leaves that open", "lock.go",
		"count(*) FILTER (WHERE l.state = 0)", "count(*) FILTER (WHERE false)", "TestLockOfASet"),
	pg("revive-set", "a set of revivals names each row's generation", "revive.go",
		" AND coalesce(j.generation, 0) = u.generation`", "`", "TestStore/contract/Review"),
	pg("revive-set-state", "a set of revivals names each row's state", "revive.go",
		"AND j.state = u.state AND", "AND", "TestStore/contract/Review"),
	pg("sql-effect-lease", "SQL: a call ends inside the lease", sqlCall, "ELSIF until > lease THEN", "ELSIF false THEN",
		"TestSQLStates"),
}
