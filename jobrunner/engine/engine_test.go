package engine_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine/enginetest"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

func TestMemory(t *testing.T) {
	enginetest.Run(t, onSQLite(func(*testing.T) sqldb.Config { return sqldb.Config{} }))
}

func TestFile(t *testing.T) {
	enginetest.Run(t, onSQLite(func(t *testing.T) sqldb.Config { return sqldb.Config{Dir: t.TempDir()} }))
}

// onSQLite runs each test in a synctest bubble.
func onSQLite(config func(*testing.T) sqldb.Config) enginetest.Harness {
	return func(t *testing.T, test func(*testing.T, *enginetest.Env)) {
		synctest.Test(t, func(t *testing.T) {
			db, err := sqldb.Open(context.Background(), config(t))
			if err != nil {
				t.Fatal(err)
			}
			env := &enginetest.Env{
				Engine:  openEngine(t, db),
				Advance: func(d time.Duration) { time.Sleep(d); synctest.Wait() },
				Settle:  synctest.Wait,
			}
			env.Restart = func() {
				env.Close()
				env.Engine = openEngine(t, db)
			}
			defer func() {
				env.Close()
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			}()
			test(t, env)
		})
	}
}

func openEngine(t *testing.T, db *sqldb.DB) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Config{DB: db, Clock: new(clock.Clock), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	return e
}
