package daybook

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// TokenScope is what a token allows its bearer to do over the network.
type TokenScope string

// The scopes.
const (
	ScopeEnqueue TokenScope = "enqueue" // put jobs in
	ScopeWork    TokenScope = "work"    // claim jobs, and say how they ended
	ScopeRead    TokenScope = "read"    // look
	ScopeOperate TokenScope = "operate" // decide: cancel, revive, settle, pause
	// ScopeSensitive shows what is hidden of sensitive kinds, in what the other
	// scopes let see. Alone it opens nothing.
	ScopeSensitive TokenScope = "sensitive"
)

// TokenScopes lists them.
var TokenScopes = []TokenScope{ScopeEnqueue, ScopeWork, ScopeRead, ScopeOperate, ScopeSensitive}

// TokensMax bounds the tokens of a book: all are read to find one.
const TokensMax = 1000

// SettingTokens is where the book keeps its tokens. They are few, so one value
// that is changed by compare-and-set is enough, and no store needs to know.
const SettingTokens = "tokens"

// Token lets programs in over the network, under a name that the record shows
// for what they change. The book keeps a hash of its secret: a plain SHA-256,
// since the secret is 256 random bits, which nobody can guess or try, and slow
// hashes are for what people choose.
type Token struct {
	Name      string       `json:"name"`
	Scopes    []TokenScope `json:"scopes"`
	CreatedAt Time         `json:"created_at"`
	CreatedBy string       `json:"created_by,omitempty"`
	ExpiresAt Time         `json:"expires_at,omitzero"` // 0 is never
	RevokedAt Time         `json:"revoked_at,omitzero"`
	RevokedBy string       `json:"revoked_by,omitempty"`
}

// Live reports whether the token lets anybody in.
func (t Token) Live(now Time) bool {
	return t.RevokedAt == 0 && (t.ExpiresAt == 0 || now < t.ExpiresAt)
}

// Allows reports whether the token has the scope.
func (t Token) Allows(s TokenScope) bool { return slices.Contains(t.Scopes, s) }

// keptToken is a token as the book keeps it.
type keptToken struct {
	Token
	Hash []byte `json:"hash"`
}

// Tokens are all tokens of a book at one time, revoked ones too.
type Tokens struct {
	At   Time // by the database's clock
	kept []keptToken
}

// List is the tokens without their hashes, in the order in which they were made.
func (t Tokens) List() []Token {
	list := make([]Token, len(t.kept))
	for i, k := range t.kept {
		list[i] = k.Token
	}
	return list
}

// Live counts the tokens that let somebody in.
func (t Tokens) Live() (n int) {
	for _, k := range t.kept {
		if k.Live(t.At) {
			n++
		}
	}
	return n
}

// Find is the live token with this secret. It takes as long whichever it is, and
// if there is none.
func (t Tokens) Find(secret string) (Token, bool) {
	hash := sha256.Sum256([]byte(secret))
	found := -1
	for i, k := range t.kept {
		if subtle.ConstantTimeCompare(hash[:], k.Hash) == 1 && k.Live(t.At) {
			found = i
		}
	}
	if found < 0 {
		return Token{}, false
	}
	return t.kept[found].Token, true
}

// TokenRequest asks for a token.
type TokenRequest struct {
	Name    string
	Scopes  []TokenScope
	Expires time.Duration // from now; 0 is never
}

func (r TokenRequest) check() error {
	if err := CheckName("name", r.Name); err != nil {
		return err
	}
	if len(r.Scopes) == 0 {
		return Invalid("scope", "is missing; name at least one of %v", TokenScopes)
	}
	for _, s := range r.Scopes {
		if !slices.Contains(TokenScopes, s) {
			return Invalid("scope", "wants one of %v, got %s", TokenScopes, quote(string(s)))
		}
	}
	return checkDuration("expires", r.Expires, 0, DelayMax)
}

// tokenPrefix makes a leaked secret easy to recognise, for people and scanners.
const tokenPrefix = "daybook_"

// CreateToken makes a token and returns its secret, which can't be had again. A
// live token of the same name refuses it; one that is revoked or expired makes
// room.
func (b *Book) CreateToken(ctx context.Context, r TokenRequest, by By) (t Token, secret string, err error) {
	if err := r.check(); err != nil {
		return Token{}, "", err
	}
	var random [32]byte
	rand.Read(random[:]) // never fails
	secret = tokenPrefix + base64.RawURLEncoding.EncodeToString(random[:])
	hash := sha256.Sum256([]byte(secret))
	scopes := slices.Compact(slices.Sorted(slices.Values(r.Scopes)))
	err = b.changeTokens(ctx, "making a token", by, func(kept []keptToken, now Time) ([]keptToken, error) {
		for i, k := range kept {
			switch {
			case k.Name != r.Name:
				continue
			case string(k.Hash) == string(hash[:]): // the first answer was lost
				t = k.Token
				return kept, nil
			case k.Live(now):
				return nil, Fail(CodeRefused, "there is a token %s; revoke it first, or choose another name", r.Name)
			}
			kept = slices.Delete(kept, i, i+1)
			break
		}
		if len(kept) >= TokensMax {
			return nil, Fail(CodeRefused, "the book has %d tokens, which is the most", len(kept))
		}
		t = Token{Name: r.Name, Scopes: scopes, CreatedAt: now, CreatedBy: by.Actor}
		if r.Expires > 0 {
			t.ExpiresAt = now.Add(r.Expires)
		}
		return append(kept, keptToken{t, hash[:]}), nil
	})
	return t, secret, err
}

// RevokeToken ends a token; whoever bears it is let in no more within seconds.
// Twice is harmless: the first one stays in the record.
func (b *Book) RevokeToken(ctx context.Context, name string, by By) (t Token, err error) {
	err = b.changeTokens(ctx, "revoking a token", by, func(kept []keptToken, now Time) ([]keptToken, error) {
		for i := range kept {
			if kept[i].Name != name {
				continue
			}
			if kept[i].RevokedAt == 0 {
				kept[i].RevokedAt, kept[i].RevokedBy = now, by.Actor
			}
			t = kept[i].Token
			return kept, nil
		}
		return nil, Fail(CodeNotFound, "no token %s", quote(name))
	})
	return t, err
}

// Tokens reads all tokens.
func (b *Book) Tokens(ctx context.Context) (t Tokens, err error) {
	err = b.read(ctx, "reading tokens", func(v View) (err error) {
		t, _, err = tokensOf(ctx, v)
		return err
	})
	return t, err
}

func tokensOf(ctx context.Context, v View) (t Tokens, text string, err error) {
	t.At = v.Now()
	text, err = v.Setting(ctx, SettingTokens)
	if err != nil || text == "" {
		return t, text, err
	}
	if json.Unmarshal([]byte(text), &t.kept) != nil {
		return t, text, Fail(CodeInternal, "setting %s of the book can't be read", SettingTokens)
	}
	return t, text, nil
}

// changeTokens carries out a change where nobody else made one meanwhile.
func (b *Book) changeTokens(ctx context.Context, doing string, by By,
	change func(kept []keptToken, now Time) ([]keptToken, error)) error {
	if err := CheckBy(by); err != nil {
		return err
	}
	for range 10 {
		saved := false
		err := b.write(ctx, doing, func(tx Tx) error {
			t, was, err := tokensOf(ctx, tx)
			if err != nil {
				return err
			}
			kept, err := change(t.kept, t.At)
			if err != nil {
				return err
			}
			var next strings.Builder
			if err := EncodeJSON(&next, kept); err != nil {
				return err
			}
			saved, err = tx.SaveSetting(ctx, SettingTokens, was, next.String())
			return err
		})
		if err != nil || saved {
			return err
		}
	}
	return Fail(CodeBusy, "others change the tokens; try again")
}
