package main

// consoleMutants are the guards of the console's doors.
var consoleMutants = []mutant{
	console("form", "a change comes from a form of its session", "door.go",
		`if !hmac.Equal([]byte(r.PostFormValue("form")), []byte(d.formKey(v))) || v.Nonce == "" {`, "if false {",
		"TestForgedForms"),
	console("origin", "a change comes from a page of ours", "door.go",
		`u.Host == "" || !strings.EqualFold(u.Host, r.Host)`, "u == nil", "TestForgedForms"),
	console("site", "the browser's word on another site is believed", "door.go",
		`site != "" && site != "same-origin" && site != "none"`, "false && site != \"\"", "TestForgedForms"),
	console("scope", "only scope operate decides", "routes.go", "err == nil && !who.Operate &&", "false &&", "TestLogin"),
	console("cookie", "a session is signed", "door.go", `err != nil || !hmac.Equal(given, d.mac("visit", body))`,
		"err != nil || given == nil", "TestSessionCookie"),
	console("expiry", "a session ends", "door.go", " || time.Now().Unix() >= v.Expires", "", "TestSessionCookie"),
	console("lacks-kind", "a queue whose workers take other kinds is served by nobody", "takers.go",
		"k.Eligible == 0 || slices.ContainsFunc(t.of[q.Queue], may)", "k.Eligible == 0 || len(t.of[q.Queue]) > 0",
		"TestNobodyTakesTheKind"),
	console("book", "strangers aren't told which book it is", "pages/layout.html",
		"{{if .Who.Name}}{{with .Book}} ·", "{{if true}}{{with .Book}} ·", "TestPagesNameTheirBook"),
	console("token", "a session belongs to one token, not to its name", "door.go", "&& t.CreatedAt == v.Made ", "",
		"TestLogin"),
	console("revoked", "a session ends with its token", "door.go", " && t.Live(tokens.At)", "", "TestLogin"),
	console("host", "without a token only this machine's name is answered", "door.go", "if !thisMachine(r.Host) {",
		"if false {", "TestHost"),
	console("sensitive", "what jobs of sensitive kinds hold is hidden", "hide.go",
		"daybook.SightOf(c.opts.Sensitive, who.Sensitive)", "daybook.SightOf(c.opts.Sensitive, true)", "TestSensitive"),
	console("sensitive-batch", "a batch doesn't tell what errors of sensitive kinds say", "batch.go",
		"likeness(k.sight.Job(j).LastError)", "likeness(j.LastError)", "TestSensitive"),
	console("open", "a login leads to a page of ours", "routes.go", `strings.HasPrefix(to, "//") || `, "", "TestMethods"),
	console("watchers", "streams are bounded", "live.go", "if c.hub.watchers >= c.opts.Watchers {", "if false {",
		"TestWatchers"),
	console("queue-twice", "a queue is not paused or resumed twice", "decide.go", `if err == nil && p.No != "" {`,
		"if false {", "TestQueueDecidedTwice"),
	console("said", "what was done is said only while it holds", "job.go", "if !holds[done] {", "if holds == nil {",
		"TestSaidHolds"),
	console("reason", "a decision says why", "decide.go", "if by.Reason == \"\" {", "if false {", "TestDecide"),
}

func console(name, guard, file, was, now, test string) mutant {
	return mutant{"console-" + name, guard, "console/" + file, was, now, "./console", test}
}
