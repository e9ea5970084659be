// Comparison

import { api } from './api.js';
import { asText, button, div, h, isEmptyValue, list, number, object, span } from './dom.js';
import {
  cost, count, duration, fmtCost, fmtCount, fmtDuration, mono, pill, statusPill, tags, time,
} from './format.js';
import { col, debounce, empty, jsonBlock, lazy, NUM, paged, section, stat, table, textBlock } from './parts.js';
import { compareUrl, errorBox, link, load, navigate, runUrl, setTitle } from './routes.js';

export function comparisonPanel(run, ctx) {
  const path = run.summary?.path;
  if (!path) return empty('The path of this run is not known.');
  const result = div();
  const picker = runPicker(ctx, 'Compare this run with', null, (other) => {
    const again = h('p', null, link(compareUrl(path, other), 'Open as a page'));
    load(ctx, result, () => fetchComparison(ctx, path, other), (data) => [again, comparison(data)]);
  }, path);
  return [picker, result];
}

const fetchComparison = (ctx, left, right) => api('/api/compare', { params: { left, right }, signal: ctx.signal });

export function comparePage(ctx) {
  setTitle('Compare');
  const params = new URLSearchParams(location.search);
  const [left, right] = [params.get('left'), params.get('right')];
  const result = div();
  const swap = left && right && button('Swap', () => navigate(compareUrl(right, left), { replace: true }), { class: 'small' });
  ctx.root.append(div('title-line', h('h1', null, 'Compare runs'), swap),
    div('two pickers', runPicker(ctx, 'Left run', left, (path) => navigate(compareUrl(path, right))),
      runPicker(ctx, 'Right run', right, (path) => navigate(compareUrl(left, path)))), result);
  if (left && right) load(ctx, result, () => fetchComparison(ctx, left, right), comparison);
  else {
    result.append(empty(left || right ? 'Choose the other run.' : 'Choose two runs to see how they differ.'));
    ctx.ready();
  }
}

// A search field that lists matching runs. `choose` receives the path of the selected one.
function runPicker(ctx, label, chosen, choose, without) {
  const box = div('choices');
  const search = async () => {
    try {
      const data = await api('/api/runs', { params: { q: input.value, page_size: 9 }, signal: ctx.signal });
      const runs = list(data.runs).filter((run) => run.path !== without).slice(0, 8);
      box.replaceChildren(...(runs.length ? runs.map(choice) : [empty('No other run matches.')]));
    } catch (error) {
      if (error.name !== 'AbortError') box.replaceChildren(errorBox(error, search));
    }
  };
  const choice = (run) => button([statusPill(run.status), span('gist', asText(run.workflow_name) || run.id, ' ', span('path', run.path)),
    span('muted', time(run.started_at))], () => { box.replaceChildren(); choose(run.path); }, { class: 'choice' });
  const input = h('input', { type: 'search', placeholder: 'Search runs', oninput: debounce(search, 200), onfocus: search });
  return div('picker', h('label', null, span(null, label), input), chosen && div(null, link(runUrl(chosen), mono(chosen))), box);
}

export function comparison(data) {
  const diff = object(data.diff);
  const { status_changed, left_status, right_status, stage_diffs, tool_diffs, observability_diffs, ...rest } = diff;
  const deltas = Object.entries(rest).filter(([, value]) => Number.isFinite(value));
  const others = Object.entries(rest).filter(([, value]) => !Number.isFinite(value) && !isEmptyValue(value));
  return div('comparison',
    h('p', { role: 'status' }, data.identical ? pill('identical', 'ok') : pill('different', 'warn'),
      data.identical ? ' The runs do not differ in status, stages, tools or counts.' : ''),
    status_changed && h('p', null, 'Status: ', statusPill(left_status), ' → ', statusPill(right_status)),
    comparisonTable(object(data.left), object(data.right)),
    deltas.length > 0 && div('stats', deltas.map(([key, value]) => stat(key.replace(/_delta$/, '').replaceAll('_', ' ').replace(/ count$/, 's'),
      value > 0 ? `+${value}` : String(value)))),
    diffSection('Stages', list(stage_diffs),
      (item) => [mono(item.node_id), ' ', pill(item.change, { added: 'ok', removed: 'bad' }[item.change] ?? 'warn'), detailList(item.details)]),
    diffSection('Tools', list(tool_diffs), (item) => [mono(item.tool_name), ' ',
      item.args_hash && h('span', { class: 'muted', title: 'Hash of the arguments' }, asText(item.args_hash).slice(0, 12)), ' ',
      pill(item.result_changed ? 'result changed' : 'same result', item.result_changed ? 'warn' : 'plain'),
      item.result_changed && div('two', div(null, textBlock(item.left_result)), div(null, textBlock(item.right_result)))]),
    diffSection('Observability', list(observability_diffs),
      (item) => [h('strong', null, item.section), ' ', asText(item.label), detailList(item.details)]),
    others.map(([key, value]) => lazy(key.replaceAll('_', ' '), () => jsonBlock(value))));
}

function comparisonTable(left, right) {
  const rows = [
    ['Run', (run) => run.path && link(runUrl(run.path), asText(run.workflow_name) || run.path)], ['Path', (run) => mono(run.path)],
    ['Status', (run) => statusPill(run.status)], ['Started', (run) => time(run.started_at)],
    ['Duration', (run) => duration(run.duration_ms), 'duration_ms', fmtDuration],
    ['Stages', (run) => count(run.stage_count), 'stage_count', fmtCount], ['Model calls', (run) => count(run.call_count), 'call_count', fmtCount],
    ['Input tokens', (run) => count(run.input_tokens), 'input_tokens', fmtCount],
    ['Output tokens', (run) => count(run.output_tokens), 'output_tokens', fmtCount], ['Cost', (run) => cost(run.cost_usd), 'cost_usd', fmtCost],
    ['Models', (run) => tags(run.models)],
  ];
  const change = ([, , key, format]) => {
    const by = number(right[key]) - number(left[key]);
    return key && by !== 0 ? `${by > 0 ? '+' : '−'}${format(Math.abs(by))}` : '';
  };
  return table([col('', (row) => row[0]), col('Left', (row) => row[1](left)), col('Right', (row) => row[1](right)), col('Change', change, NUM)], rows,
    { caption: 'The two runs' });
}

function diffSection(title, items, render) {
  if (!items.length) return null;
  return section(`${title} (${items.length})`, paged(items, div('rows'), (item) => div('diff', render(item))).nodes);
}

function detailList(details) {
  return list(details).length > 0 && h('ul', null,
    list(details).map((detail) => h('li', null, asText(detail).length > 300 ? textBlock(detail) : detail)));
}
