// Command small is a program that compiles fast.
package main

var version string

func main() { print(version) }
