package volume

import "testing"

func TestMountPoint(t *testing.T) {
	for dir, want := range map[string]string{"/proc": "/proc", "/": "/", "/proc/self": "", "/pro": "", t.TempDir(): ""} {
		if at := mountPoint(dir); at != want {
			t.Errorf("%s: %q, expected %q", dir, at, want)
		}
	}
}
