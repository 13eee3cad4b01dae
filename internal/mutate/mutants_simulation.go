package main

// simulation is the package that finds a missing guard by drawing schedules.
const simulation = "./internal/simulate"

// simulationMutants are guards that the simulation must miss without being told
// where to look.
var simulationMutants = []mutant{
	{"sim-owner", "an owner write comes from the current owner", "claim.go",
		"\tcase j.Generation != o.Generation:\n…\tcase j.Session != o.Session:", "\tcase false:", simulation,
		"TestSimulation"},
	{"sim-effect-done", "a done effect is not called again", "ledger.go",
		"case e.State == EffectDone:", "case false:", simulation, "TestSimulation"},
	{"sim-revokes", "claims of ended sessions are revoked", "reconcile/pass.go",
		"counted(&report.Lost, r.book.RevokeLost)", "func(context.Context) error { return nil }", simulation,
		"TestSimulation"},
	{"sim-complete", "the set of completions names the claim", "store/sqlite/complete.go",
		" AND o.generation = v.generation AND o.session = +?", " AND +? IS NOT NULL", simulation, "TestSimulation"},
	{"sim-repeat", "a finish that is repeated is answered as it was", "finish.go",
		"if past.Outcome == o.Kind {", "if past.Outcome == o.Kind && false {", simulation, "TestSimulation"},
}
