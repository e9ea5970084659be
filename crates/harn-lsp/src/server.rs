//! The main loop and the message handlers. One thread answers in order; diagnostics are published when no message is
//! waiting, so that typing is never delayed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use harn_syntax::Diagnostic;
use lsp_server::{Connection, ErrorCode, Message, Notification, ProtocolError, RequestId, Response};
use lsp_types::notification::{
    DidChangeTextDocument, DidChangeWatchedFiles, DidCloseTextDocument, DidOpenTextDocument,
    DidSaveTextDocument, Exit, Notification as _, PublishDiagnostics,
};
use lsp_types::request::Request as _;
use lsp_types::request::*;
use lsp_types::*;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::document::{Document, path_of};
use crate::host::Host;
use crate::workspace::Workspace;
use crate::{call, colours, complete, edits, findings, hover, navigate, outline, rename, templates};

/// How long the editor must be silent before diagnostics are published. Shorter than the time between two
/// keystrokes: only messages that arrive together are batched.
const REST: Duration = Duration::from_millis(15);

/// How the session ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The editor sent `exit`.
    Well,
    /// The connection ended without `exit`.
    Lost,
}

/// Serves one editor until it disconnects.
///
/// # Errors
/// A violation of the protocol by the editor, as a sentence.
pub fn serve(connection: &Connection, host: &dyn Host) -> Result<Ended, String> {
    let unbegun = |error: ProtocolError| match error.channel_is_disconnected() {
        true => "the editor went away before the session had begun".to_owned(),
        false => error.to_string(),
    };
    let (id, params) = connection.initialize_start().map_err(unbegun)?;
    let params: InitializeParams = serde_json::from_value(params).map_err(|error| error.to_string())?;
    let result = InitializeResult {
        capabilities: capabilities(),
        server_info: Some(ServerInfo {
            name: "harn".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }),
    };
    let result = serde_json::to_value(result).map_err(|error| error.to_string())?;
    connection.initialize_finish(id, result).map_err(unbegun)?;
    let workspace = Workspace::new(host, roots(&params));
    Server { connection, workspace, stale: BTreeSet::new(), found: BTreeMap::new(), down: false }.run()
}

#[expect(deprecated, reason = "older editors name the root so")]
fn roots(params: &InitializeParams) -> Vec<PathBuf> {
    let folders = params.workspace_folders.iter().flatten().filter_map(|folder| path_of(&folder.uri));
    let mut roots: Vec<PathBuf> = folders.collect();
    if roots.is_empty() {
        roots.extend(params.root_uri.as_ref().and_then(path_of));
    }
    roots
}

fn capabilities() -> ServerCapabilities {
    let strings = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    ServerCapabilities {
        position_encoding: Some(PositionEncodingKind::UTF16),
        text_document_sync: Some(TextDocumentSyncCapability::Options(TextDocumentSyncOptions {
            open_close: Some(true),
            change: Some(TextDocumentSyncKind::INCREMENTAL),
            save: Some(TextDocumentSyncSaveOptions::Supported(true)),
            ..TextDocumentSyncOptions::default()
        })),
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some(strings(&[".", "\"", "/", "{", "|"])),
            resolve_provider: Some(true),
            ..CompletionOptions::default()
        }),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        signature_help_provider: Some(SignatureHelpOptions {
            trigger_characters: Some(strings(&["(", ","])),
            retrigger_characters: Some(strings(&[","])),
            ..SignatureHelpOptions::default()
        }),
        definition_provider: Some(OneOf::Left(true)),
        references_provider: Some(OneOf::Left(true)),
        document_highlight_provider: Some(OneOf::Left(true)),
        document_symbol_provider: Some(OneOf::Left(true)),
        workspace_symbol_provider: Some(OneOf::Left(true)),
        rename_provider: Some(OneOf::Right(RenameOptions {
            prepare_provider: Some(true),
            work_done_progress_options: WorkDoneProgressOptions::default(),
        })),
        semantic_tokens_provider: Some(SemanticTokensServerCapabilities::SemanticTokensOptions(
            SemanticTokensOptions {
                legend: colours::legend(),
                range: Some(true),
                full: Some(SemanticTokensFullOptions::Bool(true)),
                ..SemanticTokensOptions::default()
            },
        )),
        inlay_hint_provider: Some(OneOf::Left(true)),
        code_action_provider: Some(CodeActionProviderCapability::Options(CodeActionOptions {
            code_action_kinds: Some(vec![CodeActionKind::QUICKFIX, findings::fix_all()]),
            ..CodeActionOptions::default()
        })),
        document_formatting_provider: Some(OneOf::Left(true)),
        document_range_formatting_provider: Some(OneOf::Left(true)),
        folding_range_provider: Some(FoldingRangeProviderCapability::Simple(true)),
        selection_range_provider: Some(SelectionRangeProviderCapability::Simple(true)),
        document_link_provider: Some(DocumentLinkOptions {
            resolve_provider: Some(false),
            work_done_progress_options: WorkDoneProgressOptions::default(),
        }),
        ..ServerCapabilities::default()
    }
}

/// Why a request has no result.
struct Refused {
    code: ErrorCode,
    message: String,
}

impl Refused {
    fn because(message: String) -> Refused {
        Refused { code: ErrorCode::RequestFailed, message }
    }
}

type Answer = Result<Value, Refused>;

struct Server<'h> {
    connection: &'h Connection,
    workspace: Workspace<'h>,
    /// The documents whose diagnostics are not published yet.
    stale: BTreeSet<PathBuf>,
    /// The published diagnostics of each document.
    found: BTreeMap<PathBuf, Vec<Diagnostic>>,
    /// Whether the editor has requested shutdown.
    down: bool,
}

impl Server<'_> {
    fn run(mut self) -> Result<Ended, String> {
        let mut rest = REST;
        loop {
            let message = if self.stale.is_empty() {
                self.connection.receiver.recv().ok()
            } else {
                match self.connection.receiver.recv_timeout(rest) {
                    Ok(message) => Some(message),
                    Err(error) if error.is_timeout() => {
                        self.tell_next();
                        // Other documents follow, unless a message arrives.
                        rest = Duration::ZERO;
                        continue;
                    }
                    Err(_) => None,
                }
            };
            rest = REST;
            match message {
                None => return Ok(if self.down { Ended::Well } else { Ended::Lost }),
                Some(Message::Request(request)) => self.request(request)?,
                Some(Message::Notification(notification)) if notification.method == Exit::METHOD => {
                    return Ok(if self.down { Ended::Well } else { Ended::Lost });
                }
                Some(Message::Notification(notification)) => self.notification(notification)?,
                Some(Message::Response(_)) => {}
            }
        }
    }

    fn send(&self, message: Message) -> Result<(), String> {
        self.connection.sender.send(message).map_err(|_| "the editor is gone".to_owned())
    }

    /// Checks one document and publishes its diagnostics.
    fn tell_next(&mut self) {
        let Some(path) = self.stale.pop_first() else { return };
        let Some(document) = self.workspace.opened(&path) else { return };
        let found = findings::find(&self.workspace, &document);
        let shown = found.iter().map(|found| findings::shown(&document, found)).collect();
        let params = PublishDiagnosticsParams::new(document.uri.clone(), shown, None);
        self.found.insert(path, found);
        // A lost connection is detected at the next message.
        let _ = self.send(Notification::new(PublishDiagnostics::METHOD.to_owned(), params).into());
    }

    fn notification(&mut self, notification: Notification) -> Result<(), String> {
        // Invalid notifications are ignored.
        fn read<P: DeserializeOwned>(notification: Notification) -> Option<P> {
            serde_json::from_value(notification.params).ok()
        }
        match notification.method.as_str() {
            DidOpenTextDocument::METHOD => {
                if let Some(DidOpenTextDocumentParams { text_document: opened }) = read(notification)
                    && let Some(path) = path_of(&opened.uri)
                {
                    self.workspace.open(Document::new(path.clone(), opened.uri, opened.text));
                    self.stale.insert(path);
                }
            }
            DidChangeTextDocument::METHOD => {
                if let Some(DidChangeTextDocumentParams { text_document, content_changes }) =
                    read(notification)
                    && let Some(document) =
                        path_of(&text_document.uri).and_then(|path| self.workspace.opened(&path))
                {
                    let text = changed(&document, content_changes);
                    let path = document.path.clone();
                    self.workspace.open(Document::new(path.clone(), document.uri.clone(), text));
                    self.stale.insert(path);
                }
            }
            DidSaveTextDocument::METHOD | DidChangeWatchedFiles::METHOD => {
                // A file that others import has changed.
                let all = self.workspace.all_opened();
                self.stale.extend(all.into_iter().map(|document| document.path.clone()));
            }
            DidCloseTextDocument::METHOD => {
                if let Some(DidCloseTextDocumentParams { text_document }) = read(notification)
                    && let Some(path) = path_of(&text_document.uri)
                {
                    self.workspace.close(&path);
                    self.stale.remove(&path);
                    self.found.remove(&path);
                    let params = PublishDiagnosticsParams::new(text_document.uri, Vec::new(), None);
                    self.send(Notification::new(PublishDiagnostics::METHOD.to_owned(), params).into())?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn request(&mut self, request: lsp_server::Request) -> Result<(), String> {
        let id = request.id.clone();
        let answer = if self.down {
            Err(Refused { code: ErrorCode::InvalidRequest, message: "the server shuts down".to_owned() })
        } else {
            self.answer(request)
        };
        self.send(Message::Response(response(id, answer)))
    }

    fn answer(&mut self, request: lsp_server::Request) -> Answer {
        let lsp_server::Request { method, params, .. } = request;
        match method.as_str() {
            Shutdown::METHOD => {
                self.down = true;
                Ok(Value::Null)
            }
            Completion::METHOD => {
                let (document, offset) = self.place::<Completion>(params, |p| &p.text_document_position)?;
                let items = if document.is_template() {
                    templates::complete(&self.workspace, &document, offset)
                } else {
                    complete::complete(&self.workspace, &document, offset)
                };
                value(CompletionResponse::Array(items))
            }
            ResolveCompletionItem::METHOD => value(complete::resolve(&self.workspace, read(params)?)),
            HoverRequest::METHOD => {
                let at = |p: &'_ HoverParams| p.text_document_position_params.clone();
                let (document, offset) = self.at::<HoverRequest>(params, at)?;
                value(if document.is_template() {
                    templates::hover(&document, offset)
                } else {
                    hover::hover(&self.workspace, &document, offset)
                })
            }
            SignatureHelpRequest::METHOD => {
                let at = |p: &'_ SignatureHelpParams| p.text_document_position_params.clone();
                let (document, offset) = self.at::<SignatureHelpRequest>(params, at)?;
                value(call::help(&self.workspace, &document, offset))
            }
            GotoDefinition::METHOD => {
                let at = |p: &'_ GotoDefinitionParams| p.text_document_position_params.clone();
                let (document, offset) = self.at::<GotoDefinition>(params, at)?;
                value(if document.is_template() {
                    templates::definition(&self.workspace, &document, offset)
                } else {
                    navigate::definition(&self.workspace, &document, offset)
                })
            }
            References::METHOD => {
                let params: ReferenceParams = read(params)?;
                let (document, offset) = self.position(&params.text_document_position)?;
                let with = params.context.include_declaration;
                value(navigate::references(&self.workspace, &document, offset, with))
            }
            DocumentHighlightRequest::METHOD => {
                let at = |p: &'_ DocumentHighlightParams| p.text_document_position_params.clone();
                let (document, offset) = self.at::<DocumentHighlightRequest>(params, at)?;
                value(navigate::highlights(&self.workspace, &document, offset))
            }
            PrepareRenameRequest::METHOD => {
                let params: TextDocumentPositionParams = read(params)?;
                let (document, offset) = self.position(&params)?;
                let (_, _, span) =
                    rename::renamable(&self.workspace, &document, offset).map_err(Refused::because)?;
                value(PrepareRenameResponse::Range(document.range(span)))
            }
            Rename::METHOD => {
                let params: RenameParams = read(params)?;
                let (document, offset) = self.position(&params.text_document_position)?;
                let edit = rename::rename(&self.workspace, &document, offset, &params.new_name);
                value(edit.map_err(Refused::because)?)
            }
            DocumentSymbolRequest::METHOD => {
                let params: DocumentSymbolParams = read(params)?;
                let document = self.document(&params.text_document)?;
                value(outline::symbols(&document))
            }
            WorkspaceSymbolRequest::METHOD => {
                let params: WorkspaceSymbolParams = read(params)?;
                value(outline::workspace_symbols(&self.workspace, &params.query))
            }
            FoldingRangeRequest::METHOD => {
                let params: FoldingRangeParams = read(params)?;
                let document = self.document(&params.text_document)?;
                value(outline::folding(&document))
            }
            SelectionRangeRequest::METHOD => {
                let params: SelectionRangeParams = read(params)?;
                let document = self.document(&params.text_document)?;
                let each = params.positions.into_iter().map(|at| outline::selection(&document, at));
                value(each.collect::<Vec<_>>())
            }
            DocumentLinkRequest::METHOD => {
                let params: DocumentLinkParams = read(params)?;
                let document = self.document(&params.text_document)?;
                value(if document.is_template() {
                    templates::links(&self.workspace, &document)
                } else {
                    outline::links(&self.workspace, &document)
                })
            }
            SemanticTokensFullRequest::METHOD => {
                let params: SemanticTokensParams = read(params)?;
                let document = self.document(&params.text_document)?;
                value(SemanticTokens {
                    result_id: None,
                    data: colours::tokens(&self.workspace, &document, None),
                })
            }
            SemanticTokensRangeRequest::METHOD => {
                let params: SemanticTokensRangeParams = read(params)?;
                let document = self.document(&params.text_document)?;
                let part = document.lines.span(&document.text, params.range);
                let data = colours::tokens(&self.workspace, &document, Some(part));
                value(SemanticTokens { result_id: None, data })
            }
            InlayHintRequest::METHOD => {
                let params: InlayHintParams = read(params)?;
                let document = self.document(&params.text_document)?;
                value(if document.is_template() {
                    Vec::new()
                } else {
                    edits::hints(&self.workspace, &document, params.range)
                })
            }
            CodeActionRequest::METHOD => {
                let params: CodeActionParams = read(params)?;
                let document = self.document(&params.text_document)?;
                // The published diagnostics may belong to an older version.
                if self.stale.remove(&document.path) || !self.found.contains_key(&document.path) {
                    let found = findings::find(&self.workspace, &document);
                    self.found.insert(document.path.clone(), found);
                    self.stale.insert(document.path.clone());
                }
                let found = self.found.get(&document.path).map_or(&[][..], Vec::as_slice);
                let only = params.context.only.as_deref();
                value(findings::actions(&self.workspace, &document, found, params.range, only))
            }
            Formatting::METHOD => {
                let params: DocumentFormattingParams = read(params)?;
                let document = self.document(&params.text_document)?;
                value(if document.is_template() {
                    Vec::new()
                } else {
                    edits::format(&self.workspace, &document)
                })
            }
            RangeFormatting::METHOD => {
                let params: DocumentRangeFormattingParams = read(params)?;
                let document = self.document(&params.text_document)?;
                value(if document.is_template() {
                    Vec::new()
                } else {
                    edits::format_range(&self.workspace, &document, params.range)
                })
            }
            _ => Err(Refused {
                code: ErrorCode::MethodNotFound,
                message: format!("there is no method {method}"),
            }),
        }
    }

    fn place<R: lsp_types::request::Request>(
        &self,
        params: Value,
        at: impl Fn(&R::Params) -> &TextDocumentPositionParams,
    ) -> Result<(Rc<Document>, u32), Refused> {
        self.position(at(&read::<R::Params>(params)?))
    }

    fn at<R: lsp_types::request::Request>(
        &self,
        params: Value,
        at: impl Fn(&R::Params) -> TextDocumentPositionParams,
    ) -> Result<(Rc<Document>, u32), Refused> {
        self.position(&at(&read::<R::Params>(params)?))
    }

    fn position(&self, params: &TextDocumentPositionParams) -> Result<(Rc<Document>, u32), Refused> {
        let document = self.document(&params.text_document)?;
        let offset = document.offset(params.position);
        Ok((document, offset))
    }

    fn document(&self, id: &TextDocumentIdentifier) -> Result<Rc<Document>, Refused> {
        let found = path_of(&id.uri).and_then(|path| self.workspace.document(&path));
        found.ok_or_else(|| Refused::because(format!("{} is neither open nor a file", id.uri.as_str())))
    }
}

fn read<P: DeserializeOwned>(params: Value) -> Result<P, Refused> {
    serde_json::from_value(params)
        .map_err(|error| Refused { code: ErrorCode::InvalidParams, message: error.to_string() })
}

fn value(result: impl serde::Serialize) -> Answer {
    serde_json::to_value(result).map_err(|error| Refused::because(error.to_string()))
}

fn response(id: RequestId, answer: Answer) -> Response {
    match answer {
        Ok(result) => Response::new_ok(id, result),
        Err(refused) => Response::new_err(id, refused.code as i32, refused.message),
    }
}

/// Applies changes to a document, in order: each refers to the result of the change before.
fn changed(document: &Document, changes: Vec<TextDocumentContentChangeEvent>) -> String {
    let mut text = document.text.clone();
    let mut lines = document.lines.clone();
    for change in changes {
        match change.range {
            None => text = change.text,
            Some(range) => {
                let span = lines.span(&text, range);
                text.replace_range(span.range(), &change.text);
            }
        }
        lines = crate::text::Lines::of(&text);
    }
    text
}
