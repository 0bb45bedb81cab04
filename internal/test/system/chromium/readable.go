package chromium

import "strings"

// Readable checks that nothing is wider than the screen, and calls checkContrast.
func (t *Tab) Readable(where string) {
	t.t.Helper()
	t.checkContrast(where)
	var wide []string
	t.Eval(`[...document.querySelectorAll('body *')].filter((e) => {
		const box = e.getBoundingClientRect();
		return box.width > 1 && !e.closest('svg, .hidden, .skip, thead') && box.right > innerWidth + 1;
	}).map((e) => e.outerHTML.slice(0, 120)).concat(document.documentElement.scrollWidth > innerWidth ? ['the document'] : [])`, &wide)
	if len(wide) > 0 {
		t.t.Errorf("%s: wider than the screen: %s", where, strings.Join(wide, "\n"))
	}
}

// checkContrast checks that the contrast of all text is at least 4.5 to 1 (WCAG 2.2, 1.4.3), and
// that each control has a name.
func (t *Tab) checkContrast(where string) {
	t.t.Helper()
	var faint []string
	t.Eval(`(() => {
		const ctx = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
		const paint = (...colours) => {
			ctx.clearRect(0, 0, 1, 1);
			for (const c of colours) { ctx.fillStyle = c; ctx.fillRect(0, 0, 1, 1); }
			return [...ctx.getImageData(0, 0, 1, 1).data].slice(0, 3);
		};
		const luminance = (rgb) => {
			const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4));
			return .2126 * r + .7152 * g + .0722 * b;
		};
		const bad = [];
		const modal = document.querySelector('dialog[open]');
		for (const e of (modal ?? document).querySelectorAll('*')) {
			const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
			if (!own || !e.checkVisibility({ visibilityProperty: true }) || e.closest('.hidden, .skip, svg, script, style')) continue;
			const behind = [];
			for (let a = e; a; a = a.parentElement) behind.unshift(getComputedStyle(a).backgroundColor);
			const [x, y] = [luminance(paint('white', ...behind)), luminance(paint('white', ...behind, getComputedStyle(e).color))];
			const ratio = (Math.max(x, y) + .05) / (Math.min(x, y) + .05);
			if (ratio < 4.5) bad.push(ratio.toFixed(2) + ' ' + e.outerHTML.slice(0, 100));
		}
		for (const e of document.querySelectorAll('button, a, input, meter, [role=img], dialog')) {
			const labels = [...(e.labels ?? [])].map((l) => l.textContent).join('');
			if (!e.closest('[hidden], [aria-hidden=true]') && !String(e.ariaLabel || e.ariaLabelledByElements?.length || labels || e.textContent).trim()) bad.push('no name: ' + e.outerHTML.slice(0, 100));
		}
		return bad;
	})()`, &faint)
	if len(faint) > 0 {
		t.t.Errorf("%s: low contrast or no name:\n%s", where, strings.Join(faint, "\n"))
	}
}
