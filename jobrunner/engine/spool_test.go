package engine

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// A spooled report that can't be read when its queue is loaded stays in the data folder, until its
// endpoint is deleted.
func TestUnreadableReportIsKept(t *testing.T) {
	e, _ := openEmpty(t, sqldb.Config{Dir: t.TempDir()})
	path := filepath.Join(t.TempDir(), "1"+spoolSuffix)
	must.Succeed(t, os.WriteFile(path, []byte("damaged"), 0o600))
	e.spool.entries = []*entry{{Ref: Ref{Endpoint: "ep", ID: "x"}, path: path}}
	must.Do(e.lock(t.Context(), "ep"))(t).unlock()
	must.Equal(t, string(must.ReadFile(t, path)), "damaged", "the file has")
	must.Succeed(t, e.DropEndpoint(t.Context(), "ep"))
	must.ErrorIs(t, must.Err(os.Stat(path)), fs.ErrNotExist)
}
