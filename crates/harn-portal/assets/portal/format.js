// Formats. Each function returns a short string; `exact` adds the exact value as the title.

import { asText, h, list, number, span } from './dom.js';

export const DASH = '–';

export function fmtDuration(ms) {
  if (!Number.isFinite(ms)) return DASH;
  if (ms > 0 && ms < 1) return '<1 ms';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000);
  const [d, hr, m, s] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, seconds % 60];
  if (d) return `${d} d ${hr} h`;
  return hr ? `${hr} h ${m} m` : `${m} m ${s} s`;
}

export function fmtCount(n) {
  if (!Number.isFinite(n)) return DASH;
  const size = Math.abs(n);
  if (size < 10000) return String(Math.round(n));
  if (size < 999500) return `${trimZero((n / 1e3).toFixed(1))}k`;
  return size < 1e9 ? `${trimZero((n / 1e6).toFixed(1))}M` : `${trimZero((n / 1e9).toFixed(1))}G`;
}

const trimZero = (text) => text.replace(/\.0$/, '');

export function fmtCost(usd) {
  if (!Number.isFinite(usd)) return DASH;
  if (usd === 0) return '$0';
  if (Math.abs(usd) < 0.01) return `$${Number(usd.toPrecision(2))}`.replace(/e-.*/, '') === '$0' ? '<$0.0001' : `$${trimCost(usd)}`;
  return `$${usd.toFixed(Math.abs(usd) < 1 ? 3 : 2)}`;
}

function trimCost(usd) {
  return usd < 0.0001 ? usd.toExponential(1) : String(Number(usd.toPrecision(2)));
}

export function fmtBytes(n) {
  if (!Number.isFinite(n)) return DASH;
  if (n < 1024) return `${n} B`;
  return n < 1048576 ? `${(n / 1024).toFixed(1)} KB` : `${(n / 1048576).toFixed(1)} MB`;
}

// Accepts RFC 3339, epoch milliseconds, or "SECS.MILLIS" as transcripts have it.
export function toDate(value) {
  if (value == null || value === '') return null;
  const isSeconds = typeof value === 'string' && /^\d+(\.\d+)?$/.test(value);
  const date = new Date(isSeconds ? Number(value) * 1000 : value);
  return Number.isNaN(date.getTime()) ? null : date;
}

function fmtTime(value, { millis = false, day = true } = {}) {
  const date = toDate(value);
  if (!date) return value ? asText(value) : DASH;
  const two = (n) => String(n).padStart(2, '0');
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  const full = millis ? `${clock}.${String(date.getMilliseconds()).padStart(3, '0')}` : clock;
  return day ? `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${full}` : full;
}

export function exact(text, title, cls) {
  return h('span', { title, class: cls }, text);
}

export const duration = (ms) => exact(fmtDuration(ms), Number.isFinite(ms) ? `${ms} ms` : null, 'num');
export const count = (n) => exact(fmtCount(n), Number.isFinite(n) ? n.toLocaleString('en') : null, 'num');
export const cost = (usd) => exact(fmtCost(usd), Number.isFinite(usd) ? `${usd} USD` : null, 'num');
export const bytes = (n) => exact(fmtBytes(n), Number.isFinite(n) ? `${n.toLocaleString('en')} bytes` : null, 'num');
export const time = (value, options) => exact(fmtTime(value, options), toDate(value)?.toISOString(), 'num');

export function tokens(input, output) {
  const title = `${number(input).toLocaleString('en')} in, ${number(output).toLocaleString('en')} out`;
  return exact(`${fmtCount(input)} → ${fmtCount(output)}`, title, 'num');
}

export function plural(n, one, many = `${one}s`) {
  return `${n.toLocaleString('en')} ${n === 1 ? one : many}`;
}

export function statusKind(status) {
  const text = asText(status).toLowerCase();
  if (/^(completed?|success|succeeded|passed|pass|ok|done|ready)$/.test(text)) return 'ok';
  if (/^(running|active|started|in_progress|pending|queued)$/.test(text)) return 'live';
  if (/(fail|error|timeout|reject|denied|crash)/.test(text)) return 'bad';
  if (/(cancel|pause|stop|abort|skip|stuck|wait|exhaust|partial)/.test(text)) return 'warn';
  return 'plain';
}

export function pill(text, kind = 'plain', title = null) {
  return h('span', { class: `pill ${kind}`, title }, text);
}

export const statusPill = (status) => pill(asText(status) || 'unknown', `${statusKind(status)} dot`);
export const tag = (text, title) => h('span', { class: 'tag', title }, text);
export const tags = (names) => (list(names).length ? list(names).map((name) => tag(name)) : span('muted', DASH));
export const mono = (text, title) => h('code', { title }, text);
