// Costs

import { api } from './api.js';
import { asText, div, h, list, number, object, span, sum, svg } from './dom.js';
import { cost, count, fmtCost, fmtCount, tokens } from './format.js';
import { col, countBy, empty, monoCol, NUM, stat, table, textCol } from './parts.js';
import { link, load, setTitle } from './routes.js';
import { niceStep } from './timeline.js';

const METRICS = { cost_usd: ['Spend', fmtCost], total_tokens: ['Tokens', fmtCount], calls: ['Model calls', fmtCount], runs: ['Runs', fmtCount] };
const CHART_DAYS = 60;
const CHART_COLORS = 8;

export function costsPage(ctx) {
  setTitle('Costs');
  const body = div();
  ctx.root.append(h('h1', null, 'Costs'), body);
  load(ctx, body, () => api('/api/costs', { signal: ctx.signal }), buildCosts);
}

function buildCosts(data) {
  const summary = object(data.summary);
  const trend = list(data.trend).map((row) => ({ ...row, total_tokens: number(row.input_tokens) + number(row.output_tokens) }));
  const models = list(data.provider_breakdown).slice().sort((a, b) => number(b.cost_usd) - number(a.cost_usd));
  const most = Math.max(...models.map((row) => number(row.cost_usd)), 0) || 1;
  const numbers = [
    col('Calls', (row) => count(row.calls), NUM), { label: 'Input', num: true, cls: 'p2', cell: (row) => count(row.input_tokens) },
    { label: 'Output', num: true, cls: 'p2', cell: (row) => count(row.output_tokens) }, col('Cost', (row) => cost(row.cost_usd), NUM),
  ];
  return [
    div('stats', stat('Total spend', cost(summary.total_cost_usd)), stat('Runs', count(summary.runs)), stat('Model calls', count(summary.calls)),
      stat('Tokens, in → out', tokens(summary.input_tokens, summary.output_tokens))),
    h('section', { class: 'panel' }, h('h2', null, 'Per day and workflow'), trend.length ? [costChart(trend), table([
      textCol('Day', 'day'), { label: 'Workflow',
        cell: (row) => link(`/?workflow=${encodeURIComponent(asText(row.workflow_name))}`, asText(row.workflow_name) || '(no name)') }, col('Runs',
        (row) => count(row.runs), NUM), ...numbers,
    ], trend.slice().reverse(), { caption: 'Spend per day and workflow', size: 20 })] : empty('No run has a day to account for yet.')),
    h('section', { class: 'panel' }, h('h2', null, 'Per provider and model'), models.length ? table([
      { label: 'Provider', cell: (row) => asText(row.provider) || span('muted', 'not recorded') }, monoCol('Model', 'model'), ...numbers,
      { label: 'Share', cls: 'p2', cell: (row) => h('div',
        { class: 'lane', title: `${((100 * number(row.cost_usd)) / (number(summary.total_cost_usd) || 1)).toFixed(1)} %` },
        number(row.cost_usd) > 0 && h('i', { vars: { '--from': '0%', '--len': `${(100 * row.cost_usd) / most}%` } })) },
    ], models, { caption: 'Spend per provider and model' }) : empty('No model was called yet.'))];
}

function costChart(trend) {
  const names = [...countBy(trend, (row) => asText(row.workflow_name)).keys()];
  names.sort((a, b) => workflowTotal(trend, b) - workflowTotal(trend, a));
  const color = (name) => `c${Math.min(names.indexOf(name), CHART_COLORS - 1)}`;
  const days = dayRange(trend);
  if (!days.length) return null; // no run has a date; the table still has the sums
  const area = div();
  const select = h('select', { 'aria-label': 'Shown figure', onchange: () => draw() },
    Object.entries(METRICS).map(([key, [label]]) => h('option', { value: key }, label)));
  let width = 0;
  const draw = () => area.replaceChildren(barChart(trend, days, select.value, names, color, width));
  new ResizeObserver(() => {
    if (area.clientWidth === width) return;
    width = area.clientWidth;
    draw();
  }).observe(area);
  const shown = names.slice(0, CHART_COLORS - 1);
  return div('chart-box', div('bar', select, div('legend',
    shown.map((name) => span(null, h('i', { class: `swatch ${color(name)}` }), name || '(no name)')),
    names.length > shown.length && span(null, h('i', { class: `swatch c${CHART_COLORS - 1}` }), 'Others'))), area);
}

const workflowTotal = (trend, name) => sum(trend.filter((row) => asText(row.workflow_name) === name), (row) => row.cost_usd);

// All days from the first to the last, so that gaps are seen; at most the last CHART_DAYS.
function dayRange(trend) {
  const known = trend.map((row) => Date.parse(asText(row.day))).filter(Number.isFinite);
  if (!known.length) return [];
  const [first, last] = known.reduce(([min, max], day) => [Math.min(min, day), Math.max(max, day)], [Infinity, -Infinity]);
  const length = Math.min(CHART_DAYS, Math.round((last - first) / 86400000) + 1);
  return Array.from({ length }, (_, i) => new Date(last - (length - 1 - i) * 86400000).toISOString().slice(0, 10));
}

function barChart(trend, days, metric, names, color, fullWidth) {
  const [label, format] = METRICS[metric];
  const [width, height, left, top, bottom] = [Math.max(280, fullWidth), 220, 56, 8, 22];
  const max = niceStep(Math.max(...days.map((day) => sum(trend.filter((row) => row.day === day), (row) => row[metric])), 0) || 1);
  const ticks = [0, max / 2, max].filter((value) => metric === 'cost_usd' || Number.isInteger(value));
  const slot = (width - left) / days.length;
  const y = (value) => top + (height - top - bottom) * (1 - value / max);
  const grid = ticks.map((value) => [svg('line', { x1: left, x2: width, y1: y(value), y2: y(value), class: 'grid' }),
    svg('text', { x: left - 6, y: y(value) + 4, class: 'end' }, format(value))]);
  const every = Math.ceil((days.length * 52) / (width - left));
  const bars = days.map((day, i) => {
    let stacked = 0;
    const rows = trend.filter((row) => row.day === day && number(row[metric]) > 0).sort((a,
      b) => names.indexOf(asText(a.workflow_name)) - names.indexOf(asText(b.workflow_name)));
    return [rows.map((row) => {
      stacked += row[metric];
      const barWidth = Math.min(48, slot * 0.7);
      return svg('rect', { x: left + slot * i + (slot - barWidth) / 2, width: barWidth, y: y(stacked),
        height: Math.max(0.5, y(stacked - row[metric]) - y(stacked)), class: color(asText(row.workflow_name)) },
        svg('title', null, `${day} · ${asText(row.workflow_name) || '(no name)'}: ${format(row[metric])}`));
    }), i % every === 0 && svg('text', { x: left + slot * (i + 0.5), y: height - 5, class: 'middle' }, day.slice(5))];
  });
  return svg('svg', { class: 'chart', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img',
    'aria-label': `${label} per day; the table below has the numbers` }, grid, bars);
}
