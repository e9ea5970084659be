// Variant resolution

import { asText, div, h, list, object, para, span, toJson } from './dom.js';
import { bytes, DASH, exact, mono, pill, plural, time } from './format.js';
import { countBy, facts, filterable, lazy, table, textCol } from './parts.js';
import { spanButton } from './turns.js';

export function variantsPanel(run, ctx, links) {
  const renders = list(run.template_renders);
  const templates = countBy(renders, (item) => asText(item.template_uri));
  const marked = renders.filter((item) => list(item.marks).length).length;
  const baselines = variantBaselines(renders);
  const render = (item, i) => variantCard(item, i, baselines[i] >= 0 ? renders[baselines[i]] : null, baselines[i] + 1, links);
  const found = filterable(renders, { kindOf: (item) => baseName(item.template_uri),
    textOf: (item) => toJson([item.template_uri, item.provider, item.model, item.family, item.branches, item.marks, item.template_revision_hash]),
    render, label: 'template renders', cls: 'cards' });
  return [para('hint', `${plural(renders.length, 'render')} of ${plural(templates.size, 'template')}`,
    marked > 0 && `; ${marked} resolved differently from an earlier render of the same template`, '.'), found.el];
}

// Returns, for each render, the index of the latest earlier render of the same template with a different result, or -1.
function variantBaselines(renders) {
  const latest = new Map();
  return renders.map((item, i) => {
    const uri = asText(item.template_uri);
    const result = toJson([item.template_revision_hash, list(item.branches)]);
    const before = latest.get(uri);
    const baseline = uri === '' || !before ? -1 : before.result === result ? before.baseline : before.index;
    latest.set(uri, { index: i, result, baseline });
    return baseline;
  });
}

function baseName(uri) {
  return asText(uri).split(/[\\/]/).pop() || '(inline)';
}

const shortHash = (item) => asText(item.template_revision_hash).slice(0, 12);

function variantCard(item, i, baseline, baselineNumber, links) {
  const earlier = list(item.marks).length ? baseline : null;
  const hash = shortHash(item);
  const oldHash = earlier && shortHash(earlier) !== hash ? shortHash(earlier) : '';
  const branches = list(item.branches);
  const uri = asText(item.template_uri);
  return h('article', { class: list(item.marks).length ? 'variant marked' : 'variant' },
    div('variant-head',
      span('index', `#${i + 1}`),
      span('uri', uri ? [uri.slice(0, uri.length - baseName(uri).length), h('strong', null, baseName(uri))] : '(inline template)'),
      list(item.marks).map((mark) => pill(mark, 'warn')), span('push', time(item.timestamp, { day: false, millis: true }))),
    facts([
      ['Revision', span(null, exact(hash || DASH, item.template_revision_hash, 'mono'),
        oldHash && span('muted', ` (${oldHash} in #${baselineNumber})`))],
      ['Provider', asText(item.provider) || DASH], ['Model', asText(item.model) || DASH], ['Family', asText(item.family) || DASH],
      ['Rendered', bytes(item.rendered_bytes)], ['Span', spanButton(item.span_id, links)],
    ]),
    branches.length ? decisionTable(item, branches, earlier, baselineNumber) : para('muted', 'The template made no decisions.'),
    lazy(`Capability flags (${Object.keys(object(item.capabilities)).length})`, () => capabilityList(item, earlier)));
}

// Decisions by place and occurrence, because a loop reaches the same place several times.
function decisionsByPlace(branches) {
  const seen = new Map();
  return new Map(branches.map((branch) => {
    const place = `${asText(branch.template_uri)}:${branch.line}:${branch.col}:${asText(branch.kind)}`;
    seen.set(place, (seen.get(place) ?? 0) + 1);
    return [`${place}#${seen.get(place)}`, branch];
  }));
}

function decisionTable(item, branches, earlier, earlierNumber) {
  const before = decisionsByPlace(list(earlier?.branches));
  const was = new Map([...decisionsByPlace(branches)].map(([place, branch]) => [branch, asText(before.get(place)?.branch_id)]));
  const columns = [
    { label: 'Position', cell: (branch) => mono(`${branch.line ?? '?'}:${branch.col ?? '?'}`) }, textCol('Kind', 'kind'),
    { label: 'Condition or section', cell: (branch) => mono(asText(branch.branch_label) || DASH) },
    { label: 'Taken', cell: (branch) => span(`branch ${asText(branch.branch_id) === 'none' ? 'not-taken' : ''}`, branch.branch_id) },
  ];
  const changed = (branch) => earlier && was.get(branch) !== asText(branch.branch_id);
  if (branches.some(changed)) columns.push({ label: `In render #${earlierNumber}`,
    cell: (branch) => (changed(branch) ? was.get(branch) || 'not reached' : span('muted', 'same')) });
  if (branches.some((branch) => isIncluded(branch, item))) columns.push({ label: 'Included template',
    cell: (branch) => isIncluded(branch, item) && mono(branch.template_uri) });
  return table(columns, branches, { caption: 'Decisions', rowClass: (branch) => changed(branch) && 'changed' });
}

const isIncluded = (branch, item) => asText(branch.template_uri) !== '' && branch.template_uri !== item.template_uri;

function capabilityList(item, earlier) {
  const before = earlier && object(earlier.capabilities);
  return h('dl', { class: 'flags' }, Object.entries(object(item.capabilities)).map(([name, value]) => {
    const differs = before && toJson(before[name]) !== toJson(value);
    const text = value !== null && typeof value === 'object' ? JSON.stringify(value) : String(value);
    return h('div', { class: differs ? 'changed' : null }, h('dt', null, name), h('dd',
      { class: value === true ? 'yes' : value === false || value === null ? 'no' : null }, text,
      differs && span('muted', ` (was ${asText(before[name]) || 'absent'})`)));
  }));
}
