//go:build !linux

package main

func clockState() (known, synchronized bool) { return false, false }
