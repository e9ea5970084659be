//! Files that cannot be used: each gives an error that says which file, what is wrong, and the way out.

use std::fs;
use std::path::Path;
use std::time::Duration;

use harn_store::{Error, Expect, SqliteOptions, SqliteStore, Store, StoreExt, Write};

use crate::support::{event, fence, one, wait};

/// A file with some content, closed again.
fn filled(file: &Path) {
    let store = SqliteStore::new(file);
    wait(async {
        let fence = fence(&store, "p").await;
        for n in 0..200 {
            store.kv_put(&fence, "s", &format!("{n}"), vec![7; 500], Expect::Anything).await.unwrap();
        }
        store.blob_put(&fence, b"the bytes of a blob".to_vec()).await.unwrap();
    });
}

fn first_error(file: &Path) -> Error {
    wait(async { SqliteStore::new(file).acquire("x", "tester", 0, 1).await.unwrap_err() })
}

#[test]
fn nothing_is_opened_before_the_first_use() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deep/harn.sqlite");
    drop(SqliteStore::new(&file));
    assert!(!folder.path().join("deep").exists());
}

#[test]
fn a_file_of_something_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    fs::write(&text, "not a database, but long enough to have a header ".repeat(100)).unwrap();
    let before = fs::read(&text).unwrap();
    let error = first_error(&text);
    assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
    assert!(error.to_string().contains("is damaged (file is not a database)"), "{error}");
    assert_eq!(fs::read(&text).unwrap(), before);

    let foreign = folder.path().join("foreign.sqlite");
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    let before = fs::read(&foreign).unwrap();
    let error = first_error(&foreign);
    assert_eq!(error, Error::Foreign { path: foreign.clone() });
    assert_eq!(fs::read(&foreign).unwrap(), before);
}

#[test]
fn a_newer_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("harn.sqlite");
    filled(&file);
    let db = rusqlite::Connection::open(&file).unwrap();
    db.execute_batch("PRAGMA user_version = 9999").unwrap();
    drop(db);
    let error = first_error(&file);
    assert!(matches!(error, Error::Newer { found: 9999, .. }), "{error:?}");
    assert!(error.to_string().ends_with("use a newer Harn"), "{error}");
}

#[test]
fn damage_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("harn.sqlite");
    filled(&file);
    // Garbage over most pages behind the first one.
    let mut bytes = fs::read(&file).unwrap();
    assert!(bytes.len() > 40_000);
    for byte in bytes.iter_mut().skip(8192) {
        *byte = byte.wrapping_mul(7).wrapping_add(13);
    }
    fs::write(&file, bytes).unwrap();
    let store = SqliteStore::new(&file);
    wait(async {
        let error = store.kv_list("s", "", None, 999).await.unwrap_err();
        assert!(matches!(&error, Error::Corrupt { path, .. } if *path == file), "{error:?}");
        assert!(error.to_string().contains("restore a copy"), "{error}");
        let found = store.verify().await;
        assert!(found.is_err() || found.is_ok_and(|found| !found.is_empty()));
    });
}

#[test]
fn a_blob_is_compared_with_its_digest() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("harn.sqlite");
    filled(&file);
    let db = rusqlite::Connection::open(&file).unwrap();
    db.execute_batch("UPDATE blob SET bytes = x'00'").unwrap();
    drop(db);
    let store = SqliteStore::new(&file);
    wait(async {
        let digest = store.blobs(None, 1).await.unwrap()[0].0;
        let error = store.blob(digest).await.unwrap_err();
        assert!(matches!(&error, Error::Corrupt { path, .. } if *path == file), "{error:?}");
        assert_eq!(store.verify().await.unwrap(), [format!("blob {digest} has other bytes")]);
    });
}

#[test]
fn what_is_no_file_or_has_no_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, "").unwrap();
    let error = first_error(&plain.join("state/harn.sqlite"));
    assert!(matches!(error, Error::Open { .. }), "{error:?}");
    assert!(error.to_string().contains("plain/state"), "{error}");
    let error = first_error(folder.path());
    assert!(matches!(error, Error::Open { .. }), "{error:?}");
}

#[test]
fn a_file_that_can_be_opened_later_is_opened_later() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    fs::write(&state, "in the way").unwrap();
    let store = SqliteStore::new(state.join("harn.sqlite"));
    wait(async {
        assert!(store.acquire("x", "tester", 0, 1).await.is_err());
        fs::remove_file(&state).unwrap();
        assert!(store.acquire("x", "tester", 0, 1).await.is_ok());
    });
}

/// Whether files can be protected from this user at all: nothing is from root.
#[cfg(unix)]
#[test]
fn a_protected_file_can_be_read() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("harn.sqlite");
    filled(&file);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    if fs::OpenOptions::new().write(true).open(&file).is_ok() {
        return;
    }
    let store = SqliteStore::new(&file);
    wait(async {
        assert_eq!(store.kv_list("s", "", None, 999).await.unwrap().len(), 200);
        let error = store.acquire("x", "tester", 0, 1).await.unwrap_err();
        assert_eq!(error, Error::ReadOnly { path: file.clone() });
    });
}

#[test]
fn a_full_store_says_so_and_goes_on_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("harn.sqlite");
    let options = SqliteOptions { max_bytes: Some(400_000), ..SqliteOptions::default() };
    let store = SqliteStore::with(&file, options);
    wait(async {
        let fence = fence(&store, "p").await;
        store.log_append(&fence, "t", event("before")).await.unwrap();
        let big = Write::BlobPut { bytes: vec![1; 1_000_000] };
        let small = Write::LogAppend { topic: "t".into(), events: vec![event("small")] };
        assert_eq!(one(&store, &fence, big.clone()).await, Err(Error::Full { path: file.clone() }));
        assert_eq!(
            store.write(&fence, vec![small.clone(), big.clone()]).await,
            Err(Error::Full { path: file.clone() })
        );
        assert_eq!(store.log_topic("t").await.unwrap().unwrap().last, 1, "nothing is half done");
        // Neighbours of the same moment are written all the same.
        let (first, refused, second) = (
            store.write(&fence, vec![small.clone()]),
            store.write(&fence, vec![big]),
            store.write(&fence, vec![small]),
        );
        assert!(first.await.is_ok());
        assert!(refused.await.is_err());
        assert!(second.await.is_ok());
        assert_eq!(store.log_topic("t").await.unwrap().unwrap().last, 3);
        assert_eq!(store.verify().await, Ok(vec![]));
    });
}

#[test]
fn a_busy_file_is_waited_for_and_then_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("harn.sqlite");
    filled(&file);
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let options = SqliteOptions { busy_timeout: Duration::from_millis(50), ..SqliteOptions::default() };
    let store = SqliteStore::with(&file, options);
    wait(async {
        let error = store.acquire("x", "tester", 0, 1).await.unwrap_err();
        assert_eq!(error, Error::Busy { path: file.clone(), waited_ms: 50 });
        assert!(store.kv_get("s", "1").await.unwrap().is_some(), "readers do not wait for writers");
        other.execute_batch("COMMIT").unwrap();
        assert!(store.acquire("x", "tester", 0, 1).await.is_ok());
    });
}
