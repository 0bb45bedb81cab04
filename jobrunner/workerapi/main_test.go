package workerapi_test

import (
	"flag"
	"os"
	"testing"
)

// Tests with a real process mostly wait for it, so more of them than processors run at a time.
func TestMain(m *testing.M) {
	flag.Parse()
	if folder := os.Getenv("WORKER_SDK_PATH"); len(listReleases(folder)) > 0 {
		os.Exit(testReleases(folder, listReleases(folder)))
	}
	parallel := "10"
	if os.Getenv("WORKER_SDK_PATH") != "" { // loading the SDK needs much of a processor
		parallel = "4"
	}
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
