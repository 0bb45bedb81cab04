package lite

import (
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"
)

// buffer is memory that SQLite may read: that of Go's own values moves when a
// stack grows.
type buffer struct {
	at   uintptr
	size int
}

// What a buffer keeps for the next statement, and has at least.
const (
	keptBuffer  = 64 << 10
	firstBuffer = 4 << 10
)

// room is the buffer's beginning, when it has so many bytes.
func (b *buffer) room(tls *libc.TLS, size int) (uintptr, error) {
	if size <= b.size && b.at != 0 {
		return b.at, nil
	}
	b.free(tls)
	size = max(size, firstBuffer)
	if b.at = libc.Xmalloc(tls, libcSize(uintptr(size))); b.at == 0 {
		return 0, &Error{sqlite3.SQLITE_NOMEM, "out of memory"}
	}
	b.size = size
	return b.at, nil
}

// shrink frees a buffer that a large value left.
func (b *buffer) shrink(tls *libc.TLS) {
	if b.size > keptBuffer {
		b.free(tls)
	}
}

func (b *buffer) free(tls *libc.TLS) {
	if b.at != 0 {
		libc.Xfree(tls, b.at)
	}
	b.at, b.size = 0, 0
}

func libcSize(n uintptr) types.Size_t { return types.Size_t(n) }

// at reads memory of the library by its address.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// bytesAt are n bytes of the library's memory, valid until its next call.
func bytesAt(address uintptr, n int) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice(at[byte](address), n)
}

// Reserve gives a database in memory its whole size at once. SQLite would double its
// memory and copy it, and the allocator keeps what is freed: together that is twice
// the database. The system provides a page when it is first written. Without the
// address space for it, the database grows as before.
func (c *Conn) Reserve(size int64) {
	name, err := libc.CString("main")
	if err != nil {
		return
	}
	defer libc.Xfree(c.tls, name)
	if sqlite3.Xsqlite3_file_control(c.tls, c.db, name, sqlite3.SQLITE_FCNTL_FILE_POINTER, c.out) != sqlite3.SQLITE_OK {
		return
	}
	store := at[sqlite3.TMemStore](at[sqlite3.TMemFile](*at[uintptr](c.out)).FpStore)
	if store.FszAlloc >= size {
		return
	}
	if data := sqlite3.Xsqlite3_realloc64(c.tls, store.FaData, sqlite3.Tsqlite3_uint64(size)); data != 0 {
		store.FaData, store.FszAlloc = data, size
	}
}
