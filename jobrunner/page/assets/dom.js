// The document is made of elements and text, never of markup in strings: what
// jobs and users wrote can be nothing but text.

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
  let place = parent.firstElementChild;
  for (const item of items) {
    const k = key(item);
    let el = old.get(k);
    if (!el || fresh.has(k)) el = make(item);
    update(el, item);
    fresh.set(k, el);
    if (el === place) place = place.nextElementSibling;
    else parent.insertBefore(el, place);
  }
  for (const [k, el] of old) if (fresh.get(k) !== el) el.remove();
  parent.keyed = fresh;
}

// row is a table's row: one cell per column. The roles stay when a narrow
// screen lays it out as a card.
export function row(labels, classes = []) {
  return h('tr', { role: 'row' }, labels.map((label, i) => h('td', { role: 'cell', class: classes[i], 'data-label': label })));
}
