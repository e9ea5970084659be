// Routes and page life

import { comparePage } from './compare.js';
import { costsPage } from './costs.js';
import { asText, button, clean, h, para, span } from './dom.js';
import { launchPage } from './launch.js';
import { runPage } from './run.js';
import { runsPage } from './runs.js';

export const runUrl = (path) => `/run/${asText(path).split('/').map(encodeURIComponent).join('/')}`;

export function compareUrl(left, right) {
  const params = new URLSearchParams();
  if (left) params.set('left', left);
  if (right) params.set('right', right);
  return `/compare${params.size ? `?${params}` : ''}`;
}

export function link(href, ...children) {
  return h('a', { href }, ...children);
}

export let current = null;

export function navigate(url, { replace = false } = {}) {
  if (replace) history.replaceState(history.state, '', url);
  else history.pushState({ scroll: 0 }, '', url);
  renderRoute();
}

export function renderRoute() {
  current?.close();
  const { name, page, args } = matchRoute(location.pathname);
  const root = document.getElementById('main');
  current = makeContext(root);
  for (const a of document.querySelectorAll('[data-nav]')) {
    if (a.dataset.nav === name) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  root.replaceChildren();
  page(current, ...args);
}

function matchRoute(pathname) {
  const fixed = { '/': ['runs', runsPage], '/compare': ['compare', comparePage], '/costs': ['costs', costsPage], '/launch': ['launch', launchPage] };
  const found = fixed[pathname.replace(/(.)\/$/, '$1')];
  if (found) return { name: found[0], page: found[1], args: [] };
  if (pathname.startsWith('/run/')) return { name: 'runs', page: runPage, args: [decodePath(pathname.slice(5))] };
  return { name: '', page: notFoundPage, args: [] };
}

function decodePath(text) {
  return text.split('/').map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  }).join('/');
}

// A context lives as long as its page is shown: requests, timers and listeners end with its signal.
function makeContext(root) {
  const controller = new AbortController();
  const { signal } = controller;
  const scroll = history.state?.scroll;
  return {
    root,
    signal,
    settled: false,
    close: () => controller.abort(),
    on: (target, type, handler) => target.addEventListener(type, handler, { signal }),
    // Calls `task` again `ms` after it has ended, but not while the page is hidden.
    every(ms, task) {
      let timer = 0;
      const plan = () => {
        clearTimeout(timer);
        if (!signal.aborted) timer = setTimeout(run, ms);
      };
      const run = async () => {
        if (!document.hidden) await task();
        plan();
      };
      signal.addEventListener('abort', () => clearTimeout(timer));
      document.addEventListener('visibilitychange', () => { if (!document.hidden) run(); }, { signal });
      plan();
    },
    // After the first content is loaded, restores the scroll position, or scrolls to the panel in the address.
    ready() {
      if (this.settled || signal.aborted) return;
      this.settled = true;
      const target = location.hash && document.getElementById(decodePath(location.hash.slice(1)));
      if (scroll) scrollTo(0, scroll);
      else if (target) target.scrollIntoView();
      else scrollTo(0, 0);
    },
  };
}

export function setTitle(text) {
  document.title = clean(text ? `${text} – Harn portal` : 'Harn portal');
}

// Loads data into `el`; shows a late "Loading", or the error with a retry.
export async function load(ctx, el, fetchData, render) {
  const late = setTimeout(() => el.replaceChildren(para('muted loading', 'Loading…')), 150);
  try {
    const data = await fetchData();
    if (ctx.signal.aborted) return;
    el.replaceChildren(...[render(data)].flat().filter(Boolean));
    ctx.ready();
  } catch (error) {
    if (error.name === 'AbortError' || ctx.signal.aborted) return;
    el.replaceChildren(errorBox(error, () => load(ctx, el, fetchData, render)));
    ctx.ready();
  } finally {
    clearTimeout(late);
  }
}

export function errorBox(error, retry) {
  return h('div', { class: 'error', role: 'alert' },
    span(null, error?.message || asText(error) || 'Something went wrong.'),
    retry && button('Retry', retry));
}

function notFoundPage(ctx) {
  setTitle('Not found');
  ctx.root.append(h('h1', null, 'Page not found'), h('p', null, 'There is no page at this address. ', link('/', 'Go to the runs')));
  ctx.ready();
}
