//! tar and zip archives as lists of entries.

use std::io::Cursor;

use harn_value::{Dict, Value};
use harn_vm::{Error, Result};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use super::Bytes;
use super::unpack::{Check, broken, read_all, target, write_all};
use crate::args::room_for;

/// The default permissions of a file: writable by its owner, readable by all.
const MODE: i64 = 0o644;
/// Mask of all permission bits.
const MODES: i64 = 0o7777;

/// A file to add to an archive.
struct Entry {
    path: String,
    content: Bytes,
    mode: u32,
}

fn entries(name: &str, value: &Value) -> Result<Vec<Entry>> {
    let Some(list) = value.as_list() else {
        return Err(broken(name, format_args!("entries must be a list, got {}", value.type_name())));
    };
    list.iter().enumerate().map(|(at, value)| entry(name, at + 1, value)).collect()
}

fn entry(name: &str, number: usize, value: &Value) -> Result<Entry> {
    let wrong = |what: &str| broken(name, format_args!("entry {number} {what}"));
    let typed = |what: &str, value: &Value| wrong(&format!("{what}, got {}", value.type_name()));
    let Some(dict) = value.to_dict() else { return Err(typed("must be a dict", value)) };
    let get = |key: &str| dict.get_str(key).filter(|value| !value.is_nil());
    let path = get("path").ok_or_else(|| wrong("is missing path"))?;
    let path = path.as_str().ok_or_else(|| typed("path must be a string", path))?;
    if path.is_empty() {
        return Err(wrong("path must not be empty"));
    }
    if !is_inside(path) {
        return Err(wrong("path must be relative and name a file, without .. and zero bytes"));
    }
    let content = get("content").ok_or_else(|| wrong("is missing content"))?;
    let content = Bytes::of(content).ok_or_else(|| typed("content must be bytes or string", content))?;
    let mode = match get("mode") {
        None => MODE,
        Some(mode) => mode.as_int().ok_or_else(|| typed("mode must be an int", mode))?,
    };
    if !(0..=MODES).contains(&mode) {
        return Err(wrong("mode must be between 0 and 4095"));
    }
    Ok(Entry { path: path.to_string(), content, mode: mode as u32 })
}

/// Returns whether a path stays below the target directory of an archive, on all systems.
fn is_inside(path: &str) -> bool {
    let mut parts = path.split(['/', '\\']);
    let drive = path.as_bytes().get(1) == Some(&b':');
    !drive
        && !path.starts_with(['/', '\\'])
        && !path.ends_with('/')
        && !path.contains('\0')
        && parts.all(|part| part != "..")
}

fn size(entries: &[Entry]) -> usize {
    // A header block, and padding of up to one block.
    entries.iter().map(|entry| entry.content.len().saturating_add(1024)).fold(0, usize::saturating_add)
}

pub(super) fn write_tar(name: &str, value: &Value, check: &impl Check) -> Result<Vec<u8>> {
    let entries = entries(name, value)?;
    let mut archive = tar::Builder::new(target(size(&entries))?);
    for entry in &entries {
        check()?;
        let mut header = tar::Header::new_gnu();
        header.set_size(entry.content.len() as u64);
        header.set_mode(entry.mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        archive
            .append_data(&mut header, &entry.path, &*entry.content)
            .map_err(|error| broken(name, error))?;
    }
    archive.into_inner().map_err(|error| broken(name, error))
}

pub(super) fn read_tar(name: &str, bytes: &[u8], check: &impl Check) -> Result<Vec<Value>> {
    let failed = |error| broken(name, error);
    let mut archive = tar::Archive::new(bytes);
    let mut files = Vec::new();
    for entry in archive.entries().map_err(failed)? {
        check()?;
        let mut entry = entry.map_err(failed)?;
        let kind = entry.header().entry_type();
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        // Old archives mark a directory only by a trailing slash.
        if !(kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse()) || path.ends_with('/') {
            continue;
        }
        let mode = entry.header().mode().map_err(failed)?;
        let size = entry.size();
        let content = read_all(name, &mut entry, check)?;
        if content.len() as u64 != size {
            return Err(broken(name, "unexpected end of data"));
        }
        let mut file = file(path, content);
        file.insert("mode", i64::from(mode) & MODES);
        room_for(1)?;
        files.push(file.into());
    }
    Ok(files)
}

pub(super) fn write_zip(name: &str, value: &Value, check: &impl Check) -> Result<Vec<u8>> {
    let entries = entries(name, value)?;
    let mut archive = ZipWriter::new(Cursor::new(target(size(&entries))?));
    for entry in &entries {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::default())
            .unix_permissions(entry.mode)
            .large_file(entry.content.len() as u64 >= u64::from(u32::MAX));
        archive.start_file(entry.path.as_str(), options).map_err(|error| broken(name, error))?;
        write_all(name, &entry.content, &mut archive, check)?;
    }
    Ok(archive.finish().map_err(|error| broken(name, error))?.into_inner())
}

pub(super) fn read_zip(name: &str, bytes: &[u8], check: &impl Check) -> Result<Vec<Value>> {
    let failed = |error| -> Error { broken(name, error) };
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(failed)?;
    let mut files = Vec::new();
    for at in 0..archive.len() {
        check()?;
        let mut entry = archive.by_index(at).map_err(failed)?;
        if entry.is_dir() || entry.is_symlink() {
            continue;
        }
        let path = entry.name().map_err(failed)?.into_owned();
        let content = read_all(name, &mut entry, check)?;
        room_for(1)?;
        files.push(file(path, content).into());
    }
    Ok(files)
}

fn file(path: String, content: Vec<u8>) -> Dict {
    let mut file = Dict::new();
    file.insert("path", path);
    file.insert("content", Value::bytes(content));
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn go_on() -> Result<()> {
        Ok(())
    }

    fn one(path: &str, content: &str) -> Value {
        let entry: Dict = [("path", path), ("content", content)].into_iter().collect();
        Value::list(vec![entry.into()])
    }

    fn archives() -> [Vec<u8>; 2] {
        let entries = one("a/b.txt", &"text ".repeat(300));
        [
            write_tar("tar_create", &entries, &go_on).unwrap(),
            write_zip("zip_create", &entries, &go_on).unwrap(),
        ]
    }

    fn read(bytes: &[u8]) -> [Result<Vec<Value>>; 2] {
        [read_tar("tar_extract", bytes, &go_on), read_zip("zip_extract", bytes, &go_on)]
    }

    proptest! {
        #[test]
        fn random_bytes_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 1..2000)) {
            let _ = read(&bytes);
        }

        #[test]
        fn changed_bytes_are_no_panic(
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
        ) {
            for mut bytes in archives() {
                for (at, byte) in &changes {
                    let at = at.index(bytes.len());
                    bytes[at] = *byte;
                }
                let _ = read(&bytes);
            }
        }
    }

    #[test]
    fn a_content_that_is_cut_off_is_an_error() {
        let [tar, zip] = archives();
        assert!(read_tar("tar_extract", &tar[..1000], &go_on).is_err());
        for cut in 1..zip.len() {
            assert!(read_zip("zip_extract", &zip[..cut], &go_on).is_err(), "{cut}");
        }
    }

    #[test]
    fn the_memory_limit_holds_for_all_entries_together() {
        let entries = one("zeros", &"\0".repeat(20 << 20));
        let bomb = write_zip("zip_create", &entries, &go_on).unwrap();
        harn_value::memory::set_limit(1 << 20);
        read_zip("zip_extract", &bomb, &go_on).expect_err("too large");
        harn_value::memory::set_limit(harn_value::memory::DEFAULT_LIMIT);
    }

    #[test]
    fn paths_that_lead_out_are_refused() {
        for path in ["/a", "../a", "a/../../b", "a\\..\\b", "C:\\a", "\\a", "a/", "a\0b"] {
            assert!(!is_inside(path), "{path}");
        }
        assert!(is_inside("a/b..c/..d"));
    }
}
