//! A store that is used for long does not grow without end, and does not get slow.

use harn_store::{Durability, Expect, SqliteOptions, SqliteStore, Store, StoreExt, Write};

use crate::support::{event, fence, message, one, wait};

/// The size of the file and those beside it.
fn size(folder: &std::path::Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

fn quick(file: &std::path::Path) -> SqliteStore {
    SqliteStore::with(file, SqliteOptions { durability: Durability::Crash, ..SqliteOptions::default() })
}

#[test]
fn rewriting_needs_no_more_room() {
    let folder = tempfile::tempdir().unwrap();
    let store = quick(&folder.path().join("harn.sqlite"));
    wait(async {
        let fence = fence(&store, "p").await;
        let round = async || {
            for n in 0..500 {
                let key = format!("{}", n % 20);
                let put = store.kv_put(&fence, "s", &key, vec![n as u8; 2000], Expect::Anything);
                let push =
                    one(&store, &fence, Write::QueuePush { queue: "q".into(), message: message("m", 0, 1) });
                put.await.unwrap();
                push.await.unwrap();
                for claimed in store.queue_claim(&fence, "q", 0, 1, 1).await.unwrap() {
                    let ack = Write::QueueAck { queue: "q".into(), id: claimed.id, attempt: claimed.attempt };
                    one(&store, &fence, ack).await.unwrap();
                }
            }
            store.compact().await.unwrap();
            size(folder.path())
        };
        let first = round().await;
        for _ in 0..4 {
            let now = round().await;
            assert!(now <= first + first / 4, "{first} bytes after the first round, {now} later");
        }
    });
}

#[test]
fn what_is_removed_gives_its_room_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = quick(&folder.path().join("harn.sqlite"));
    wait(async {
        let fence = fence(&store, "p").await;
        store.compact().await.unwrap();
        let empty = size(folder.path());
        let id = "r".to_owned();
        let create = Write::SessionCreate { id, status: "x".into(), info: vec![], at_ms: 0 };
        one(&store, &fence, create).await.unwrap();
        store.session_append(&fence, "r", 0, vec![vec![5; 10_000]; 200], 0).await.unwrap();
        let events = (0..2000).map(|n| event(&format!("{n}"))).collect();
        one(&store, &fence, Write::LogAppend { topic: "t".into(), events }).await.unwrap();
        let digest = store.blob_put(&fence, vec![9; 3_000_000]).await.unwrap();
        store.compact().await.unwrap();
        assert!(size(folder.path()) > empty + 5_000_000);
        one(&store, &fence, Write::SessionDelete { id: "r".into() }).await.unwrap();
        one(&store, &fence, Write::LogTrim { topic: "t".into(), through: 2000 }).await.unwrap();
        one(&store, &fence, Write::BlobDelete { digest }).await.unwrap();
        store.compact().await.unwrap();
        let now = size(folder.path());
        assert!(now < empty + 100_000, "{empty} bytes at first, {now} in the end");
    });
}

/// Counts the pages that one write changes, in a small store and in one a hundred times as large.
#[test]
fn a_write_costs_the_same_in_a_large_store() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("harn.sqlite");
    let wal = folder.path().join("harn.sqlite-wal");
    let store = quick(&file);
    wait(async {
        let fence = fence(&store, "p").await;
        let mut n = 0;
        let mut fill = async |count: u64| {
            let writes = (0..count).flat_map(|_| {
                n += 1;
                let put = Write::KvPut {
                    space: "s".into(),
                    key: format!("{}", n * 7919 % 1_000_003),
                    value: vec![1; 100],
                    expect: Expect::Anything,
                };
                let push = Write::QueuePush { queue: "q".into(), message: message(&format!("{n}"), n, 1) };
                [put, push, Write::LogAppend { topic: "t".into(), events: vec![event("e")] }]
            });
            store.write(&fence, writes.collect()).await.unwrap();
        };
        let mut cost = async |before: u64| {
            fill(before).await;
            store.compact().await.unwrap();
            for _ in 0..20 {
                fill(1).await;
                assert_eq!(store.queue_claim(&fence, "q", 1_000_000, 2_000_000, 1).await.unwrap().len(), 1);
            }
            std::fs::metadata(&wal).unwrap().len()
        };
        let small = cost(200).await;
        let large = cost(20_000).await;
        assert!(large < 3 * small, "20 writes change {small} bytes in a small store, {large} in a large one");
    });
}
