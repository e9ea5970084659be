'use strict';
// Which program is started, apart from the editor, so that tests can ask.

const path = require('node:path');

/** The binary that the setting names: a path with a folder starts from the workspace folder, a name is looked up. */
function binary(setting, folder) {
  const named = (setting || '').trim() || 'harn';
  const home = process.env.HOME || process.env.USERPROFILE || '';
  const full = named.startsWith('~/') ? path.join(home, named.slice(2)) : named;
  if (path.isAbsolute(full) || !/[\\/]/.test(full) || !folder) {
    return full;
  }
  return path.join(folder, full);
}

/** A line for a shell that runs a file. */
function runLine(command, file) {
  const quote = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  return `${quote(command)} run ${quote(file)}`;
}

/** A debug configuration with what it leaves open filled in: the file that is open, the folder of the workspace. */
function launch(configuration, file, folder) {
  const open = file ? { program: file } : {};
  const place = folder ? { cwd: folder } : {};
  return { type: 'harn', request: 'launch', name: 'Debug', ...open, ...place, ...configuration };
}

module.exports = { binary, launch, runLine };
