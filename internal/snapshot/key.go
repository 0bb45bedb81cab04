package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
)

// key is a key for one snapshot, in a home of its own: it proves that what is signed can be
// verified, and nothing else.
type key struct{ home, fingerprint string }

var fingerprint = regexp.MustCompile(`(?m)^fpr:+([0-9A-F]{40}):`)

func newKey(ctx context.Context) (k key, err error) {
	// The agent's socket needs a short path.
	if k.home, err = os.MkdirTemp("", "gpg-"); err != nil {
		return k, err
	}
	defer func() {
		if err != nil {
			k.remove()
		}
	}()
	// The registry accepts RSA and DSA alone.
	if _, err = k.gpg(ctx, "--passphrase=", "--quick-generate-key", "Snapshot, not a release <snapshot@example.invalid>", "rsa3072", "sign", "1d"); err != nil {
		return k, err
	}
	list, err := k.gpg(ctx, "--with-colons", "--list-keys")
	if err != nil {
		return k, err
	}
	found := fingerprint.FindSubmatch(list)
	if found == nil {
		return k, fmt.Errorf("gpg lists no key: %s", list)
	}
	k.fingerprint = string(found[1])
	public, err := k.gpg(ctx, "--armor", "--export")
	if err != nil {
		return k, err
	}
	if err = os.MkdirAll("bin", 0o755); err != nil {
		return k, err
	}
	return k, os.WriteFile("bin/snapshot-key.asc", public, 0o644) //nolint:gosec // the public half
}

func (k key) gpg(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "gpg", append([]string{"--homedir", k.home, "--batch", "--quiet"}, args...)...) //nolint:gosec // our own arguments
	out, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); err != nil && errors.As(err, &failed) {
		return out, fmt.Errorf("gpg: %w: %s", err, failed.Stderr)
	}
	return out, err
}

// remove ends the agent, too, which gpg has started.
func (k key) remove() {
	_ = exec.Command("gpgconf", "--homedir", k.home, "--kill", "all").Run() //nolint:noctx,gosec // also after an interrupt
	_ = os.RemoveAll(k.home)
}
