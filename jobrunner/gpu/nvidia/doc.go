// Package nvidia reads the machine's GPUs through NVML, the library of NVIDIA's driver. It is a
// separate package because NVML needs cgo, and a linker option that leaves functions unresolved
// until they are called. Programs that don't use GPUs, such as tests, need neither.
package nvidia
