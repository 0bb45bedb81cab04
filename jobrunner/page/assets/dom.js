// The document is made of elements and text, never of markup in strings: what
// jobs and users wrote can be nothing but text.

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

// setText and setAttr leave alone what is right already: what the reader has
// selected or focused stays.
export function setText(el, text) {
  text = String(text ?? '');
  if (el.textContent !== text) el.textContent = text;
}

export function setAttr(el, name, value) {
  if (value == null || value === false) {
    if (el.hasAttribute(name)) el.removeAttribute(name);
  } else if (el.getAttribute(name) !== String(value)) el.setAttribute(name, value);
}

// keyed makes the children of parent those of items, in their order. make
// makes the element of an item once, update brings it up to date.
export function keyed(parent, items, key, make, update) {
  const old = (parent.keyed ??= new Map());
  const fresh = new Map();
  const wanted = new Set(items.map(key));
  for (const [k, el] of old) if (!wanted.has(k)) el.remove(); // first: what is not moved keeps the focus
  let place = parent.firstElementChild;
  for (const item of items) {
    const k = key(item);
    if (fresh.has(k)) continue; // one element for each key
    const el = old.get(k) ?? make(item);
    update(el, item);
    fresh.set(k, el);
    if (el === place) place = place.nextElementSibling;
    else parent.insertBefore(el, place);
  }
  parent.keyed = fresh;
}

// badge is a state in words and colour.
export const badge = () => h('span', { class: 'badge' });

export function setState(el, state) {
  setText(el, words(state));
  setAttr(el, 'data-state', state);
}

// more is the part of a list that is shown: the first few, until the reader wants
// all with the button, which then has again called.
export function more(button, list, few, again) {
  button.hidden = list.length <= few;
  setText(button, button.all ? 'Show fewer' : `Show all ${list.length}`);
  button.onclick ??= () => { button.all = !button.all; again(); };
  return button.all ? list : list.slice(0, few);
}

// row is a table's row: one cell per column. The roles stay when a narrow
// screen lays it out as a card.
export function row(labels, classes = []) {
  return h('tr', { role: 'row' }, labels.map((label, i) => h('td', { role: 'cell', class: classes[i], 'data-label': label })));
}
