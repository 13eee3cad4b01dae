package daybook_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
)

func TestTokens(t *testing.T) {
	book := daybooktest.New(t)
	by := daybook.By{Actor: "ada"}
	create := func(name string, expires time.Duration, scopes ...daybook.TokenScope) (daybook.Token, string, error) {
		return book.CreateToken(t.Context(), daybook.TokenRequest{Name: name, Scopes: scopes, Expires: expires}, by)
	}
	find := func(secret string) (daybook.Token, bool) {
		tokens, err := book.Tokens(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return tokens.Find(secret)
	}
	ci, secret, err := create("ci", 0, daybook.ScopeRead, daybook.ScopeEnqueue, daybook.ScopeRead)
	if err != nil || len(ci.Scopes) != 2 || len(secret) < 40 {
		t.Fatalf("got %+v, %d bytes of secret, %v", ci, len(secret), err)
	}
	if got, found := find(secret); !found || got.Name != "ci" || !got.Allows(daybook.ScopeRead) ||
		got.Allows(daybook.ScopeOperate) {
		t.Errorf("found %+v, %v", got, found)
	}
	for _, wrong := range []string{"", "ci", secret[:len(secret)-1], secret + "x", strings.ToUpper(secret)} {
		if _, found := find(wrong); found {
			t.Errorf("the secret %q was let in", wrong)
		}
	}
	if kept, err := book.Setting(t.Context(), daybook.SettingTokens); err != nil || strings.Contains(kept, secret) {
		t.Errorf("the book keeps the secret itself, or %v", err)
	}
	if _, _, err := create("ci", 0, daybook.ScopeRead); !errors.Is(err, daybook.ErrRefused) {
		t.Errorf("a second token of the name: %v", err)
	}
	_, short, err := create("short", time.Microsecond, daybook.ScopeRead)
	if err != nil {
		t.Fatal(err)
	}
	if _, found := find(short); found {
		t.Error("an expired token was let in")
	}
	if _, err := book.RevokeToken(t.Context(), "ci", by); err != nil {
		t.Fatal(err)
	}
	if _, found := find(secret); found {
		t.Error("a revoked token was let in")
	}
	again, err := book.RevokeToken(t.Context(), "ci", daybook.By{Actor: "bob"})
	if err != nil || again.RevokedBy != "ada" {
		t.Errorf("revoked again: %+v, %v", again, err)
	}
	if _, err := book.RevokeToken(t.Context(), "nobody", by); !errors.Is(err, daybook.ErrNotFound) {
		t.Errorf("revoking what isn't there: %v", err)
	}
	if _, _, err := create("ci", 0, daybook.ScopeWork); err != nil {
		t.Errorf("the name of a revoked token can't be had: %v", err)
	}
	for _, wrong := range []daybook.TokenRequest{{Name: "", Scopes: daybook.TokenScopes}, {Name: "x"},
		{Name: "x", Scopes: []daybook.TokenScope{"all"}}, {Name: "x", Scopes: daybook.TokenScopes, Expires: -1}} {
		if _, _, err := book.CreateToken(t.Context(), wrong, by); !errors.Is(err, daybook.ErrInvalid) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// No token is lost where many are made at once.
func TestTokensMadeAtOnce(t *testing.T) {
	book := daybooktest.New(t)
	var all sync.WaitGroup
	for _, name := range strings.Split("abcdefgh", "") {
		all.Go(func() {
			r := daybook.TokenRequest{Name: name, Scopes: daybook.TokenScopes}
			_, _, err := book.CreateToken(t.Context(), r, daybook.By{})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	tokens, err := book.Tokens(t.Context())
	if err != nil || tokens.Live() != 8 || len(tokens.List()) != 8 {
		t.Errorf("got %d tokens, %v", tokens.Live(), err)
	}
}
