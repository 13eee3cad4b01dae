package main

// simulation is the package that finds a missing guard by drawing schedules.
const simulation = "./internal/simulate"

// simulationMutants are guards that the simulation must miss without being told
// where to look.
var simulationMutants = []mutant{
	{"sim-owner-generation", "an owner write names the current generation", "claim.go",
		"case j.Generation != o.Generation:", "case false:", simulation, "TestSimulation"},
	{"sim-owner-state", "an owner write needs a running job", "claim.go",
		"case j.State != Running:\n\t\treturn Fail(CodeFenced", "case false:\n\t\treturn Fail(CodeFenced", simulation,
		"TestSimulation"},
	{"sim-lose-generation", "a revocation raises the generation", "lose.go",
		"next := j.disowned()\n\tnext.Generation++", "next := j.disowned()", simulation, "TestSimulation"},
	{"sim-claim-call", "a repeated claim call gets the same claims", "own.go",
		"\t\tif found {\n\t\t\tout = Claimed{Session: s, Jobs: jobs}\n\t\t\treturn nil\n\t\t}\n", "", simulation,
		"TestSimulation"},
	{"sim-session-ended", "an ended session never renews", "session.go",
		"if !s.Live() {\n\t\treturn s, Fail", "if false {\n\t\treturn s, Fail", simulation, "TestSimulation"},
	{"sim-effect-done", "a done effect is not called again", "ledger.go",
		"case e.State == EffectDone:", "case false:", simulation, "TestSimulation"},
}
