//go:build linux

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// parse returns the texts of a picture, which has to be XML.
func parse(t *testing.T, picture []byte) (texts []string) {
	t.Helper()
	decoder, inText := xml.NewDecoder(strings.NewReader(string(picture))), false
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, picture)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "text" {
				inText, texts = true, append(texts, "")
			}
		case xml.EndElement:
			inText = inText && token.Name.Local != "text"
		case xml.CharData:
			if inText {
				texts[len(texts)-1] += string(token)
			}
		}
	}
}

// A cast has the lines that were printed, in their colours, also where a sequence comes in
// two parts, and scrolls once there are more lines than rows.
func TestCast(t *testing.T) {
	var c cast
	c.prompt("echo <&>")
	c.print("\x1b[31mred\x1b[0", 0)
	c.print("m plain\r\n\x1b[1m\x1b[32mbold\x1b[0m\x1b[K\n", time.Second)
	picture := c.svg(`a "title"`)
	if got := strings.Join(parse(t, picture), "|"); got != "$ echo <&>|red plain|bold" {
		t.Errorf("got %q", got)
	}
	for _, want := range []string{`<tspan class="r">red</tspan> plain`, `<tspan class="b g">bold</tspan>`} {
		if !strings.Contains(string(picture), want) {
			t.Errorf("%s is not in\n%s", want, picture)
		}
	}
	if strings.Contains(string(picture), "translateY(-") {
		t.Error("a cast that fits scrolls")
	}
	for range rows {
		c.print("line\n", 0)
	}
	// One line of a prompt, two of output, and an empty last one, beside the rows.
	if want := "translateY(-76px)"; !strings.Contains(string(c.svg("")), want) {
		t.Errorf("%s is not in\n%s", want, c.svg(""))
	}
}
