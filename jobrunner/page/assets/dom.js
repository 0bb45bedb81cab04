// The document is built from elements and text, never from markup in strings, so output of jobs and
// users is always text.

import { words } from './format.js';

const SVG = 'http://www.w3.org/2000/svg';

function fill(el, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name.startsWith('on')) el.addEventListener(name.slice(2), value);
    else if (value === true) el.setAttribute(name, '');
    else if (value !== false && value != null) el.setAttribute(name, value);
  }
  el.append(...children.flat().filter((c) => c != null));
  return el;
}

export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const s = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);
export const $ = (id) => document.getElementById(id);

// setText and setAttr don't touch values that are already right, so that selections and the focus
// stay.
export function setText(el, text) {
  text = String(text ?? '');
  if (el.textContent !== text) el.textContent = text;
}

export function setAttr(el, name, value) {
  if (value == null || value === false) {
    if (el.hasAttribute(name)) el.removeAttribute(name);
  } else if (el.getAttribute(name) !== String(value)) el.setAttribute(name, value);
}

// keyed makes the children of parent match items, in order. make creates the element of an item,
// update updates it.
export function keyed(parent, items, key, make, update) {
  const old = (parent.keyed ??= new Map());
  const fresh = new Map();
  const keys = new Set(items.map(key));
  for (const [k, el] of old) if (!keys.has(k)) el.remove(); // first, so that elements that stay keep the focus
  let next = parent.firstElementChild;
  for (const item of items) {
    const k = key(item);
    if (fresh.has(k)) continue; // one element per key
    const el = old.get(k) ?? make(item);
    update(el, item);
    fresh.set(k, el);
    if (el === next) next = next.nextElementSibling;
    else parent.insertBefore(el, next);
  }
  parent.keyed = fresh;
}

// setNumbers shows numbers in cells of a row, the first in cells[at]. Zeros are muted.
export function setNumbers(tr, at, numbers, format) {
  numbers.forEach((n, i) => {
    setText(tr.cells[at + i], format(n));
    setAttr(tr.cells[at + i], 'data-zero', n ? null : '');
  });
}

// badge shows a state as a word with a color.
export const badge = () => h('span', { class: 'badge' });

export function setState(el, state) {
  setText(el, words(state));
  setAttr(el, 'data-state', state);
}

const few = 12; // elements of a list that are visible at first

// more returns the visible part of a list: the first few elements, or all after a press of the button.
// Each press calls again.
export function more(button, list, again) {
  button.hidden = list.length <= few;
  setText(button, button.all ? 'Show fewer' : `Show all ${list.length}`);
  button.onclick ??= () => { button.all = !button.all; again(); };
  return button.all ? list : list.slice(0, few);
}

// command returns a line for a shell, with a button to copy it.
export function command(text) {
  const done = h('span', { class: 'hidden', role: 'status' });
  const copy = navigator.clipboard && h('button', {
    type: 'button', class: 'quiet', onclick: async (e) => {
      const result = await navigator.clipboard.writeText(text).then(() => 'Copied', () => 'Not copied');
      setText(e.target, result);
      setText(done, result);
      setTimeout(() => { setText(e.target, 'Copy'); setText(done, ''); }, 1500);
    },
  }, 'Copy');
  return h('div', { class: 'command' }, h('pre', { tabindex: '0', 'aria-label': 'Command' }, h('code', null, text)), copy, done);
}

// row returns a table row with one cell per column. The roles keep it a row when a narrow screen
// displays it as a card.
export function row(labels, classes = []) {
  return h('tr', { role: 'row' }, labels.map((label, i) => h('td', { role: 'cell', class: classes[i], 'data-label': label })));
}
