package lite

import (
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"
)

// buffer is memory for SQLite outside of Go's heap and stacks, where values can move.
type buffer struct {
	address uintptr
	size    int
}

// A buffer has at least minBuffer bytes. If it has more than maxBuffer, it is freed after its statement.
const (
	maxBuffer = 64 << 10
	minBuffer = 4 << 10
)

// grow grows the buffer to at least size bytes, which drops its content, and returns its address.
func (b *buffer) grow(tls *libc.TLS, size int) (uintptr, error) {
	if size <= b.size && b.address != 0 {
		return b.address, nil
	}
	b.free(tls)
	size = max(size, minBuffer)
	if b.address = libc.Xmalloc(tls, types.Size_t(size)); b.address == 0 {
		return 0, &Error{sqlite3.SQLITE_NOMEM, "out of memory"}
	}
	b.size = size
	return b.address, nil
}

func (b *buffer) free(tls *libc.TLS) {
	if b.address != 0 {
		libc.Xfree(tls, b.address)
	}
	b.address, b.size = 0, 0
}

// pointerTo converts an address of the library's memory to a pointer.
func pointerTo[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// bytesAt returns n bytes of the library's memory, which are valid until its next call.
func bytesAt(address uintptr, n int) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice(pointerTo[byte](address), n)
}
