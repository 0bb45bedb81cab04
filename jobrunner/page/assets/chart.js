// Charts in SVG. A chart's label describes its content in words.

import { h, s, setAttr, setText } from './dom.js';
import { duration } from './format.js';

const W = 600, H = 100;

// frame returns the common parts of the charts: a title, a legend with values, a plot with an axis on
// the left, and the time below. Pointing at the plot shows the values of that moment.
function frame(figure, title, entries) {
  const legend = h('ul', { class: 'legend' });
  const values = entries.map((e) => {
    const value = h('b');
    legend.append(h('li', { 'data-series': e.key }, h('i', { 'aria-hidden': 'true' }), h('span', null, e.name), ' ', value));
    return value;
  });
  const moment = h('span', { class: 'moment' });
  const svg = s('svg', { viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  const cursor = h('div', { class: 'cursor', hidden: true });
  const axis = h('div', { class: 'axis', 'aria-hidden': 'true' });
  const plot = h('div', { class: 'plot', role: 'img' }, axis, svg, cursor);
  const times = h('div', { class: 'times', 'aria-hidden': 'true' }, h('span', null, '10 min ago'), h('span', null, '5 min'), h('span', null, 'now'));
  figure.append(h('figcaption', null, h('h2', null, title), moment, legend), plot, times);
  return { svg, axis, plot, cursor, values, moment };
}

// ticks draws the lines of the axis: [{y, text}], y from 0 at the top to 1.
function ticks(f, list) {
  f.axis.replaceChildren(...list.map((t) => {
    const line = h('div', { class: 'tick' }, h('span', null, t.text));
    line.style.top = `${t.y * 100}%`;
    return line;
  }));
}

// pointing calls show with the position of the pointer, from 0 to 1, or null.
function pointing(f, show) {
  const at = (e) => {
    const box = f.svg.getBoundingClientRect();
    return Math.min(1, Math.max(0, (e.clientX - box.left) / box.width));
  };
  f.plot.addEventListener('pointermove', (e) => show(at(e)));
  f.plot.addEventListener('pointerleave', () => show(null));
}

function mark(f, x) {
  f.cursor.hidden = x == null;
  if (x != null) f.cursor.style.left = `calc(var(--axis) + (100% - var(--axis)) * ${x})`;
}

const steps = [1, 2, 4, 10];

// niceMax returns the end of an axis of whole numbers.
function niceMax(n) {
  for (let unit = 1; ; unit *= 10) for (const k of steps) if (k * unit >= n && (k * unit) % 2 === 0) return k * unit;
}

function path(values, max, close) {
  const points = values.map((v, i) => `${((i / (values.length - 1)) * W).toFixed(1)},${(H - (v / max) * H).toFixed(1)}`);
  return `M${points.join('L')}${close ? `L${W},${H}L0,${H}Z` : ''}`;
}

// levels is a chart of numbers over time: entries are {key, name}.
export function levels(figure, title, entries) {
  const f = frame(figure, title, entries);
  const areas = entries.map((e) => s('path', { class: 'area', 'data-series': e.key }));
  const lines = entries.map((e) => s('path', { class: 'line', 'data-series': e.key }));
  f.svg.append(...areas, ...lines);
  let series = [], step = 1, pointer = null;
  const show = () => {
    const n = series[0]?.length ?? 0;
    if (!n) return;
    const i = pointer == null ? n - 1 : Math.round(pointer * (n - 1));
    entries.forEach((_, k) => setText(f.values[k], series[k][i]));
    setText(f.moment, pointer == null ? '' : duration((n - 1 - i) * step) + ' ago');
    mark(f, pointer == null ? null : i / (n - 1));
  };
  pointing(f, (x) => { pointer = x; show(); });
  return (data, stepMs) => {
    [series, step] = [data, stepMs];
    const max = niceMax(Math.max(1, ...data.flat()));
    ticks(f, [{ y: 0, text: max }, { y: .5, text: max / 2 }, { y: 1, text: 0 }]);
    data.forEach((values, k) => {
      setAttr(areas[k], 'd', path(values, max, true));
      setAttr(lines[k], 'd', path(values, max, false));
    });
    setAttr(f.plot, 'aria-label', `${title}. ` + entries.map((e, k) => `${e.name}: now ${data[k].at(-1)}, highest ${Math.max(...data[k])}`).join('. ') + '.');
    show();
  };
}

const decades = [1, 10, 100, 1e3, 1e4, 6e4, 6e5, 36e5, 864e5, 864e6];
const tickText = ['1 ms', '10 ms', '100 ms', '1 s', '10 s', '1 min', '10 min', '1 h', '1 d', '10 d'];

// ranges is a chart of times over time: a bar from the median to the 95th
// percentile of each half minute, on a scale of decades. entries are {key,
// name}.
export function ranges(figure, title, entries) {
  const f = frame(figure, title, entries);
  const bars = s('g');
  f.svg.append(bars);
  const empty = h('p', { class: 'nothing' }, h('span', null, 'No job was taken in the last 10 minutes'));
  f.plot.append(empty);
  let data = [], step = 1, pointer = null;
  const last = (p) => p.p50.findLastIndex((v) => v != null);
  const text = (p, i) => (p.p50[i] == null ? '–' : `${duration(p.p50[i])} / ${duration(p.p95[i])}`);
  const show = () => {
    const n = data[0]?.p50.length ?? 0;
    if (!n) return;
    const i = pointer == null ? null : Math.min(n - 1, Math.floor(pointer * n));
    entries.forEach((_, k) => setText(f.values[k], text(data[k], i ?? last(data[k]))));
    setText(f.moment, i == null ? 'p50 / p95' : `p50 / p95, ${i === n - 1 ? 'now' : duration((n - 1 - i) * step) + ' ago'}`);
    mark(f, i == null ? null : (i + .5) / n);
  };
  pointing(f, (x) => { pointer = x; show(); });
  return (percentiles, stepMs) => {
    [data, step] = [percentiles, stepMs];
    const all = data.flatMap((p) => [...p.p50, ...p.p95]).filter((v) => v != null).map((v) => Math.max(1, v));
    empty.hidden = all.length > 0;
    let lo = decades.findLastIndex((d) => d <= Math.min(...all, 10)), hi = decades.findIndex((d) => d >= Math.max(...all, 1000));
    if (hi < 0) hi = decades.length - 1;
    if (lo < 0) lo = 0;
    const y = (ms) => {
      const v = Math.max(decades[lo], ms);
      return 1 - Math.log(v / decades[lo]) / Math.log(decades[hi] / decades[lo]);
    };
    ticks(f, decades.slice(lo, hi + 1).map((d, i) => ({ y: y(d), text: tickText[lo + i] })));
    const n = data[0].p50.length, slot = W / n, wide = slot / (entries.length + 1);
    const shapes = [];
    data.forEach((p, k) => p.p50.forEach((v, i) => {
      if (v == null) return;
      const x = i * slot + wide * (k + .5), top = y(p.p95[i]) * H, bottom = y(v) * H;
      shapes.push(s('rect', { 'data-series': entries[k].key, class: 'range', x, y: top, width: wide * .8, height: Math.max(0, bottom - top) }));
      shapes.push(s('rect', { 'data-series': entries[k].key, class: 'median', x, y: Math.min(H - 2, bottom - 1), width: wide * .8, height: 2 }));
    }));
    bars.replaceChildren(...shapes);
    setAttr(f.plot, 'aria-label', `${title}. ` + entries.map((e, k) => {
      const i = last(data[k]);
      return i < 0 ? `${e.name}: no jobs` : `${e.name}: median ${duration(data[k].p50[i])}, 95th percentile ${duration(data[k].p95[i])}`;
    }).join('. ') + '.');
    show();
  };
}

// spark is a small line chart without words, next to a number that has them. It omits values below
// zero, which aren't known.
export function spark(key) {
  const area = s('path', { class: 'area' }), line = s('path', { class: 'line' });
  const svg = s('svg', { class: 'spark', viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: 'none', 'aria-hidden': 'true', 'data-series': key }, area, line);
  svg.update = (values, max) => {
    if (values.length === 1) values = [values[0], values[0]];
    const from = values.findIndex((v) => v >= 0);
    const known = values.map((v, i) => [i / (values.length - 1), v]).filter(([, v]) => v >= 0);
    const points = known.map(([x, v]) => `${(x * W).toFixed(1)},${(H - 4 - (v / Math.max(max, 1)) * (H - 8)).toFixed(1)}`);
    setAttr(line, 'd', from < 0 ? '' : `M${points.join('L')}`);
    setAttr(area, 'd', from < 0 ? '' : `M${points.join('L')}L${W},${H}L${(known[0][0] * W).toFixed(1)},${H}Z`);
  };
  return svg;
}
