// Shared parts

import {
  announce, asText, button, CHUNK_CHARS, clean, CLIP_CHARS, CLIP_LINES, div, h, PAGE_SIZE, para, span, toJson,
} from './dom.js';
import { DASH, fmtBytes, fmtCount, mono, statusPill, time } from './format.js';

export function copyButton(text, label = 'Copy') {
  const el = button(label, async () => {
    const done = await copyText(asText(text));
    el.textContent = done ? 'Copied' : 'Copy failed';
    announce(el.textContent);
    setTimeout(() => { el.textContent = label; }, 1500);
  }, { class: 'small copy', title: 'Copy to the clipboard' });
  return el;
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

// The clipboard interface is missing on plain http addresses other than localhost.
function copyBySelection(text) {
  const area = h('textarea', { class: 'sr-only', value: text, 'aria-hidden': 'true' });
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  return done;
}

export function empty(text) {
  return para('empty', text);
}

// A long string, truncated at first and expanded in steps, so that megabytes of it do not block the page.
export function textBlock(value, { cls = '', copy = true } = {}) {
  const text = asText(value);
  if (text === '') return para('muted none', '(empty)');
  const pre = h('pre', { class: `text ${cls}`, tabindex: '0' });
  const bar = div('text-bar');
  const clipped = clipEnd(text);
  let end = clipped;
  const draw = () => {
    pre.textContent = clean(text.slice(0, end)) + (end < text.length ? ' …' : '');
    pre.classList.toggle('open', end > clipped);
    bar.replaceChildren(...textControls(text, end, clipped, (next) => { end = next; draw(); }));
  };
  draw();
  return div('text-block', pre, copy && text.length > 12 && copyButton(text), bar);
}

function textControls(text, end, clipped, go) {
  const size = fmtBytes(text.length).replace('B', 'chars').replace('Kchars', 'K chars').replace('Mchars', 'M chars');
  const next = Math.min(text.length, end + CHUNK_CHARS);
  return [
    end < text.length && button(next === text.length ? `Show all (${size})` : `Show more (${size})`, () => go(next), { class: 'small' }),
    end > clipped && button('Show less', () => go(clipped), { class: 'small' }),
  ].filter(Boolean);
}

function clipEnd(text) {
  let end = 0;
  for (let line = 0; line < CLIP_LINES; line++) {
    const next = text.indexOf('\n', end);
    if (next < 0) return text.length <= CLIP_CHARS * 1.25 ? text.length : CLIP_CHARS;
    end = next + 1;
    if (end > CLIP_CHARS) return CLIP_CHARS;
  }
  // A short remainder is shown without a button.
  return text.length - end < 200 ? text.length : end - 1;
}

export const jsonBlock = (value) => textBlock(typeof value === 'string' ? value : toJson(value), { cls: 'json' });

// A disclosure that creates its content when it is first opened.
export function lazy(summary, makeBody, { open = false, cls = '' } = {}) {
  const el = h('details', { class: cls }, h('summary', null, summary));
  let made = false;
  const make = () => {
    if (made || !el.open) return;
    made = true;
    el.append(div('body', makeBody()));
  };
  el.addEventListener('toggle', make);
  el.open = open;
  make();
  return el;
}

// Shows `items` in pages. `reveal` turns to the page of an item and returns its element.
export function paged(items, container, renderItem, { size = PAGE_SIZE, fixed = [] } = {}) {
  const nav = div('pager');
  let page = 0;
  const show = (next) => {
    page = next;
    const from = page * size;
    container.replaceChildren(...fixed, ...items.slice(from, from + size).map((item, i) => renderItem(item, from + i)));
    nav.hidden = items.length <= size;
    nav.replaceChildren(...pagerButtons(page, Math.ceil(items.length / size), show),
      span('muted', `${from + 1}–${Math.min(items.length, from + size)} of ${items.length.toLocaleString('en')}`));
  };
  show(0);
  return {
    nodes: [container, nav],
    reveal(index) {
      if (Math.floor(index / size) !== page) show(Math.floor(index / size));
      return container.children[fixed.length + (index % size)];
    },
  };
}

export function pagerButtons(page, pages, go) {
  const make = (label, target, title) => {
    const off = target < 0 || target >= pages || target === page;
    return button(label, () => { if (!off) go(target); },
      { class: 'small', 'aria-label': title, 'data-target': target, 'aria-disabled': off ? 'true' : null });
  };
  return [make('«', 0, 'First page'), make('‹ Prev', page - 1, 'Previous page'), make('Next ›', page + 1, 'Next page'),
    make('»', pages - 1, 'Last page')];
}

// A column: its label, the function that renders its cell for a row, and {num, cls, title, sort}.
export const col = (label, cell, extra) => ({ label, cell, ...extra });
export const textCol = (label, key, extra) => col(label, (row) => asText(row[key]) || DASH, extra);
export const monoCol = (label, key, extra) => col(label, (row) => mono(asText(row[key]) || DASH), extra);
export const timeCol = (label, key) => col(label, (row) => time(row[key], { day: false, millis: true }));
export const statusCol = () => col('Status', (row) => statusPill(row.status));
export const NUM = { num: true };

export function table(columns, rows, { caption, size, rowClass } = {}) {
  const head = h('thead', null, h('tr', null, columns.map((col) => h('th', { scope: 'col', class: cellClass(col), title: col.title }, col.label))));
  const renderRow = (row, i) => h('tr', { class: rowClass?.(row) },
    columns.map((col) => h('td', { class: cellClass(col) }, col.cell(row, i))));
  const body = h('tbody');
  const pages = paged(rows, body, renderRow, { size });
  return div(null,
    h('div', { class: 'scroll-x', tabindex: '0', role: 'region', 'aria-label': caption },
      h('table', null, caption && h('caption', { class: 'sr-only' }, caption), head, body)),
    pages.nodes[1]);
}

export const cellClass = (col) => [col.num && 'r', col.cls].filter(Boolean).join(' ') || null;

// A paged list with a filter and a choice of kinds, for panels that can become long.
export function filterable(items, { kindOf, textOf, render, label, cls = 'rows', expandable = false }) {
  const kinds = countBy(items, kindOf);
  const body = div();
  const state = { kind: '', text: '', pages: null, shown: items };
  const update = () => {
    const needle = state.text.toLowerCase();
    state.shown = items.filter((item) => (!state.kind || kindOf(item) === state.kind) && (!needle || textOf(item).toLowerCase().includes(needle)));
    state.pages = paged(state.shown, h('div', { class: cls }), (item) => render(item, items.indexOf(item)));
    body.replaceChildren(...(state.shown.length ? state.pages.nodes : [empty('Nothing matches the filter.')]));
  };
  const chips = kinds.size > 1 ? kindChips(kinds, items.length, (kind) => { state.kind = kind; update(); }) : null;
  const input = h('input',
    { type: 'search', placeholder: 'Find', 'aria-label': `Find in ${label}`, oninput: debounce(() => { state.text = input.value; update(); }, 200) });
  const bar = div('bar', chips, items.length > 5 && input, expandable && expandButtons(body));
  update();
  return {
    el: div(null, bar, body),
    reveal(item) {
      if (!state.shown.includes(item)) {
        Object.assign(state, { kind: '', text: '' });
        input.value = '';
        chips?.reset();
        update();
      }
      return state.pages.reveal(state.shown.indexOf(item));
    },
  };
}

export function countBy(items, keyOf) {
  const counts = new Map();
  for (const item of items) counts.set(keyOf(item), (counts.get(keyOf(item)) ?? 0) + 1);
  return counts;
}

function kindChips(kinds, total, choose) {
  const group = h('div', { class: 'chips', role: 'group', 'aria-label': 'Kinds' });
  const press = (kind) => { for (const el of group.children) el.setAttribute('aria-pressed', String(el.kind === kind)); };
  const add = (kind, label, n) => {
    const chip = button([label, ' ', span('muted', fmtCount(n))], () => { press(kind); choose(kind); }, { class: 'chip' });
    chip.kind = kind;
    group.append(chip);
  };
  add('', 'All', total);
  for (const [kind, n] of kinds) add(kind, kind || 'other', n);
  press('');
  group.reset = () => press('');
  return group;
}

function expandButtons(body) {
  const setAll = (open) => { for (const el of body.querySelectorAll(':scope > div > details')) el.open = open; };
  return span('push', button('Expand all', () => setAll(true), { class: 'small' }), ' ',
    button('Collapse all', () => setAll(false), { class: 'small' }));
}

export function debounce(task, ms) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => task(...args), ms);
  };
}

export function stat(label, value, detail) {
  return div('stat', div('label', label), div('value', value),
    detail && div('detail', detail));
}

// Label and value pairs; pairs without a value are left out.
export function facts(pairs) {
  return h('dl', { class: 'facts' }, pairs.filter(([, value]) => value)
    .map(([label, value]) => div(null, h('dt', null, label), h('dd', null, value))));
}

export function section(title, ...children) {
  return div('sub', h('h3', null, title), ...children);
}
