// Pods, and clusters with their pods.

import { $, badge, h, keyed, more, row, setAttr, setState, setText } from './dom.js';
import { actOnPod } from './actions.js';
import { compute, count, duration, gpus, money, words } from './format.js';

const columns = ['State', 'Pod', 'Image', 'Compute', 'Up', 'Per hour', 'Actions'];
const classes = ['state', 'main', 'mono image', 'wide', 'num', 'num', 'wide actions'];
const memberColumns = ['State', 'Rank', 'Pod', 'Address', 'Up', 'Per hour'];
const memberClasses = ['state', 'num', 'main', 'mono', 'num', 'num'];
const actions = ['start', 'stop', 'restart'];

const podName = (tr, open) => h('button', { type: 'button', class: 'link', onclick: () => open(tr.pod) });

function makePod(open) {
  const tr = row(columns, classes);
  tr.badge = badge();
  tr.open = podName(tr, open);
  tr.sub = h('small', { class: 'mono' });
  tr.reason = h('small');
  tr.cells[0].append(tr.badge);
  tr.cells[1].append(tr.open, tr.sub, tr.reason);
  tr.buttons = actions.map((action) => h('button', {
    type: 'button', class: 'quiet', 'data-op': action, onclick: () => actOnPod(action, tr.pod, () => usable(tr)),
  }, action[0].toUpperCase() + action.slice(1)));
  tr.cells[6].append(h('span', { class: 'buttons' }, tr.buttons));
  [tr.up, tr.cost] = [tr.cells[4], tr.cells[5]];
  return tr;
}

// usable returns an element of a row that can have the focus.
const usable = (tr) => tr.buttons.find((b) => !b.hidden) ?? tr.open;

function updateCommon(tr, p, s) {
  tr.pod = p;
  setText(tr.open, p.name || p.id);
  setAttr(tr.open, 'aria-label', `Log of pod ${p.name || p.id}`);
  setState(tr.badge, p.status);
  setText(tr.reason, [p.reason, p.locked ? 'locked: it can’t be stopped' : ''].filter(Boolean).join(' · '));
  setAttr(tr.reason, 'class', p.status === 'ERROR' ? 'bad' : 'muted');
  setText(tr.up, p.status === 'RUNNING' ? duration(Math.floor((s.wall - Date.parse(p.startedAt)) / 5000) * 5000) : '–');
  setText(tr.cost, p.cost ? money(p.cost) : '–');
}

function updatePod(tr, p, s) {
  updateCommon(tr, p, s);
  setText(tr.sub, p.id);
  setText(tr.cells[2], p.image);
  setAttr(tr.cells[2], 'title', p.image);
  setText(tr.cells[3], compute(p));
  const focused = tr.buttons.find((b) => b === document.activeElement);
  tr.buttons.forEach((b, i) => {
    b.hidden = !p.actions?.includes(actions[i]);
    setAttr(b, 'aria-label', `${b.textContent} pod ${p.name || p.id}`);
  });
  if (focused?.hidden) usable(tr).focus();
}

function makeMember(open) {
  const tr = row(memberColumns, memberClasses);
  tr.badge = badge();
  tr.open = podName(tr, open);
  tr.reason = h('small');
  tr.cells[0].append(tr.badge);
  tr.cells[2].append(tr.open, tr.reason);
  [tr.up, tr.cost] = [tr.cells[4], tr.cells[5]];
  return tr;
}

function updateMember(tr, p, s) {
  const { rank, role, ip } = p.cluster;
  updateCommon(tr, p, s);
  setText(tr.cells[1], rank == null ? '–' : rank + (role ? ` · ${words(role)}` : ''));
  setText(tr.cells[3], ip || '–');
}

function makeCluster(c) {
  const li = h('li', { class: 'cluster' });
  li.name = h('h3');
  li.sub = h('p', { class: 'muted' });
  li.caption = h('caption', { class: 'hidden' });
  li.body = h('tbody', { role: 'rowgroup' });
  li.rest = h('p', { class: 'muted' });
  li.append(li.name, li.sub, h('table', { role: 'table' }, li.caption,
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, memberColumns.map((name, i) => h('th', { scope: 'col', role: 'columnheader', class: memberClasses[i].includes('num') ? 'num' : null }, name)))),
    li.body), li.rest);
  return li;
}

function updateCluster(li, c, s, open) {
  setText(li.name, c.name || c.id);
  setText(li.sub, [c.id, words(c.type), `${c.pods.total} pods, each ${gpus(c.compute.gpuCountPerPod, c.compute.gpuTypeId)}`, c.network ? `network ${c.network.cidr}` : 'no network yet'].join(' · '));
  setText(li.caption, `Pods of the cluster ${c.name || c.id}, by rank`);
  keyed(li.body, c.pods.list, (p) => p.id, () => makeMember(open), (tr, p) => updateMember(tr, p, s));
  const rest = c.pods.total - c.pods.list.length;
  setText(li.rest, rest > 0 ? `and ${rest} more pods` : '');
}

const order = ['RUNNING', 'STARTING', 'PROVISIONING', 'EXITED', 'ERROR'];

// showPods updates the sections of pods and clusters.
export function showPods(s, open, again) {
  $('pods-section').hidden = !s.pods;
  $('clusters-section').hidden = !s.clusters?.total;
  if (!s.pods) return;
  const { list, total, found, find, states } = s.pods;
  const counts = order.filter((state) => states[state]).map((state) => `${count(states[state])} ${words(state)}`).join(' · ');
  const shown = more($('pods-more'), list, again);
  setText($('pods-count'), total ? [count(total), counts, find ? `${count(found)} match` : '', shown.length < found ? `newest ${shown.length} shown` : ''].filter(Boolean).join(' · ') : '');
  $('pods-filter-label').hidden = total < 8 && !find;
  $('pods').hidden = !list.length;
  $('pods-none').hidden = !(total && !list.length);
  keyed($('pods').tBodies[0], shown, (p) => p.id, () => makePod(open), (tr, p) => updatePod(tr, p, s));
  setText($('clusters-count'), s.clusters.list.length < s.clusters.total ? `newest ${s.clusters.list.length} of ${count(s.clusters.total)}` : s.clusters.total);
  keyed($('clusters'), s.clusters.list, (c) => c.id, makeCluster, (li, c) => updateCluster(li, c, s, open));
}
