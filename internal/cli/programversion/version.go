// Package programversion formats a program's version.
package programversion

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// development is the version of a build that isn't a release.
const development = "dev"

// Text returns the program's name and version. If the build has stamped a commit, it adds commit,
// Go version and platform: `jobrunner 1.2.3 (commit 0123abc, go1.26.0, linux/amd64)`.
func Text(program, version, commit string) string {
	text := program + " " + version
	if commit == "" {
		return text
	}
	return text + " (commit " + commit + ", " + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
}

// Number returns the stamped version, or else the version that `go install module@version` installed.
func Number(stamped string) string {
	if stamped != development {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return installed(info)
	}
	return stamped
}

// installed returns the release that the go command downloaded. For a build from a working tree,
// whose version the go command derives from the last commit, it returns development.
func installed(info *debug.BuildInfo) string {
	release := strings.TrimPrefix(info.Main.Version, "v")
	if info.Main.Sum == "" || release == "" {
		return development
	}
	return release
}
