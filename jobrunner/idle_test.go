package jobrunner_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// The load on a shared database doesn't depend on the number of idle endpoints, with or
// without idle workers.
func TestIdleEndpointsCostNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("transactions are counted for seconds")
	}
	const endpoints, window = 200, 6 * time.Second
	url := pgtest.Start(t)
	d := deployWith(t, jobrunner.Config{Engine: url})
	for i := range endpoints {
		if status, _, body := d.do("POST", "/v2/serverless", fmt.Sprintf(`{"name":"e%d","image":"builtin/echo","cpu":[{"id":"cpu3c","vcpuCount":2}],"workers":{"min":%d,"max":1}}`, i, i%2)); status != 201 {
			t.Fatalf("%d %s", status, body)
		}
	}
	db := must.Do(sql.Open("pgx", url))(t)
	defer db.Close()
	transactions := func() (n int) {
		must.Succeed(t, db.QueryRow("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()").Scan(&n))
		return n
	}
	// A session reports its statistics only when it is idle. Wait until the number grows slowly,
	// so that it includes the creation of the endpoints.
	least := 1 << 30
	for deadline := time.Now().Add(time.Minute); least > endpoints && time.Now().Before(deadline); {
		start, from := time.Now(), transactions()
		<-time.After(window)
		least = min(least, int(float64(transactions()-from)/time.Since(start).Seconds()*window.Seconds()))
	}
	if least > endpoints { // each endpoint, once in six seconds
		t.Errorf("%d idle endpoints cost %d transactions in %s", endpoints, least, window)
	} else {
		t.Logf("%d idle endpoints cost %d transactions in %s", endpoints, least, window)
	}
}
