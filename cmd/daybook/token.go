package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := group("token", "Make and revoke the tokens that serve lets in",
		"daybook token create ci --scope enqueue --scope read --expires 90d", "daybook token list")
	cmd.AddCommand(a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
	return cmd
}

// shownToken is a token with its secret, once.
type shownToken struct {
	daybook.Token
	Secret string `json:"token"`
}

func (a *app) tokenCreateCommand() *cobra.Command {
	var scopes []string
	var expires time.Duration
	cmd := &cobra.Command{
		Use: "create NAME --scope S…", Short: "Make a token; it is shown this once, and kept hashed",
		Long: "Make a token; it is shown this once, and kept hashed.\n\n" +
			"Scopes: enqueue puts jobs in; work claims them and says how they ended; read looks; operate decides: cancel,\n" +
			"revive, settle, pause; sensitive shows, in what the others let see, what is hidden of sensitive kinds (see\n" +
			"daybook serve --sensitive). What the bearer changes is recorded under the token's name.",
		Example: example("daybook token create ci --scope enqueue --scope read --expires 90d",
			"daybook token create mailer --scope work -o json"),
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringArrayVar(&scopes, "scope", nil,
		"what it allows: enqueue, work, read, operate or sensitive; repeat it for more (no default)")
	durationVar(cmd.Flags(), &expires, "expires", 0, "it lets nobody in after this (more than 0; default never)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("expires") && expires <= 0 {
			return daybook.Invalid("expires", "wants more than 0, got %s", expires)
		}
		r := daybook.TokenRequest{Name: args[0], Expires: expires}
		for _, s := range scopes {
			r.Scopes = append(r.Scopes, daybook.TokenScope(s))
		}
		return a.onBook(cmd.Context(), func(ctx context.Context, book *daybook.Book) error {
			token, secret, err := book.CreateToken(ctx, r, a.by(""))
			if err != nil {
				return err
			}
			if !a.json() {
				a.note("keep it: it can't be shown again")
			}
			return a.show(shownToken{token, secret}, func(t *table) { t.row(secret) })
		})
	}
	return cmd
}

func (a *app) tokenListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the tokens, revoked and expired ones too",
		Example: example("daybook token list", "daybook token list -o json"),
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.withBook(func(ctx context.Context, book *daybook.Book, _ []string) error {
		tokens, err := book.Tokens(ctx)
		if err != nil {
			return err
		}
		list := []listedToken{}
		for _, t := range tokens.List() {
			list = append(list, listedToken{t, tokenState(t, tokens.At)})
		}
		whole := struct {
			Tokens []listedToken `json:"tokens"`
		}{list}
		head := []string{"NAME", "STATE", "CREATED AT", "BY", "EXPIRES AT", "SCOPES"}
		return showList(a, whole, list, head, func(t *table, l listedToken) {
			t.row(l.Name, l.State, l.CreatedAt, dash(l.CreatedBy), dash(l.ExpiresAt.String()),
				listWords(words(l.Scopes), "and"))
		})
	})
	return cmd
}

// listedToken is one token in a list, with its state in a word.
type listedToken struct {
	daybook.Token
	State string `json:"state"`
}

func tokenState(t daybook.Token, now daybook.Time) string {
	switch {
	case t.RevokedAt != 0:
		return "revoked"
	case !t.Live(now):
		return "expired"
	}
	return "live"
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME", Short: "Revoke a token; serve lets it in no more within seconds",
		Example: example("daybook token revoke deploy", "daybook token revoke deploy -o json"),
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onBook(cmd.Context(), func(ctx context.Context, book *daybook.Book) error {
				token, err := book.RevokeToken(ctx, args[0], a.by(""))
				if err != nil {
					return err
				}
				return a.show(token, func(t *table) { t.row(token.Name, "revoked") })
			})
		},
	}
}
