package mgmt

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// authorized accepts "Authorization: Bearer <key>", the scheme in any case, and
// the bare key, which some clients send (service description, Authentication).
// How long the comparison takes says nothing about the key.
func authorized(r *http.Request, key string) bool {
	sent := strings.TrimSpace(r.Header.Get("Authorization"))
	if scheme, rest, ok := strings.Cut(sent, " "); ok && strings.EqualFold(scheme, "Bearer") {
		sent = strings.TrimSpace(rest)
	}
	got, want := sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(key))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && key != ""
}
