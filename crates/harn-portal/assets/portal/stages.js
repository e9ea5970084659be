// Stages and activity

import { asText, button, div, h, isEmptyValue, list, number, object, span } from './dom.js';
import {
  cost, count, DASH, duration, mono, pill, statusKind, statusPill, tag, tags, time, toDate, tokens,
} from './format.js';
import {
  col, facts, filterable, jsonBlock, lazy, monoCol, NUM, paged, section, statusCol, table, textBlock, textCol,
  timeCol,
} from './parts.js';
import { clipLine } from './timeline.js';

export function stagesPanel(run) {
  const stages = list(run.stages);
  const starts = stages.map((stage) => toDate(stage.started_at)?.getTime()).filter(Number.isFinite);
  const origin = Math.min(...starts);
  const total = Math.max(1, ...stages.map((stage) => (toDate(stage.started_at)?.getTime() ?? origin) + number(stage.duration_ms) - origin));
  const labels = [['Stage'], ['Kind', 'p2'], ['Status'], ['Outcome', 'p2'], ['Branch', 'p2'], ['Duration', 'r'], ['Timeline', 'p3'],
    ['Calls', 'r p2'], ['Tokens', 'r p2'], ['Cost', 'r p2'], ['Tries', 'r p3']];
  const head = h('thead', null, h('tr', null, labels.map(([label, cls]) => h('th', { scope: 'col', class: cls }, label))));
  const pages = paged(stages, h('table', { class: 'stages' }), (stage) => stageRows(stage, labels.length, origin, total, run),
    { fixed: [h('caption', { class: 'sr-only' }, 'Stages'), head] });
  return [div('scroll-x', pages.nodes[0]), pages.nodes[1]];
}

function stageRows(stage, width, origin, total, run) {
  const usage = object(stage.usage);
  const offset = (toDate(stage.started_at)?.getTime() ?? origin) - origin;
  const lane = div('lane', h('i', { vars: { '--from': `${(100 * offset) / total}%`, '--len': `${(100 * number(stage.duration_ms)) / total}%` } }));
  const detail = h('tr', { hidden: true }, h('td', { colspan: width }));
  const toggle = button(asText(stage.node_id) || '(no name)', () => {
    detail.hidden = !detail.hidden;
    toggle.setAttribute('aria-expanded', String(!detail.hidden));
    if (!detail.firstChild.firstChild) detail.firstChild.append(stageDetails(stage, run));
  }, { class: 'expander', 'aria-expanded': 'false' });
  const cells = [
    ['name', toggle], ['p2', asText(stage.kind)], [null, statusPill(stage.status)],
    ['p2', stage.outcome ? pill(stage.outcome, statusKind(stage.outcome)) : DASH], ['p2', asText(stage.branch) || DASH],
    ['r', duration(stage.duration_ms)], ['p3', Number.isFinite(origin) && lane], ['r p2', count(usage.call_count)],
    ['r p2', tokens(usage.input_tokens, usage.output_tokens)], ['r p2', cost(usage.total_cost)], ['r p3', count(list(stage.attempts).length)],
  ];
  return h('tbody', null, h('tr', null, cells.map(([cls, content]) => h('td', { class: cls }, content))), detail);
}

function stageDetails(stage, run) {
  const titles = new Map(list(run.artifacts).map((artifact) => [artifact.id, artifact.title]));
  const names = (ids) => list(ids).map((id) => tag(asText(titles.get(id)) || id, id));
  return div('stage-details',
    facts([
      ['Started', stage.started_at && time(stage.started_at, { millis: true })],
      ['Finished', stage.finished_at && time(stage.finished_at, { millis: true })],
      ['Models', list(stage.usage?.models).length && tags(stage.usage.models)],
      ['Model time', Number.isFinite(stage.usage?.total_duration_ms) && duration(stage.usage.total_duration_ms)],
      ['Messages', Number.isFinite(stage.message_count) && count(stage.message_count)],
      ['Consumed', list(stage.consumed_artifact_ids).length && span(null, names(stage.consumed_artifact_ids))],
      ['Produced', list(stage.produced_artifact_ids).length && span(null, names(stage.produced_artifact_ids))], ['Stage', stage.id && mono(stage.id)],
    ]),
    stage.error && section('Error', div('error', textBlock(stage.error))),
    section('Visible text', textBlock(stage.visible_text)),
    stage.private_reasoning && section('Private reasoning', textBlock(stage.private_reasoning, { cls: 'thinking' })),
    !isEmptyValue(stage.verification) && section('Verification', jsonBlock(stage.verification)),
    list(stage.attempts).length > 0 && section('Attempts', table([
      textCol('Attempt', 'attempt'), statusCol(), textCol('Outcome', 'outcome'),
      textCol('Branch', 'branch'), timeCol('Started', 'started_at'),
      col('Duration', (item) => duration(toDate(item.finished_at) - toDate(item.started_at)), NUM),
      { label: 'Text', cls: 'wide', cell: (item) => clipLine(item.visible_text, 200) },
    ], list(stage.attempts), { caption: 'Attempts of the stage' })));
}

export function activityPanel(run) {
  const render = (item) => div('line',
    span('when', item.at ? time(item.at, { day: false, millis: true }) : DASH), tag(asText(item.kind) || 'event'),
    div('what', span(null, asText(item.title)), item.status && [' ', pill(item.status, statusKind(item.status))],
      item.detail && div('muted', /\n/.test(asText(item.detail)) || asText(item.detail).length > 240 ? textBlock(item.detail) : item.detail)));
  const found = filterable(list(run.activities),
    { kindOf: (item) => asText(item.kind), textOf: (item) => `${asText(item.title)} ${asText(item.detail)}`, render, label: 'runtime activity' });
  const { transitions, checkpoints } = run;
  return [found.el,
    list(transitions).length > 0 && lazy(`Transitions (${list(transitions).length})`, () => table([
      timeCol('Time', 'timestamp'), { label: 'From', cell: (item) => mono(item.from_node_id ?? 'start') },
      { label: 'To', cell: (item) => mono(item.to_node_id ?? 'end') }, textCol('Branch', 'branch'),
    ], list(transitions), { caption: 'Transitions' })),
    list(checkpoints).length > 0 && lazy(`Checkpoints (${list(checkpoints).length})`, () => table([
      timeCol('Time', 'persisted_at'), textCol('Reason', 'reason'), textCol('Completed nodes', 'completed_nodes'), monoCol('Checkpoint', 'id'),
    ], list(checkpoints), { caption: 'Checkpoints' }))];
}
