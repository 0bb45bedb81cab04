// The page: signs in, requests a snapshot every second while it is visible, and shows it.

import { $, setAttr, setText } from './dom.js';
import { closeConfirm } from './confirm.js';
import { detail, refresh } from './detail.js';
import { view } from './parts.js';

const interval = 1000; // ms
const patience = 5000; // ms until the status says that an answer is missing
const show = view(detail);
let inFlight = null; // aborts the request for a snapshot

function setStatus(state, text) {
  setText($('status'), text);
  setAttr($('status'), 'data-state', state);
}

// leave closes what belongs to the shown address.
function leave() {
  setText($('outcome'), '');
  closeConfirm();
  if ($('detail').open) detail.close();
}

function showSignedIn(yes) {
  const wasLive = !$('live').hidden;
  $('live').hidden = !yes;
  $('signin').hidden = yes;
  $('signout').hidden = !yes;
  if (!yes) {
    setStatus('out', 'Signed out');
    setText($('facts'), '');
    setText($('user'), '');
    leave();
    if (wasLive) $('key').focus();
  }
}

async function signIn(body) {
  const answer = await fetch('/ui/session', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  if (answer.ok) return '';
  return (await answer.json()).error;
}

// signInByCode removes the code of a printed link from the address at once, and signs in with it. It returns
// whether there is a code.
async function signInByCode() {
  const code = new URLSearchParams(location.hash.slice(1)).get('code');
  if (!code) return false;
  history.replaceState(null, '', '/');
  setText($('signin-error'), await signIn({ code }).catch(() => ''));
  return true;
}

// endpointInAddress returns the id in #/endpoint/ID, or ''.
function endpointInAddress() {
  const [, kind, id] = location.hash.split('/');
  return (kind === 'endpoint' && id) || ''; // an id has no escapes
}

// requestSnapshot requests and shows one snapshot. It returns whether to continue.
async function requestSnapshot() {
  inFlight?.abort();
  inFlight = new AbortController();
  const endpoint = endpointInAddress();
  const late = setTimeout(setStatus, patience, 'lost', 'No answer yet, waiting');
  try {
    const pods = $('pods-filter').value.trim();
    const query = new URLSearchParams({ ...(endpoint && { endpoint }), ...(pods && !endpoint && { pods }) });
    const answer = await fetch('/ui/snapshot' + (query.size ? '?' + query : ''), { signal: inFlight.signal });
    if (answer.status === 401) {
      if (!$('live').hidden) setText($('signin-error'), (await answer.json()).error);
      showSignedIn(false);
      return false;
    }
    if (answer.status === 404 && endpoint) {
      const { error } = await answer.json(); // fails if a proxy answers
      history.replaceState(null, '', '#/'); // the back button must not lead to it again
      leave();
      setText($('outcome'), error);
      return requestSnapshot();
    }
    const body = await answer.json();
    if (!answer.ok) {
      setStatus('lost', body.error);
      return true;
    }
    if (endpoint !== endpointInAddress()) return true;
    showSignedIn(true);
    show(body);
    setStatus('live', 'Live');
    await refresh();
  } catch (e) {
    if (e.name === 'AbortError') return false; // another request follows, or the user signed out
    setStatus('lost', 'Not reachable, trying again');
  } finally {
    clearTimeout(late);
  }
  return true;
}

let timer = 0;
let running = false;

async function loop() {
  clearTimeout(timer);
  if (document.hidden) {
    running = false;
    return;
  }
  running = true;
  running = await requestSnapshot();
  if (running) timer = setTimeout(loop, interval);
}

$('signin-form').addEventListener('submit', async (e) => {
  e.preventDefault();
  const field = $('key');
  const error = await signIn({ key: field.value.trim() }).catch(() => 'The deployment can’t be reached.');
  setText($('signin-error'), error);
  field.value = '';
  if (error) field.focus();
  else {
    await loop();
    $('main').focus();
  }
});

$('signout').addEventListener('click', async () => {
  clearTimeout(timer);
  inFlight?.abort(); // its answer would be shown after the sign-out
  if (!(await fetch('/ui/session', { method: 'DELETE' }).catch(() => null))?.ok) return loop(); // the session is still valid
  localStorage.clear(); // inputs, which may contain secrets
  location.reload(); // the document has inputs and outputs, too
});

document.querySelector('.skip').addEventListener('click', (e) => {
  e.preventDefault();
  $('main').focus();
});
document.addEventListener('visibilitychange', () => { if (!running && $('signin').hidden) loop(); });
addEventListener('hashchange', async () => {
  leave();
  if (await signInByCode() || $('signin').hidden) loop();
});
document.addEventListener('changed', loop); // show the result of an action at once
$('pods-filter').addEventListener('input', loop);

await signInByCode();
loop();
