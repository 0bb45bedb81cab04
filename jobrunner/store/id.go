package store

import (
	"crypto/rand"
	"slices"
	"strings"
)

const idAlphabet = "0123456789abcdefghijklmnopqrstuvwxyz"

// IDLength is the length of an object's id.
const IDLength = 12

// IsID reports whether a text has the form of an object's id.
func IsID(text string) bool {
	return len(text) == IDLength && strings.Trim(text, idAlphabet) == ""
}

// Reserved lists the path segments after /v2 that belong to the management API. Any other
// segment is the id of an endpoint.
var Reserved = []string{
	"account", "billing", "catalog", "clusters", "global-volumes", "network-volumes", "openapi.json",
	"organization", "pods", "registries", "serverless", "templates",
}

// newID returns a random id (62 bits) that isn't Reserved.
func newID() string {
	for {
		id := make([]byte, 0, IDLength)
		var random [2 * IDLength]byte
		_, _ = rand.Read(random[:]) // never fails
		for _, b := range random {
			if int(b) < 256/len(idAlphabet)*len(idAlphabet) && len(id) < IDLength {
				id = append(id, idAlphabet[int(b)%len(idAlphabet)])
			}
		}
		if len(id) == IDLength && !slices.Contains(Reserved, string(id)) {
			return string(id)
		}
	}
}
