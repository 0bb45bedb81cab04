// Command small is a program that compiles in a moment.
package main

var version string

func main() { print(version) }
