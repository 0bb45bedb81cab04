//go:build race

package engine_test

import "flag"

// The race detector makes the database about thirty times slower, and races don't need many
// random runs to show.
func init() {
	if err := flag.Set("rapid.checks", "15"); err != nil {
		panic(err)
	}
}
