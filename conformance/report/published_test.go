package report_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// keyPair returns a key pair in PEM.
func keyPair(t *testing.T) (private, public []byte) {
	t.Helper()
	publicKey, privateKey, err := ed25519.GenerateKey(nil)
	must.Succeed(t, err)
	privateDER, err := x509.MarshalPKCS8PrivateKey(privateKey)
	must.Succeed(t, err)
	publicDER, err := x509.MarshalPKIXPublicKey(publicKey)
	must.Succeed(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: privateDER}), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER})
}

// A signature is valid for one report and one key.
func TestSignature(t *testing.T) {
	private, public := keyPair(t)
	_, other := keyPair(t)
	text := []byte(written("json", sample()))
	signature := must.Do(report.Sign(text, private))(t)
	changed := []byte(strings.Replace(string(text), `"FAIL"`, `"PASS"`, 1))
	for name, c := range map[string]struct {
		text, signature, key []byte
		valid                bool
	}{
		"the report":       {text, signature, public, true},
		"a changed report": {changed, signature, public, false},
		"another key":      {text, signature, other, false},
		"no signature":     {text, nil, public, false},
		"no key":           {text, signature, []byte("key"), false},
		"the private key":  {text, signature, private, false},
	} {
		err := report.Verify(c.text, c.signature, c.key)
		must.Hold(t, (err == nil) == c.valid, name, err)
	}
	for _, key := range [][]byte{nil, public, []byte("key")} {
		must.Hold(t, must.Err(report.Sign(text, key)) != nil, "signed with", string(key))
	}
}

// A comparison has a column for each report, marks differences, and escapes texts of the
// target.
func TestComparison(t *testing.T) {
	first, other := sample(), sample()
	first.Implementation = &report.Implementation{Name: "one " + hostile, Version: "3.4"}
	other.Results = other.Results[1:]
	other.Results[0].Verdict, other.Results[0].Failure = report.Pass, nil
	var b strings.Builder
	must.Succeed(t, report.WriteComparison(&b, []*report.Report{first, other}))
	page := b.String()
	must.Contain(t, page, "3.4", "gpus.example.com", "not in the report", "JOB-02", "FAIL", "PASS", "2026-03-04")
	n := strings.Count(page, `<tr class="differ">`)
	must.Hold(t, n == 2 && !strings.Contains(page, "<script>") && !strings.Contains(page, "<img"), n, "rows differ, or the page has markup of the target", page)
}

// CTRF counts each clause once.
func TestCTRF(t *testing.T) {
	r := sample()
	var got struct {
		ReportFormat string
		Results      struct {
			Summary map[string]int64
			Tests   []struct{ Name, Status string }
		}
	}
	must.Succeed(t, json.Unmarshal([]byte(written("ctrf", r)), &got))
	s := got.Results.Summary
	if got.ReportFormat != "CTRF" || len(got.Results.Tests) != len(r.Results) || s["passed"]+s["failed"]+s["skipped"]+s["pending"]+s["other"] != s["tests"] || s["failed"] != 3 || s["stop"] <= s["start"] {
		t.Errorf("%+v", got)
	}
}
