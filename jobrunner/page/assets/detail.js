// The dialog with one job, or the log of one worker or pod.

import { $, h, setText } from './dom.js';
import { actOnJob, mayCancel, mayRetry } from './actions.js';
import { beginning, clock, count, duration, exact, words } from './format.js';

const dialog = $('detail');
let shown = null; // its content: {address, render, last}, last is the last answer

export const detail = {
  job(j) {
    open(`Job ${j.id}`, `/ui/job?${new URLSearchParams({ endpoint: j.endpoint, id: j.id })}`, renderJob);
  },
  worker(w) {
    open(`Worker ${w.id}`, `/ui/log?${new URLSearchParams({ endpoint: w.endpoint, worker: w.id })}`, renderLog);
  },
  pod(p) {
    open(`Pod ${p.name || p.id}`, `/ui/log?${new URLSearchParams({ pod: p.id })}`, (body) => renderLog(body, 'The pod has written nothing.'));
  },
  close: () => dialog.close(),
};

function open(title, address, render) {
  setText($('detail-title'), title);
  $('detail-body').replaceChildren(h('p', { class: 'muted' }, 'Reading …'));
  shown = { address, render, last: '' };
  dialog.showModal();
  refresh();
}

// refresh reads the content of an open dialog again, and draws it if it changed.
export async function refresh() {
  const mine = shown;
  if (!mine || !dialog.open) return;
  const answer = await fetch(mine.address, { headers: { Accept: 'application/json' } });
  const text = await answer.text();
  if (shown !== mine || text === mine.last) return;
  mine.last = text;
  const body = JSON.parse(text);
  const parts = answer.ok ? mine.render(body) : [h('p', { class: 'notice' }, body.error)];
  const focused = document.activeElement;
  update($('detail-body'), parts);
  if (!focused.isConnected) (dialog.querySelector(`[data-op="${focused.dataset.op}"]:not(:disabled)`) ?? $('detail-close')).focus();
}

// update shows parts in box. What is shown already stays, so that a selection and the focus stay.
function update(box, parts) {
  parts.forEach((part, i) => {
    const old = box.children[i];
    if (old?.className === 'log' && part.className === 'log') return updateLog(old, part);
    if (part.className === 'buttons' || !old?.isEqualNode(part)) old ? old.replaceWith(part) : box.append(part);
    if (part.className === 'log') part.scrollTop = part.scrollHeight;
  });
  while (box.children.length > parts.length) box.lastElementChild.remove();
}

// updateLog adds the new lines, and removes the oldest that are gone.
function updateLog(log, { children }) {
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 24;
  const lines = [...children];
  while (![...log.children].every((line, i) => lines[i]?.isEqualNode(line))) log.firstElementChild.remove();
  log.append(...lines.slice(log.childElementCount));
  if (atEnd) log.scrollTop = log.scrollHeight;
}

dialog.addEventListener('close', () => { if (!dialog.open) shown = null; }); // it may be open again
$('detail-close').addEventListener('click', () => dialog.close());

function renderJob(j) {
  const facts = [
    ['State', h('span', { class: 'badge', 'data-state': j.state }, words(j.state))],
    ['Endpoint', h('span', { class: 'mono' }, j.endpoint)],
    ['Queued', clock(j.queued)],
    ['Delay', duration(j.delay)],
    ['Execution', duration(j.execution)],
    ['Worker', h('span', { class: 'mono' }, j.worker || '–')],
  ];
  if (j.retries) facts.push(['Dispatched again', `${j.retries}×`]);
  const parts = [h('dl', { class: 'job-facts' }, facts.map(([k, v]) => h('div', null, h('dt', null, k), h('dd', null, v))))];
  parts.push(actions(j));
  if (j.error) parts.push(h('h3', null, 'Error'), block(j.error, 'bad'));
  if (j.output || j.omitted) parts.push(h('h3', null, 'Output'));
  if (j.output) parts.push(block(pretty(j.output, j.omitted)));
  if (j.omitted) parts.push(h('p', { class: 'muted' }, `${count(j.omitted)} bytes are omitted here: the job API has them.`));
  parts.push(h('h3', null, 'Log of the worker while it ran'), ...renderLog(j, j.worker ? (j.hasLog ? 'The log has no line from that time.' : 'That worker’s log no longer exists.') : 'No worker has taken the job yet.'));
  return parts;
}

// actions returns the actions that the job's state allows.
function actions(j) {
  const button = (name, op, may) => h('button', {
    type: 'button', class: 'quiet', 'data-op': op, disabled: !may, onclick: () => actOnJob(op, j, refresh, () => $('detail-close')),
  }, name);
  return h('p', { class: 'buttons' }, button('Cancel', 'cancel', mayCancel(j.state)), button('Retry', 'retry', mayRetry(j.state)));
}

const maxLines = 500; // of an answer of /ui/log
const colour = /\x1b\[[0-9;:]*m/g; // escape sequences that style text

function renderLog(body, none = 'The worker has written nothing.') {
  if (!body.log.length) return [h('p', { class: 'muted' }, none)];
  const cut = body.log.length < maxLines ? [] : [h('p', { class: 'muted' }, `Only the latest ${maxLines} lines are shown.`)];
  return [h('div', { class: 'log', tabindex: '0', role: 'log', 'aria-live': 'off', 'aria-label': 'Log' },
    body.log.map((l) => h('div', { 'data-level': l.level || null, 'data-system': l.system }, h('time', null, clock(l.time)), h('span', null, l.text.replace(colour, ''))))), ...cut];
}

const block = (text, kind) => h('pre', { class: `block ${kind ?? ''}`, tabindex: '0' }, beginning(text));

function pretty(text, isTruncated) {
  if (isTruncated) return text;
  try {
    return JSON.stringify(JSON.parse(text, exact), null, 2);
  } catch {
    return text;
  }
}
