package flagfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/flagfile"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.Succeed(t, os.WriteFile(file, []byte("text"), 0o600))
	must.Equal(t, string(must.Do(flagfile.Read(file))(t)), "text")
	must.Hold(t, must.Do(flagfile.Read(os.DevNull))(t) != nil, "an empty file is read as nil, like a missing file")
	must.ErrorIs(t, must.Err(flagfile.Read(file+"-absent")), os.ErrNotExist)
	must.Succeed(t, os.Truncate(file, 64<<20))
	must.Equal(t, len(must.Do(flagfile.Read(file))(t)), 64<<20)
	must.Succeed(t, os.Truncate(file, 64<<20+1))
	text, err := flagfile.Read(file)
	must.Hold(t, text == nil && err != nil && err.Error() == file+" is larger than 64 MiB: choose another file", "expected nil and an error about 64 MiB, and got nil", text == nil, "and", err)
}
