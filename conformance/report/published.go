package report

import (
	"cmp"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Implementation names what was judged.
type Implementation struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Contact string `json:"contact,omitempty"` // a URL or an address
}

// Document is a document that clauses come from.
type Document struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Date    string `json:"date,omitempty"` // of our copy: 2026-08 or 2026-08-18
}

// Sign returns the Ed25519 signature of a file. The private key is PEM (PKCS #8, for
// example from openssl genpkey -algorithm ed25519).
func Sign(file, key []byte) ([]byte, error) {
	der, err := pemBlock(key, "PRIVATE KEY")
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	private, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, errors.New("the key is not an Ed25519 key: create one with openssl genpkey -algorithm ed25519")
	}
	return ed25519.Sign(private, file), nil
}

// Verify checks the signature of a file. The public key is PEM (for example from openssl pkey -pubout).
func Verify(file, signature, key []byte) error {
	der, err := pemBlock(key, "PUBLIC KEY")
	if err != nil {
		return err
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	public, ok := parsed.(ed25519.PublicKey)
	if err != nil || !ok {
		return errors.New("the key is not an Ed25519 key")
	}
	if !ed25519.Verify(public, file, signature) {
		return errors.New("the signature does not belong to this report and this key")
	}
	return nil
}

func pemBlock(text []byte, kind string) ([]byte, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("the key is not a PEM file with a %s", kind)
	}
	return block.Bytes, nil
}

// WriteComparison writes a page with a column for each report and a row for each clause.
func WriteComparison(w io.Writer, reports []*Report) error {
	type row struct {
		Result
		Cells  []*Result // by report; nil if the report doesn't have the clause
		Differ bool
	}
	var rows []row
	for column, r := range reports {
		for i := range r.Results {
			x := &r.Results[i]
			rowIndex := slices.IndexFunc(rows, func(r row) bool { return r.Clause == x.Clause })
			if rowIndex < 0 {
				rowIndex = len(rows)
				rows = append(rows, row{Result: *x, Cells: make([]*Result, len(reports))})
			}
			rows[rowIndex].Cells[column] = x
		}
	}
	for i := range rows {
		cells := rows[i].Cells
		rows[i].Differ = slices.ContainsFunc(cells, func(x *Result) bool { return verdictText(x) != verdictText(cells[0]) })
	}
	return pageTemplate.ExecuteTemplate(w, "comparison.html", map[string]any{"Reports": reports, "Rows": rows})
}

func (r *Report) Title() string {
	if i := r.Implementation; i != nil {
		return i.Name + map[bool]string{true: " " + i.Version}[i.Version != ""]
	}
	return cmp.Or(r.Target.Address(), "local")
}
