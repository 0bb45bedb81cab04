package apikey_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

// A request is authorized only with a key of the deployment, with or without the scheme.
func FuzzAuthorize(f *testing.F) {
	dir := f.TempDir()
	file := apikey.At(dir)
	scoped := must.Do(file.Add(apikey.Key{Name: "scoped", Endpoints: []string{"ep"}}))(f)
	keys := must.Do(apikey.New("the-own-key").With(file, time.Now, slog.New(slog.DiscardHandler)))(f)
	fuzz.Run(f, func(t *testing.T, header string) {
		header = strings.ReplaceAll(header, "$SCOPED", scoped)
		sent := strings.TrimSpace(header)
		if len(sent) > 6 && strings.EqualFold(sent[:6], "bearer") && sent[6] == ' ' {
			sent = strings.TrimSpace(sent[7:])
		}
		who, err := keys.Authorize(&http.Request{Header: http.Header{"Authorization": {header}}})
		switch {
		case sent == "the-own-key" && (err != nil || !reflect.DeepEqual(who, apikey.Identity{Owner: apikey.Default, Management: apikey.All, Jobs: apikey.All})),
			sent == scoped && (err != nil || !reflect.DeepEqual(who, apikey.Identity{Owner: "scoped", Management: apikey.None, Jobs: apikey.All, Endpoints: []string{"ep"}})),
			sent != scoped && sent != "the-own-key" && err == nil:
			t.Errorf("%q is authorized as %+v, %v", header, who, err)
		}
		must.Hold(t, err == nil || !strings.Contains(err.Error(), "the-own-key"), header, "the error has the key")
	},
		fuzz.Seed{"Bearer the-own-key"}, fuzz.Seed{"the-own-key"}, fuzz.Seed{"bearer  $SCOPED "}, fuzz.Seed{"Basic the-own-key"}, fuzz.Seed{"Bearer"}, fuzz.Seed{""}, fuzz.Seed{"Bearer Bearer the-own-key"},
	)
}

// For any content of the keys' file, only the keys of its entries are authorized, and a deployment
// doesn't start with an unreadable file.
func FuzzKeysFile(f *testing.F) {
	dir := f.TempDir()
	file := apikey.At(dir)
	added := must.Do(file.Add(apikey.Key{Name: "name", Endpoints: []string{"ep"}}))(f)
	good := must.ReadFile(f, filepath.Join(dir, apikey.FileName))
	hash := string(good[bytes.Index(good, []byte(`"sha256": "`))+11:][:64])
	fuzz.Run(f, func(t *testing.T, text string) {
		dir := t.TempDir()
		must.Succeed(t, os.WriteFile(filepath.Join(dir, apikey.FileName), []byte(strings.ReplaceAll(text, "$HASH", hash)), 0o600))
		listed, err := apikey.At(dir).List()
		if err != nil {
			must.Hold(t, must.Err(apikey.New("own").With(apikey.At(dir), time.Now, slog.New(slog.DiscardHandler))) != nil, text, "a deployment starts with the file")
			return
		}
		keys := must.Do(apikey.New("own").With(apikey.At(dir), time.Now, slog.New(slog.DiscardHandler)))(t)
		var want apikey.Identity
		for _, key := range listed {
			if h, _ := key.Hash.MarshalText(); string(h) == hash {
				want = apikey.Identity{Owner: key.Owner, Management: key.Management, Jobs: key.Jobs, Endpoints: key.Endpoints}
				if key.Expired(time.Now()) {
					want = apikey.Identity{}
				}
			}
		}
		who, err := keys.Authorize(requestWith(added))
		must.Hold(t, err != nil || reflect.DeepEqual(who, want), text, "the key is", who, err, "expected", want)
		must.Hold(t, must.Err(keys.Authorize(requestWith("another"))) != nil, text, "a key that is not in the file is authorized")
	},
		fuzz.Seed{strings.ReplaceAll(string(good), hash, "$HASH")}, fuzz.Seed{`{"keys":[]}`},
		fuzz.Seed{`{"keys":[{"name":"a","owner":"o","sha256":"$HASH","management":"read","jobs":"none","created":"2026-01-01T00:00:00Z","expires":"2026-01-02T00:00:00Z"}]}`},
		fuzz.Seed{`{"keys":[{"name":"a","sha256":"$HASH","jobs":"some"}]}`},
		fuzz.Seed{`{"keys":[{"name":"a","sha256":"$HASH","created":"2026-01-01T00:00:00Z"},{"name":"b","sha256":"$HASH","endpoints":["x"],"created":"2026-01-01T00:00:00Z"}]}`},
	)
}
