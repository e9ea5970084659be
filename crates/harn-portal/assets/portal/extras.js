// Skills, tools, artifacts, children, replay

import { asText, div, h, isEmptyValue, list, object, para, span } from './dom.js';
import { DASH, exact, fmtCount, mono, pill, statusPill, tag, tags, time } from './format.js';
import {
  copyButton, empty, facts, filterable, jsonBlock, lazy, monoCol, section, statusCol, table, textBlock, textCol,
} from './parts.js';
import { link, runUrl } from './routes.js';
import { PANELS } from './run.js';
import { clipLine } from './timeline.js';

export function skillsPanel(run) {
  const matches = list(run.skill_match_events);
  return [list(run.active_skills).length > 0 && h('p', null, 'Active at the end: ', tags(run.active_skills)),
    list(run.skill_timeline).length > 0 && table([
      textCol('Iteration', 'iteration'), monoCol('Skill', 'skill'), { label: 'Event', cell: (item) => pill(asText(item.event)) },
      { label: 'Detail', cell: (item) => clipLine(item.detail, 400) },
    ], list(run.skill_timeline), { caption: 'Skill events' }),
    matches.length > 0 && lazy(`Match events (${matches.length})`, () => eventTable(matches, 'Skill match events'))];
}

export function toolsPanel(run) {
  return eventTable(list(run.tool_load_events), 'Tool loads');
}

// A table of free-form records. The fields of the first records are the columns.
function eventTable(events, caption) {
  const names = [...new Set(events.slice(0, 100).flatMap((event) => Object.keys(object(event))))].slice(0, 8);
  const cell = (name) => (event) => {
    const value = object(event)[name];
    if (name === 'timestamp' || name === 'at') return time(value, { day: false, millis: true });
    return value !== null && typeof value === 'object' ? clipLine(JSON.stringify(value), 300) : clipLine(value, 300);
  };
  return table([...names.map((name) => ({ label: name.replaceAll('_', ' '), cell: cell(name) })),
    { label: 'Record', cell: (event) => lazy('JSON', () => jsonBlock(event)) }], events, { caption });
}

export function artifactsPanel(run) {
  const summary = (item) => span('turn-line', tag(asText(item.kind) || 'artifact'),
    h('strong', { class: 'gist' }, asText(item.title) || asText(item.id)),
    span('nums', item.stage && span(null, 'stage ', mono(item.stage)),
      Number.isFinite(item.estimated_tokens) && exact(`~${fmtCount(item.estimated_tokens)} tokens`, `${item.estimated_tokens} tokens, estimated`),
      item.created_at && time(item.created_at, { day: false })));
  const body = (item) => [facts([['Artifact', item.id && mono(item.id)]]), !isEmptyValue(item.text) && section('Text', textBlock(item.text)),
    !isEmptyValue(item.data) && section('Data', jsonBlock(item.data)),
    isEmptyValue(item.text) && isEmptyValue(item.data) && empty('The artifact has no content.')];
  return filterable(list(run.artifacts), { kindOf: (item) => asText(item.kind), textOf: (item) => `${asText(item.title)}\n${asText(item.text)}`,
    render: (item) => lazy(summary(item), () => body(item), { cls: 'turn' }), label: 'artifacts', expandable: true }).el;
}

export function childrenPanel(run) {
  return table([
    { label: 'Run', cell: (item) => { const name = asText(item.name) || asText(item.run_id); return item.path ? link(runUrl(item.path),
      name) : h('span', { title: 'No record of this run was found' }, name); } },
    statusCol(), { label: 'Task', cell: (item) => clipLine(item.task, 300) }, { label: 'Id', cls: 'p2', cell: (item) => mono(item.run_id) },
  ], list(run.child_runs), { caption: 'Child runs' });
}

export function replayPanel(run) {
  const replay = object(run.replay_summary);
  const commands = Object.entries(object(replay.commands)).filter(([, command]) => command);
  const assertions = list(replay.stage_assertions);
  return [
    commands.length ? commands.map(([name, command]) => div('command', span('label', name), mono(command),
      copyButton(command))) : empty('There are no commands for this run.'),
    replay.fixture_id ? facts([['Fixture', mono(replay.fixture_id)], ['Kind', asText(replay.eval_kind)],
      ['Expected status', replay.expected_status && statusPill(replay.expected_status)]]) : para('muted',
      'The record has no replay fixture; one is derived from its stages.'),
    assertions.length > 0 && table([
      monoCol('Stage', 'node_id'), textCol('Status', 'expected_status'), textCol('Outcome', 'expected_outcome'), textCol('Branch', 'expected_branch'),
      { label: 'Artifact kinds', cell: (item) => tags(item.required_artifact_kinds) },
      { label: 'Text contains', cell: (item) => clipLine(item.visible_text_contains) || DASH },
    ], assertions, { caption: 'Expected stages' })];
}

export function recordPanel(run) {
  const known = new Set(PANELS.flatMap((panel) => panel.notes));
  const others = Object.entries(object(run.notes)).filter(([key, note]) => !known.has(key) && note);
  const parts = [['Policy', run.policy_summary], ['Execution', run.execution], ['Metadata', run.metadata],
    ['Observability', run.observability]].filter(([, value]) => !isEmptyValue(value));
  return [others.map(([, note]) => para('hint', note)), parts.map(([name, value]) => lazy(name, () => jsonBlock(value))),
    !parts.length && empty('The record has no policy, execution, metadata or observability data.')];
}
