package main

// ballast enlarges the heap, so that the garbage collector, which runs when the heap
// has doubled, does not run all the time while the live heap is small. SQLite's memory
// is not in the heap, and a request leaves little. The ballast is never written, so
// the system allocates no memory for it.
var ballast = make([]byte, 32<<20)
