//go:build !unix

package apikey

import "os"

// giveToOwner is a no-op: on these systems the folder's permissions decide who may read.
func giveToOwner(*os.File) error { return nil }
