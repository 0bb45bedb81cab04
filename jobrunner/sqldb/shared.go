package sqldb

// Shared tells that other processes may work on the same database.
func (db *DB) Shared() bool { return db.postgres != nil }

// Alone makes the transaction wait until no other one that was Alone by this
// name, in any process, is under way: from here on it sees what those did. It
// is the first thing that the transaction does. SQLite's are alone anyway.
func (tx *Tx) Alone(name string) error {
	if p, ok := tx.conn.(postgresTx); ok {
		return p.alone(name)
	}
	return nil
}

// Notify passes a hint of one line on to the other processes that Listen on
// this database. It returns at once; what was hinted at must be committed
// before. Hints are brought together, about every 10 ms, and may be lost: they
// make things quick, never right. On SQLite there is nobody to tell.
func (db *DB) Notify(hint string) {
	if db.postgres != nil {
		db.postgres.hints.add(hint)
	}
}

// Listen has f called with the hints of other processes, one at a time, until
// Close. It is called once. f is quick and does not use the database.
func (db *DB) Listen(f func(hint string)) {
	if db.postgres != nil {
		db.postgres.listen(f)
	}
}
