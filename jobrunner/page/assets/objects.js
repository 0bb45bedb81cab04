// Network volumes, API keys, and the releases and batches of an endpoint.

import { $, badge, h, keyed, more, row, setAttr, setNumbers, setState, setText } from './dom.js';
import { cancelBatch, mayCancelBatch } from './actions.js';
import { ago, count, date, words } from './format.js';

// section updates a section with a table: its rows and their number. It hides a section without rows.
function section(name, some, again, key, make, update) {
  $(name + '-section').hidden = !some?.total;
  if (!some?.total) return;
  const shown = more($(name + '-more'), some.list, again);
  setText($(name + '-count'), shown.length < some.total ? `newest ${shown.length} of ${count(some.total)}` : count(some.total));
  keyed($(name).tBodies[0], shown, key, make, update);
}

const volumeColumns = ['Volume', 'Size', 'Data center', 'Tier'];

function makeVolume() {
  const tr = row(volumeColumns, ['main', 'num', '', '']);
  tr.name = h('b');
  tr.sub = h('small', { class: 'mono' });
  tr.cells[0].append(tr.name, tr.sub);
  return tr;
}

function updateVolume(tr, v) {
  setText(tr.name, v.name);
  setText(tr.sub, v.id);
  setText(tr.cells[1], `${count(v.size)} GB`);
  setText(tr.cells[2], v.dataCenter || '–');
  setText(tr.cells[3], v.type ? words(v.type) : '–');
}

const keyColumns = ['Key', 'Owner', 'Management API', 'Job API', 'Endpoints', 'Created', 'Expires'];
const ownKey = 'The deployment’s own';

function makeKey() {
  const tr = row(keyColumns, ['main', '', '', '', 'wide', '', '']);
  tr.name = h('b');
  tr.expires = h('span');
  tr.badge = badge();
  tr.cells[0].append(tr.name);
  tr.cells[6].append(tr.expires, ' ', tr.badge);
  return tr;
}

function updateKey(tr, k) {
  setText(tr.name, k.name || ownKey);
  setText(tr.cells[1], k.owner);
  setText(tr.cells[2], k.management);
  setText(tr.cells[3], k.jobs);
  setText(tr.cells[4], k.jobs === 'none' ? '–' : k.endpoints ? k.endpoints.join(', ') : 'all');
  setText(tr.cells[5], k.created ? date(k.created) : '–');
  setText(tr.expires, k.expires ? date(k.expires) : 'never');
  setState(tr.badge, 'EXPIRED');
  tr.badge.hidden = !k.expired;
}

const releaseColumns = ['Version', 'Created', 'Changed', 'Workers'];

function makeRelease() {
  const tr = row(releaseColumns, ['main', '', 'mono wide', 'num']);
  tr.name = h('b');
  tr.cells[0].append(tr.name);
  tr.list = h('ul');
  tr.cells[2].append(tr.list);
  return tr;
}

function updateRelease(tr, r) {
  setText(tr.name, r.version);
  setText(tr.cells[1], date(r.created));
  keyed(tr.list, r.changes.length ? r.changes : ['–'], (c) => c, () => h('li'), setText);
  setText(tr.cells[3], r.workers);
}

const batchColumns = ['State', 'Batch', 'Running', 'Completed', 'Failed', 'Requests', 'Created', 'Actions'];

function makeBatch() {
  const tr = row(batchColumns, ['state', 'main', 'num', 'num', 'num', 'num', 'num', 'wide actions']);
  tr.badge = badge();
  tr.name = h('b');
  tr.sub = h('small', { class: 'mono' });
  tr.cancel = h('button', { type: 'button', class: 'quiet', onclick: () => cancelBatch(tr.batch.endpointId, () => tr.batch, () => $('main')) }, 'Cancel');
  tr.cells[0].append(tr.badge);
  tr.cells[1].append(tr.name, tr.sub);
  tr.cells[7].append(tr.cancel);
  return tr;
}

function updateBatch(tr, b, s) {
  tr.batch = b;
  setState(tr.badge, b.status);
  setText(tr.name, b.name);
  setText(tr.sub, b.id);
  setNumbers(tr, 2, [b.requestInProgress, b.requestCompleted, b.requestFailed, b.requestTotal], count);
  setAttr(tr.cells[4], 'data-bad', b.requestFailed ? '' : null);
  setText(tr.cells[6], ago(s.now - b.createdAt));
  setAttr(tr.cancel, 'aria-label', `Cancel batch ${b.name || b.id}`);
  const focused = tr.cancel === document.activeElement;
  tr.cancel.hidden = !mayCancelBatch(b);
  setAttr(tr.cells[7], 'data-none', tr.cancel.hidden);
  if (focused && tr.cancel.hidden) $('main').focus();
}

// showObjects updates the sections.
export function showObjects(s, again) {
  section('volumes', s.volumes, again, (v) => v.id, makeVolume, updateVolume);
  setText($('keys-fault'), s.keys?.fault);
  section('keys', s.keys, again, (k) => k.name, makeKey, updateKey);
  section('releases', s.releases, again, (r) => r.version, makeRelease, updateRelease);
  section('batches', s.batches, again, (b) => b.id, makeBatch, (tr, b) => updateBatch(tr, b, s));
}
