package main

// ballast counts in the size of the heap, so that the collector, which runs when
// the heap has doubled, does not run again and again while little lives: SQLite's
// memory is not in the heap, and what a request leaves is small. Nobody writes to
// it, so the system gives no memory for it.
var ballast = make([]byte, 32<<20)
