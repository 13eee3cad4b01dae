package main

const api = "./httpapi"

// httpMutants are the guards of the book's HTTP side, and those of the
// reconciler that no store proves.
var httpMutants = []mutant{
	{"http-site", "calls from other sites' pages are refused", "httpapi/door.go",
		`site == "cross-site"`, `site == "nowhere"`, api, "TestL63"},
	{"http-origin", "a page's own Origin must be the server's", "httpapi/door.go",
		"!strings.EqualFold(u.Host, r.Host)", "false", api, "TestL63"},
	{"http-rebinding", "without a token only localhost is let in by name", "httpapi/door.go",
		"case open && thisMachine(c.r.Host):", "case open:", api, "TestL63"},
	{"http-token", "an unknown token lets nobody in", "httpapi/door.go",
		"|| !found:", "|| !found && false:", api, "TestScopes"},
	{"http-scope", "a token is good for its scopes only", "httpapi/door.go",
		"case !token.Allows(c.route.scope):", "case false:", api, "TestScopes"},
	{"http-rate", "a token's calls are counted", "httpapi/door.go", "if b.left < 1 {", "if false {", api, "TestRateLimit"},
	{"http-unknown-field", "an unknown field is refused", "httpapi/decode.go",
		"\t\t\treturn problem(daybook.CodeInvalid, name+\" is not a field here\").at(at + \"/\" + name)\n",
		"\t\t\tvar skip json.RawMessage\n\t\t\tif d.Decode(&skip) != nil {\n\t\t\t\treturn d.broken()\n\t\t\t}\n" +
			"\t\t\tcontinue\n", api, "TestRefusedBodies"},
	{"http-twice", "a field given twice is refused", "httpapi/decode.go", "case seen[name]:", "case false:", api,
		"TestRefusedBodies"},
	{"http-list", "a list has a limit", "httpapi/decode.go", "if n == daybook.BatchMax {", "if false {", api,
		"TestRefusedBodies|TestTooLarge"},

	{"http-null", "a required field isn't null", "httpapi/decode.go",
		"if f.required && string(raw)", "if false && string(raw)", api, "TestRefusedBodies"},
	{"http-surrogate", "half a character isn't changed into another one", "httpapi/decode.go",
		"if text && !f.mended && halfCharacter(raw) {", "if text && false {", api, "TestRefusedBodies"},
	{"http-refs", "a claim that isn't named whole isn't called lost", "httpapi/work.go",
		"for n, ref := range refs {", "for n, ref := range refs[:0] {", api, "TestRefusedBodies"},
	{"http-no-error", "a failure says what went wrong", "httpapi/outcome.go",
		"if in.Error == nil {", "if false {", api, "TestRefusedBodies"},
	{"http-dry-reason", "a preview's reason is held to the rules too", "httpapi/call.go",
		"return by, daybook.CheckBy(by)", "return by, nil", api, "TestRefusedBodies"},
	{"http-filter", "a filter that no store takes is refused", "admin.go",
		"return checkTexts([2]string{\"queue\", f.Queue}, ", "return checkTexts(", api, "TestRefusedCalls"},
	{"http-no-such", "a name that nothing has isn't repeated", "httpapi/problem.go",
		`noSuch.ReplaceAllString(text, "no such $1"), ""`, `text, ""`, api, "TestRefusedBodies"},

	{"serve-room", "a server that can't write isn't ready", "cmd/daybook/ready.go",
		"return r.room(ctx)", "return nil", "./cmd/daybook", "TestReadyWithoutRoom"},
	{"serve-certificate", "a certificate that can't be used replaces none", "cmd/daybook/certificate.go",
		"\t\treturn c.pair, nil\n\t}\n\tc.pair = &pair", "\t\treturn nil, err\n\t}\n\tc.pair = &pair", "./cmd/daybook",
		"TestServeTLS"},

	{"reconcile-slow", "a slow database makes a pass unsure", "reconcile/certainty.go",
		"case l.after.Sub(l.before) > answerMax:", "case false:", repair, ""},
	{"reconcile-mine", "a pass that another process made isn't made again", "reconcile/reconcile.go",
		"if err != nil || !mine {", "if err != nil || !mine && false {", repair, ""},
	{"reconcile-steps", "a step that fails stops no other", "reconcile/pass.go",
		"if err := r.run(ctx, s); err != nil && first == nil {\n\t\t\tfirst = err\n\t\t}",
		"if err := r.run(ctx, s); err != nil {\n\t\t\treturn report, err\n\t\t}", repair, "TestFailedStep"},
	{"reconcile-revokes", "claims of ended sessions are revoked", "reconcile/pass.go",
		"counted(&report.Lost, r.book.RevokeLost)", "func(context.Context) error { return nil }", repair, ""},
	{"reconcile-overdue", "claims past their run limit are revoked", "reconcile/pass.go",
		"counted(&report.Overdue, r.book.RevokeOverdue)", "func(context.Context) error { return nil }", repair, ""},
	{"reconcile-expires", "jobs past their time expire", "reconcile/pass.go",
		"counted(&report.Expired, r.book.ExpireWaiting)", "func(context.Context) error { return nil }", repair, ""},
	{"reconcile-failed", "after a failed pass the next can't be sure", "reconcile/reconcile.go",
		"r.look.clean = false", "_ = r.look", repair, ""},
}
