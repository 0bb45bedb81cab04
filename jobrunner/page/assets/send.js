// The form that sends a job, and shows its stream and its end.

import { $, h, setText } from './dom.js';
import { actOnJob, mayCancel, mayRetry } from './actions.js';
import { call } from './call.js';
import { duration, words } from './format.js';

let endpoint = '';
let job = null; // {id, state}
let turn = 0; // of what is shown: what an older one brings is left out

const remembered = (id) => 'gpucloud-input-' + id;

const over = (state) => !mayCancel(state);

// submission makes one of what was typed: an input, or an object with the member
// input.
function submission(text) {
  const value = JSON.parse(text || '{}');
  if (value === null || typeof value !== 'object' || Array.isArray(value)) throw new Error('Expected a JSON object.');
  const whole = value.input !== null && typeof value.input === 'object' && !Array.isArray(value.input);
  return JSON.stringify(whole ? value : { input: value });
}

function showState(told) {
  job = { id: told.id, state: told.status };
  setText($('send-state'), `${told.id}: ${words(told.status)}` + (told.executionTime != null ? ` in ${duration(told.executionTime)}` : ''));
  $('send-state').dataset.state = told.status;
  $('send-cancel').disabled = !mayCancel(told.status);
  $('send-retry').disabled = !mayRetry(told.status);
}

const pretty = (value) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));

function showEnd(told) {
  showState(told);
  const result = $('send-result');
  result.hidden = told.output === undefined && !told.error;
  setText(result, [told.error, told.output === undefined ? '' : pretty(told.output)].filter(Boolean).join('\n'));
}

// follow shows the chunks of a job as they come, and its end.
async function follow(id) {
  const mine = turn;
  const stream = $('send-stream');
  while (mine === turn) {
    const told = await call('stream', { endpoint, id });
    if (mine !== turn) return;
    for (const chunk of told.stream) stream.append(h('div', null, pretty(chunk.output)));
    stream.hidden = !stream.childElementCount;
    stream.scrollTop = stream.scrollHeight;
    if (over(told.status)) break;
    showState({ id, status: told.status });
  }
  const told = await call('status', { endpoint, id });
  if (mine === turn) showEnd(told);
}

async function guarded(work) {
  setText($('send-error'), '');
  try {
    await work();
  } catch (e) {
    setText($('send-error'), e.message);
  }
}

function clear() {
  turn++;
  $('send-stream').replaceChildren();
  $('send-stream').hidden = $('send-result').hidden = true;
  setText($('send-state'), '');
}

async function send(op) {
  const body = submission($('send-input').value);
  try {
    localStorage.setItem(remembered(endpoint), $('send-input').value);
  } catch { /* a browser may keep nothing */ }
  clear();
  if (op === 'runsync') {
    const mine = turn;
    setText($('send-state'), 'Waiting for the end …');
    const told = await call(op, { endpoint }, body);
    if (mine === turn) showEnd(told);
    if (mine === turn && !over(told.status)) await follow(told.id);
    return;
  }
  const told = await call(op, { endpoint }, body);
  showState(told);
  await follow(told.id);
}

// show brings the form up to date: one is the endpoint, undefined for all.
export function showForm(one) {
  $('send-section').hidden = !one || one.type !== 'QUEUE';
  if (!one || one.id === endpoint) return;
  clear();
  endpoint = one.id;
  let text = null;
  try {
    text = localStorage.getItem(remembered(endpoint));
  } catch { /* it was kept nowhere */ }
  $('send-input').value = text ?? '{\n  "say": "hello"\n}';
  $('send-cancel').disabled = $('send-retry').disabled = true;
  setText($('send-variable'), `export RUNPOD_ENDPOINT_BASE_URL=${location.origin}/live/v2`);
}

$('send-form').addEventListener('submit', (e) => {
  e.preventDefault();
  guarded(() => send(e.submitter?.value ?? 'run'));
});
const input = () => $('send-input');
$('send-cancel').addEventListener('click', () => actOnJob('cancel', { ...job, endpoint }, showState, input));
$('send-retry').addEventListener('click', () => actOnJob('retry', { ...job, endpoint }, (told) => guarded(() => {
  clear();
  showState(told);
  return follow(told.id);
}), input));
$('send-copy').addEventListener('click', async (e) => {
  await navigator.clipboard.writeText($('send-variable').textContent);
  setText(e.target, 'Copied');
  setTimeout(() => setText(e.target, 'Copy'), 1500);
});
$('send-copy').hidden = !navigator.clipboard;
