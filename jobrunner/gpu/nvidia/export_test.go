//go:build linux && cgo

package nvidia

// OpenLibrary is Open with another library, such as a mock.
var OpenLibrary = open
