// Package programversion is the text with which a program says which release it is.
package programversion

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// development is the version of a program that no release build has stamped.
const development = "dev"

// Text says the version and, where the build has stamped it, the commit and the platform
// that the program is built for: `jobrunner 1.2.3 (commit 0123abc, go1.26.0, linux/amd64)`.
func Text(program, version, commit string) string {
	text := program + " " + version
	if commit == "" {
		return text
	}
	return text + " (commit " + commit + ", " + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
}

// Number is the stamped version, else the one that `go install module@version` was asked
// for.
func Number(stamped string) string {
	if stamped != development {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return installed(info)
	}
	return stamped
}

// installed is the release that the go command has fetched. A build from a working tree,
// which go names after the last commit, remains a development build.
func installed(info *debug.BuildInfo) string {
	release := strings.TrimPrefix(info.Main.Version, "v")
	if info.Main.Sum == "" || release == "" {
		return development
	}
	return release
}
