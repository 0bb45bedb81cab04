// Package site checks the documentation as a website: make site.
package site

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// page is what the check knows of a page.
type page struct {
	ids   map[string]bool
	links []string // of pages and anchors
	loads []string // scripts, styles, pictures
	texts []string // paragraphs
}

// Every link of the site leads somewhere, its anchor included; every page is in the
// navigation; nothing is loaded from another host; and what is a list or a table in the
// source is one on the page.
func TestSite(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if out, err := build(t, root, dir); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	pages := readPages(t, dir)
	if len(pages) < 50 {
		t.Errorf("%d pages", len(pages))
	}
	reached := map[string]bool{}
	for name, p := range pages {
		for _, link := range p.links {
			target, anchor, local := resolve(t, name, link)
			if !local {
				continue
			}
			other, ok := pages[target]
			if _, err := os.Stat(filepath.Join(dir, target)); err != nil {
				t.Errorf("%s links %s, which does not exist", name, link)
			} else if ok && anchor != "" && !other.ids[anchor] {
				t.Errorf("%s links %s: %s has no such heading", name, link, target)
			}
			if name == "index.html" {
				reached[target] = true
			}
		}
		for _, load := range p.loads {
			if target, _, local := resolve(t, name, load); !local {
				t.Errorf("%s loads %s from another host", name, load)
			} else if _, err := os.Stat(filepath.Join(dir, target)); err != nil {
				t.Errorf("%s loads %s, which does not exist", name, load)
			}
		}
		for _, text := range p.texts {
			if found := unmade.FindString(text); found != "" {
				t.Errorf("%s has a list or table as plain text, which needs an empty line before it: %.100q", name, found)
			}
		}
	}
	for name := range pages {
		if !reached[name] && name != "404.html" {
			t.Errorf("%s is not in the navigation: add it to mkdocs.yml", name)
		}
	}
}

// unmade is a list or table that was taken for a part of a paragraph.
var unmade = regexp.MustCompile(`(?m)^\s*(?:- \S|\* \S|\| ?-+ ?\||1\. ).*`)

func TestUnmade(t *testing.T) {
	for _, text := range []string{"Two things:\n- one\n- two", "A table:\n| a | b |\n|---|---|", "Steps:\n1. one"} {
		if !unmade.MatchString(text) {
			t.Errorf("%q is taken for a paragraph", text)
		}
	}
	if text := "2 - 1 is 1\nand -x 1.5"; unmade.MatchString(text) {
		t.Errorf("%q is taken for a list", text)
	}
}

// A dead link fails the build, in whatever way it is written.
func TestDeadLink(t *testing.T) {
	root := t.TempDir()
	own, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{"absent.md", "../absent.md", "../internal/absent"} {
		for name, text := range map[string]string{
			"mkdocs.yml":     "site_name: s\nstrict: true\nrepo_url: https://code.example/s\nhooks: [" + filepath.Join(own, "internal/site/hooks.py") + "]\nnav: [index.md]\n",
			"docs/index.md":  "# Start\n\n[here](" + link + ")\n",
			"internal/a.txt": "",
		} {
			file := filepath.Join(root, name)
			err := os.MkdirAll(filepath.Dir(file), 0o700)
			if err == nil {
				err = os.WriteFile(file, []byte(text), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if out, err := build(t, root, t.TempDir()); err == nil {
			t.Errorf("%s is accepted: %s", link, out)
		}
	}
}

func build(t *testing.T, root, dir string) ([]byte, error) {
	t.Helper()
	program, err := exec.LookPath("mkdocs")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("mkdocs is not installed: apt-get install --no-install-recommends mkdocs")
		}
		t.Skip("mkdocs is not installed (Debian: apt-get install --no-install-recommends mkdocs); skipped")
	}
	cmd := exec.CommandContext(t.Context(), program, "build", "--strict", "--site-dir", dir) //nolint:gosec // found above
	cmd.Dir = root
	return cmd.CombinedOutput()
}

func readPages(t *testing.T, dir string) map[string]page {
	t.Helper()
	pages := map[string]page{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != ".html" {
			return err
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		document, err := html.Parse(f)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		p := page{ids: map[string]bool{}}
		for n := range document.Descendants() {
			p.add(n)
		}
		pages[filepath.ToSlash(name)] = p
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func (p *page) add(n *html.Node) {
	if n.Type != html.ElementNode {
		return
	}
	for _, a := range n.Attr {
		switch {
		case a.Key == "id", n.Data == "a" && a.Key == "name":
			p.ids[a.Val] = true
		case n.Data == "a" && a.Key == "href":
			p.links = append(p.links, a.Val)
		case n.Data != "a" && a.Key == "src", n.Data == "link" && a.Key == "href" && !strings.HasPrefix(a.Val, "https://gpucloud.github.io/"):
			p.loads = append(p.loads, a.Val)
		}
	}
	if n.Data == "p" {
		p.texts = append(p.texts, text(n))
	}
}

// text is what is written in a paragraph, without code and what is bold.
func text(n *html.Node) (s string) {
	for c := range n.ChildNodes() {
		switch {
		case c.Type == html.TextNode:
			s += c.Data
		case c.Data == "code", c.Data == "strong":
			s += c.Data
		default:
			s += text(c)
		}
	}
	return s
}

// resolve returns the file that a link of a page leads to.
func resolve(t *testing.T, from, link string) (file, anchor string, local bool) {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		t.Error(errors.Join(errors.New(from), err))
		return "", "", false
	}
	if u.Scheme != "" || u.Host != "" {
		return "", "", false
	}
	switch {
	case from == "404.html": // its links begin with the path of the site
		u.Path = strings.TrimPrefix(u.Path, "/terraform-provider-gpucloud/")
		file = u.Path
	case u.Path == "":
		return from, u.Fragment, true
	default:
		file = path.Join(path.Dir(from), u.Path)
	}
	if file == "" || file == "." || strings.HasSuffix(u.Path, "/") || path.Ext(file) == "" {
		file = path.Join(file, "index.html")
	}
	return file, u.Fragment, true
}
