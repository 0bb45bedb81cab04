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
	if folder := os.Getenv("WORKER_SDK_PATH"); len(listReleases(folder)) > 0 {
		os.Exit(testReleases(folder, listReleases(folder)))
	}
	parallel := "10"
	if os.Getenv("WORKER_SDK_PATH") != "" { // which takes much of a processor to load
		parallel = "4"
	}
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
