//go:build race

package engine_test

import "flag"

// The race detector slows the database thirtyfold, and finds races in few random runs.
func init() {
	if err := flag.Set("rapid.checks", "15"); err != nil {
		panic(err)
	}
}
