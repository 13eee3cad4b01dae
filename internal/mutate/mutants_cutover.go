package main

// cutoverMutants are the guards of moving a queue in. Those of the engine are
// killed beside a real Redis, with DAYBOOK_TEST_OLD=1.
var cutoverMutants = []mutant{
	{"cutover-phase", "nothing moves in after the way back began", "cutover_book.go",
		"[]Phase{PhaseMove, PhaseSettle, PhaseRun, PhaseReconcile, PhaseRetire},",
		"[]Phase{PhaseMove, PhaseSettle, PhaseRun, PhaseReconcile, PhaseRetire, PhaseReturning},", store,
		"TestStore/contract/ImportOld_takes"},
	{"cutover-known", "a known job isn't taken in again", "cutover_item.go",
		"case i.Term == TermStill:", "case i.Term == TermStill || i.Term == TermMoved:", rules, "TestArrive"},
	{"cutover-asked", "another job under a known id is asked about", "cutover_item.go",
		"i.Asked = i.Occurrence > 0", "i.Asked = false", rules, "TestArrive"},
	{"cutover-hash", "all of a job must be equal to be known", "cutover_item.go",
		"if i.Hash == hash {", "if i.Hash == hash || i.ID == o.Name() {", rules, "TestArrive"},
	{"cutover-nowhere", "what was only nowhere is asked about when it comes back", "cutover_item.go",
		"case i.Term == TermFinished && !i.Proved:", "case false:", rules, "TestArrive"},
	{"cutover-arrived", "an id that is used again after the gate has arrived", "cutover_book.go",
		"i.c.EnteredAt(PhaseGate) != 0, i.now)", "i.c.EnteredAt(PhaseGate) != 0 && len(i.known[id]) == 0, i.now)", store,
		"TestStore/contract/ImportOld_takes"},
	{"cutover-resume", "nobody resumes a queue that a cutover keeps closed", "cutover_book.go",
		"if c.Queue == queue && c.Closed() {", "if false {", store, "TestStore/contract/A_cutover_closes"},
	{"cutover-closed", "a cutover that goes back closes its queue", "cutover.go",
		"return c.Claims != BookMayClaim && c.Phase != PhaseReturned",
		"return c.Claims != BookMayClaim && c.Phase != PhaseReturned && c.Phase != PhaseReturning", store,
		"TestStore/contract/A_cutover_closes"},
	{"cutover-one", "two cutovers never move into one queue", "cutover_book.go",
		"case other.Queue == c.Queue && !other.Phase.Over():", "case false:", store,
		"TestStore/contract/A_cutover_closes"},
	{"cutover-return", "what ran here stays here", "cutover_book.go",
		"if jobs[k].ID.IsZero() || err != nil {", "if jobs[k].ID.IsZero() || err != nil && false {",
		store, "TestStore/contract/ReturnOld"},
	{"cutover-owner", "a live owner isn't robbed", "cutover_item.go", "case OldOwned:\n\t\treturn FateWait",
		"case OldOwned:\n\t\treturn FateLost", rules, "TestFate"},
	oldSystem("proved", "the gate is proved before a job moves", "gate.go",
		"if n.Gate == nil || n.Gate.Proved == 0 {", "if false && n.Gate == nil {", "TestCutoverRefuses"),
	oldSystem("question", "the gate stays open while a question is", "gate.go",
		"open := unanswered(Questions(c, p, n, nil)); open {", "open := unanswered(Questions(c, p, n, nil)); open && false {",
		"TestCutoverRefuses"),
	oldSystem("drop", "a job is dropped there when it is here", "move.go",
		"arrived, err := e.book.ImportOld(ctx, e.name, arriving)",
		"e.old.Drop(ctx, held)\n\tarrived, err := e.book.ImportOld(ctx, e.name, arriving)", "TestCutoverTurnsBack"),
	oldSystem("names", "nothing balances while something is in no list", "reconcile.go",
		"b.Still == 0 && len(b.Wrong) == 0 &&", "b.Still == 0 &&",
		"TestCutoverReconcileNames"),
}

func oldSystem(name, guard, file, was, now, test string) mutant {
	return mutant{"cutover-" + name, guard, "cutover/" + file, was, now, "./cmd/daybook", test}
}
