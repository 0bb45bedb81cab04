package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
)

// Numbers of connections of one process. A third of them are for reads. One more connection
// listens for other processes' hints (DB.Notify). By default a server allows 100 connections, enough for three processes.
const (
	DefaultConnections = 24
	MinConnections     = 3
)

// Retries after a conflict with another transaction or a broken connection, and timeouts.
const (
	maxTries       = 6
	retryBackoff   = 10 * time.Millisecond // doubled after each try
	connectTimeout = 5 * time.Second

	// While the server is unavailable, retries end after this time, so that the outage is reported.
	retryTimeout = 2 * time.Second
	// acquireTimeout limits the wait for a connection of the pool.
	acquireTimeout = 10 * time.Second
	// responseTimeout is how long the server may take to respond.
	responseTimeout = 20 * time.Second
)

// With these times both ends detect a broken connection within half a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// The server caches the plan of a prepared statement. A plan made while a table was small
// would scan the whole table as long as the connection lives, so enable_seqscan is off. This
// setting adds a high cost to scans, which would start the JIT compiler, so jit is off, too.
const sessionSetUp = "SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;" +
	"SET enable_seqscan = off; SET jit = off;"

// A process that hangs within a transaction (SIGSTOP, a suspended machine) must not block other
// processes with its locks. When it continues, its transaction runs again (isConflict).
const writerSetUp = sessionSetUp + "SET idle_in_transaction_session_timeout = '5s'"

// postgres is a database on a server that other processes share.
type postgres struct {
	config     *pgx.ConnConfig
	dial       pgconn.DialFunc // without responseTimeout
	name       string          // for messages, without the password
	writers    *sql.DB
	readers    *sql.DB
	readersMax int
	hints      *hints
	texts      sync.Map // translated statements, by the program's statements

	migrations atomic.Int32 // in progress; responseTimeout doesn't apply

	calls  sync.RWMutex // held for reading by each call
	closed bool
}

func openPostgres(ctx context.Context, c Config) (*postgres, error) {
	config, name, err := parsePostgres(c.URL)
	if err != nil {
		return nil, err
	}
	p := &postgres{config: config, name: name}
	p.limitResponseTime()
	p.readersMax = max(1, cmp.Or(c.Connections, DefaultConnections)/3)
	p.writers = p.pool(max(1, cmp.Or(c.Connections, DefaultConnections)-p.readersMax), writerSetUp)
	p.readers = p.pool(p.readersMax, sessionSetUp+"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
	p.hints = &hints{disabled: c.NoNotify, sender: uuid.NewString(), isPending: map[string]bool{}, added: make(chan struct{}, 1)}
	p.hints.ctx, p.hints.stop = context.WithCancel(context.Background())
	if err := p.check(ctx, c.NoSync); err != nil {
		explained := p.explain(err)
		if e, ok := errors.AsType[*pgconn.PgError](err); ok && (strings.HasPrefix(e.Code, "28") || e.Code == "3D000") {
			explained = fmt.Errorf("the server refuses the connection: %s", e.Message)
		}
		return nil, errors.Join(fmt.Errorf("opening the database %s: %w", name, explained), p.close())
	}
	return p, nil
}

// CheckURL returns what is wrong with the URL of a database, or nil. It doesn't connect.
func CheckURL(address string) error {
	_, _, err := parsePostgres(address)
	return err
}

// parsePostgres parses the URL. Its errors don't quote the invalid part, which may be the password.
func parsePostgres(address string) (config *pgx.ConnConfig, name string, err error) {
	config, err = pgx.ParseConfig(address)
	reason := "" // of an error of the form "cannot parse `URL`: reason (details)"
	if err != nil {
		reason = strings.TrimPrefix(err.Error()[strings.LastIndex(err.Error(), "`")+1:], ": ")
	}
	scheme, _, _ := strings.Cut(address, "://")
	if scheme != "postgres" && scheme != "postgresql" || strings.HasPrefix(reason, "failed to parse") || reason == "invalid port" {
		return nil, "", errors.New("the address of the database is not understood: write it like postgres://user:password@host:5432/name, " +
			"with special characters of the password percent-encoded, such as %40 for @")
	}
	if err != nil {
		if !strings.Contains(reason, "TLS") { // its details are about certificates and files
			reason, _, _ = strings.Cut(reason, " (")
		}
		return nil, "", fmt.Errorf("the address of the database: %s", reason)
	}
	config.DialFunc = (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext
	config.ConnectTimeout = cmp.Or(config.ConnectTimeout, connectTimeout)
	config.RuntimeParams["application_name"] = cmp.Or(config.RuntimeParams["application_name"], "gpucloud jobrunner")
	return config, fmt.Sprintf("%s on %s", config.Database, net.JoinHostPort(config.Host, fmt.Sprint(config.Port))), nil
}

func (p *postgres) pool(size int, setUp string) *sql.DB {
	pool := stdlib.OpenDB(*p.config, stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, setUp)
		return err
	}))
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	return pool
}

// check rejects a server that may lose commits that it has acknowledged, or that can't store the tables.
func (p *postgres) check(ctx context.Context, noSync bool) error {
	for _, setting := range []string{"synchronous_commit", "fsync"} {
		var value string
		if err := p.writers.QueryRowContext(ctx, "SHOW "+setting).Scan(&value); err != nil {
			return err
		}
		if value == "off" && !noSync {
			return fmt.Errorf("%s is off, so the server may lose acknowledged jobs: turn it on there, or accept this with --fsync=normal", setting)
		}
	}
	var readOnly, creates bool
	const rights = `SELECT current_setting('transaction_read_only') = 'on',
		to_regclass('meta') IS NOT NULL OR COALESCE(has_schema_privilege(current_schema(), 'CREATE'), FALSE)`
	switch err := p.writers.QueryRowContext(ctx, rights).Scan(&readOnly, &creates); {
	case err != nil:
		return err
	case readOnly:
		return errors.New("the server is read-only, such as a standby: name the primary")
	case !creates:
		return fmt.Errorf("the user %s can't create tables: create the schema of search_path, or grant CREATE on it", p.config.User)
	}
	return nil
}

// beginCall takes the read lock of p.calls, which the caller must release, or returns ErrClosed.
func (p *postgres) beginCall() error {
	p.calls.RLock()
	if p.closed {
		p.calls.RUnlock()
		return ErrClosed
	}
	return nil
}

// write runs fn in a transaction. If the server rolled it back because of a conflict, or the
// connection broke before the commit, fn runs again.
func (p *postgres) write(ctx context.Context, fn func(*Tx) error, _ bool) error {
	if err := p.beginCall(); err != nil {
		return err
	}
	defer p.calls.RUnlock()
	start := time.Now()
	for try, pause := 1, retryBackoff; ; try, pause = try+1, pause*2 {
		retry, err := p.transact(ctx, fn)
		if !retry || try == maxTries || time.Since(start) > retryTimeout && !isConflict(err) {
			return p.explain(err)
		}
		if clock.RealSleep(ctx, pause/2+rand.N(pause)) != nil {
			return p.explain(err)
		}
	}
}

// transact runs fn once. It reports retry if nothing was changed and another try may succeed.
func (p *postgres) transact(ctx context.Context, fn func(*Tx) error) (retry bool, err error) {
	conn, err := acquire(ctx, p.writers)
	if err != nil {
		return ctx.Err() == nil && isUnavailable(err), err
	}
	defer func() { _ = conn.Close() }() // back to the pool
	connErr := conn.Raw(func(c any) error {
		tx := &postgresTx{db: p, conn: c.(*stdlib.Conn).Conn()}
		retry, err = tx.run(fn)
		return nil // the pool detects a broken connection itself
	})
	if connErr != nil { // the connection was broken before the first statement
		return isUnavailable(connErr), connErr
	}
	return retry, err
}

func (p *postgres) read(ctx context.Context, fn func(*Reader) error) error {
	if err := p.beginCall(); err != nil {
		return err
	}
	defer p.calls.RUnlock()
	return p.explain(fn(&Reader{postgresReader{p, ctx}}))
}

// beginMigration suspends responseTimeout, because migrating a large table can take long.
func (p *postgres) beginMigration() (done func()) {
	p.migrations.Add(1)
	return func() { p.migrations.Add(-1) }
}

func (p *postgres) shared() bool       { return true }
func (p *postgres) notify(hint string) { p.hints.add(hint) }

func (p *postgres) close() error {
	p.calls.Lock()
	p.closed = true
	p.calls.Unlock()
	p.hints.stop()
	p.hints.goroutines.Wait()
	return errors.Join(p.writers.Close(), p.readers.Close())
}

// translate translates a statement for the server, once.
func (p *postgres) translate(query string) string {
	if text, ok := p.texts.Load(query); ok {
		return text.(string)
	}
	text := forPostgres(query)
	p.texts.Store(query, text)
	return text
}

// storableTexts replaces U+0000 and bytes that aren't UTF-8, which PostgreSQL can't store,
// with U+FFFD. No id has U+FFFD, so an invalid id matches no row.
func storableTexts(args []any) []any {
	for i, arg := range args {
		if s, ok := arg.(string); ok && (strings.ContainsRune(s, 0) || !utf8.ValidString(s)) {
			args = append([]any(nil), args...)
			args[i] = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
		}
	}
	return args
}

type postgresReader struct {
	db  *postgres
	ctx context.Context // limits the wait for a connection
}

// query retries on another connection if a connection is broken.
func (s postgresReader) query(row func(Row) error, query string, args ...any) error {
	start := time.Now()
	begun, err := s.tryQuery(row, query, args)
	for try := 1; err != nil && !begun && try <= s.db.readersMax && s.ctx.Err() == nil && time.Since(start) <= retryTimeout && isUnavailable(err); try++ {
		begun, err = s.tryQuery(row, query, args)
	}
	return err
}

// tryQuery runs a query once. It reports begun if it may have called row: another try could repeat a row.
func (s postgresReader) tryQuery(row func(Row) error, query string, args []any) (begun bool, err error) {
	conn, err := acquire(s.ctx, s.db.readers)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }() // back to the pool
	rows, err := conn.QueryContext(context.WithoutCancel(s.ctx), s.db.translate(query), storableTexts(args)...)
	if err != nil {
		return false, err
	}
	defer func() { _ = rows.Close() }() // Err has the error of reading
	for rows.Next() {
		if err := row(rows); err != nil {
			return true, err
		}
	}
	return true, rows.Err()
}

// acquire acquires a connection of the pool. It returns errBusy after acquireTimeout.
func acquire(ctx context.Context, pool *sql.DB) (*sql.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	conn, err := pool.Conn(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, errBusy
	}
	return conn, err
}

// limitResponseTime breaks connections on which the server doesn't respond within
// responseTimeout, because it hangs or the network drops packets.
func (p *postgres) limitResponseTime() {
	p.dial = p.config.DialFunc
	p.config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := p.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &deadlineConn{Conn: conn, db: p}, nil
	}
}

// deadlineConn sets a deadline at each write, within which the response must arrive.
type deadlineConn struct {
	net.Conn
	db *postgres
}

func (c *deadlineConn) Write(b []byte) (int, error) {
	deadline := time.Now().Add(responseTimeout)
	if c.db.migrations.Load() > 0 {
		deadline = time.Time{}
	}
	if err := c.SetDeadline(deadline); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
