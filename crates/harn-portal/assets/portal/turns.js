// Model turns and story

import { asText, button, div, h, list, number, para, span } from './dom.js';
import { cost, duration, exact, fmtBytes, mono, pill, tag, tokens } from './format.js';
import { facts, filterable, jsonBlock, lazy, paged, section, textBlock } from './parts.js';
import { flash } from './run.js';
import { clipLine } from './timeline.js';

export function turnsPanel(run, ctx, links) {
  const steps = list(run.transcript_steps);
  const kindOf = (step) => (step.error ? 'error' : list(step.tool_calls).length ? 'tool calls' : 'answer');
  const textOf = (step) => [step.model, step.summary, step.response_text, step.thinking, step.error,
    ...list(step.tool_calls).map((call) => call.name)].map(asText).join('\n');
  const render = (step, i) => lazy(turnSummary(step, i), () => turnBody(step, links), { cls: step.error ? 'turn failed' : 'turn' });
  const found = filterable(steps, { kindOf, textOf, render, label: 'model turns', expandable: true });
  links.showTurn = (step) => {
    const el = found.reveal(step);
    el.open = true;
    flash(el);
  };
  return found.el;
}

function turnSummary(step, i) {
  const names = list(step.tool_calls).map((call) => asText(call.name));
  const gist = asText(step.error) || asText(step.summary) || asText(step.response_text);
  return span('turn-line',
    span('index', `#${step.call_index ?? i + 1}`), span('model', [step.provider, step.model].filter(Boolean).map(asText).join(' / ')),
    span('gist', step.error && pill('error', 'bad'), names.length > 0 && tag(clipLine(names.join(', '), 60)), clipLine(gist, 200)),
    span('nums', exact(`${number(step.kept_messages)} + ${number(step.added_messages)} msgs`, 'Messages kept from earlier turns + added', 'num'),
      tokens(step.input_tokens, step.output_tokens), cost(step.cost_usd), duration(step.response_ms)));
}

// Links to the span in the trace timeline, if it exists.
export function spanButton(id, links) {
  if (id == null) return null;
  return links.hasSpan?.(id) ? button(`Show span ${id}`, () => links.showSpan(id), { class: 'small' }) : mono(id);
}

function turnBody(step, links) {
  const added = list(step.added_context);
  return div('two',
    div(null,
      facts([['Iteration', asText(step.iteration)], ['Call', step.call_id && mono(step.call_id)],
        ['Messages', `${asText(step.total_messages)} in all, ${number(step.kept_messages)} kept, ${number(step.added_messages)} added`],
        ['Span', spanButton(step.span_id, links)]]),
      step.system_prompt && lazy(`System prompt (${fmtBytes(asText(step.system_prompt).length)})`, () => textBlock(step.system_prompt)),
      h('h3', null, 'Added context'),
      added.length ? paged(added, div(), (item) => div('message', tag(asText(item.role) || 'message'), textBlock(item.content)),
        { size: 20 }).nodes : para('muted', 'No message was added before this call.')),
    div(null,
      step.error && section('Error', div('error', textBlock(step.error))),
      step.thinking && section('Thinking', textBlock(step.thinking, { cls: 'thinking' })),
      section('Reply', textBlock(step.response_text)),
      list(step.tool_calls).length > 0 && section('Tool calls',
        list(step.tool_calls).map((call) => div('message', mono(asText(call.name) || '(no name)'), jsonBlock(call.arguments))))));
}

export function storyPanel(run) {
  const render = (item) => h('article', { class: `story ${asText(item.kind).replace(/[^a-z_]/g, '')}` },
    div('story-head', h('strong', null, asText(item.role) || 'event'), tag(asText(item.kind).replace('_', ' ')), span('gist', item.title),
      item.iteration != null && span('muted push', `iteration ${item.iteration}`)),
    textBlock(item.text, { cls: item.kind === 'thinking' ? 'thinking' : '' }));
  return filterable(list(run.story), { kindOf: (item) => asText(item.kind).replace('_', ' '),
    textOf: (item) => `${asText(item.title)}\n${asText(item.text)}`, render, label: 'the story' }).el;
}
