package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Resolver replaces placeholders of account secrets in variables, and also returns the values
// of the secrets.
type Resolver func(ctx context.Context, env map[string]string) (resolved map[string]string, values []string, err error)

// shortestHidden is the length of the shortest line of a secret that a log hides.
const shortestHidden = 4

// Env resolves variables, and hides the values of secrets from a log. A nil Resolver is a
// no-op.
func (r Resolver) Env(ctx context.Context, env map[string]string, log *Log) (map[string]string, error) {
	if r == nil {
		return env, nil
	}
	resolved, values, err := r(ctx, env)
	if err != nil {
		return nil, fmt.Errorf("its account secrets: %w", err)
	}
	for _, value := range values {
		if strings.Contains(value, "\x00") {
			return nil, errors.New("its account secrets: one has a NUL character, which environment variables can't have: set it again without it")
		}
		log.Hide(value)
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= shortestHidden {
				log.Hide(line)
			}
		}
	}
	return resolved, nil
}
