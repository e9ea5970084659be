//! Import of a run from a file written by `harn runs export`.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use harn_store::{
    Answer, DEFAULT_QUEUE, Digest, EntryKind, JournalEntry, NewRun, NewStatus, NewWaitpoint, Place,
    RunStatus, Scheduling, Write,
};
use harn_system::{Real, System, SystemExt};
use harn_value::{Data as Value, json};

use super::{Failure, Outcome, Shown, lease, place, wait};

/// The largest file that is imported, in bytes.
const LARGEST: u64 = 4 << 30;

pub(super) fn import(file: &Path, name: Option<String>) -> Outcome<Shown> {
    let wrong = |why: String| Failure::new("bad_export", format!("cannot import {}: {why}", file.display()));
    let real = Real::new();
    let bytes = real.read(file, LARGEST).map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("not UTF-8 text".to_owned()))?;
    // The whole file is validated before anything is written, and written atomically.
    let lines = lines(&text).map_err(wrong)?;
    let own = lines[0]["id"].as_str().unwrap_or_default();
    let id = name.unwrap_or_else(|| own.to_owned());
    crate::cmd::durable::checked(&id).map_err(|text| Failure::new("bad_name", text))?;
    let writes = writes(&lines, &id).map_err(wrong)?;
    let place = place()?;
    if let Place::File(path) = &place
        && let Some(folder) = path.parent()
    {
        let failed =
            |error| Failure::new("write_failed", format!("cannot create {}: {error}", folder.display()));
        real.make_dirs(folder).map_err(failed)?;
    }
    let store = super::answered(place.open())?;
    if wait(store.run(&id))?.is_some() {
        let text =
            format!("there is a run '{id}' already; `--run-id NAME` takes this one in under another name");
        return Err(Failure::new("run_exists", text));
    }
    let fence = lease(&*store, &id)?;
    wait(store.write(&fence, writes))?;
    let length = wait(store.run(&id))?.map_or(0, |run| run.length);
    let text = format!("run {id} imported, with {length} entries\n");
    Ok(Shown::new(text, json!({"id": id, "entries": length})))
}

/// Returns the lines of a complete file without the last one.
fn lines(text: &str) -> Result<Vec<Value>, String> {
    let body = text.trim_end_matches('\n');
    let start = body.rfind('\n').map_or(0, |at| at + 1);
    let (body, last) = body.split_at(start);
    let mark = "{\"harn_run\"";
    // A file truncated within the marker may still be an export.
    if !text.starts_with(mark) && !mark.starts_with(text) {
        return Err("not an exported run; `harn runs export ID` writes one".to_owned());
    }
    let short = "the end of the file is missing; copy or export it again";
    let last: Value = serde_json::from_str(last).map_err(|_| short.to_owned())?;
    if last["end"] != true {
        return Err(short.to_owned());
    }
    if last["sha256"] != Digest::of(body.as_bytes()).to_string() {
        return Err("the digest does not match: the file was changed".to_owned());
    }
    let lines = body
        .lines()
        .enumerate()
        .map(|(n, line)| serde_json::from_str(line).map_err(|error| format!("line {}: {error}", n + 1)));
    let lines: Vec<Value> = lines.collect::<Result<_, _>>()?;
    match lines.first().and_then(|head| head["harn_run"].as_u64()) {
        Some(super::export::VERSION) => Ok(lines),
        Some(version) => Err(format!("unknown format version {version}; use a newer version of Harn")),
        None => Err("not an exported run".to_owned()),
    }
}

/// Returns the writes that create the run.
fn writes(lines: &[Value], id: &str) -> Result<Vec<Write>, String> {
    let head = Line(&lines[0], 1);
    let (created_ms, note) = (head.number("created_ms")?, head.text("note")?);
    let args = head.0["args"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let run = NewRun {
        id: id.to_owned(),
        program: head.text("program")?,
        args: args.collect(),
        status: NewStatus::Queued { due_ms: i64::MAX },
        scheduling: head.scheduling(),
        info: moved(head.bytes("info")?),
    };
    let mut writes = vec![Write::RunCreate { run, at_ms: created_ms }];
    if let Some(started_ms) = head.0["started_ms"].as_i64() {
        let (run, status, note) = (id.to_owned(), NewStatus::Running, String::new());
        writes.push(Write::RunStatus { run, status, note, at_ms: started_ms });
    }
    let (mut entries, mut answers) = (Vec::new(), 0);
    for (n, line) in lines.iter().enumerate().skip(1) {
        let line = Line(line, n + 1);
        let run = id.to_owned();
        if line.0["source"].is_string() {
            writes.push(Write::SourcePut { run, path: line.text("source")?, bytes: line.bytes("bytes")? });
        } else if line.0["entry"].is_u64() {
            entries.push(line.entry()?);
        } else if line.0["waitpoint"].is_string() {
            line.waitpoint(&run, &mut writes, &mut answers)?;
        } else {
            return Err(line.wrong("expected source, entry or waitpoint"));
        }
    }
    let at_ms = head.number("updated_ms")?;
    writes.push(Write::JournalAppend { run: id.to_owned(), entries, at_ms });
    let exit_code = head.0["exit_code"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(0);
    // A run that has not ended waits until the user resumes it, because it may still be executed elsewhere.
    let waits =
        (NewStatus::Suspended { due_ms: None, answers }, "imported; `harn resume` continues it".to_owned());
    let (status, note) = match RunStatus::named(&head.text("status")?) {
        Some(RunStatus::Completed) => (NewStatus::Completed { exit_code }, note),
        Some(RunStatus::Failed) => (NewStatus::Failed { exit_code }, note),
        Some(_) => waits,
        None => return Err(head.wrong("unknown status")),
    };
    let at_ms = head.0["ended_ms"].as_i64().unwrap_or(at_ms);
    writes.push(Write::RunStatus { run: id.to_owned(), status, note, at_ms });
    writes.push(Write::Release);
    Ok(writes)
}

/// Adapts the metadata of a run to the current directory.
fn moved(info: Vec<u8>) -> Vec<u8> {
    match serde_json::from_slice::<Value>(&info) {
        Ok(Value::Object(mut facts)) if facts.contains_key("dir") => {
            facts["dir"] = Real::new().work_dir().display().to_string().into();
            crate::cmd::durable::sealed(Value::Object(facts))
        }
        _ => info,
    }
}

/// A line, and its number for messages.
#[derive(Clone, Copy)]
struct Line<'a>(&'a Value, usize);

impl Line<'_> {
    fn wrong(&self, why: &str) -> String {
        format!("line {}: {why}", self.1)
    }

    /// Returns the scheduling of the run. Its key is dropped because it may belong to another run in this store.
    fn scheduling(&self) -> Scheduling {
        let text = |key: &str| self.0[key].as_str().map(str::to_owned);
        let priority = self.0["priority"].as_i64().and_then(|priority| i32::try_from(priority).ok());
        Scheduling {
            queue: text("queue").unwrap_or_else(|| DEFAULT_QUEUE.to_owned()),
            priority: priority.unwrap_or(0),
            key: None,
            group: text("group"),
        }
    }

    fn text(&self, key: &str) -> Result<String, String> {
        let text = self.0[key].as_str().map(str::to_owned);
        text.ok_or_else(|| self.wrong(&format!("the text `{key}` is missing")))
    }

    fn number(&self, key: &str) -> Result<i64, String> {
        self.0[key].as_i64().ok_or_else(|| self.wrong(&format!("the number `{key}` is missing")))
    }

    fn count(&self, key: &str) -> Result<u64, String> {
        self.0[key].as_u64().ok_or_else(|| self.wrong(&format!("the count `{key}` is missing")))
    }

    fn bytes(&self, key: &str) -> Result<Vec<u8>, String> {
        let value = &self.0[key];
        if let Some(text) = value["text"].as_str() {
            return Ok(text.as_bytes().to_vec());
        }
        let bytes = value["base64"].as_str().and_then(|text| STANDARD.decode(text).ok());
        bytes.ok_or_else(|| self.wrong(&format!("the bytes `{key}` are missing")))
    }

    fn entry(&self) -> Result<JournalEntry, String> {
        let kind =
            EntryKind::named(&self.text("kind")?).ok_or_else(|| self.wrong("its kind is not known"))?;
        Ok(JournalEntry {
            seq: self.count("entry")?,
            task: self.text("task")?.into(),
            count: self.count("count")?,
            kind,
            name: self.text("name")?.into(),
            place: self.text("place")?.into(),
            digest: self.bytes("digest")?,
            at_ms: self.number("at_ms")?,
            payload: self.bytes("payload")?,
        })
    }

    fn waitpoint(&self, run: &str, writes: &mut Vec<Write>, answers: &mut u64) -> Result<(), String> {
        let request_id = self.text("waitpoint")?;
        let quorum =
            u32::try_from(self.count("quorum")?).map_err(|_| self.wrong("its quorum is too large"))?;
        let waitpoint = NewWaitpoint {
            request_id: request_id.clone(),
            kind: self.text("kind")?,
            prompt: self.text("prompt")?,
            info: self.bytes("info")?,
            asked_ms: self.number("asked_ms")?,
            due_ms: self.0["due_ms"].as_i64(),
            quorum,
        };
        writes.push(Write::WaitpointOpen { run: run.to_owned(), waitpoint });
        for answer in self.0["answers"].as_array().into_iter().flatten() {
            let answer = Line(answer, self.1);
            let (by, signature) = (answer.text("by")?, answer.text("signature")?);
            let answer =
                Answer { value: answer.bytes("value")?, by, at_ms: answer.number("at_ms")?, signature };
            writes.push(Write::WaitpointAnswer {
                run: run.to_owned(),
                request_id: request_id.clone(),
                answer,
            });
            *answers += 1;
        }
        if let Some(at_ms) = self.0["closed_ms"].as_i64() {
            writes.push(Write::WaitpointClose { run: run.to_owned(), request_id, at_ms });
        }
        Ok(())
    }
}
