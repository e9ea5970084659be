// Text and elements. Everything a run contains is untrusted: all elements are made by `h`, which only creates text nodes
// and plain attributes, and nothing is ever parsed as HTML. Links go to routes of this page only.

export const PAGE_SIZE = 50;
export const CLIP_CHARS = 1600;
export const CLIP_LINES = 14;
export const CHUNK_CHARS = 300000;

// Control and direction characters could hide or reorder text, so they are shown as escapes.
const HIDDEN_CHARS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

export function clean(value) {
  return asText(value).replace(HIDDEN_CHARS, (ch) => `\\u{${ch.charCodeAt(0).toString(16)}}`);
}

export function asText(value) {
  if (value == null) return '';
  if (typeof value === 'string') return value;
  if (typeof value === 'object') return toJson(value);
  return String(value);
}

export function toJson(value) {
  try {
    return JSON.stringify(value, null, 2) ?? '';
  } catch {
    return '(not representable as JSON)';
  }
}

export function h(tag, attrs, ...children) {
  return fill(document.createElement(tag), attrs, children);
}

export function svg(tag, attrs, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attrs, children);
}

function fill(el, attrs, children) {
  for (const [name, value] of Object.entries(attrs ?? {})) setAttr(el, name, value);
  appendAll(el, children);
  return el;
}

function setAttr(el, name, value) {
  if (value == null || value === false) return;
  if (name.startsWith('on')) el.addEventListener(name.slice(2), value);
  else if (name === 'vars') for (const [key, v] of Object.entries(value)) el.style.setProperty(key, v);
  else if (name === 'value' || name === 'checked') el[name] = value;
  else if (name === 'href' && !isOwnRoute(value)) return;
  else el.setAttribute(name, value === true ? '' : clean(value));
}

function isOwnRoute(href) {
  return typeof href === 'string' && (/^\/(?![/\\])/.test(href) || href.startsWith('#'));
}

function appendAll(el, children) {
  for (const child of children) {
    if (child == null || child === false) continue;
    if (Array.isArray(child)) appendAll(el, child);
    else el.append(child instanceof Node ? child : document.createTextNode(clean(child)));
  }
}

export const div = (cls, ...children) => h('div', { class: cls }, ...children);
export const span = (cls, ...children) => h('span', { class: cls }, ...children);
export const para = (cls, ...children) => h('p', { class: cls }, ...children);

export function button(label, onclick, attrs) {
  return h('button', { type: 'button', onclick, ...attrs }, label);
}

export function announce(text) {
  document.getElementById('announce').textContent = clean(text);
}

export const list = (value) => (Array.isArray(value) ? value.filter((item) => item != null) : []);
export const object = (value) => (value && typeof value === 'object' && !Array.isArray(value) ? value : {});
export const number = (value) => (Number.isFinite(value) ? value : 0);
export const sum = (items, pick) => items.reduce((total, item) => total + number(pick(item)), 0);
export const isEmptyValue = (v) => v == null || v === '' || (typeof v === 'object' && Object.keys(v).length === 0);
