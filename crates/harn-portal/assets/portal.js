// The user interface of `harn portal`: one page over recorded runs. Each part is a file in `portal/`.

import { getMeta } from './portal/api.js';
import { announce, asText, clean } from './portal/dom.js';
import { debounce } from './portal/parts.js';
import { current, navigate, renderRoute } from './portal/routes.js';
import { jumpTo } from './portal/run.js';

function onLinkClick(event) {
  const a = event.target.closest?.('a[href]');
  if (!a || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || a.target) return;
  const href = a.getAttribute('href');
  event.preventDefault();
  if (href.startsWith('#')) jumpTo(href.slice(1));
  else {
    navigate(href);
    document.getElementById('main').focus({ preventScroll: true });
    announce(document.title);
  }
}

// `/` focuses the filter; `j` and `k` move through panels and runs.
function onShortcut(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.('input, textarea, select, [contenteditable]')) return;
  const filter = document.getElementById('filter');
  if (event.key === '/' && filter) {
    event.preventDefault();
    filter.focus();
  } else if (event.key === 'j' || event.key === 'k') stepThrough(event.key === 'j' ? 1 : -1);
}

function stepThrough(by) {
  const panels = [...document.querySelectorAll('.panels > .panel')];
  if (panels.length) {
    const active = [...document.querySelectorAll('.side a')].findIndex((a) => a.classList.contains('active'));
    const next = panels[active + by];
    if (next) jumpTo(next.id);
    return;
  }
  const runs = [...document.querySelectorAll('.runs td.name > a')];
  (runs[runs.indexOf(document.activeElement) + by] ?? runs[by > 0 ? 0 : runs.length - 1])?.focus();
}

function start() {
  history.scrollRestoration = 'manual';
  document.addEventListener('click', onLinkClick);
  document.addEventListener('keydown', onShortcut);
  window.addEventListener('popstate', renderRoute);
  // Before the content is loaded, the scroll position is not the reader's.
  window.addEventListener('scroll', debounce(() => current.settled && history.replaceState({ ...history.state, scroll: scrollY }, ''), 250));
  getMeta().then((meta) => {
    const where = document.getElementById('where');
    where.textContent = clean([meta.run_dir, meta.version && `v${meta.version}`].filter(Boolean).join(' · '));
    where.title = clean(`Workspace: ${asText(meta.workspace_root)}`);
  }, () => {}); // the pages themselves report a server that does not answer
  renderRoute();
}

start();
