package workerapi_test

import (
	"flag"
	"os"
	"testing"
)

// Tests with a real process mostly wait for it: more of them at a time than
// there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "10"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
