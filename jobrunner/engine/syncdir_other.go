//go:build !unix

package engine

// syncDir is a no-op, because these systems flush the directory with the file.
func syncDir(string) error { return nil }
