//go:build linux

package main

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"time"
)

// cast is what a terminal shows over time: lines that only grow.
type cast struct {
	now   time.Duration
	lines []line
	style string // of the next character
	rest  string // of an escape sequence or line break that is not complete
}

// line is a line of the terminal, as it is from a time on.
type line struct {
	at    time.Duration
	spans []span
}

type span struct{ style, text string }

// styles are the colours of select graphic rendition, as classes.
var styles = map[string]string{"1": "b", "31": "r", "32": "g", "33": "y", "36": "c", "90": "d", "0": "", "": ""}

// escape is a sequence for the terminal; the parameters of its style are the first group.
var escape = regexp.MustCompile(`^\x1b\[([0-9;]*)m|^\x1b\[[0-9;?]*[A-Za-z]`)

// prompt shows a command as somebody types it.
func (c *cast) prompt(command string) {
	c.now += beforeTyping
	c.print("\x1b[32m$\x1b[0m ", 0)
	c.now += time.Duration(len(command)) * perCharacter
	if command != "" {
		c.print("\x1b[1m"+command+"\x1b[0m\r\n", 0)
	}
}

// print adds what a program prints after a pause.
func (c *cast) print(text string, pause time.Duration) {
	c.now += pause
	text, c.rest = c.rest+text, ""
	for text != "" {
		switch found := escape.FindStringSubmatch(text); {
		case found != nil:
			c.restyle(found)
			text = text[len(found[0]):]
		case text[0] == '\x1b': // not complete
			c.rest, text = text, ""
		case text[0] == '\r':
			text = text[1:]
		case text[0] == '\n':
			c.add("")
			c.lines = append(c.lines, line{at: c.now})
			text = text[1:]
		default:
			end := strings.IndexAny(text, "\x1b\r\n")
			if end < 0 {
				end = len(text)
			}
			c.add(text[:end])
			text = text[end:]
		}
	}
}

// restyle applies a sequence that changes the style.
func (c *cast) restyle(found []string) {
	if !strings.HasSuffix(found[0], "m") {
		return
	}
	for parameter := range strings.SplitSeq(found[1], ";") {
		switch style, ok := styles[parameter]; {
		case ok && style == "":
			c.style = ""
		case ok && !strings.Contains(c.style, style):
			c.style = strings.TrimSpace(c.style + " " + style)
		}
	}
}

// add adds text to the last line.
func (c *cast) add(text string) {
	if len(c.lines) == 0 {
		c.lines = append(c.lines, line{at: c.now})
	}
	l := &c.lines[len(c.lines)-1]
	if len(l.spans) == 0 {
		l.at = c.now
	}
	if text != "" {
		l.spans = append(l.spans, span{c.style, text})
	}
}

// text is all that was shown.
func (c *cast) text() string {
	var b strings.Builder
	for _, l := range c.lines {
		for _, s := range l.spans {
			b.WriteString(s.text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Measures of the picture.
const (
	charWidth  = 8.4
	lineHeight = 19
	margin     = 16
	atTheEnd   = 6 * time.Second // how long the end stays
	castStyle  = `text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d8dee9;white-space:pre}.b{font-weight:bold;fill:#fff}.r{fill:#f28b82}.g{fill:#8fd19e}.y{fill:#f4d58d}.c{fill:#8ecae6}.d{fill:#8a94a6}`
)

// svg is the cast as a picture that moves by itself: each line appears when it was
// printed, and the lines scroll. Where motion is unwanted it shows the end.
func (c *cast) svg(title string) []byte {
	total := c.now + atTheEnd
	percent := func(at time.Duration) float64 { return 100 * at.Seconds() / total.Seconds() }
	var b, scroll strings.Builder
	width, height := 2*margin+charWidth*columns, 2*margin+lineHeight*rows
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img" aria-label="%s"><title>%s</title><style>%s`,
		width, height, width, height, html.EscapeString(title), html.EscapeString(title), castStyle)
	for i, l := range c.lines {
		if hidden := i + 1 - rows; hidden > 0 && (i+1 == len(c.lines) || c.lines[i+1].at != l.at) {
			fmt.Fprintf(&scroll, "%.2f%%{transform:translateY(%dpx)}", percent(l.at), -lineHeight*hidden)
		}
	}
	end := -lineHeight * max(0, len(c.lines)-rows)
	fmt.Fprintf(&b, "@keyframes scroll{0%%{transform:translateY(0)}%s100%%{transform:translateY(%dpx)}}#lines{animation:scroll %.1fs infinite;animation-timing-function:step-end}", &scroll, end, total.Seconds())
	moments := map[time.Duration]int{} // lines that appear together share their keyframes
	for _, l := range c.lines {
		if _, ok := moments[l.at]; !ok {
			moments[l.at] = len(moments)
			at := percent(l.at)
			fmt.Fprintf(&b, "@keyframes k%d{0%%{opacity:0}%.2f%%{opacity:1}100%%{opacity:1}}.k%d{animation:k%d %.1fs infinite step-end}", moments[l.at], at, moments[l.at], moments[l.at], total.Seconds())
		}
	}
	fmt.Fprintf(&b, "@media(prefers-reduced-motion:reduce){text{animation:none!important}#lines{animation:none!important;transform:translateY(%dpx)}}", end)
	fmt.Fprintf(&b, `</style><rect width="100%%" height="100%%" rx="8" fill="#1c2230"/><svg x="%d" y="%d" width="%.0f" height="%d" overflow="hidden"><g id="lines">`, margin, margin, width-2*margin, lineHeight*rows)
	for i, l := range c.lines {
		if len(l.spans) == 0 {
			continue
		}
		fmt.Fprintf(&b, `<text class="k%d" x="0" y="%d">`, moments[l.at], lineHeight*i+14)
		for _, s := range l.spans {
			if s.style == "" {
				b.WriteString(html.EscapeString(s.text))
			} else {
				fmt.Fprintf(&b, `<tspan class="%s">%s</tspan>`, s.style, html.EscapeString(s.text))
			}
		}
		b.WriteString("</text>\n")
	}
	b.WriteString("</g></svg></svg>\n")
	return []byte(b.String())
}
