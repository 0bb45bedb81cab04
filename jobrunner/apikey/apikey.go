// Package apikey tells who may ask, for every API of the jobrunner.
package apikey

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// Authorized accepts "Authorization: Bearer <key>", the scheme in any case, and
// the bare key, which workers and some clients send (service description,
// Authentication; field notes: bare key). How long the comparison takes says
// nothing about the key. An empty key opens nothing.
func Authorized(r *http.Request, key string) bool {
	sent := strings.TrimSpace(r.Header.Get("Authorization"))
	if scheme, rest, ok := strings.Cut(sent, " "); ok && strings.EqualFold(scheme, "Bearer") {
		sent = strings.TrimSpace(rest)
	}
	got, want := sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(key))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && key != ""
}
