package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

type kind struct {
	key   string // in the database
	label string // for messages
}

var (
	templates      = kind{"template", "template"}
	networkVolumes = kind{"networkVolume", "network volume"}
	registryAuths  = kind{"registryAuth", "registry auth"}
	endpoints      = kind{"endpoint", "endpoint"}
	delegations    = kind{"delegation", "delegation"}
	pods           = kind{"pod", "pod"}
	sshKeySets     = kind{"sshKeys", "set of SSH keys"}
	clusters       = kind{"cluster", "cluster"}
	secrets        = kind{"secret", "secret"}
	globalVolumes  = kind{"globalVolume", "global volume"}
)

// Head has the members that all records share.
type Head struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Created time.Time `json:"created"` // UTC, whole milliseconds
}

func (h *Head) head() *Head            { return h }
func (h *Head) refs() []string         { return nil }
func (h *Head) beforeInsert(*Tx) error { return nil }
func (h *Head) afterInsert(*Tx) error  { return nil }
func (h *Head) beforeDelete(*Tx) error { return nil }

// record is implemented by pointers to the stored types, such as *Endpoint.
type record interface {
	head() *Head
	kind() kind
	refs() []string // ids of the records that it refers to; each "" is ignored

	// The following run in the transaction of the change. An error rolls it back.

	beforeInsert(tx *Tx) error
	afterInsert(tx *Tx) error
	beforeDelete(tx *Tx) error
}

type Record[T any] interface {
	*T
	record
}

// load reads a record, which may be a built-in template.
func load(q sqldb.Querier, r record, id string) error {
	if t, ok := r.(*Template); ok && IsOfficial(id) {
		*t = OfficialTemplates()[officialIndex(id)]
		return nil
	}
	var doc []byte
	err := q.QueryRow("SELECT doc FROM objects WHERE id = ? AND kind = ?", id, r.kind().key).Scan(&doc)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s %q %w", r.kind().label, id, ErrNotFound)
	}
	if err != nil {
		return err
	}
	return decode(r.kind().label, doc, r)
}

func decode(label string, doc []byte, target any) error {
	if err := json.Unmarshal(doc, target); err != nil {
		return fmt.Errorf("a stored %s can't be read: %w", label, err)
	}
	return nil
}

// Get reads one record. The error wraps ErrNotFound if it doesn't exist.
func Get[T any, P Record[T]](ctx context.Context, s *Store, id string) (out T, err error) {
	err = s.db.Read(ctx, func(r *sqldb.Reader) error { return load(r, P(&out), id) })
	return out, err
}

// List reads all records of a kind, the oldest first.
func List[T any, P Record[T]](ctx context.Context, s *Store) ([]T, error) {
	k := P(nil).kind()
	out, _, err := documents[T](ctx, s, k.label, noLimit, "SELECT doc, seq FROM objects WHERE kind = ? ORDER BY seq", k.key)
	return out, err
}

// Page selects a page of a list that is sorted by age, the newest first.
type Page struct {
	Before int64 // position of the previous page's last record; math.MaxInt64 for the first page
	Limit  int
}

// ReadPage reads a page of a kind. next is the Before of the next page, or 0 on the last one.
func ReadPage[T any, P Record[T]](ctx context.Context, s *Store, p Page) (out []T, next int64, err error) {
	k := P(nil).kind()
	return readPage[T](ctx, s, k.label, p, "SELECT doc, seq FROM objects WHERE kind = ? AND seq < ? ORDER BY seq DESC LIMIT ?", k.key)
}

const (
	maxPageText = 16 << 20 // bytes of the documents of a page
	noLimit     = math.MaxInt
)

// readPage reads a page of the documents that query returns. The query's last two parameters are p.Before and a limit.
func readPage[T any](ctx context.Context, s *Store, label string, p Page, query string, args ...any) (out []T, next int64, err error) {
	out, positions, err := documents[T](ctx, s, label, maxPageText, query, append(args, p.Before, p.Limit+1)...)
	out = out[:min(len(out), p.Limit)]
	if len(out) < len(positions) {
		next = positions[len(out)-1]
	}
	return out, next, err
}

// documents decodes rows of a document and its position. The label is for errors. After maxText bytes, but not
// before the second row, it returns only positions.
func documents[T any](ctx context.Context, s *Store, label string, maxText int, query string, args ...any) (out []T, positions []int64, err error) {
	out = []T{}
	err = s.db.Each(ctx, func(row sqldb.Row) error {
		var doc sql.RawBytes
		var position int64
		if err := row.Scan(&doc, &position); err != nil {
			return err
		}
		positions = append(positions, position)
		if maxText -= len(doc); maxText < 0 && len(out) > 0 {
			return nil
		}
		var value T
		err := decode(label, doc, &value)
		out = append(out, value)
		return err
	}, query, args...)
	return out, positions, err
}

func Create[T any, P Record[T]](ctx context.Context, s *Store, r T) (T, error) {
	return Build[T, P](ctx, s, func(*Tx) (T, error) { return r, nil })
}

// Build stores the record that build returns, with a new id. build may read in tx, and may run more than once.
func Build[T any, P Record[T]](ctx context.Context, s *Store, build func(tx *Tx) (T, error)) (r T, err error) {
	err = s.write(ctx, func(tx *Tx) error {
		if r, err = build(tx); err != nil {
			return err
		}
		return tx.insert(P(&r))
	})
	return r, err
}

func Delete[T any, P Record[T]](ctx context.Context, s *Store, id string) error {
	if P(nil).kind() == templates && IsOfficial(id) {
		return errOfficial
	}
	return s.writeWithReservedSpace(ctx, func(tx *Tx) error {
		r := P(new(T))
		if err := load(tx.tx, r, id); err != nil {
			return err
		}
		if err := r.beforeDelete(tx); err != nil {
			return err
		}
		return tx.remove(r.kind(), id)
	})
}

func (tx *Tx) insert(r record) error {
	if err := r.beforeInsert(tx); err != nil {
		return err
	}
	h := r.head()
	h.ID, h.Created = newID(), tx.now
	doc, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = tx.tx.Exec("INSERT INTO objects (id, kind, name, doc) VALUES (?, ?, ?, ?)", h.ID, r.kind().key, h.Name, string(doc))
	if err != nil {
		return nameConflict(r, err)
	}
	tx.recordChange(r.kind(), h.ID)
	if err := tx.saveRefs(r); err != nil {
		return err
	}
	return r.afterInsert(tx)
}

func (tx *Tx) save(r record) error {
	doc, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = tx.tx.Exec("UPDATE objects SET name = ?, doc = ? WHERE id = ?", r.head().Name, string(doc), r.head().ID)
	if err != nil {
		return nameConflict(r, err)
	}
	if _, err := tx.tx.Exec("DELETE FROM refs WHERE owner = ?", r.head().ID); err != nil {
		return err
	}
	return tx.saveRefs(r)
}

// nameConflict converts the error of a taken or too long name to a Refusal or a Conflict.
func nameConflict(r record, err error) error {
	switch {
	case sqldb.IsUnique(err) && r.kind() == secrets:
		return Conflict(fmt.Sprintf("the name %q is taken by another secret: names of secrets must differ in more than upper and lower case", r.head().Name))
	case sqldb.IsUnique(err):
		return refusef("the name %q is taken by another %s: names of %ss are unique", r.head().Name, r.kind().label, r.kind().label)
	case sqldb.IsTooLong(err):
		return refusef("the name has %d bytes, which PostgreSQL can't index: choose a shorter one", len(r.head().Name))
	}
	return err
}

// update changes a record. change may run more than once.
func update[T any, P Record[T]](ctx context.Context, s *Store, id string, change func(tx *Tx, r P) error) (out T, err error) {
	err = s.write(ctx, func(tx *Tx) error {
		var r T
		if err := load(tx.tx, P(&r), id); err != nil {
			return err
		}
		if err := change(tx, &r); err != nil {
			return err
		}
		out = r
		return tx.save(P(&r))
	})
	return out, err
}

// saveRefs stores the references of r, so that the deletion of their targets can find r.
func (tx *Tx) saveRefs(r record) error {
	for _, target := range r.refs() {
		if target == "" {
			continue
		}
		_, err := tx.tx.Exec("INSERT INTO refs (target, owner) VALUES (?, ?) ON CONFLICT (target, owner) DO NOTHING", target, r.head().ID)
		if err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) remove(k kind, id string) error {
	tx.recordChange(k, id)
	_, err := tx.tx.Exec("DELETE FROM objects WHERE id = ? AND kind = ?", id, k.key)
	return err
}

// require rejects a reference to a record that doesn't exist.
func (tx *Tx) require(k kind, id string) error {
	found, err := column(tx.tx, "SELECT id FROM objects WHERE id = ? AND kind = ?", id, k.key)
	if err == nil && len(found) == 0 {
		return refusef("%s %q does not exist", k.label, id)
	}
	return err
}

// changeReferrers changes the records of a kind that refer to the target, without checks.
func changeReferrers[T any, P Record[T]](tx *Tx, target string, change func(r P)) error {
	ids, err := tx.referrers(P(nil).kind(), target)
	for _, id := range ids {
		r := P(new(T))
		if err := load(tx.tx, r, id); err != nil {
			return err
		}
		change(r)
		tx.recordChange(r.kind(), id)
		if err := tx.save(r); err != nil {
			return err
		}
	}
	return err
}

// referrers returns the ids of a kind's records that refer to the target.
func (tx *Tx) referrers(k kind, target string) ([]string, error) {
	return column(tx.tx, "SELECT o.id FROM refs r JOIN objects o ON o.id = r.owner WHERE r.target = ? AND o.kind = ? ORDER BY o.seq", target, k.key)
}

func column(q sqldb.Querier, query string, args ...any) (out []string, err error) {
	err = q.Each(func(row sqldb.Row) error {
		var value string
		err := row.Scan(&value)
		out = append(out, value)
		return err
	}, query, args...)
	return out, err
}
