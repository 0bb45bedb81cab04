package store

import (
	"crypto/rand"
	"slices"
)

const (
	idAlphabet = "0123456789abcdefghijklmnopqrstuvwxyz"
	idLength   = 12
)

// Reserved are the first path segments after /v2 that name resources of the
// management API; what else stands there is the id of an endpoint.
var Reserved = []string{
	"account", "billing", "catalog", "clusters", "network-volumes", "openapi.json",
	"pods", "registries", "serverless", "templates",
}

// newID makes an id that no other object has (62 random bits) and that no path
// of the API has another meaning for.
func newID() string {
	for {
		id := make([]byte, 0, idLength)
		var random [2 * idLength]byte
		_, _ = rand.Read(random[:]) // never fails
		for _, b := range random {
			if int(b) < 256/len(idAlphabet)*len(idAlphabet) && len(id) < idLength {
				id = append(id, idAlphabet[int(b)%len(idAlphabet)])
			}
		}
		if len(id) == idLength && !slices.Contains(Reserved, string(id)) {
			return string(id)
		}
	}
}
