//! Facts of directories, stored by namespace in the state directory, and checks whether they are stale.
//!
//! | File | Content |
//! | --- | --- |
//! | `facts` | the facts: saved ones, overlaid with unsaved changes |
//! | `hashes` | digests of directories, and the check for stale ones |
//! | `scan` | the entries below a directory |

mod facts;
mod hashes;
mod scan;

use harn_value::{Dict, Ref, Str, Value};
use harn_vm::builtin::Rest;
use harn_vm::{Error, Result, builtins};

use super::store::through_json;
use crate::args::PathArg;
use crate::places::{resolve, show};
use facts::{Facts, Namespace, directory, shown};
use hashes::Hashing;
use scan::Scan;

builtins! {
    /// Facts of directories.
    pub(crate) static METADATA: "metadata";

    /// Adds facts to a directory in a namespace.
    ///
    /// Subdirectories inherit the facts; `"."` (or `""`) is the root of all directories. Facts are kept in memory until
    /// `metadata_save`. They are converted to JSON, as by `store_set`. An empty dict changes nothing.
    ///
    /// ```harn
    /// metadata_set("src", "team", {owner: "ada"})
    /// metadata_set("src", "team", {review: true})
    /// println(metadata_get("src/lib", "team")) // -> {owner: ada, review: true}
    /// ```
    Keep fn metadata_set(cx, dir: Str, namespace: Namespace, data: Ref<Dict>) -> "nil" {
        let data = through_json(NAME, &data.into())?;
        let facts = Facts::of(cx)?;
        if let Some(data) = data.as_dict().filter(|data| !data.is_empty()) {
            facts.set(&namespace, &directory(cx, &dir), data);
        }
    }

    /// Returns the facts of a directory with its inherited facts, or nil if it has no facts.
    ///
    /// If several directories have a key, the deepest one takes precedence. Without a namespace, the facts of all
    /// namespaces are merged, and namespaces later in the alphabet take precedence.
    ///
    /// ```harn
    /// metadata_set(".", "team", {owner: "ada", review: true})
    /// metadata_set("docs", "team", {owner: "bob"})
    /// println(metadata_get("docs/api", "team")) // -> {owner: bob, review: true}
    /// println(metadata_get("docs", "nothing")) // -> nil
    /// ```
    Fs fn metadata_get(cx, dir: Str, namespace: Option<Namespace> as "string?") -> "dict | nil" {
        let (facts, dir) = (Facts::of(cx)?, directory(cx, &dir));
        match namespace {
            Some(namespace) => facts.resolved(&namespace, &dir)?,
            None => facts.mixed(&dir)?,
        }
    }

    /// Returns the facts of a directory like `metadata_get`, but without a namespace as `{namespace: facts}`.
    ///
    /// ```harn
    /// metadata_set(".", "team", {owner: "ada"})
    /// metadata_set("src", "build", {tool: "make"})
    /// println(metadata_resolve("src")) // -> {build: {tool: make}, team: {owner: ada}}
    /// ```
    Fs fn metadata_resolve(cx, dir: Str, namespace: Option<Namespace> as "string?") -> "dict | nil" {
        let (facts, dir) = (Facts::of(cx)?, directory(cx, &dir));
        match namespace {
            Some(namespace) => facts.resolved(&namespace, &dir)?,
            None => facts.by_namespace(|namespace| facts.resolved(namespace, &dir))?,
        }
    }

    /// Lists the directories with local facts: `{dir, local, resolved}` each.
    ///
    /// `resolved` includes inherited facts. Without a namespace, both are `{namespace: facts}`.
    ///
    /// ```harn
    /// metadata_set("", "team", {owner: "ada"})
    /// metadata_set("src", "team", {review: true})
    /// println(metadata_entries("team")[0]) // -> {dir: ., local: {owner: ada}, resolved: {owner: ada}}
    /// println(metadata_entries("team")[1].resolved) // -> {owner: ada, review: true}
    /// ```
    Fs fn metadata_entries(cx, namespace: Option<Namespace> as "string?") -> "list" {
        let facts = Facts::of(cx)?;
        let entry = |dir: String| {
            let local = |namespace: &str| facts.local(namespace, &dir);
            let resolved = |namespace: &str| facts.resolved(namespace, &dir);
            let (local, resolved) = match namespace.as_deref() {
                Some(namespace) => (local(namespace)?, resolved(namespace)?),
                None => (facts.by_namespace(local)?, facts.by_namespace(resolved)?),
            };
            let mut entry = Dict::new();
            entry.insert("dir", shown(&dir));
            entry.insert("local", local);
            entry.insert("resolved", resolved);
            Ok(Value::from(entry))
        };
        facts.stored(namespace.as_deref())?.into_iter().map(entry).collect::<Result<Vec<_>>>()?
    }

    /// Returns a summary of the stored facts: counts, names, and directories with missing or stale hashes.
    ///
    /// The result is `{directory_count, namespace_count, namespaces, directories, missing_structure_hash,
    /// missing_content_hash, stale}`. A hash is missing if the directory exists and its facts in the namespace (default
    /// `classification`) have none. `stale` is the result of `metadata_stale`.
    ///
    /// ```harn
    /// metadata_set(".", "team", {owner: "ada"})
    /// let status = metadata_status()
    /// println([status.directories, status.namespaces]) // -> [[.], [team]]
    /// println(status.missing_content_hash) // -> [.]
    /// ```
    Fs fn metadata_status(cx, namespace: Option<Namespace> as "string?") -> "dict" {
        Hashing::new(cx, NAME).status(&Facts::of(cx)?, namespace.as_deref())?
    }

    /// Lists the directories whose stored hashes are stale: `{any_stale, tier1, tier2}`.
    ///
    /// `tier1` compares `classification.structureHash`: names and sizes of the directory's entries. `tier2` compares
    /// `classification.contentHash`, which includes modification times. The hash of a deleted directory is stale.
    /// Arguments are ignored.
    ///
    /// ```harn
    /// metadata_set(".", "classification", {structureHash: "old"})
    /// println(metadata_stale()) // -> {any_stale: true, tier1: [.], tier2: []}
    /// ```
    Fs fn metadata_stale(cx, ignored: Rest) -> "dict" {
        drop(ignored);
        Hashing::new(cx, NAME).stale(&Facts::of(cx)?)?
    }

    /// Updates the hashes in `classification` of every stored directory.
    ///
    /// Hashes of deleted directories become nil. Like all facts, the hashes are kept in memory until
    /// `metadata_save`.
    ///
    /// ```harn
    /// metadata_set(".", "classification", {structureHash: "old"})
    /// metadata_refresh_hashes()
    /// println(metadata_stale().any_stale) // -> false
    /// ```
    Keep fn metadata_refresh_hashes(cx) -> "nil" {
        Hashing::new(cx, NAME).refresh(&Facts::of(cx)?)?;
    }

    /// Writes all new facts to the state directory, below `metadata/`.
    ///
    /// Concurrent programs do not overwrite each other's facts.
    ///
    /// ```harn
    /// metadata_set("src", "team", {owner: "ada"})
    /// println(metadata_save()) // -> nil
    /// ```
    Keep async fn metadata_save(cx) -> "nil" {
        Facts::of(&cx)?.save().await?;
    }

    /// Does nothing: facts are not cached.
    ///
    /// ```harn
    /// println(invalidate_facts("src")) // -> nil
    /// ```
    State fn invalidate_facts(cx, dir: Str) -> "nil" {
        drop(dir);
    }

    /// Returns a digest of the entries of a directory (not of its subdirectories): names, sizes and modification times.
    ///
    /// It is the `contentHash` of the directory. State and run records of the runtime are excluded.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_content_hash")
    /// mkdir(p)
    /// let before = compute_content_hash(p)
    /// write_file(path_join(p, "a.txt"), "x")
    /// println(compute_content_hash(p) == before) // -> false
    /// delete_file(p)
    /// ```
    Fs fn compute_content_hash(cx, dir: Str) -> "string" {
        match Hashing::new(cx, NAME).of(&dir)? {
            Some(hashes) => hashes.content,
            None => {
                let path = show(&resolve(cx, &dir));
                return Err(Error::thrown(format!("{NAME}: there is no directory {path}")));
            }
        }
    }

    /// Lists the contents of a directory, recursively: `{path, size, modified, is_dir}` each.
    ///
    /// Paths inside of the working directory are relative to it. A pattern is a substring of the path, or a prefix and
    /// a suffix with one `*` or `**` between them. Options are `pattern`, `max_depth` (5; 0 is only this level),
    /// `include_hidden` (false), `include_dirs` and `include_files` (true). Links are not followed, and `.gitignore` is
    /// ignored.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_scan_directory")
    /// mkdir(path_join(p, "a"))
    /// write_file(path_join(p, "a", "b.txt"), "abc")
    /// println(scan_directory(p, "*.txt").map({ e -> e.size })) // -> [3]
    /// println(scan_directory(p, {max_depth: 0}).map({ e -> e.is_dir })) // -> [true]
    /// delete_file(p)
    /// ```
    Fs fn scan_directory(cx, dir: PathArg = ".", pattern_or_opts: Value as "string | {pattern?: string, max_depth?: int, include_hidden?: bool, include_dirs?: bool, include_files?: bool}?", opts: Value as "{pattern?: string, max_depth?: int, include_hidden?: bool, include_dirs?: bool, include_files?: bool}?") -> "list" {
        Scan::new(NAME, &pattern_or_opts, &opts)?.entries(cx, NAME, &resolve(cx, &dir))?
    }
}
