package volume

import (
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestMountPoint(t *testing.T) {
	for dir, want := range map[string]string{"/proc": "/proc", "/": "/", "/proc/self": "", "/pro": "", t.TempDir(): ""} {
		must.Equal(t, mountPoint(dir), want, dir)
	}
}
