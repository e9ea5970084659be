'use strict';
const test = require('node:test');
const assert = require('node:assert');
const path = require('node:path');
const { binary, launch, runLine } = require('../src/command');

test('the binary that the setting names', () => {
  assert.equal(binary('', '/project'), 'harn');
  assert.equal(binary('harn', '/project'), 'harn');
  assert.equal(binary('/opt/harn', '/project'), '/opt/harn');
  assert.equal(binary('./bin/harn', path.sep + 'project'), path.join(path.sep, 'project', 'bin', 'harn'));
  assert.equal(binary('./bin/harn', undefined), './bin/harn');
  process.env.HOME = '/home/ada';
  assert.equal(binary('~/bin/harn', '/project'), path.join('/home/ada', 'bin', 'harn'));
});

test('names with blanks are quoted', () => {
  assert.equal(runLine('harn', '/tmp/a.harn'), 'harn run /tmp/a.harn');
  assert.equal(runLine('/my bin/harn', "/tmp/it's.harn"), "'/my bin/harn' run '/tmp/it'\\''s.harn'");
});

test('a debug configuration is filled in', () => {
  assert.deepEqual(launch({}, '/p/a.harn', '/p'), {
    type: 'harn', request: 'launch', name: 'Debug', program: '/p/a.harn', cwd: '/p',
  });
  const own = { type: 'harn', request: 'launch', name: 'Mine', program: 'b.harn', args: ['x'] };
  assert.deepEqual(launch(own, '/p/a.harn', undefined), own);
  assert.equal(launch({}, undefined, '/p').program, undefined);
});

test('the debugger is the one that the extension starts', () => {
  const manifest = require('../package.json');
  const [debuggerEntry] = manifest.contributes.debuggers;
  const source = require('node:fs').readFileSync(path.join(__dirname, '..', manifest.main), 'utf8');
  assert.ok(source.includes(`registerDebugAdapterDescriptorFactory('${debuggerEntry.type}'`));
  const known = Object.keys(debuggerEntry.configurationAttributes.launch.properties);
  for (const initial of debuggerEntry.initialConfigurations) {
    for (const key of Object.keys(initial).filter((key) => !['type', 'request', 'name'].includes(key))) {
      assert.ok(known.includes(key), key);
    }
  }
});

test('what the manifest names is there', () => {
  const manifest = require('../package.json');
  const contributed = [
    ...manifest.contributes.grammars.map((grammar) => grammar.path),
    ...manifest.contributes.languages.map((language) => language.configuration),
  ];
  for (const file of contributed) {
    assert.doesNotThrow(() => JSON.parse(require('node:fs').readFileSync(path.join(__dirname, '..', file), 'utf8')), file);
  }
  const source = require('node:fs').readFileSync(path.join(__dirname, '..', manifest.main), 'utf8');
  for (const { command } of manifest.contributes.commands) {
    assert.ok(source.includes(`'${command}'`), command);
  }
});
