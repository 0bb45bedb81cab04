//go:build !linux

package main

// clockState is unknown on this system.
func clockState() (known, synchronized bool) { return false, false }
