package api

import (
	"cmp"
	"slices"
)

// minSecret is the length from which a value of an environment may be a
// secretsOf: taking short ones, such as "1", out of messages would spoil them.
const minSecret = 8

// envSecrets are the values of an environment that must not be shown. Only the
// configuration knows which of them are sensitive. The longest come first: one
// may hold another.
func envSecrets(env map[string]string) []string {
	var out []string
	for _, v := range env {
		if len(v) >= minSecret {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	return out
}
