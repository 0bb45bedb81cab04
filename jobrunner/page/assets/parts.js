// The parts of the page. Each updates itself from a snapshot.

import { $, badge, command, h, keyed, more, row, setAttr, setNumbers, setState, setText } from './dom.js';
import { purgeQueue, stopEndpoint } from './actions.js';
import { levels, ranges, spark } from './chart.js';
import { refreshConfirm } from './confirm.js';
import { showCosts } from './costs.js';
import { showObjects } from './objects.js';
import { showPods } from './pods.js';
import { showForm } from './send.js';
import { ago, bytes, count, duration, words } from './format.js';

const short = (id) => id.replace(/^((?:sync-)?[^-]+-[^-]+)-.*$/, '$1…');
const link = (id) => '#/endpoint/' + encodeURIComponent(id);
const sum = (list, of) => list.reduce((n, x) => n + of(x), 0);

const auth = '-H "Authorization: Bearer $GPUCLOUD_API_KEY"';
const createLine = () => `curl ${auth} -H 'Content-Type: application/json' \\\n  -d '{"name": "hello", "image": "builtin/echo", "workers": {"min": 0, "max": 2}}' \\\n  ${location.origin}/v2/serverless`;
const podLine = () => `curl ${auth} -H 'Content-Type: application/json' \\\n  -d '{"name": "hello", "image": "builtin/echo", "cpu": {"id": "cpu3c", "vcpuCount": 2}}' \\\n  ${location.origin}/v2/pods`;
const jobLine = (id) => `curl ${auth} -H 'Content-Type: application/json' \\\n  -d '{"input": {"say": "hello"}}' ${location.origin}/v2/${id}/runsync`;

// showHint shows the next step instead of an empty list. key identifies the inputs of the step.
function showHint(id, table, isEmpty, key, ...children) {
  const box = $(id);
  box.hidden = !isEmpty;
  table.hidden = isEmpty;
  if (isEmpty && box.shows !== key) {
    box.replaceChildren(...children.map((c) => c()));
    box.shows = key;
  }
}

const tiles = [
  { key: 'queued', label: 'In queue' },
  { key: 'running', label: 'Running' },
  { key: 'ended', label: 'Ended in 10 min' },
  { key: 'workers', label: 'Workers' },
  { key: 'gpus', label: 'GPUs in use' },
];

// Several jobrunners may have devices with the same name.
const holds = (w, d) => w.node === d.node && !!w.devices?.some((own) => own.uuid === d.uuid);

// nodeName returns the name of a worker's or GPU's jobrunner if there are several.
const nodeName = (s, node) => (s.nodes.length + s.unreachable.length > 1 ? node.replace(/^https?:\/\//, '') : '');

function tileValues(s) {
  const shown = s.endpoint ? s.endpoints.filter((e) => e.id === s.endpoint) : s.endpoints;
  const ended = Object.values(s.past.ended).reduce((a, b) => a + b, 0);
  const bad = (s.past.ended.FAILED ?? 0) + (s.past.ended.TIMED_OUT ?? 0);
  const states = {};
  for (const e of shown) for (const [k, n] of Object.entries(e.workers)) states[k] = (states[k] ?? 0) + n;
  const total = Object.values(states).reduce((a, b) => a + b, 0);
  const held = s.endpoint ? s.gpus.devices.filter((d) => s.workers.some((w) => holds(w, d))) : s.gpus.devices.filter((d) => d.owner);
  const faulty = s.gpus.devices.filter((d) => d.fault).length;
  const peak = Math.max(...s.past.queued);
  return {
    queued: [sum(shown, (e) => e.queued), peak ? `${count(peak)} at most in 10 min` : 'nothing waits'],
    running: [sum(shown, (e) => e.running), `${count(sum(shown, (e) => e.completed))} completed in all`],
    ended: [ended, bad ? `${count(bad)} failed or timed out` : ended ? 'none failed' : 'no job ended', bad ? 'bad' : ''],
    workers: [total, total ? s.states.filter((k) => states[k]).map((k) => `${states[k]} ${words(k)}`).join(' · ') : 'none runs', states.UNHEALTHY || states.THROTTLED ? 'bad' : ''],
    gpus: [s.gpus.devices.length ? `${held.length} of ${s.gpus.devices.length}` : '–', s.gpus.devices.length ? (faulty ? `${faulty} can’t be used` : s.gpus.simulated ? 'simulated' : 'all healthy') : 'CPU pool only', faulty ? 'bad' : ''],
  };
}

function makeTile(t) {
  return h('div', { class: 'tile', 'data-tile': t.key }, h('dt', null, t.label), h('dd', null, h('b'), h('small')));
}

const endpointColumns = ['Endpoint', 'Image', 'In queue', 'Running', 'Completed', 'Failed', 'Workers', 'Queue, 10 min'];
const endpointClasses = ['main', 'mono image', 'num', 'num', 'num', 'num', 'wide', 'spark-cell'];

function makeEndpoint(e) {
  const tr = row(endpointColumns, endpointClasses);
  tr.name = h('a', { href: link(e.id) });
  tr.sub = h('small', { class: 'mono' });
  tr.chips = h('span', { class: 'chips' });
  tr.bounds = h('small', { class: 'muted' });
  tr.spark = spark('queued');
  tr.cells[0].append(tr.name, tr.sub);
  tr.cells[6].append(tr.chips, tr.bounds);
  tr.cells[7].append(tr.spark);
  return tr;
}

function updateEndpoint(tr, e, states) {
  setText(tr.name, e.name || e.id);
  setText(tr.sub, e.id + (e.type === 'QUEUE' ? '' : ' · ' + words(e.type)));
  setText(tr.cells[1], e.image);
  setAttr(tr.cells[1], 'title', e.image);
  setNumbers(tr, 2, [e.queued, e.running, e.completed, e.failed], count);
  setAttr(tr.cells[5], 'data-bad', e.failed ? '' : null);
  const present = states.filter((k) => e.workers[k]).map((k) => ({ state: k, n: e.workers[k] }));
  keyed(tr.chips, present, (c) => c.state, () => badge(), (el, c) => {
    setText(el, `${c.n} ${words(c.state)}`);
    setAttr(el, 'data-state', c.state);
  });
  setText(tr.bounds, e.max === 0 ? 'none allowed' : present.length ? `of ${e.min} to ${e.max}` : `none, ${e.min} to ${e.max} allowed`);
  tr.spark.update(e.queue, Math.max(...e.queue));
}

const jobColumns = ['State', 'Job', 'Endpoint', 'Queued', 'Delay', 'Execution', 'Worker'];
const jobClasses = ['state', 'main', 'endpoint', 'num', 'num', 'num', 'mono worker'];

function makeJob(j, open) {
  const tr = row(jobColumns, jobClasses);
  tr.badge = badge();
  tr.open = h('button', { type: 'button', class: 'link mono', title: j.id, onclick: () => open(j) }, short(j.id));
  tr.error = h('small', { class: 'bad' });
  tr.endpoint = h('a', { href: link(j.endpoint) });
  tr.cells[0].append(tr.badge);
  tr.cells[1].append(tr.open, tr.error);
  tr.cells[2].append(tr.endpoint);
  return tr;
}

function updateJob(tr, j, s, names) {
  setState(tr.badge, j.state);
  setAttr(tr.open, 'aria-label', `Job ${j.id}, ${words(j.state)}: output and log`);
  setText(tr.error, [j.retries ? `dispatched again ${j.retries}×` : '', j.error].filter(Boolean).join(' · '));
  setText(tr.endpoint, names.get(j.endpoint) ?? j.endpoint);
  setAttr(tr.endpoint, 'title', names.get(j.endpoint));
  setText(tr.cells[3], ago(s.now - j.queued));
  setText(tr.cells[4], j.delay == null ? '–' : duration(j.delay));
  setText(tr.cells[5], j.execution != null ? duration(j.execution) : j.state === 'IN_PROGRESS' ? `${duration(Math.floor(Math.max(0, s.now - j.queued - (j.delay ?? 0)) / 1000) * 1000)} …` : '–');
  setText(tr.cells[6], j.worker || '–');
  setAttr(tr.cells[6], 'data-none', !j.worker);
}

const workerColumns = ['State', 'Worker', 'Endpoint', 'Up', 'CPU time', 'Memory', 'GPUs'];
const workerClasses = ['state', 'main', 'endpoint', 'num', 'num', 'num', 'wide'];

function makeWorker(w, open) {
  const tr = row(workerColumns, workerClasses);
  tr.badge = badge();
  tr.open = h('button', { type: 'button', class: 'link mono', 'aria-label': `Log of worker ${w.id}`, onclick: () => open(w) }, w.id);
  tr.reason = h('small');
  tr.endpoint = h('a', { href: link(w.endpoint) });
  tr.cells[0].append(tr.badge);
  tr.cells[1].append(tr.open, tr.reason);
  tr.cells[2].append(tr.endpoint);
  return tr;
}

function updateWorker(tr, w, s, names) {
  setState(tr.badge, w.state);
  setText(tr.reason, [nodeName(s, w.node), w.stale ? 'of an older version: it is being replaced' : '', w.reason, w.advice].filter(Boolean).join(' · '));
  setAttr(tr.reason, 'class', ['UNHEALTHY', 'THROTTLED', 'DIED'].includes(w.state) ? 'bad' : 'muted');
  setText(tr.endpoint, names.get(w.endpoint) ?? w.endpoint);
  setAttr(tr.endpoint, 'title', names.get(w.endpoint));
  setText(tr.cells[3], w.startedAt && w.state !== 'DIED' ? duration(Math.floor((s.now - Date.parse(w.startedAt)) / 5000) * 5000) : '–');
  setText(tr.cells[4], w.usage.cpu ? duration(Math.floor(w.usage.cpu / 1e6)) : '–');
  setText(tr.cells[5], w.usage.memory ? bytes(w.usage.memory) : '–');
  const held = (w.devices ?? []).map((d) => d.index + (d.mig ? ` (${d.mig})` : ''));
  setAttr(tr.cells[6], 'data-none', !held.length);
  setText(tr.cells[6], held.length ? 'GPU ' + held.join(', ') : '–');
}

function makeGPU() {
  const li = h('li', { class: 'gpu' });
  const meter = (label) => {
    const bar = h('meter', { min: '0', max: '1', 'aria-label': label });
    const text = h('b');
    return { el: h('div', { class: 'gauge' }, h('span', null, label), text, bar), bar, text };
  };
  li.name = h('h3');
  li.sub = h('p', { class: 'muted' });
  li.badge = badge();
  li.fault = h('p', { class: 'bad' });
  li.spark = spark('running');
  li.busy = meter('Utilisation');
  li.memory = meter('Memory');
  li.rest = h('p', { class: 'rest' });
  li.append(h('div', { class: 'gpu-head' }, li.name, li.badge), li.sub, li.fault, h('div', { class: 'gpu-spark' }, li.spark), li.busy.el, li.memory.el, li.rest);
  return li;
}

function updateGPU(li, d, s, names) {
  const owner = s.workers.find((w) => w.id === d.owner);
  setText(li.name, `GPU ${d.index}${d.mig ? ' · ' + d.mig : ''}`);
  setText(li.sub, [d.type, nodeName(s, d.node)].filter(Boolean).join(' · '));
  setAttr(li, 'title', d.uuid);
  // A device that another program keeps busy isn't free.
  const foreign = !d.owner && (d.utilization >= 5 || d.memoryUsed > 0.05 * d.memory);
  setState(li.badge, d.fault ? 'UNUSABLE' : d.owner ? 'IN_USE' : foreign ? 'USED_BY_OTHERS' : 'FREE');
  setText(li.fault, d.fault);
  li.fault.hidden = !d.fault;
  li.spark.update(d.past?.length ? d.past : [d.utilization], 100);
  const known = (n, text) => (n < 0 ? '–' : text);
  li.busy.bar.value = Math.max(0, d.utilization) / 100;
  setText(li.busy.text, known(d.utilization, d.utilization + ' %'));
  li.memory.bar.value = d.memory > 0 ? Math.max(0, d.memoryUsed) / d.memory : 0;
  setText(li.memory.text, known(d.memoryUsed, `${bytes(d.memoryUsed)} of ${bytes(d.memory)}`));
  setText(li.rest, [known(d.temperature, d.temperature + ' °C'), known(d.power, Math.round(d.power / 1000) + ' W'), owner ? names.get(owner.endpoint) ?? owner.endpoint : d.owner].filter((t) => t && t !== '–').join(' · '));
}

// showActions offers the actions of the shown endpoint.
function showActions(one) {
  $('endpoint-actions').hidden = !one;
  if (!one) return;
  const focused = document.activeElement === $('endpoint-stop');
  $('endpoint-stop').hidden = one.max === 0;
  $('endpoint-purge').hidden = one.type !== 'QUEUE';
  $('endpoint-stopped').hidden = one.max !== 0;
  if (focused && one.max === 0) otherAction().focus();
}

// otherAction gets the focus if the action that had it is no longer offered.
const otherAction = () => [$('endpoint-stop'), $('endpoint-purge')].find((b) => !b.hidden) ?? $('main');

// view binds the parts to the document, and returns a function that shows a snapshot. open.job,
// open.worker and open.pod are called with what the reader selects.
export function view(open) {
  const load = levels($('chart-load'), 'Queue and running', [{ key: 'queued', name: 'In queue' }, { key: 'running', name: 'Running' }]);
  const times = ranges($('chart-times'), 'Delay and execution', [{ key: 'delay', name: 'Delay' }, { key: 'execution', name: 'Execution' }]);
  for (const table of document.querySelectorAll('table')) { // tables stay tables when a narrow screen displays them as cards
    table.setAttribute('role', 'table');
    for (const el of table.querySelectorAll('thead, tbody')) el.setAttribute('role', 'rowgroup');
    for (const el of table.querySelectorAll('tr')) el.setAttribute('role', 'row');
    for (const el of table.querySelectorAll('th')) el.setAttribute('role', 'columnheader');
  }
  const filter = $('filter');
  let latest = null;
  let shownLast = null; // the endpoint shown last
  let overviewTop = 0; // its scroll position
  history.scrollRestoration = 'manual';
  const endpointNow = () => latest.endpoints.find((e) => e.id === shownLast.id) ?? shownLast;
  for (const [button, act] of [[$('endpoint-stop'), stopEndpoint], [$('endpoint-purge'), purgeQueue]]) {
    button.addEventListener('click', () => act(endpointNow, otherAction));
  }
  const again = () => show(latest);
  const show = (s) => {
    const moved = latest && latest.endpoint !== s.endpoint;
    if (moved && !latest.endpoint) overviewTop = scrollY;
    latest = s;
    const one = s.endpoint && s.endpoints.find((e) => e.id === s.endpoint);
    const names = new Map(s.endpoints.map((e) => [e.id, e.name || e.id]));
    setText($('title'), one ? one.name || one.id : 'Overview');
    setText($('subtitle'), one ? `${one.id} · ${one.image}` : '');
    $('crumbs').hidden = !one;
    $('live').classList.toggle('one', !!one);
    showForm(one || undefined, s.jobs);
    showActions(one);
    if (one) shownLast = one;
    document.title = (one ? one.name + ' · ' : '') + 'gpucloud jobrunner';
    setText($('facts'), `${s.version} · ${s.nodes.length > 1 ? count(s.nodes.length) + ' jobrunners · ' : ''}up ${duration(Math.floor((s.now - s.started) / 10000) * 10000 || 1000)}`);
    setText($('user'), s.user.owner + (s.user.management === 'all' && s.user.jobs === 'all' ? '' : ` · management ${s.user.management}, jobs ${s.user.jobs}`));

    const several = s.unreachable.length > 1;
    setText($('unreachable'), s.unreachable.length ? `${s.unreachable.join(', ')} ${several ? 'do' : 'does'} not answer, or ${several ? 'have' : 'has'} another API key or version: workers, GPUs and logs there are missing here.` : '');

    const values = tileValues(s);
    keyed($('tiles'), tiles, (t) => t.key, makeTile, (el, t) => {
      const [value, note, mood] = values[t.key];
      setText(el.querySelector('b'), typeof value === 'number' ? count(value) : value);
      setText(el.querySelector('small'), note);
      setAttr(el.querySelector('small'), 'class', mood || null);
    });
    load([s.past.queued, s.past.running], s.step);
    times([s.past.delay, s.past.execution], s.step * s.percentileSteps);

    $('endpoints-section').hidden = !!one;
    const wanted = filter.value.trim().toLowerCase();
    const listed = s.endpoints.filter((e) => [e.name, e.id, e.image].some((t) => t.toLowerCase().includes(wanted))).slice(0, 200);
    $('filter-label').hidden = s.endpoints.length < 8 && !wanted;
    setText($('endpoints-count'), s.endpoints.length ? (listed.length < s.endpoints.length ? `${listed.length} of ${s.endpoints.length}` : s.endpoints.length) : '');
    keyed($('endpoints').tBodies[0], listed, (e) => e.id, makeEndpoint, (tr, e) => updateEndpoint(tr, e, s.states));
    showHint('endpoints-empty', $('endpoints'), s.endpoints.length === 0, 'none',
      () => h('p', null, 'There is no endpoint yet. This command creates one that returns its input:'), () => command(createLine()),
      () => h('p', null, 'Or with Terraform, in the folder of the project:'), () => command('cd examples/quickstart && terraform apply -var registry_token=anything'));

    setText($('gpus-count'), s.gpus.devices.length ? `${s.gpus.devices.length} · ${s.gpus.simulated ? 'simulated, not on this machine · ' : ''}driver ${s.gpus.driver || 'unknown'} · CUDA ${s.gpus.cuda || 'unknown'}` : '');
    const devices = one ? s.gpus.devices.filter((d) => s.workers.some((w) => holds(w, d))) : s.gpus.devices;
    const gpusPlace = s.gpus.devices.length ? $('workers-section') : null; // without GPUs, their section is last
    if ($('gpus-section').nextElementSibling !== gpusPlace) $('live').insertBefore($('gpus-section'), gpusPlace);
    $('gpus-section').hidden = !!one && devices.length === 0;
    keyed($('gpus'), devices, (d) => d.node + ' ' + d.uuid, makeGPU, (li, d) => updateGPU(li, d, s, names));
    showHint('gpus-empty', $('gpus'), s.gpus.devices.length === 0, 'none',
      () => h('p', null, 'No GPU was found, or its driver is missing: the log says which. Workers run in the CPU pool. To try placement rules without one:'),
      () => command('jobrunner serve --simulate-gpus h200x8'));

    showCosts(s, names, one, (free) => {
      const box = $('costs-hint');
      box.hidden = !free;
      if (free && !box.hasChildNodes()) box.append(h('p', null, 'Nothing used today has a price. A catalog says what things cost:'), command('jobrunner serve --catalog examples/catalog.yaml'));
    });

    if (s.pods) showHint('pods-empty', $('pods'), s.pods.total === 0, 'none', () => h('p', null, 'There is no pod yet. This command creates one:'), () => command(podLine()));
    showPods(s, open.pod, again);
    showObjects(s, again);

    $('jobs-section').hidden = !!one && one.type !== 'QUEUE';
    setText($('jobs-count'), s.jobs.length ? `newest ${s.jobs.length}` : '');
    const jobs = more($('jobs-more'), s.jobs, again);
    keyed($('jobs').tBodies[0], jobs, (j) => j.endpoint + ' ' + j.id, (j) => makeJob(j, open.job), (tr, j) => updateJob(tr, j, s, names));
    const target = one ?? s.endpoints.find((e) => e.type === 'QUEUE');
    showHint('jobs-empty', $('jobs'), s.jobs.length === 0, target?.id ?? '',
      () => h('p', null, target ? 'No job yet, or none whose result is still kept. Send one:' : 'Jobs appear here as soon as an endpoint takes them.'),
      () => (target ? command(jobLine(target.id)) : ''));

    const listedWorkers = s.workers.filter((w) => w.state !== 'DIED').length;
    setText($('workers-count'), listedWorkers < values.workers[0] ? `${listedWorkers} of ${values.workers[0]}` : listedWorkers || '');
    keyed($('workers').tBodies[0], s.workers, (w) => w.endpoint + ' ' + w.id, (w) => makeWorker(w, open.worker), (tr, w) => updateWorker(tr, w, s, names));
    showHint('workers-empty', $('workers'), s.workers.length === 0, one?.max === 0 ? 'off' : 'none',
      () => h('p', null, one?.max === 0 ? 'This endpoint allows no worker (workers.max is 0): its jobs wait until that is raised.' : 'No worker runs. Workers start with the first job, and end after their idle time.'));
    refreshConfirm();
    if (moved) {
      $('main').focus();
      scrollTo(0, s.endpoint ? 0 : overviewTop);
    }
  };
  filter.addEventListener('input', () => latest && show(latest));
  return show;
}
