package main

import "regexp"

// What people put passwords into: URLs, and what PostgreSQL calls connection
// strings. In a URL that is written wrongly it reaches to the last @.
var (
	urlPassword   = regexp.MustCompile(`(://[^:@/\s"]*):[^"\n]*@|([^:@/\s"]*):[^/\s"][^\s"]*@`)
	namedPassword = regexp.MustCompile(`(?i)\b((?:ssl)?password|token)=('[^']*'|[^\s&"]+)`)
)

// hidePasswords takes passwords out of what is told, wherever a URL got into it:
// given as a word too many, for example.
func hidePasswords(text string) string {
	text = urlPassword.ReplaceAllString(text, "${1}${2}:***@")
	return namedPassword.ReplaceAllString(text, "${1}=***")
}
