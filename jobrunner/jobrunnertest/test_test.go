package jobrunnertest_test

import (
	"context"
	"fmt"
	"testing"
)

// exampleT is the testing.TB of an example.
type exampleT struct {
	testing.TB
	ends []func()
}

// run runs a function as the body of a test.
func run(f func(t testing.TB)) {
	t := new(exampleT)
	defer func() {
		for i := len(t.ends) - 1; i >= 0; i-- {
			t.ends[i]()
		}
	}()
	f(t)
}

func (t *exampleT) Helper()                           {}
func (t *exampleT) Context() context.Context          { return context.Background() }
func (t *exampleT) Cleanup(end func())                { t.ends = append(t.ends, end) }
func (t *exampleT) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (t *exampleT) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (t *exampleT) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
