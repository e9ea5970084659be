// Launch

import { api, getMeta } from './api.js';
import { announce, asText, button, clean, div, h, list, para, span } from './dom.js';
import { duration, mono, plural, statusPill, tag, time, toDate } from './format.js';
import { empty } from './parts.js';
import { errorBox, link, load, runUrl, setTitle } from './routes.js';
import { patch, setField } from './runs.js';

// Persists when the user visits another page, so that typed input is not lost.
const draft = { kind: 'file', path: '', source: 'pipeline main() {\n  println("hello")\n}\n', task: '', provider: '', model: '', env: [] };
const ENV_NAME = /^[A-Z_][A-Z0-9_]*$/;

export function launchPage(ctx) {
  setTitle('Launch');
  const formBox = div();
  const jobsBox = div('jobs');
  ctx.root.append(h('h1', null, 'Launch'), div('launch', formBox, h('section', { class: 'panel' }, h('h2', null, 'Jobs'), jobsBox)));
  const jobs = jobsView(ctx, jobsBox);
  load(ctx, formBox, () => fetchLaunch(ctx), (data) => launchForm(ctx, data, jobs));
}

async function fetchLaunch(ctx) {
  const meta = await getMeta();
  if (meta.launch?.allowed === false) return { meta };
  const [options, targets] = await Promise.all(['/api/llm/options', '/api/launch/targets'].map((path) => api(path, { signal: ctx.signal })));
  return { meta, providers: list(options.providers), targets };
}

function launchForm(ctx, { meta, providers, targets }, jobs) {
  if (meta.launch?.allowed === false) return div('notice', asText(meta.launch.reason) || 'Launching is not allowed on this server.');
  const problem = h('div', { 'aria-live': 'assertive' });
  const fields = { file: fileField(targets, meta), source: sourceField(ctx), task: taskField() };
  const show = () => { for (const [kind, el] of Object.entries(fields)) el.hidden = kind !== draft.kind; };
  const kinds = h('fieldset', { class: 'segments' }, h('legend', { class: 'sr-only' }, 'What to run'),
    [['file', 'File'], ['source', 'Source'], ['task', 'Task']].map(([kind, label]) =>
    h('label', null,
      h('input', { type: 'radio', name: 'kind', value: kind, checked: draft.kind === kind, onchange: () => { draft.kind = kind; show(); } }),
      span(null, label))));
  const submit = h('button', { type: 'submit', class: 'primary' }, 'Run');
  show();
  return h('form', { class: 'panel form', onsubmit: (event) => { event.preventDefault(); startJob(problem, submit, jobs); },
    onkeydown: (event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) startJob(problem, submit, jobs); } },
    kinds, Object.values(fields), modelFields(providers), envFields(), problem, div('bar', submit, span('muted', 'Ctrl+Enter also starts it')));
}

function bound(key, tagName, attrs) {
  const el = h(tagName, { ...attrs, value: draft[key], oninput: () => { draft[key] = el.value; } });
  return el;
}

function suggestions(id, values) {
  // Names with hidden characters are not suggested: the browser would show them unescaped.
  return h('datalist', { id }, values.filter((value) => clean(value) === value).map((value) => h('option', { value })));
}

function fileField(targets, meta) {
  const paths = list(targets.targets).map((target) => asText(target.path));
  return div(null, h('label', null, span(null, 'File'),
    bound('path', 'input', { list: 'targets', placeholder: 'path/to/program.harn', autocomplete: 'off', spellcheck: 'false' })),
    suggestions('targets', paths),
    para('muted', paths.length ? `${plural(paths.length, '.harn file')} below ` : 'No .harn file was found below ', mono(meta.workspace_root),
      targets.truncated && ' (the list is not complete)'));
}

function taskField() {
  return h('label', null, span(null, 'Task for an agent'), bound('task', 'textarea', { rows: 6, placeholder: 'What should be done?' }));
}

// A plain text area over a highlighted copy of its content; both have the same metrics and do not wrap.
function sourceField(ctx) {
  const back = h('pre', { class: 'code-back', 'aria-hidden': 'true' });
  const area = bound('source', 'textarea',
    { class: 'code-input', rows: 14, spellcheck: 'false', autocomplete: 'off', autocapitalize: 'off', wrap: 'off' });
  let words = null;
  const paint = () => {
    back.replaceChildren(...(words && area.value.length < 50000 ? highlight(area.value, words) : [area.value]), '\n');
    sync();
  };
  const sync = () => { back.scrollTop = area.scrollTop; back.scrollLeft = area.scrollLeft; };
  area.addEventListener('input', paint);
  area.addEventListener('scroll', sync);
  paint();
  api('/api/highlight/keywords', { signal: ctx.signal }).then((data) => {
    words = { keywords: new Set(list(data.keywords)), builtins: new Set(list(data.builtins)) };
    paint();
  }, () => {}); // without the lists the text is simply not coloured
  return h('label', null, span(null, 'Source'), div('code', back, area));
}

// The overlay must match the text area character by character, so this is the one place that does not escape.
function highlight(text, words) {
  const parts = text.split(/(\/\/[^\n]*|"(?:[^"\\\n]|\\.)*"|[A-Za-z_]\w*|\d[\w.]*)/);
  return parts.map((part, i) => {
    const cls = i % 2 ? tokenClass(part, words) : null;
    if (!cls) return document.createTextNode(part);
    const el = h('span', { class: cls });
    el.textContent = part;
    return el;
  });
}

function tokenClass(part, words) {
  if (part.startsWith('//')) return 't-comment';
  if (part.startsWith('"')) return 't-string';
  if (/^\d/.test(part)) return 't-number';
  return words.keywords.has(part) ? 't-keyword' : words.builtins.has(part) ? 't-builtin' : null;
}

function modelFields(providers) {
  const note = h('p', { class: 'muted' });
  const models = h('datalist', { id: 'models' });
  const model = bound('model', 'input', { list: 'models', autocomplete: 'off', spellcheck: 'false' });
  const provider = h('select', { onchange: () => { draft.provider = provider.value; show(); } }, h('option', { value: '' }, 'As configured'),
    providers.map((item) => h('option', { value: asText(item.name) }, `${asText(item.name)}${item.ready === false ? ' (not ready)' : ''}`)));
  const show = () => {
    const chosen = providers.find((item) => item.name === draft.provider);
    note.textContent = clean(chosen?.note);
    model.setAttribute('placeholder', clean(chosen?.default_model) || 'As configured');
    models.replaceChildren(...suggestions('', list(chosen?.models).map(asText)).children);
  };
  setField(provider, draft.provider);
  show();
  return div(null, div('pair', h('label', null, span(null, 'Provider'), provider), h('label', null, span(null, 'Model'), model), models), note);
}

function envFields() {
  const rows = div('env-rows');
  const addRow = (entry) => {
    const problem = h('span', { class: 'bad-text', role: 'status' });
    const name = h('input',
      { value: entry.name, placeholder: 'NAME', 'aria-label': 'Variable name', autocomplete: 'off', spellcheck: 'false', oninput: () => {
      entry.name = name.value;
      const bad = entry.name !== '' && !ENV_NAME.test(entry.name);
      name.setAttribute('aria-invalid', String(bad));
      problem.textContent = bad ? 'Use upper-case letters, digits and _' : '';
    } });
    const value = h('input', { value: entry.value, type: 'password', placeholder: 'value', 'aria-label': 'Variable value', autocomplete: 'off',
      oninput: () => { entry.value = value.value; } });
    const remove = button('Remove', () => { draft.env.splice(draft.env.indexOf(entry), 1); row.remove(); }, { class: 'small' });
    const row = div('env-row', name, value, remove, problem);
    rows.append(row);
    return name;
  };
  draft.env.forEach(addRow);
  const add = button('Add variable', () => { const entry = { name: '', value: '' }; draft.env.push(entry); addRow(entry).focus(); },
    { class: 'small' });
  return h('fieldset', null, h('legend', null, 'Environment'), rows, add, para('muted', 'Given to the started process only; never stored.'));
}

// Returns the request for the draft, or an error message.
function launchRequest() {
  const needed = { file: ['path', 'Choose a file to run.'], source: ['source', 'The source is empty.'],
    task: ['task', 'Describe the task.'] }[draft.kind];
  if (draft[needed[0]].trim() === '') return needed[1];
  const env = draft.env.filter((entry) => entry.name !== '' || entry.value !== '');
  if (env.some((entry) => !ENV_NAME.test(entry.name))) return 'Environment names must be upper-case, such as API_KEY.';
  const request = { kind: draft.kind, [needed[0]]: draft[needed[0]] };
  for (const key of ['provider', 'model']) if (draft[key]) request[key] = draft[key];
  if (env.length) request.env = Object.fromEntries(env.map((entry) => [entry.name, entry.value]));
  return request;
}

async function startJob(problem, submit, jobs) {
  if (submit.getAttribute('aria-disabled') === 'true') return;
  const request = launchRequest();
  problem.replaceChildren();
  if (typeof request === 'string') {
    problem.append(errorBox(request));
    return;
  }
  submit.setAttribute('aria-disabled', 'true');
  try {
    await api('/api/launch', { body: request });
    announce('The job was started.');
    await jobs.refresh();
  } catch (error) {
    problem.append(errorBox(error));
  }
  submit.setAttribute('aria-disabled', 'false');
}

function jobsView(ctx, box) {
  const cards = new Map();
  const view = { running: true };
  view.refresh = async () => {
    try {
      const jobs = list((await api('/api/launch/jobs', { signal: ctx.signal })).jobs);
      view.running = jobs.some((job) => job.status === 'running');
      showJobs(box, cards, jobs, view.refresh);
    } catch (error) {
      if (error.name === 'AbortError') return;
      view.running = false;
      cards.clear();
      box.replaceChildren(errorBox(error, view.refresh));
    }
  };
  view.refresh();
  ctx.every(1000, () => (view.running ? view.refresh() : null));
  return view;
}

// Cards are reused between refreshes, so that the scroll position and selection in an output survive.
function showJobs(box, cards, jobs, refresh) {
  for (const [id, card] of cards) {
    if (jobs.some((job) => job.id === id)) continue;
    card.el.remove();
    cards.delete(id);
  }
  if (!jobs.length) {
    box.replaceChildren(empty('Nothing was launched since the portal was started.'));
    return;
  }
  if (!cards.size) box.replaceChildren();
  jobs.forEach((job, i) => {
    if (!cards.has(job.id)) cards.set(job.id, jobCard());
    const card = cards.get(job.id);
    if (box.children[i] !== card.el) box.insertBefore(card.el, box.children[i] ?? null);
    updateJob(card, job, refresh);
  });
}

function jobCard() {
  const output = h('pre', { class: 'text output', tabindex: '0', 'aria-label': 'Output' }, document.createTextNode(''));
  const card = { head: div('job-head'), note: div(), output, shown: '' };
  card.el = h('article', { class: 'job' }, card.head, card.note, output);
  return card;
}

function updateJob(card, job, refresh) {
  const running = job.status === 'running';
  patch(card.head, [
    statusPill(job.status), tag(job.kind),
    h('strong', { class: 'gist', title: list(job.command).map(asText).join(' ') }, asText(job.title) || job.id), time(job.started_at, { day: false }),
    duration((toDate(job.finished_at) ?? Date.now()) - toDate(job.started_at)),
    job.exit_code != null ? span('muted', `exit ${job.exit_code}`) : h('span'),
    job.run_path ? link(runUrl(job.run_path), 'Open run') : h('span'),
    running ? button('Stop', () => stopJob(card, job.id, refresh), { class: 'small' }) : h('span')]);
  patch(card.note, job.truncated ? [para('hint', 'Only the last part of the output is kept.')] : []);
  card.output.hidden = !running && asText(job.output) === '';
  showOutput(card, clean(job.output) || (running ? 'Waiting for output…' : ''));
}

function showOutput(card, text) {
  if (text === card.shown) return;
  const node = card.output.firstChild;
  const following = card.output.scrollTop + card.output.clientHeight >= card.output.scrollHeight - 8;
  // Appending preserves a selection in the earlier output.
  if (text.startsWith(card.shown)) node.appendData(text.slice(card.shown.length));
  else node.data = text;
  card.shown = text;
  if (following) card.output.scrollTop = card.output.scrollHeight;
}

async function stopJob(card, id, refresh) {
  try {
    await api('/api/launch/stop', { body: { id } });
    await refresh();
  } catch (error) {
    card.note.replaceChildren(errorBox(error));
  }
}
