'use strict';
// Starts the language server and the debug adapter, and registers commands.

const vscode = require('vscode');
const { LanguageClient, TransportKind } = require('vscode-languageclient/node');
const { binary, launch, runLine } = require('./command');

let client;

function command() {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  return binary(vscode.workspace.getConfiguration('harn').get('lspPath'), folder);
}

async function start() {
  const server = { command: command(), args: ['lsp'], transport: TransportKind.stdio };
  client = new LanguageClient('harn', 'Harn', server, {
    documentSelector: [
      { scheme: 'file', language: 'harn' },
      { scheme: 'file', language: 'harn-prompt' },
    ],
    synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher('**/*.{harn,prompt}') },
  });
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    const settings = 'Open settings';
    const chosen = await vscode.window.showErrorMessage(
      `The language server of Harn does not start (${server.command} lsp): ${error.message}. ` +
        'Install harn, or set harn.lspPath.',
      settings,
    );
    if (chosen === settings) {
      await vscode.commands.executeCommand('workbench.action.openSettings', 'harn.lspPath');
    }
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function run() {
  const document = vscode.window.activeTextEditor?.document;
  if (!document) {
    return;
  }
  if (document.isUntitled || !(await document.save())) {
    await vscode.window.showWarningMessage('Save the file first: only files are run.');
    return;
  }
  const terminal =
    vscode.window.terminals.find((known) => known.name === 'Harn' && known.exitStatus === undefined) ??
    vscode.window.createTerminal('Harn');
  terminal.show(true);
  terminal.sendText(runLine(command(), document.fileName));
}

/** Debugs the open file without a launch.json. */
async function debug() {
  const document = vscode.window.activeTextEditor?.document;
  if (!document || document.isUntitled || !(await document.save())) {
    await vscode.window.showWarningMessage('Save the file first: only files are debugged.');
    return;
  }
  const folder = vscode.workspace.getWorkspaceFolder(document.uri);
  await vscode.debug.startDebugging(folder, launch({}, document.fileName, folder?.uri.fsPath));
}

/** Starts debug adapters: `harn dap`, which uses standard input and output. */
const adapters = {
  createDebugAdapterDescriptor: () => new vscode.DebugAdapterExecutable(command(), ['dap']),
};

/** Completes a debug configuration, for example if F5 is pressed without one. */
const configurations = {
  resolveDebugConfiguration(folder, configuration) {
    const document = vscode.window.activeTextEditor?.document;
    const file = document?.languageId === 'harn' ? document.fileName : undefined;
    const filled = launch(configuration, file, folder?.uri.fsPath);
    if (!filled.program) {
      return vscode.window.showErrorMessage('Open a Harn file, or name one as `program`.').then(() => undefined);
    }
    return filled;
  },
};

async function activate(context) {
  context.subscriptions.push(
    vscode.debug.registerDebugAdapterDescriptorFactory('harn', adapters),
    vscode.debug.registerDebugConfigurationProvider('harn', configurations),
    vscode.commands.registerCommand('harn.debug', debug),
    vscode.commands.registerCommand('harn.run', run),
    vscode.commands.registerCommand('harn.fixAll', () =>
      vscode.commands.executeCommand('editor.action.codeAction', { kind: 'source.fixAll.harn', apply: 'first' }),
    ),
    vscode.commands.registerCommand('harn.restart', async () => {
      await stop();
      await start();
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
