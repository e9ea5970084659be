'use strict';
// The colours of a few programs and templates, compared with reviewed snapshots. `UPDATE=1 npm test` rewrites them.
const test = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const textmate = require('vscode-textmate');
const oniguruma = require('vscode-oniguruma');

const SCOPES = {
  'source.harn': 'harn.tmLanguage.json',
  'text.harn-prompt': 'harn-prompt.tmLanguage.json',
};

async function registry() {
  const wasm = fs.readFileSync(require.resolve('vscode-oniguruma/release/onig.wasm'));
  await oniguruma.loadWASM(wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.byteLength));
  return new textmate.Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
      createOnigString: (text) => new oniguruma.OnigString(text),
    }),
    loadGrammar: async (scope) => {
      const file = path.join(__dirname, '..', 'syntaxes', SCOPES[scope]);
      return textmate.parseRawGrammar(fs.readFileSync(file, 'utf8'), file);
    },
  });
}

const loaded = registry();

async function colours(scope, text) {
  const grammar = await (await loaded).loadGrammar(scope);
  let state = textmate.INITIAL;
  const out = [];
  for (const line of text.split('\n')) {
    const { tokens, ruleStack } = grammar.tokenizeLine(line, state);
    state = ruleStack;
    out.push(`> ${line}`);
    for (const token of tokens) {
      const piece = line.slice(token.startIndex, token.endIndex);
      const scopes = token.scopes.slice(1).join(' ');
      if (piece.trim() !== '' && scopes !== '') {
        out.push(`    ${piece.trim()}: ${scopes}`);
      }
    }
  }
  return out.join('\n') + '\n';
}

for (const [file, scope] of [
  ['sample.harn', 'source.harn'],
  ['sample.harn.prompt', 'text.harn-prompt'],
]) {
  test(`the colours of ${file}`, async () => {
    const seen = await colours(scope, fs.readFileSync(path.join(__dirname, file), 'utf8'));
    const snapshot = path.join(__dirname, `${file}.snap`);
    if (process.env.UPDATE) {
      fs.writeFileSync(snapshot, seen);
    }
    assert.equal(seen, fs.readFileSync(snapshot, 'utf8'));
  });
}

test('a quote that is not closed ends with its line', async () => {
  const seen = await colours('source.harn', 'let a = "open\nlet b = 1');
  assert.match(seen, /1: constant\.numeric\.integer\.harn\n$/);
});

test('reserved words are names behind a dot and as keys', async () => {
  const seen = await colours('source.harn', 'x.match\n{type: 1}');
  assert.match(seen, /match: variable\.other\.property\.harn/);
  assert.doesNotMatch(seen, /type: keyword/);
});
