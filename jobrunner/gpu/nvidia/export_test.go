//go:build linux && cgo

package nvidia

// OpenLibrary is Open over any library, which a mock may be.
var OpenLibrary = open
