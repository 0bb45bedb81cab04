//go:build race

package engine_test

import "flag"

// Under the race detector the database is some thirty times slower, and races
// don't hide in the model: fewer random runs do.
func init() {
	if err := flag.Set("rapid.checks", "15"); err != nil {
		panic(err)
	}
}
