'use strict';
// Determines the program to start, independently of the editor, so that it can be tested.

const path = require('node:path');

/** Returns the binary from the setting: a path is relative to the workspace folder, a plain name is searched in PATH. */
function binary(setting, folder) {
  const named = (setting || '').trim() || 'harn';
  const home = process.env.HOME || process.env.USERPROFILE || '';
  const full = named.startsWith('~/') ? path.join(home, named.slice(2)) : named;
  if (path.isAbsolute(full) || !/[\\/]/.test(full) || !folder) {
    return full;
  }
  return path.join(folder, full);
}

/** Returns a shell command line that runs a file. */
function runLine(command, file) {
  const quote = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  return `${quote(command)} run ${quote(file)}`;
}

/** Completes a debug configuration with the open file and the workspace folder as defaults. */
function launch(configuration, file, folder) {
  const open = file ? { program: file } : {};
  const place = folder ? { cwd: folder } : {};
  return { type: 'harn', request: 'launch', name: 'Debug', ...open, ...place, ...configuration };
}

module.exports = { binary, launch, runLine };
