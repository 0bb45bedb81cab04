// Package nvidia reads the machine's GPUs through NVML, the library of NVIDIA's driver. It is a
// separate package because NVML needs cgo, and a linker option for functions that are missing until
// they are called: programs that don't use GPUs, such as tests, need neither.
package nvidia
