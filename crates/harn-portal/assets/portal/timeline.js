// Trace timeline

import { asText, button, clean, div, h, isEmptyValue, list, number, para, span, sum } from './dom.js';
import { duration, fmtCount, fmtDuration, mono, plural, tag } from './format.js';
import { col, countBy, facts, jsonBlock, lazy, NUM, table } from './parts.js';
import { jumpTo } from './run.js';

export function tracePanel(run, ctx, links) {
  const spans = list(run.spans);
  const details = h('div', { class: 'span-details', 'aria-live': 'polite' },
    para('muted', 'Choose a span to see its details. Click zooms in; Escape zooms out. With the keyboard: arrows move between spans, Enter zooms.'));
  const turnBySpan = new Map(list(run.transcript_steps).filter((step) => step.span_id != null).map((step) => [String(step.span_id), step]));
  const graph = new FlameGraph(spans, ctx, (node) => details.replaceChildren(spanDetails(node, graph, turnBySpan, links)));
  links.showSpan = (id) => {
    const node = graph.byId.get(String(id));
    if (!node) return;
    graph.choose(node, true);
    jumpTo('trace', false);
  };
  links.hasSpan = (id) => graph.byId.has(String(id));
  const find = h('input',
    { type: 'search', placeholder: 'Find a span', 'aria-label': 'Find a span', oninput: () => { matches.textContent = graph.find(find.value); } });
  const matches = h('span', { class: 'muted', role: 'status' });
  const bar = div('bar', kindLegend(spans), span('tools', matches, find,
    button('+', () => graph.scale(0.5), { class: 'small', 'aria-label': 'Zoom in' }),
    button('−', () => graph.scale(2), { class: 'small', 'aria-label': 'Zoom out' }),
    button('Whole run', () => graph.reset(), { class: 'small' })));
  return div(null, bar, graph.el, details, lazy('Spans as a table', () => spanTable(graph, links)));
}

function kindLegend(spans) {
  const totals = [...countBy(spans, (span) => asText(span.kind) || 'other')];
  return div('legend', totals.map(([kind, n]) => {
    const total = sum(spans.filter((span) => (asText(span.kind) || 'other') === kind), (span) => span.duration_ms);
    return h('span', { title: `${plural(n, 'span')}, ${fmtDuration(total)} in total` }, swatch(kind), `${kind} `, span('muted', fmtCount(n)));
  }));
}

const SPAN_KINDS = ['pipeline', 'fn_call', 'llm_call', 'tool_call', 'import', 'parallel', 'spawn', 'stage', 'run'];
const kindVar = (kind) => (SPAN_KINDS.includes(kind) ? `--k-${kind}` : '--k-other');

export const swatch = (kind) => h('i', { class: 'swatch', vars: { background: `var(${kindVar(kind)})` } });

function spanDetails(node, graph, turnBySpan, links) {
  const span = node.span;
  const turn = turnBySpan.get(String(span.span_id));
  const parent = node.parent;
  return div(null,
    div('bar', swatch(span.kind), h('strong', null, asText(span.name) || '(no name)'), tag(asText(span.kind) || 'other'),
      parent && button(`Parent: ${clipLine(parent.span.name, 40)}`, () => graph.choose(parent, true), { class: 'small' }),
      turn && button(`Model turn ${turn.call_index ?? ''}`, () => links.showTurn?.(turn), { class: 'small' })),
    facts([
      ['Start', duration(node.start - graph.origin)], ['Duration', duration(span.duration_ms)], ['Own time', duration(node.own)],
      ['Share of the run', `${((100 * (node.end - node.start)) / graph.total).toFixed(1)} %`], ['Children', String(node.children.length)],
      ['Span', mono(span.span_id)],
    ]),
    !isEmptyValue(span.metadata) && jsonBlock(span.metadata));
}

export function clipLine(value, max = 120) {
  const line = asText(value).replace(/\s+/g, ' ').trim();
  return line.length > max ? `${line.slice(0, max - 1)}…` : line;
}

function spanTable(graph, links) {
  return table([
    { label: 'Span', cls: 'name', cell: (node) => h('span', { class: 'indent', vars: { '--depth': Math.min(node.depth, 20) } },
      button(asText(node.span.name) || '(no name)', () => links.showSpan(node.span.span_id), { class: 'linkish' })) },
    { label: 'Kind', cell: (node) => [swatch(node.span.kind), asText(node.span.kind)] },
    col('Start', (node) => duration(node.start - graph.origin), NUM),
    col('Duration', (node) => duration(node.span.duration_ms), NUM),
    col('Own time', (node) => duration(node.own), NUM),
  ], graph.nodes, { caption: 'Spans in order of the call tree' });
}

const ROW = 20;
const AXIS = 22;
const MAX_GRAPH_HEIGHT = 420;

// Draws spans on a canvas of the visible size only; the scroll area gets its height from an empty element.
class FlameGraph {
  constructor(spans, ctx, onChoose) {
    this.onChoose = onChoose;
    this.byId = new Map();
    this.nodes = [];
    this.hits = null;
    this.buildTree(spans);
    this.assignRows();
    this.view = [this.origin, this.origin + this.total];
    this.buildElements(ctx);
  }

  buildTree(spans) {
    const all = spans.map((span) => {
      const start = number(span.start_ms);
      const node = { span, start, end: start + Math.max(0, number(span.duration_ms)), parent: null, children: [], row: 0, depth: 0, own: 0,
        placed: false };
      if (span.span_id != null) this.byId.set(String(span.span_id), node);
      return node;
    });
    const byStart = (a, b) => a.start - b.start || b.end - a.end;
    for (const node of all.sort(byStart)) {
      const parent = node.span.parent_id == null ? null : this.byId.get(String(node.span.parent_id));
      if (!parent || parent === node) continue;
      node.parent = parent;
      parent.children.push(node);
    }
    this.order(all.filter((node) => !node.parent));
    // Spans in a cycle have no root; they are shown as roots themselves.
    for (const node of all) if (!node.placed) this.order([Object.assign(node, { parent: null })]);
    this.origin = this.nodes.reduce((min, node) => Math.min(min, node.start), Infinity);
    this.total = Math.max(1, this.nodes.reduce((max, node) => Math.max(max, node.end), -Infinity) - this.origin);
  }

  // Depth first, without recursion: a damaged record may be nested very deeply.
  order(roots) {
    const stack = roots.slice().reverse();
    while (stack.length) {
      const node = stack.pop();
      if (node.placed) continue;
      node.placed = true;
      node.depth = node.parent ? node.parent.depth + 1 : 0;
      node.own = ownTime(node);
      this.nodes.push(node);
      for (let i = node.children.length - 1; i >= 0; i--) stack.push(node.children[i]);
    }
  }

  // A span goes below its parent, into the first row where it overlaps with no other span (parallel work).
  assignRows() {
    const rows = [];
    for (const node of this.nodes) {
      let row = node.parent ? node.parent.row + 1 : 0;
      while (rows[row]?.some((other) => overlap(other, node))) row++;
      node.row = row;
      (rows[row] ??= []).push(node);
    }
    this.rowCount = rows.length;
  }

  buildElements(ctx) {
    this.canvas = h('canvas', { 'aria-hidden': 'true' });
    this.tip = h('div', { class: 'tip', hidden: true });
    const spacer = h('div', { class: 'spacer', vars: { height: `${this.rowCount * ROW + AXIS + 4}px` } });
    this.area = h('div', { class: 'flame', tabindex: '0', role: 'application',
      'aria-label': 'Flame graph of spans. Arrow keys move, Enter zooms, Escape shows the whole run.' }, this.canvas, spacer);
    this.el = div('flame-box', this.area, this.tip);
    this.area.style.setProperty('height', `${Math.min(MAX_GRAPH_HEIGHT, this.rowCount * ROW + AXIS + 4)}px`);
    this.area.addEventListener('scroll', () => this.redraw());
    this.area.addEventListener('pointermove', (event) => this.hover(event));
    this.area.addEventListener('pointerleave', () => { this.tip.hidden = true; });
    this.area.addEventListener('click', (event) => this.click(event));
    this.area.addEventListener('keydown', (event) => this.key(event));
    const observer = new ResizeObserver(() => this.redraw());
    observer.observe(this.area);
    ctx.signal.addEventListener('abort', () => observer.disconnect());
    ctx.on(matchMedia('(prefers-color-scheme: dark)'), 'change', () => this.redraw());
  }

  redraw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    const [width, height] = [this.area.clientWidth, this.area.clientHeight];
    if (!width) return;
    const ratio = devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
    this.canvas.style.setProperty('width', `${width}px`);
    this.canvas.style.setProperty('height', `${height}px`);
    const g = this.canvas.getContext('2d');
    g.scale(ratio, ratio);
    this.colors = readColors(this.area);
    g.font = `11px ${this.colors['--sans']}`;
    g.textBaseline = 'middle';
    this.drawBars(g, width, height);
    this.drawAxis(g, width);
  }

  drawBars(g, width, height) {
    const top = this.area.scrollTop;
    const [from, to] = this.view;
    const scale = width / (to - from);
    const lastPixel = []; // per row: bars that fall on a pixel already painted are skipped
    for (const node of this.nodes) {
      const y = AXIS + node.row * ROW - top;
      if (node.end < from || node.start > to || y < AXIS - ROW || y > height) continue;
      const x = Math.max(-1, (node.start - from) * scale);
      const right = Math.min(width + 1, (node.end - from) * scale);
      if (right <= lastPixel[node.row] && right - x < 1) continue;
      lastPixel[node.row] = Math.ceil(right);
      this.drawBar(g, node, x, y, Math.max(1.5, right - x - 1));
    }
  }

  drawBar(g, node, x, y, width) {
    const faded = this.hits && !this.hits.has(node);
    g.globalAlpha = faded ? 0.25 : 1;
    g.fillStyle = this.colors[kindVar(node.span.kind)];
    g.fillRect(x, y + 1, width, ROW - 2);
    if (node === this.chosen) {
      g.strokeStyle = this.colors['--text'];
      g.lineWidth = 2;
      g.strokeRect(x + 1, y + 2, Math.max(1, width - 2), ROW - 4);
    }
    if (width > 24) this.drawLabel(g, node, x, y, width);
    g.globalAlpha = 1;
  }

  drawLabel(g, node, x, y, width) {
    const label = clean(clipLine(`${asText(node.span.name) || asText(node.span.kind)}  ${fmtDuration(number(node.span.duration_ms))}`, 100));
    g.save();
    g.beginPath();
    g.rect(x, y, width - 3, ROW);
    g.clip();
    g.fillStyle = this.colors['--bar-text'];
    g.fillText(label, Math.max(x, 0) + 5, y + ROW / 2 + 0.5);
    g.restore();
  }

  drawAxis(g, width) {
    g.fillStyle = this.colors['--panel'];
    g.fillRect(0, 0, width, AXIS);
    g.fillStyle = this.colors['--muted'];
    g.strokeStyle = this.colors['--line'];
    g.lineWidth = 1;
    const [from, to] = this.view;
    const step = niceStep((to - from) / Math.max(2, width / 110));
    const first = Math.ceil((from - this.origin) / step) * step;
    for (let at = first; at <= to - this.origin; at += step) {
      const x = Math.round(((at + this.origin - from) / (to - from)) * width) + 0.5;
      g.beginPath();
      g.moveTo(x, 4);
      g.lineTo(x, AXIS - 2);
      g.stroke();
      g.fillText(fmtTick(at, step), x + 4, AXIS / 2);
    }
  }

  nodeAt(event) {
    const box = this.area.getBoundingClientRect();
    const y = event.clientY - box.top;
    const row = Math.floor((y - AXIS + this.area.scrollTop) / ROW);
    if (y < AXIS) return null;
    const [from, to] = this.view;
    const pixel = (to - from) / this.area.clientWidth;
    const at = from + (event.clientX - box.left) * pixel;
    const near = this.nodes.filter((node) => node.row === row && node.start - pixel <= at && node.end + 2 * pixel >= at);
    return near.find((node) => node.start <= at && node.end >= at) ?? near[0] ?? null;
  }

  hover(event) {
    const node = this.nodeAt(event);
    this.tip.hidden = !node;
    this.area.classList.toggle('over', Boolean(node));
    if (!node) return;
    this.tip.textContent = clean(`${clipLine(node.span.name, 160)}\n${asText(node.span.kind)} · ${fmtDuration(number(node.span.duration_ms))} · from ${fmtDuration(node.start - this.origin)}`);
    const box = this.el.getBoundingClientRect();
    this.tip.style.setProperty('left', `${Math.max(0, Math.min(event.clientX - box.left + 12, box.width - this.tip.offsetWidth - 4))}px`);
    this.tip.style.setProperty('top', `${event.clientY - box.top + 18}px`);
  }

  click(event) {
    const node = this.nodeAt(event);
    if (node) this.choose(node, true);
  }

  choose(node, zoom) {
    this.chosen = node;
    if (zoom || node.start > this.view[1] || node.end < this.view[0]) this.zoomTo(node.start, node.end);
    const y = node.row * ROW;
    if (y < this.area.scrollTop || y + ROW + AXIS > this.area.scrollTop + this.area.clientHeight) this.area.scrollTop = Math.max(0, y - 60);
    this.onChoose(node);
    this.redraw();
  }

  zoomTo(start, end) {
    const span = Math.max(end - start, this.total / 1e5, 0.001);
    const margin = span * 0.04;
    const from = Math.max(this.origin, start - margin);
    this.view = [from, Math.min(this.origin + this.total, Math.max(end, start + span) + margin)];
    if (this.view[1] - this.view[0] <= 0) this.view = [this.origin, this.origin + this.total];
    this.redraw();
  }

  scale(factor) {
    const [from, to] = this.view;
    const middle = this.chosen ? Math.min(to, Math.max(from, (this.chosen.start + this.chosen.end) / 2)) : (from + to) / 2;
    const half = Math.min(this.total, (to - from) * factor) / 2;
    const start = Math.min(Math.max(this.origin, middle - half), this.origin + this.total - 2 * half);
    this.view = [start, start + 2 * half];
    this.redraw();
  }

  reset() {
    this.view = [this.origin, this.origin + this.total];
    this.redraw();
  }

  // Highlights spans by name and shows their number.
  find(text) {
    const needle = text.trim().toLowerCase();
    this.hits = needle ? new Set(this.nodes.filter((node) => asText(node.span.name).toLowerCase().includes(needle))) : null;
    this.redraw();
    return this.hits ? plural(this.hits.size, 'match', 'matches') : '';
  }

  key(event) {
    const node = this.chosen ?? this.nodes[0];
    const siblings = node.parent ? node.parent.children : this.nodes.filter((other) => !other.parent);
    const moves = {
      ArrowLeft: () => siblings[siblings.indexOf(node) - 1], ArrowRight: () => siblings[siblings.indexOf(node) + 1],
      ArrowUp: () => node.parent, ArrowDown: () => (this.chosen ? node.children[0] : node), Enter: () => node,
    };
    if (event.key === 'Escape') this.reset();
    else if (!moves[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    else {
      const next = moves[event.key]();
      if (next) this.choose(next, event.key === 'Enter');
    }
    event.preventDefault();
  }
}

// Spans with the same start overlap even if they have no duration, so that neither hides the other.
function overlap(a, b) {
  return a.start === b.start || (a.start < b.end && a.end > b.start);
}

// Time in a span outside of its children. Overlapping children are counted once.
function ownTime(node) {
  let covered = 0;
  let until = node.start;
  for (const child of node.children) {
    const from = Math.max(child.start, until);
    const to = Math.min(child.end, node.end);
    if (to > from) covered += to - from;
    until = Math.max(until, to);
  }
  return Math.max(0, node.end - node.start - covered);
}

function readColors(el) {
  const style = getComputedStyle(el);
  const names = [...SPAN_KINDS.map((kind) => `--k-${kind}`), '--k-other', '--text', '--muted', '--line', '--panel', '--bar-text', '--sans'];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(name).trim()]));
}

export function niceStep(raw) {
  const power = 10 ** Math.floor(Math.log10(Math.max(raw, 1e-6)));
  return power * ([1, 2, 5, 10].find((n) => n * power >= raw) ?? 10);
}

function fmtTick(ms, step) {
  if (ms === 0) return '0';
  if (step < 1) return `${Number(ms.toFixed(3))} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60000 ? `${Number((ms / 1000).toFixed(step < 100 ? 2 : 1))} s` : fmtDuration(ms);
}
