// Run detail

import { api } from './api.js';
import { comparisonPanel } from './compare.js';
import { asText, button, div, h, list, object, para, span } from './dom.js';
import { artifactsPanel, childrenPanel, recordPanel, replayPanel, skillsPanel, toolsPanel } from './extras.js';
import { cost, count, fmtCount, mono, statusKind, statusPill, tags, time, tokens } from './format.js';
import { copyButton, empty, facts, stat, textBlock } from './parts.js';
import { errorBox, link, load, renderRoute, setTitle } from './routes.js';
import { runDuration } from './runs.js';
import { activityPanel, stagesPanel } from './stages.js';
import { tracePanel } from './timeline.js';
import { storyPanel, turnsPanel } from './turns.js';
import { variantsPanel } from './variants.js';

export const PANELS = [
  { id: 'trace', title: 'Trace timeline', of: (run) => run.spans, notes: ['spans', 'trace'], none: 'The record has no trace spans.',
    render: tracePanel },
  { id: 'stages', title: 'Stage summary', of: (run) => run.stages, notes: ['stages'], none: 'The record has no stages.', render: stagesPanel },
  { id: 'activity', title: 'Runtime activity', of: (run) => run.activities, notes: ['activities', 'activity'],
    none: 'No runtime activity was recorded.', render: activityPanel },
  { id: 'turns', title: 'Model turns', of: (run) => run.transcript_steps, notes: ['transcript_steps', 'turns', 'transcript'],
    none: 'There is no call log next to the run, so its model turns are not known.', render: turnsPanel },
  { id: 'variants', title: 'Variant resolution', of: (run) => run.template_renders, notes: ['variants', 'template_renders'],
    none: 'No template was rendered during a model call.', render: variantsPanel },
  { id: 'story', title: 'Transcript story', of: (run) => run.story, notes: ['story'], none: 'No transcript.',
    render: storyPanel },
  { id: 'skills', title: 'Skill timeline', of: (run) => [...list(run.skill_timeline), ...list(run.skill_match_events)],
    notes: ['skill_timeline', 'skills'], none: 'No skill was matched or activated in this run.', render: skillsPanel },
  { id: 'tools', title: 'Tool loads', of: (run) => run.tool_load_events, notes: ['tool_load_events', 'tool_loads', 'tools'],
    none: 'No tool was loaded on demand in this run.', render: toolsPanel },
  { id: 'artifacts', title: 'Produced artifacts', of: (run) => run.artifacts, notes: ['artifacts'], none: 'The run produced no artifacts.',
    render: artifactsPanel },
  { id: 'children', title: 'Child runs', of: (run) => run.child_runs, notes: ['child_runs', 'children'], none: 'The run started no child runs.',
    render: childrenPanel },
  { id: 'replay', title: 'Replay and eval', notes: ['replay', 'replay_summary'], render: replayPanel },
  { id: 'compare', title: 'Run comparison', notes: ['compare'], render: comparisonPanel },
  { id: 'record', title: 'Record', notes: [], render: recordPanel },
];

export function runPage(ctx, path) {
  setTitle(path);
  const body = div();
  ctx.root.append(body);
  const fetchRun = () => api('/api/run', { params: { path }, signal: ctx.signal });
  load(ctx, body, fetchRun, (run) => buildRun(ctx, path, run));
}

function buildRun(ctx, path, run) {
  const summary = object(run.summary);
  setTitle(asText(summary.workflow_name) || path);
  // Links between panels: from a span to its model turn and back.
  const links = { showSpan: null, showTurn: null };
  const panels = PANELS.map((panel) => buildPanel(ctx, panel, run, links));
  const menu = panelMenu(ctx, panels);
  const head = runHead(path, run, summary);
  if (statusKind(summary.status) === 'live') watchRun(ctx, path, summary, head);
  return [head, div('detail', menu, div('panels', panels.map((panel) => panel.el)))];
}

function runHead(path, run, summary) {
  return h('header', { class: 'run-head' },
    div('crumbs', link('/', 'Runs'), ' / ', mono(path), ' ', copyButton(path, 'Copy path'), ' ',
      h('a', { class: 'push', href: `/api/run/raw?path=${encodeURIComponent(path)}`, target: '_blank', rel: 'noopener' }, 'Raw record')),
    div('title-line', h('h1', null, asText(summary.workflow_name) || asText(summary.id) || path), statusPill(summary.status)),
    summary.failure_summary && div('error', textBlock(summary.failure_summary, { copy: false })),
    div('stats',
      stat('Duration', runDuration(summary)), stat('Model calls', count(summary.call_count)),
      stat('Tokens, in → out', tokens(summary.input_tokens, summary.output_tokens)),
      stat('Cost', cost(summary.cost_usd)), stat('Stages', count(summary.stage_count)),
      list(run.insights).map((item) => stat(item.label, asText(item.value), item.detail))),
    facts([
      ['Started', summary.started_at && time(summary.started_at)], ['Finished', summary.finished_at && time(summary.finished_at)],
      ['Models', list(summary.models).length && tags(summary.models)], ['Skills', list(summary.skills).length && tags(summary.skills)],
      ['Run', summary.id && mono(summary.id)], ['Workflow', run.workflow_id && mono(run.workflow_id)],
      ['Parent run', run.parent_run_id && link(`/?q=${encodeURIComponent(run.parent_run_id)}`, mono(run.parent_run_id))],
      ['Root run', run.root_run_id && run.root_run_id !== summary.id && link(`/?q=${encodeURIComponent(run.root_run_id)}`, mono(run.root_run_id))],
      ['Last stage', summary.last_stage_node_id && mono(summary.last_stage_node_id)],
    ]),
    run.task && div('task', span('label', 'Task'), textBlock(run.task)));
}

// A run in progress is not redrawn while the user reads it; a notice offers to reload it.
function watchRun(ctx, path, summary, head) {
  let told = false;
  ctx.every(5000, async () => {
    if (told || !summary.id) return;
    const data = await api('/api/runs', { params: { q: summary.id, page_size: 50 }, signal: ctx.signal }).catch(() => null);
    const row = list(data?.runs).find((item) => item.path === path);
    if (!row || row.updated_at_ms === summary.updated_at_ms) return;
    told = true;
    head.append(h('div', { class: 'notice', role: 'status' }, 'This run has new data. ',
      button('Show the newer state', renderRoute)));
  });
}

function buildPanel(ctx, panel, run, links) {
  const items = panel.of ? list(panel.of(run)) : null;
  const notes = panel.notes.map((key) => object(run.notes)[key]).filter(Boolean);
  const content = panelContent(ctx, panel, run, links, items, notes);
  const el = h('section', { id: panel.id, class: 'panel', 'aria-labelledby': `${panel.id}-title` },
    h('h2', { id: `${panel.id}-title`, tabindex: '-1' }, panel.title, items && span('count', items.length.toLocaleString('en'))), content);
  return { ...panel, el, size: items?.length };
}

function panelContent(ctx, panel, run, links, items, notes) {
  if (items && items.length === 0) return empty(notes.length ? notes.map(asText).join(' ') : panel.none);
  try {
    return [notes.map((note) => para('hint', note)), panel.render(run, ctx, links)];
  } catch (error) {
    return errorBox(new Error(`This panel could not be shown: ${error.message}`));
  }
}

function panelMenu(ctx, panels) {
  const entries = panels.map((panel) => h('a', { href: `#${panel.id}`, class: panel.size === 0 ? 'is-empty' : null }, panel.title,
    panel.size > 0 && span('count', fmtCount(panel.size))));
  const menu = h('nav', { class: 'side', 'aria-label': 'Panels' }, entries);
  const mark = () => {
    if (!menu.isConnected) return;
    const atEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 4;
    const passed = panels.filter((panel) => panel.el.getBoundingClientRect().top < 140).length - 1;
    const active = atEnd ? panels.length - 1 : Math.max(0, passed);
    entries.forEach((a, i) => a.classList.toggle('active', i === active));
    if (menu.scrollWidth > menu.clientWidth) menu.scrollLeft = entries[active].offsetLeft - 60;
  };
  let frame = 0;
  ctx.on(window, 'scroll', () => { cancelAnimationFrame(frame); frame = requestAnimationFrame(mark); });
  requestAnimationFrame(mark);
  return menu;
}

export function jumpTo(id, focus = true) {
  const el = document.getElementById(id);
  if (!el) return;
  history.replaceState(history.state, '', `#${encodeURIComponent(id)}`);
  el.scrollIntoView();
  if (focus) (el.querySelector(':scope > h2') ?? el).focus({ preventScroll: true });
}

export function flash(el) {
  el.scrollIntoView({ block: 'center' });
  el.classList.add('flash');
  setTimeout(() => el.classList.remove('flash'), 1600);
}
