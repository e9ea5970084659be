// Runs

import { api, getMeta } from './api.js';
import { asText, button, div, h, list, number, object, span } from './dom.js';
import {
  cost, count, DASH, duration, fmtDuration, mono, plural, statusKind, statusPill, tags, time, toDate, tokens,
} from './format.js';
import { cellClass, debounce, empty, pagerButtons, stat } from './parts.js';
import { compareUrl, errorBox, link, runUrl, setTitle } from './routes.js';

const RUN_DEFAULTS = { q: '', workflow: '', status: 'all', skill: '', sort: 'newest', page: '1', page_size: '25' };
const lastReplies = new Map(); // replies by query: going back shows the list at once
const chosenRuns = new Set(); // paths ticked for a comparison

function readQuery() {
  const params = new URLSearchParams(location.search);
  return Object.fromEntries(Object.entries(RUN_DEFAULTS).map(([key, value]) => [key, params.get(key) ?? value]));
}

function queryUrl(query) {
  const params = new URLSearchParams(Object.entries(query).filter(([key, value]) => value !== RUN_DEFAULTS[key]));
  return params.size ? `/?${params}` : '/';
}

export function runsPage(ctx) {
  setTitle('Runs');
  const view = runsView(ctx);
  ctx.root.append(h('h1', { class: 'sr-only' }, 'Runs'), view.stats, view.form, view.problem, view.frame, view.note, view.pager);
  let newest = 0;

  async function refresh() {
    const query = readQuery();
    const key = queryUrl(query);
    const turn = ++newest;
    try {
      const data = await api('/api/runs', { params: query, signal: ctx.signal });
      if (turn !== newest || ctx.signal.aborted) return;
      lastReplies.set(key, data);
      view.problem.replaceChildren();
      view.show(data);
    } catch (error) {
      if (error.name === 'AbortError' || turn !== newest) return;
      view.problem.replaceChildren(errorBox(error, refresh));
    }
    ctx.ready();
  }

  // Changes the address and reloads the list. The form is not rebuilt, so focus and cursor are preserved.
  view.change = (changes, replace = false) => {
    const url = queryUrl({ ...readQuery(), page: '1', ...changes });
    if (replace) history.replaceState(history.state, '', url);
    else history.pushState({ scroll: 0 }, '', url);
    view.syncForm(readQuery());
    refresh();
  };

  view.syncForm(readQuery());
  const known = lastReplies.get(queryUrl(readQuery()));
  if (known) {
    view.show(known);
    ctx.ready();
  }
  refresh();
  ctx.every(5000, refresh);
  return view;
}

function runsView(ctx) {
  const view = {
    stats: div('stats'), problem: div(), note: div(), pager: div('pager'),
    body: h('tbody'), rows: new Map(), change: () => {},
  };
  buildRunsForm(view, ctx);
  buildRunsTable(view);
  view.show = (data) => showRuns(view, data);
  return view;
}

function buildRunsForm(view) {
  const search = h('input', {
    type: 'search', id: 'filter', placeholder: 'Name, id, path, status, failure, model', 'aria-label': 'Search runs',
    oninput: debounce(() => view.change({ q: search.value }, true), 200),
  });
  const select = (label, key, options) => {
    const el = h('select', { onchange: () => view.change({ [key]: el.value }) }, options.map(([value, text]) => h('option', { value }, text)));
    return [el, h('label', null, span(null, label), el)];
  };
  const [workflow, workflowBox] = select('Workflow', 'workflow', [['', 'All']]);
  const [status, statusBox] = select('Status', 'status', [['all', 'All'], ['active', 'Active'], ['completed', 'Completed'], ['failed', 'Failed']]);
  const [skill, skillBox] = select('Skill', 'skill', [['', 'All']]);
  const [sort, sortBox] = select('Order', 'sort', [['newest', 'Newest first'], ['oldest', 'Oldest first'], ['duration', 'Longest first']]);
  const clear = button('Clear', () => view.change({ ...RUN_DEFAULTS, page_size: readQuery().page_size }));
  view.fields = { q: search, workflow, status, skill, sort };
  view.compare = h('a', { class: 'button push', hidden: true }, 'Compare the 2 chosen runs');
  view.counted = h('span', { class: 'muted', role: 'status' });
  view.form = h('form', { class: 'bar filters', role: 'search', onsubmit: (event) => event.preventDefault() },
    h('label', { class: 'grow' }, span(null, 'Search'), search), workflowBox, statusBox, skillBox, sortBox, clear, view.counted, view.compare);
  view.syncForm = (query) => {
    for (const [key, el] of Object.entries(view.fields)) setField(el, query[key]);
    clear.hidden = queryUrl({ ...query, page: '1', page_size: '25', sort: 'newest' }) === '/';
    view.syncSort?.(query.sort);
  };
}

export function setField(el, value) {
  if (el.tagName === 'SELECT' && ![...el.options].some((option) => option.value === value)) el.append(h('option', { value }, value));
  if (el.value !== value && !(el.type === 'search' && el === document.activeElement)) el.value = value;
}

const RUN_COLUMNS = [
  { label: '', cls: 'pick', cell: (run, view) => h('input', { type: 'checkbox', checked: chosenRuns.has(run.path),
    'aria-label': `Choose ${asText(run.workflow_name)} for a comparison`, onchange: (event) => chooseRun(view, run.path, event.target.checked) }) },
  { label: 'Status', cell: (run) => statusPill(run.status) },
  { label: 'Run', cls: 'name', cell: runNameCell },
  { label: 'Started', sort: 'newest', cls: 'p2', cell: (run) => time(run.started_at) },
  { label: 'Duration', sort: 'duration', num: true, cell: (run) => runDuration(run) },
  { label: 'Stages', num: true, cls: 'p2', cell: (run) => [count(run.stage_count),
    run.child_run_count > 0 && h('span', { class: 'muted', title: plural(run.child_run_count, 'child run') }, ` +${run.child_run_count}`)] },
  { label: 'Calls', num: true, cls: 'p2', title: 'Model calls', cell: (run) => count(run.call_count) },
  { label: 'Tokens', num: true, cls: 'p2', title: 'Input → output', cell: (run) => tokens(run.input_tokens, run.output_tokens) },
  { label: 'Cost', num: true, cls: 'p2', cell: (run) => cost(run.cost_usd) },
  { label: 'Models', cls: 'p3', cell: (run) => tags(run.models) },
  { label: 'Last stage', cls: 'p3', cell: (run) => (run.last_stage_node_id ? mono(run.last_stage_node_id) : DASH) },
  { label: 'Skills', cls: 'p4', cell: (run) => tags(run.skills) },
];

function runNameCell(run) {
  return [
    link(runUrl(run.path), asText(run.workflow_name) || run.id || run.path),
    h('div', { class: 'path', title: run.id }, run.path),
    div('narrow-only muted', time(run.started_at)),
    run.failure_summary && h('div', { class: 'failure', title: run.failure_summary }, run.failure_summary),
  ];
}

// Shows the elapsed time of a run in progress.
export function runDuration(run) {
  if (Number.isFinite(run.duration_ms)) return duration(run.duration_ms);
  const started = toDate(run.started_at);
  if (statusKind(run.status) !== 'live' || !started) return DASH;
  return h('span', { class: 'num live-text', title: 'Still running' }, fmtDuration(Math.max(0, Math.floor((Date.now() - started) / 1000) * 1000)));
}

function chooseRun(view, path, chosen) {
  if (chosen) chosenRuns.add(path);
  else chosenRuns.delete(path);
  if (chosenRuns.size > 2) chosenRuns.delete([...chosenRuns][0]);
  for (const [rowPath, row] of view.rows) row.querySelector('input').checked = chosenRuns.has(rowPath);
  showCompareLink(view);
}

function showCompareLink(view) {
  view.compare.hidden = chosenRuns.size !== 2;
  if (chosenRuns.size === 2) view.compare.setAttribute('href', compareUrl(...chosenRuns));
}

function buildRunsTable(view) {
  const heads = RUN_COLUMNS.map((col) => {
    if (!col.sort) return h('th', { scope: 'col', class: cellClass(col), title: col.title }, col.label || span('sr-only', 'Compare'));
    const order = () => (col.sort === 'newest' && readQuery().sort === 'newest' ? 'oldest' : col.sort);
    return h('th', { scope: 'col', class: cellClass(col), 'data-sort': col.sort },
      button(col.label, () => view.change({ sort: order() }), { class: 'sort' }));
  });
  view.syncSort = (sort) => {
    for (const th of heads.filter((el) => el.dataset.sort)) {
      const active = th.dataset.sort === sort || (th.dataset.sort === 'newest' && sort === 'oldest');
      th.setAttribute('aria-sort', !active ? 'none' : sort === 'oldest' ? 'ascending' : 'descending');
    }
  };
  view.frame = div('scroll-x card',
    h('table', { class: 'runs' }, h('caption', { class: 'sr-only' }, 'Recorded runs'), h('thead', null, h('tr', null, heads)), view.body));
}

function showRuns(view, data) {
  const stats = object(data.stats);
  const pagination = object(data.pagination);
  const rows = list(data.runs);
  patch(view.stats, [
    stat('Runs', count(stats.total_runs)), stat('Completed', count(stats.completed_runs)), stat('Active', count(stats.active_runs)),
    stat('Failed', count(stats.failed_runs)), stat('Average duration', duration(stats.avg_duration_ms)),
  ]);
  syncFacet(view.fields.workflow, list(data.facets?.workflows));
  syncFacet(view.fields.skill, list(data.facets?.skills));
  syncRows(view, rows);
  view.counted.textContent = plural(number(data.filtered_count ?? rows.length), 'run');
  view.frame.hidden = rows.length === 0;
  if (rows.length) view.note.replaceChildren();
  else showNoRuns(view.note, number(stats.total_runs) > 0);
  patch(view.pager, runsPager(view, pagination));
  view.pager.hidden = rows.length === 0;
  showCompareLink(view);
}

function showNoRuns(el, filtered) {
  if (filtered) {
    patch(el, [empty('No run matches these filters.')]);
    return;
  }
  getMeta().then((meta) => patch(el, [
    div('empty', h('p', null, 'There are no recorded runs in ', mono(meta.run_dir || 'the run directory'), ' yet.'),
      h('p', null, 'A run is recorded when a program runs a workflow or a persisted agent loop. You can also ', link('/launch', 'launch one'), '.')),
  ]), () => patch(el, [empty('There are no run records yet. Workflows write them; durable runs are listed by `harn runs list`.')]));
}

function runsPager(view, pagination) {
  const page = number(pagination.page) || 1;
  const pages = number(pagination.total_pages) || 1;
  const size = h('select', { 'aria-label': 'Runs per page', onchange: () => view.change({ page_size: size.value }) },
    [10, 25, 50, 100, 200].map((n) => h('option', { value: String(n) }, `${n} per page`)));
  setField(size, String(pagination.page_size ?? 25));
  return [...pagerButtons(page - 1, pages, (target) => view.change({ page: String(target + 1) })), span('muted', `Page ${page} of ${pages}`), size];
}

function syncFacet(select, names) {
  const values = ['', ...names];
  if (select.value && !values.includes(select.value)) values.push(select.value);
  const same = select.options.length === values.length && values.every((value, i) => select.options[i].value === value);
  if (same || select === document.activeElement) return;
  const kept = select.value;
  select.replaceChildren(...values.map((value) => h('option', { value }, value || 'All')));
  select.value = kept;
}

// Replaces only the children that differ, so that a refresh does not disturb focus or selection.
export function patch(el, nodes) {
  nodes.forEach((node, i) => {
    const old = el.children[i];
    if (!old) el.append(node);
    else if (!sameElement(old, node)) old.replaceWith(node);
  });
  while (el.children.length > nodes.length) el.lastElementChild.remove();
}

const sameElement = (a, b) => a.isEqualNode(b) && a.value === b.value;

function syncRows(view, runs) {
  const seen = new Set();
  runs.forEach((run, i) => {
    const cells = RUN_COLUMNS.map((col) => h('td', { class: cellClass(col) }, col.cell(run, view)));
    const row = view.rows.get(run.path);
    if (row) patch(row, cells);
    else view.rows.set(run.path, h('tr', null, cells));
    seen.add(run.path);
  });
  for (const [path, row] of view.rows) {
    if (seen.has(path)) continue;
    row.remove();
    view.rows.delete(path);
  }
  runs.forEach((run, i) => {
    const row = view.rows.get(run.path);
    if (view.body.children[i] !== row) view.body.insertBefore(row, view.body.children[i] ?? null);
  });
}
