package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/flagfile"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/durable"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

const (
	keyFile     = "api-key" // in the data folder
	keyVariable = "GPUCLOUD_API_KEY"
)

// apiKey returns the deployment's key: from --api-key-file, GPUCLOUD_API_KEY or the data folder. If
// none has a key, it generates one and stores it in the data folder, readable only for its owner.
func apiKey(file, dir string) (key string, generated bool, err error) {
	key = os.Getenv(keyVariable)
	switch {
	case file != "" && key != "":
		return "", false, usageErrorf("--api-key-file (or GPUCLOUD_API_KEY_FILE) and %s exclude each other: choose one", keyVariable)
	case file != "":
		content, err := flagfile.Read(file)
		if err != nil {
			return "", false, usageErrorf("reading --api-key-file: %s", err)
		}
		key, err = parseKey("--api-key-file "+file, string(content))
		return key, false, err
	case key != "":
		key, err = parseKey(keyVariable, key)
		return key, false, err
	}
	if dir == "" {
		return rand.Text(), true, nil
	}
	path := filepath.Join(dir, keyFile)
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", false, fmt.Errorf("creating the data folder: %w", err)
		}
		err = durable.CreateFile(path, []byte(rand.Text()+"\n"))
		if generated = err == nil; err != nil && !errors.Is(err, os.ErrExist) { // another start may have created it meanwhile
			return "", false, fmt.Errorf("keeping the API key: %w", err)
		}
		content, err = os.ReadFile(path)
	}
	if err != nil {
		return "", false, fmt.Errorf("reading the API key: %w", err)
	}
	if key, err = parseKey(path, string(content)); err != nil {
		err = fmt.Errorf("%w; remove the file to get a new key", err)
	}
	return key, generated, err
}

// parseKey returns a key without surrounding white space. It rejects a key that clients can't send.
func parseKey(source, text string) (string, error) {
	key := strings.TrimSpace(text)
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", usageErrorf("invalid %s: expected one line with the key, of visible ASCII characters", source)
	}
	return key, nil
}

// minKey is the minimum length of a key with --allow-remote.
const minKey = 20

// checkKey rejects a short key with --allow-remote, because other machines could guess it.
func (s *serve) checkKey(key string) error {
	if n := utf8.RuneCountInString(key); s.AllowRemote && n < minKey {
		return usageErrorf("the API key has %d characters, and with --allow-remote other machines may guess it: put at least %d random ones (openssl rand -hex 20) into %s",
			n, minKey, cmp.Or(s.APIKeyFile, keyVariable+" or "+keyFile+" in the data folder"))
	}
	return nil
}

// keys manages the added keys, which are all except the deployment's own. A deployment with the same data folder
// or database applies changes within a second.
type keys struct {
	Add    addKey    `cmd:"" help:"Create a key and print it. It can't be shown again."`
	List   listKeys  `cmd:"" help:"List the keys by their names."`
	Remove removeKey `cmd:"" help:"Revoke a key."`
}

func (keys) Help() string {
	return `Examples:
  jobrunner keys add ci --jobs read
  jobrunner keys list
  jobrunner keys remove ci`
}

// keyStoreFlags select the store of a deployment's added keys.
type keyStoreFlags struct {
	Data          string `placeholder:"DIR" help:"Data folder of the deployment. Default: the default of serve."`
	databaseFlags `embed:""`
}

// withStore calls f with the deployment's keys.
func (o *keyStoreFlags) withStore(f func(apikey.Store) error) (err error) {
	url, err := o.databaseURL()
	if err != nil {
		return err
	}
	if url == "" {
		dir, err := dataDir(o.Data)
		if err != nil {
			return err
		}
		file := apikey.FileIn(dir)
		if err := file.CheckNotMoved(); err != nil {
			return err
		}
		if !sqldb.HasDatabase(dir) { // usually the deployment runs on another folder
			fmt.Fprintf(stderr, "No deployment has its state in %s: only a deployment with --keys %[1]s accepts these keys. To manage the keys of another one, name its folder with --data.\n", dir)
		}
		return f(file)
	}
	if o.Data != "" {
		return usageErrorf("--data and --engine (or GPUCLOUD_ENGINE, GPUCLOUD_ENGINE_FILE) exclude each other: the database has the keys of the whole deployment")
	}
	log := logger(stderr, "text")
	o.warnOfPassword(log)
	db, err := sqldb.Open(context.Background(), sqldb.Config{URL: url, Connections: sqldb.MinConnections, NoNotify: true, Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	table, err := apikey.OpenTable(context.Background(), db)
	if err != nil {
		return err
	}
	return f(table)
}

type addKey struct {
	keyStoreFlags `embed:""`
	Name          string         `arg:"" help:"Name of the key."`
	Owner         string         `help:"Owner of the key. Rate limits apply per owner. Default: the name."`
	Management    *apikey.Scope  `enum:"none,read,all" placeholder:"none|read|all" help:"Scope at the management API. Default: all; none with --endpoint."`
	Jobs          apikey.Scope   `enum:"none,read,all" default:"all" placeholder:"none|read|all" help:"Scope at the job API: read is for /status, /health and /requests. Default: all."`
	Endpoint      []string       `placeholder:"ID" sep:"none" help:"Restrict the key to the job API of this endpoint. May be repeated. Default: all endpoints."`
	Expires       *time.Duration `placeholder:"DURATION" help:"How long the key is accepted, such as 720h. Default: until it is removed."`
}

func (addKey) Help() string {
	return `Prints only the key on stdout.

Examples:
  jobrunner keys add alice
  jobrunner keys add ci --management none --endpoint vgu9pmhp1j06 --expires 720h
  export GPUCLOUD_API_KEY="$(jobrunner keys add laptop)"`
}

func (c *addKey) Run() error {
	newKey := apikey.Key{Name: c.Name, Owner: c.Owner, Management: *cmp.Or(c.Management, new(apikey.Scope)), Jobs: c.Jobs, Endpoints: c.Endpoint}
	if c.Expires != nil {
		if *c.Expires <= 0 {
			return usageErrorf("invalid --expires %s: expected a positive duration", c.Expires)
		}
		newKey.Expires = time.Now().Add(*c.Expires).UTC().Truncate(time.Second)
	}
	for _, id := range c.Endpoint {
		if !store.IsID(id) { // such as a name, which would match nothing
			return usageErrorf("invalid --endpoint %q: expected the endpoint's id, of %d digits and lowercase letters, such as vgu9pmhp1j06", id, store.IDLength)
		}
	}
	if err := newKey.Check(); err != nil {
		return usageErrorf("%s", err)
	}
	cli.SurviveClosedPipe()
	return c.withStore(func(keys apikey.Store) error {
		key, err := keys.Add(newKey)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(stdout, key); err != nil { // the user has not seen the key
			return errors.Join(err, keys.Remove(c.Name))
		}
		fmt.Fprintf(stderr, "This is the key of %s. Store it now: the deployment keeps only its hash.\n", c.Name)
		return nil
	})
}

type listKeys struct {
	keyStoreFlags `embed:""`
	JSON          bool `name:"json" help:"Print JSON, a line for each key. The keys themselves are not stored, only their hashes."`
}

func (listKeys) Help() string {
	return `Examples:
  jobrunner keys list
  jobrunner keys list --json
  jobrunner keys list --engine postgres://user@db.example.com:5432/jobs`
}

func (c *listKeys) Run() error {
	var list []apikey.Key
	err := c.withStore(func(keys apikey.Store) (err error) {
		list, err = keys.List()
		return err
	})
	if err != nil && len(list) == 0 {
		return err
	}
	if c.JSON {
		for _, key := range list {
			_ = printJSON(struct { // main reports a failed write
				apikey.Key
				Hash    any  `json:"sha256,omitempty"` // omits Key.Hash
				Expired bool `json:"expired"`
			}{Key: key, Expired: key.Expired(time.Now())})
		}
		return err
	}
	out := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "NAME\tOWNER\tMANAGEMENT\tJOBS\tENDPOINTS\tCREATED\tEXPIRES")
	for _, key := range list {
		endpoints := cmp.Or(strings.Join(key.Endpoints, " "), "all")
		expires := "never"
		if !key.Expires.IsZero() {
			expires = key.Expires.Format(time.RFC3339)
		}
		if key.Expired(time.Now()) {
			expires += " (expired)"
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", key.Name, key.Owner, key.Management, key.Jobs, endpoints, key.Created.Format(time.RFC3339), expires)
	}
	return errors.Join(out.Flush(), err)
}

type removeKey struct {
	keyStoreFlags `embed:""`
	Name          string `arg:"" help:"Name of the key."`
}

func (removeKey) Help() string {
	return `Examples:
  jobrunner keys remove ci
  jobrunner keys remove ci --data /var/lib/jobrunner`
}

func (c *removeKey) Run() error {
	return c.withStore(func(keys apikey.Store) error { return keys.Remove(c.Name) })
}
