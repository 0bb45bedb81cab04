// Human-readable numbers and times.

export const count = (n) => n.toLocaleString('en');

// exact is a reviver for JSON.parse. It keeps the text of numbers that JavaScript would round, if the browser can.
export const exact = (_, value, context) => (typeof value === 'number' && JSON.rawJSON && String(value) !== context.source ? JSON.rawJSON(context.source) : value);

// beginning returns as much of a text as the browser lays out at once, and says that the rest is omitted.
export const beginning = (text) => (text.length > 256 << 10 ? text.slice(0, 256 << 10) + '\n… The rest is omitted here: the job API has it.' : text);

const two = (n) => String(n).padStart(2, '0');

export function duration(ms) {
  if (ms == null) return '–';
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`; // clocks may differ
  const sec = ms / 1000;
  if (sec < 10) return `${sec.toFixed(1)} s`;
  if (sec < 60) return `${Math.round(sec)} s`;
  const min = Math.floor(sec / 60);
  if (min < 60) return `${min} min ${two(Math.floor(sec % 60))} s`;
  const hours = Math.floor(min / 60);
  if (hours < 24) return `${hours} h ${two(min % 60)} min`;
  return `${Math.floor(hours / 24)} d ${two(hours % 24)} h`;
}

// ago is coarse, because a table whose cells all change every second can't be read.
export function ago(ms) {
  const sec = Math.max(0, Math.floor(ms / 1000));
  if (sec < 5) return 'just now';
  if (sec < 60) return `${sec - (sec % 5)} s ago`;
  if (sec < 3600) return `${Math.floor(sec / 60)} min ago`;
  if (sec < 86400) return `${Math.floor(sec / 3600)} h ago`;
  return `${Math.floor(sec / 86400)} d ago`;
}

export function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) [n, i] = [n / 1024, i + 1];
  return `${n < 10 && i > 0 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

export const clock = (ms) => {
  const t = new Date(ms);
  return `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
};

export const date = (ms) => {
  const t = new Date(ms);
  return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${two(t.getHours())}:${two(t.getMinutes())}`;
};

export const money = (n) => '$' + n.toFixed(n > 0 && n < 1 ? 4 : 2);

export const words = (state) => state.toLowerCase().replaceAll('_', ' ');

export const gpus = (n, type) => `${n} × ${type}`;

// compute describes the compute that a pod has or requests.
export function compute({ gpu, cpu, gpuTypeId }) {
  if (gpu) return gpus(gpu.count, gpuTypeId || gpu.typeIds?.join(' or ') || 'GPU of any type');
  return cpu ? `${cpu.vcpuCount} vCPU ${cpu.flavorIds.join(' or ')}` : '';
}
