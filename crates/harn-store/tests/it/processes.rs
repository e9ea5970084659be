//! Several processes at once on one store.

use harn_store::{Error, Expect, Place, StoreExt, Write};

use crate::support::{child, event, fence, message, one, told, wait};

const PROCESSES: u64 = 4;
const EACH: u64 = 100;

#[test]
#[ignore = "one of the processes of `processes_share_a_file`"]
fn worker() {
    let Some((store, number)) = told() else { return };
    wait(async {
        let store = &*store;
        let fence = fence(store, &format!("worker/{number}")).await;
        for n in 0..EACH {
            let push =
                Write::QueuePush { queue: "q".into(), message: message(&format!("{number}/{n}"), 0, 9) };
            let put = Write::KvPut {
                space: "s".into(),
                key: format!("{number}/{n}"),
                value: vec![1],
                expect: Expect::Absent,
            };
            store.write(&fence, vec![push, put]).await.unwrap();
            // A counter that all of them raise, by compare and swap.
            loop {
                let known = store.kv_get("s", "counter").await.unwrap();
                let expect = known.as_ref().map_or(Expect::Absent, |entry| Expect::Version(entry.version));
                let count: u64 =
                    known.map_or(0, |entry| String::from_utf8(entry.value).unwrap().parse().unwrap());
                let value = (count + 1).to_string().into_bytes();
                match store.kv_put(&fence, "s", "counter", value, expect).await {
                    Err(Error::Conflict { .. }) => {}
                    other => {
                        other.unwrap();
                        break;
                    }
                }
            }
            // Each message is worked on once, whoever pushed it.
            for claimed in store.queue_claim(&fence, "q", 0, 1_000_000, 1).await.unwrap() {
                let ack =
                    Write::QueueAck { queue: "q".into(), id: claimed.id.clone(), attempt: claimed.attempt };
                let done = Write::LogAppend { topic: "done".into(), events: vec![event(&claimed.id)] };
                store.write(&fence, vec![ack, done]).await.unwrap();
            }
        }
    });
}

/// Several processes on one store, which is not there yet: making it is a race as well.
fn share(place: &Place) {
    let children: Vec<_> = (0..PROCESSES).map(|n| child("processes::worker", place, n)).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    wait(async {
        let store = place.open().unwrap();
        let all = PROCESSES * EACH;
        assert_eq!(store.kv_list("s", "", None, usize::MAX).await.unwrap().len() as u64, all + 1);
        assert_eq!(store.kv_get("s", "counter").await.unwrap().unwrap().value, all.to_string().as_bytes());
        let done = store.log_read("done", 0, usize::MAX).await.unwrap();
        let mut ids: Vec<_> = done.into_iter().map(|event| event.event.kind).collect();
        // Who looks while another one claims leaves it to that one, and may find nothing.
        let left = store.queue_stats("q", 0).await.unwrap();
        assert_eq!((left.claimed, left.delayed, left.dead), (0, 0, 0));
        assert!(left.ready == 0 || matches!(place, Place::Url(_)), "{} messages are left", left.ready);
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len() as u64 + left.ready, all, "every message was worked on, and none twice");
        assert_eq!(store.log_topic("done").await.unwrap().unwrap().last, ids.len() as u64);
        assert_eq!(store.verify().await, Ok(vec![]));
    });
}

#[test]
fn processes_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    share(&Place::File(folder.path().join("state/harn.sqlite")));
}

#[cfg(feature = "postgres")]
#[test]
fn processes_share_a_database() {
    let Some(url) = crate::server::database() else { return };
    share(&Place::Url(url));
}

/// A process that was taken for dead, and its successor.
fn keep_out(place: &Place) {
    let (sleeper, heir) = (place.open().unwrap(), place.open().unwrap());
    wait(async {
        let old = sleeper.acquire("run/1", "sleeper", 0, 10).await.unwrap().fence();
        sleeper.log_append(&old, "t", event("before")).await.unwrap();
        let new = heir.acquire("run/1", "heir", 11, 20).await.unwrap().fence();
        heir.log_append(&new, "t", event("heir")).await.unwrap();
        let late = Write::LogAppend { topic: "t".into(), events: vec![event("late")] };
        assert!(one(&*sleeper, &old, late).await.unwrap_err().is_fenced());
        assert_eq!(sleeper.log_topic("t").await.unwrap().unwrap().last, 2);
    });
}

#[test]
fn a_process_that_was_taken_for_dead_is_kept_out() {
    let folder = tempfile::tempdir().unwrap();
    keep_out(&Place::File(folder.path().join("harn.sqlite")));
}

#[cfg(feature = "postgres")]
#[test]
fn a_process_that_was_taken_for_dead_is_kept_out_of_a_database() {
    let Some(url) = crate::server::database() else { return };
    keep_out(&Place::Url(url));
}
