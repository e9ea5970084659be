//! What every implementation must do. A new one is added at the end of this file.

use std::sync::Arc;

use harn_store::{
    Claimed, Digest, Error, Event, Expect, MAX_NAME, QueueStats, Store, StoreExt, Write, Written,
};

use crate::queues::*;
use crate::runs::*;
use crate::support::{event, fence, is_fenced, message, one};

type Shared = Arc<dyn Store>;

async fn a_lease_goes_to_one_owner_at_a_time(store: Shared) {
    let lease = store.acquire("run/1", "a", 100, 200).await.unwrap();
    assert_eq!((lease.epoch, lease.owner.as_str(), lease.until_ms), (1, "a", 200));
    let held = Error::Held { scope: "run/1".into(), owner: "a".into(), until_ms: 200 };
    assert_eq!(store.acquire("run/1", "b", 199, 300).await, Err(held));
    assert_eq!(store.acquire("run/1", "b", 200, 300).await.unwrap().epoch, 2);
    assert_eq!(
        store.acquire("run/2", "a", 100, 200).await.unwrap().epoch,
        1,
        "scopes do not know of each other"
    );
    assert_eq!(store.lease("run/1").await.unwrap().unwrap().owner, "b");
    assert_eq!(store.lease("none").await, Ok(None));
}

async fn a_stale_owner_writes_nothing(store: Shared) {
    let old = store.acquire("run/1", "a", 0, 10).await.unwrap().fence();
    store.kv_put(&old, "s", "k", b"old".to_vec(), Expect::Anything).await.unwrap();
    let new = store.acquire("run/1", "b", 10, 20).await.unwrap().fence();
    let put = |value: &[u8]| Write::KvPut {
        space: "s".into(),
        key: "k".into(),
        value: value.to_vec(),
        expect: Expect::Anything,
    };
    let every = vec![
        put(b"stale"),
        Write::Renew { until_ms: 99 },
        Write::Release,
        Write::KvDelete { space: "s".into(), key: "k".into(), expect: Expect::Anything },
        Write::LogAppend { topic: "t".into(), events: vec![event("e")] },
        Write::LogTrim { topic: "t".into(), through: 1 },
        Write::QueuePush { queue: "q".into(), message: message("m", 0, 1) },
        Write::QueueClaim { queue: "q".into(), now_ms: 0, until_ms: 1, limit: 1 },
        Write::QueueAck { queue: "q".into(), id: "m".into(), attempt: 1 },
        Write::QueueRemove { queue: "q".into(), id: "m".into() },
        Write::SessionCreate { id: "r".into(), status: "running".into(), info: vec![], at_ms: 0 },
        Write::BlobPut { bytes: vec![1] },
        Write::BlobDelete { digest: Digest::of(b"") },
    ];
    let stale = Err(Error::Fenced { scope: "run/1".into(), epoch: 1, current: 2 });
    for write in every {
        assert_eq!(one(&*store, &old, write.clone()).await, stale, "{write:?}");
    }
    assert_eq!(store.kv_get("s", "k").await.unwrap().unwrap().value, b"old");
    assert_eq!(store.log_topic("t").await, Ok(None));
    assert_eq!(store.blobs(None, 9).await, Ok(vec![]));
    one(&*store, &new, put(b"new")).await.unwrap();
    assert_eq!(store.kv_get("s", "k").await.unwrap().unwrap().value, b"new");
}

async fn a_lease_that_ran_out_holds_until_it_is_taken(store: Shared) {
    let fence = store.acquire("run/1", "a", 0, 10).await.unwrap().fence();
    // A write carries no time: only a successor makes it void.
    store.log_append(&fence, "t", event("late")).await.unwrap();
    store.renew(&fence, 500).await.unwrap();
    assert!(matches!(store.acquire("run/1", "b", 400, 600).await, Err(Error::Held { until_ms: 500, .. })));
}

async fn a_lease_that_was_given_back_is_void(store: Shared) {
    let fence = store.acquire("run/1", "a", 0, 100).await.unwrap().fence();
    store.release(&fence).await.unwrap();
    assert!(is_fenced(&store.renew(&fence, 200).await));
    let next = store.acquire("run/1", "b", 1, 100).await.unwrap();
    assert!(next.epoch > fence.epoch);
}

async fn the_same_owner_gets_a_new_epoch(store: Shared) {
    // A process that was started again under its old name must not mix with what is left of itself.
    let first = store.acquire("run/1", "a", 0, 100).await.unwrap().fence();
    let second = store.acquire("run/1", "a", 1, 100).await.unwrap().fence();
    assert!(is_fenced(&store.renew(&first, 200).await));
    store.renew(&second, 200).await.unwrap();
}

async fn a_fence_that_was_never_given_is_refused(store: Shared) {
    let fence = harn_store::Fence { scope: "no such".into(), epoch: 0 };
    let made_up = harn_store::Fence { scope: "no such".into(), epoch: 7 };
    assert!(is_fenced(&store.log_append(&made_up, "t", event("e")).await));
    assert!(is_fenced(&store.log_append(&fence, "t", event("e")).await));
}

async fn writes_happen_together_or_not_at_all(store: Shared) {
    let fence = fence(&*store, "p").await;
    let writes = vec![
        Write::KvPut { space: "s".into(), key: "a".into(), value: vec![1], expect: Expect::Anything },
        Write::LogAppend { topic: "t".into(), events: vec![event("e")] },
        Write::BlobPut { bytes: b"x".to_vec() },
        Write::QueuePush { queue: "q".into(), message: message("m", 0, 1) },
        Write::KvPut { space: "s".into(), key: "b".into(), value: vec![1], expect: Expect::Version(99) },
    ];
    assert!(matches!(store.write(&fence, writes.clone()).await, Err(Error::Conflict { .. })));
    assert_eq!(store.kv_get("s", "a").await, Ok(None));
    assert_eq!(store.log_topic("t").await, Ok(None));
    assert_eq!(store.blob(Digest::of(b"x")).await, Ok(None));
    assert_eq!(store.queue_stats("q", 0).await, Ok(QueueStats::default()));
    assert_eq!(store.write(&fence, writes[..4].to_vec()).await.unwrap().len(), 4);
    assert_eq!(store.write(&fence, vec![]).await, Ok(vec![]));
    // A lease that is given back in the middle does not cover the rest.
    let put = Write::KvPut { space: "s".into(), key: "c".into(), value: vec![], expect: Expect::Anything };
    assert!(is_fenced(&store.write(&fence, vec![Write::Release, put.clone()]).await));
    store.write(&fence, vec![put, Write::Release]).await.unwrap();
}

async fn values_are_compared_and_swapped(store: Shared) {
    let fence = fence(&*store, "p").await;
    let put = async |value: u8, expect| store.kv_put(&fence, "s", "k", vec![value], expect).await;
    let first = put(1, Expect::Absent).await.unwrap();
    let conflict = put(2, Expect::Absent).await.unwrap_err();
    let text = format!("'k' in 's' is at version {first}, the write expects nothing");
    assert_eq!(conflict.to_string(), text);
    let second = put(2, Expect::Version(first)).await.unwrap();
    assert!(matches!(put(3, Expect::Version(first)).await, Err(Error::Conflict { .. })));
    // A version is never used again, so that nobody takes a new value for the one it knew.
    let delete = Write::KvDelete { space: "s".into(), key: "k".into(), expect: Expect::Version(second) };
    assert_eq!(one(&*store, &fence, delete.clone()).await, Ok(Written::Done(true)));
    assert!(matches!(one(&*store, &fence, delete).await, Err(Error::Conflict { .. })));
    assert!(put(1, Expect::Absent).await.unwrap() > second);
}

async fn keys_are_listed_in_pages(store: Shared) {
    let fence = fence(&*store, "p").await;
    for key in ["b/2", "a", "b/1", "b", "b/3", "c", "ä", "b0"] {
        store.kv_put(&fence, "s", key, key.as_bytes().to_vec(), Expect::Anything).await.unwrap();
    }
    store.kv_put(&fence, "other", "b/9", vec![], Expect::Anything).await.unwrap();
    let list = async |prefix: &str, after: Option<&str>, limit| -> Vec<String> {
        let found = store.kv_list("s", prefix, after, limit).await.unwrap();
        assert!(found.iter().all(|(key, entry)| key.as_bytes() == entry.value));
        found.into_iter().map(|(key, _)| key).collect()
    };
    assert_eq!(list("", None, 99).await, ["a", "b", "b/1", "b/2", "b/3", "b0", "c", "ä"]);
    assert_eq!(list("b/", None, 2).await, ["b/1", "b/2"]);
    assert_eq!(list("b/", Some("b/2"), 2).await, ["b/3"]);
    assert_eq!(list("b/", Some("a"), 1).await, ["b/1"]);
    assert_eq!(list("b/", Some("c"), 9).await, [""; 0]);
    assert_eq!(list("b%", None, 9).await, [""; 0], "a prefix is no pattern");
    assert_eq!(list("", None, 0).await, [""; 0]);
}

async fn events_are_numbered_per_topic(store: Shared) {
    let fence = fence(&*store, "p").await;
    let mut first = event("started");
    first.payload = vec![0, 159, 146, 150];
    first.headers =
        vec![("b".into(), "ü\n\"".into()), ("a".into(), String::new()), ("b".into(), "again".into())];
    first.at_ms = -5;
    assert_eq!(store.log_append(&fence, "t", first.clone()).await, Ok(1));
    let more = Write::LogAppend { topic: "t".into(), events: vec![event("x"), event("y")] };
    assert_eq!(one(&*store, &fence, more).await, Ok(Written::Last(3)));
    assert_eq!(store.log_append(&fence, "u", event("z")).await, Ok(1));
    let read = store.log_read("t", 0, 2).await.unwrap();
    assert_eq!(read, [Event { id: 1, event: first }, Event { id: 2, event: event("x") }]);
    assert_eq!(store.log_read("t", 2, 9).await.unwrap().len(), 1);
    assert_eq!(store.log_read("t", u64::MAX, 9).await, Ok(vec![]));
    assert_eq!(store.log_read("none", 0, 9).await, Ok(vec![]));
    let names =
        |topics: Vec<harn_store::Topic>| topics.into_iter().map(|t| (t.name, t.last)).collect::<Vec<_>>();
    assert_eq!(names(store.log_topics(None, 9).await.unwrap()), [("t".to_owned(), 3), ("u".to_owned(), 1)]);
    assert_eq!(names(store.log_topics(Some("t"), 9).await.unwrap()), [("u".to_owned(), 1)]);
}

async fn ids_go_on_after_old_events_are_forgotten(store: Shared) {
    let fence = fence(&*store, "p").await;
    let events = vec![event("1"), event("2"), event("3")];
    one(&*store, &fence, Write::LogAppend { topic: "t".into(), events }).await.unwrap();
    let trim = |through| Write::LogTrim { topic: "t".into(), through };
    assert_eq!(one(&*store, &fence, trim(2)).await, Ok(Written::Count(2)));
    assert_eq!(store.log_read("t", 0, 9).await.unwrap()[0].id, 3);
    assert_eq!(one(&*store, &fence, trim(u64::MAX)).await, Ok(Written::Count(1)));
    let topic = store.log_topic("t").await.unwrap().unwrap();
    assert_eq!((topic.last, topic.count), (3, 0));
    assert_eq!(store.log_append(&fence, "t", event("4")).await, Ok(4));
    assert_eq!(
        one(&*store, &fence, Write::LogTrim { topic: "none".into(), through: 1 }).await,
        Ok(Written::Count(0))
    );
}

fn ids(claimed: &[Claimed]) -> Vec<&str> {
    claimed.iter().map(|message| message.id.as_str()).collect()
}

async fn messages_are_claimed_in_order_and_once(store: Shared) {
    let fence = fence(&*store, "p").await;
    for (id, ready) in [("late", 50), ("b", 10), ("a", 10), ("early", 5)] {
        let push = Write::QueuePush { queue: "q".into(), message: message(id, ready, 3) };
        assert_eq!(one(&*store, &fence, push.clone()).await, Ok(Written::Done(true)));
        assert_eq!(one(&*store, &fence, push).await, Ok(Written::Done(false)), "an id counts once");
    }
    let stats = store.queue_stats("q", 10).await.unwrap();
    assert_eq!(stats, QueueStats { ready: 3, delayed: 1, claimed: 0, dead: 0 });
    let claimed = store.queue_claim(&fence, "q", 10, 100, 2).await.unwrap();
    assert_eq!(ids(&claimed), ["early", "b"]);
    assert_eq!((claimed[0].attempt, claimed[0].body.as_slice()), (1, b"early".as_slice()));
    let other = self::fence(&*store, "other").await;
    assert_eq!(ids(&store.queue_claim(&other, "q", 20, 100, 9).await.unwrap()), ["a"]);
    assert_eq!(store.queue_claim(&other, "q", 20, 100, 9).await, Ok(vec![]));
    assert_eq!(store.queue_claim(&other, "none", 20, 100, 9).await, Ok(vec![]));
    assert_eq!(store.queue_stats("q", 20).await.unwrap().claimed, 3);
}

async fn a_claim_that_is_not_answered_comes_back(store: Shared) {
    let fence = fence(&*store, "p").await;
    one(&*store, &fence, Write::QueuePush { queue: "q".into(), message: message("m", 0, 2) }).await.unwrap();
    let ack = |attempt| Write::QueueAck { queue: "q".into(), id: "m".into(), attempt };
    assert_eq!(store.queue_claim(&fence, "q", 0, 10, 1).await.unwrap()[0].attempt, 1);
    // More time.
    let extend = Write::QueueExtend { queue: "q".into(), id: "m".into(), attempt: 1, until_ms: 30 };
    one(&*store, &fence, extend.clone()).await.unwrap();
    assert_eq!(store.queue_claim(&fence, "q", 10, 40, 1).await, Ok(vec![]));
    assert_eq!(store.queue_claim(&fence, "q", 30, 40, 1).await.unwrap()[0].attempt, 2);
    // The first worker wakes up: its receipt is worth nothing now.
    let gone = Err(Error::NotClaimed { queue: "q".into(), id: "m".into(), attempt: 1 });
    assert_eq!(one(&*store, &fence, ack(1)).await, gone);
    assert_eq!(one(&*store, &fence, extend).await, gone);
    assert_eq!(one(&*store, &fence, ack(2)).await, Ok(Written::Done(true)));
    assert!(matches!(one(&*store, &fence, ack(2)).await, Err(Error::NotClaimed { .. })));
    assert_eq!(store.queue_stats("q", 99).await, Ok(QueueStats::default()));
}

async fn an_answer_that_comes_late_but_first_counts(store: Shared) {
    let fence = fence(&*store, "p").await;
    one(&*store, &fence, Write::QueuePush { queue: "q".into(), message: message("m", 0, 9) }).await.unwrap();
    store.queue_claim(&fence, "q", 0, 10, 1).await.unwrap();
    let ack = Write::QueueAck { queue: "q".into(), id: "m".into(), attempt: 1 };
    assert_eq!(one(&*store, &fence, ack).await, Ok(Written::Done(true)));
    assert_eq!(store.queue_claim(&fence, "q", 99, 100, 1).await, Ok(vec![]));
}

async fn failed_messages_are_tried_again_and_then_dead(store: Shared) {
    let fence = fence(&*store, "p").await;
    for id in ["given up", "tried out", "lost"] {
        let push = Write::QueuePush { queue: "q".into(), message: message(id, 0, 2) };
        one(&*store, &fence, push).await.unwrap();
    }
    let nack = |id: &str, attempt, retry_ms| Write::QueueNack {
        queue: "q".into(),
        id: id.into(),
        attempt,
        retry_ms,
        reason: format!("{id}: no luck"),
    };
    store.queue_claim(&fence, "q", 0, 10, 9).await.unwrap();
    assert_eq!(one(&*store, &fence, nack("given up", 1, None)).await, Ok(Written::Done(false)));
    assert_eq!(one(&*store, &fence, nack("tried out", 1, Some(5))).await, Ok(Written::Done(true)));
    assert_eq!(store.queue_claim(&fence, "q", 4, 10, 9).await, Ok(vec![]));
    let again = store.queue_claim(&fence, "q", 10, 20, 9).await.unwrap();
    assert_eq!(
        again.iter().map(|m| (m.id.as_str(), m.attempt)).collect::<Vec<_>>(),
        [("tried out", 2), ("lost", 2)]
    );
    assert_eq!(one(&*store, &fence, nack("tried out", 2, Some(30))).await, Ok(Written::Done(false)));
    assert!(matches!(one(&*store, &fence, nack("tried out", 2, None)).await, Err(Error::NotClaimed { .. })));
    // `lost` never came back from its last attempt.
    assert_eq!(
        store.queue_stats("q", 19).await.unwrap(),
        QueueStats { ready: 0, delayed: 0, claimed: 1, dead: 2 }
    );
    assert_eq!(store.queue_stats("q", 20).await.unwrap().dead, 3);
    let dead = async || -> Vec<(String, u32, String)> {
        let dead = store.queue_dead("q", 20, None, 9).await.unwrap();
        dead.into_iter().map(|m| (m.id, m.attempts, m.reason)).collect()
    };
    let expected = [
        ("given up".to_owned(), 1, "given up: no luck".to_owned()),
        ("lost".to_owned(), 2, String::new()),
        ("tried out".to_owned(), 2, "tried out: no luck".to_owned()),
    ];
    assert_eq!(dead().await, expected);
    assert_eq!(store.queue_claim(&fence, "q", 20, 30, 9).await, Ok(vec![]));
    assert_eq!(dead().await, expected);
    assert_eq!(store.queue_dead("q", 20, Some("given up"), 1).await.unwrap()[0].id, "lost");
    // Its id is free again once it is removed.
    let remove = Write::QueueRemove { queue: "q".into(), id: "lost".into() };
    assert_eq!(one(&*store, &fence, remove.clone()).await, Ok(Written::Done(true)));
    assert_eq!(one(&*store, &fence, remove).await, Ok(Written::Done(false)));
    let push = Write::QueuePush { queue: "q".into(), message: message("lost", 0, 2) };
    assert_eq!(one(&*store, &fence, push).await, Ok(Written::Done(true)));
}

fn create(id: &str) -> Write {
    Write::SessionCreate { id: id.into(), status: "running".into(), info: b"{}".to_vec(), at_ms: 7 }
}

async fn a_session_grows_by_entries_that_follow(store: Shared) {
    let fence = fence(&*store, "run/1").await;
    one(&*store, &fence, create("1")).await.unwrap();
    assert!(matches!(one(&*store, &fence, create("1")).await, Err(Error::Exists { .. })));
    let entries = |range: std::ops::Range<u8>| range.map(|n| vec![n]).collect::<Vec<_>>();
    assert_eq!(store.session_append(&fence, "1", 0, entries(0..3), 8).await, Ok(3));
    // The same append again, because its answer was lost: nothing is there twice.
    let again = store.session_append(&fence, "1", 0, entries(0..3), 8).await.unwrap_err();
    assert_eq!(again.to_string(), "session '1' is at 3 entries, the write expects entry 0 to be the next");
    assert!(store.session_append(&fence, "1", 4, entries(4..5), 8).await.is_err(), "no gaps");
    assert_eq!(store.session_append(&fence, "1", 3, entries(3..5), 9).await, Ok(5));
    assert_eq!(store.session_entries("1", 2, 2).await, Ok(entries(2..4)));
    assert_eq!(store.session_entries("1", u64::MAX, 2).await, Ok(vec![]));
    let head = store.session("1").await.unwrap().unwrap();
    assert_eq!((head.length, head.created_ms, head.updated_ms, head.scope.as_str()), (5, 7, 9, "run/1"));
    assert_eq!(store.session_entries("2", 0, 1).await.unwrap_err().to_string(), "there is no session '2'");
}

async fn a_session_belongs_to_the_scope_that_made_it(store: Shared) {
    let mine = fence(&*store, "run/1").await;
    let other = fence(&*store, "run/2").await;
    one(&*store, &mine, create("s")).await.unwrap();
    let owned = Err(Error::Owned { what: "session 's'".into(), scope: "run/1".into() });
    for write in [
        Write::SessionAppend { id: "s".into(), first: 0, entries: vec![vec![]], at_ms: 0 },
        Write::SessionUpdate { id: "s".into(), status: None, info: None, at_ms: 0 },
        Write::SessionTruncate { id: "s".into(), length: 0, at_ms: 0 },
        Write::SessionDelete { id: "s".into() },
    ] {
        assert_eq!(one(&*store, &other, write).await, owned);
    }
    // Whoever takes over the scope may.
    let heir = store.acquire("run/1", "heir", 5000, 6000).await.unwrap().fence();
    assert_eq!(store.session_append(&heir, "s", 0, vec![vec![1]], 0).await, Ok(1));
    assert!(is_fenced(&store.session_append(&mine, "s", 1, vec![vec![1]], 0).await));
}

async fn a_session_can_be_cut_and_forked(store: Shared) {
    let mine = fence(&*store, "a").await;
    one(&*store, &mine, create("s")).await.unwrap();
    store.session_append(&mine, "s", 0, (0..5).map(|n| vec![n]).collect(), 1).await.unwrap();
    let other = fence(&*store, "b").await;
    let fork = |id: &str, length| Write::SessionFork { from: "s".into(), length, id: id.into(), at_ms: 2 };
    assert_eq!(one(&*store, &other, fork("f", 3)).await, Ok(Written::Count(3)));
    assert!(matches!(one(&*store, &other, fork("g", 6)).await, Err(Error::Conflict { .. })));
    assert!(matches!(one(&*store, &other, fork("f", 1)).await, Err(Error::Exists { .. })));
    let cut = |length| Write::SessionTruncate { id: "s".into(), length, at_ms: 3 };
    assert_eq!(one(&*store, &mine, cut(9)).await, Ok(Written::Count(0)));
    assert_eq!(one(&*store, &mine, cut(1)).await, Ok(Written::Count(4)));
    assert_eq!(store.session_append(&mine, "s", 1, vec![vec![9]], 4).await, Ok(2));
    assert_eq!(store.session_entries("s", 0, 9).await, Ok(vec![vec![0], vec![9]]));
    assert_eq!(store.session_append(&other, "f", 3, vec![vec![8]], 4).await, Ok(4));
    assert_eq!(store.session_entries("f", 0, 9).await, Ok(vec![vec![0], vec![1], vec![2], vec![8]]));
}

async fn sessions_are_found_by_status(store: Shared) {
    let fence = fence(&*store, "p").await;
    for id in ["c", "a", "b"] {
        one(&*store, &fence, create(id)).await.unwrap();
    }
    let update = Write::SessionUpdate { id: "b".into(), status: Some("failed".into()), info: None, at_ms: 9 };
    one(&*store, &fence, update).await.unwrap();
    let list = async |status: Option<&str>, after: Option<&str>, limit| -> Vec<String> {
        let found = store.sessions(status, after, limit).await.unwrap();
        found.into_iter().map(|session| session.id).collect()
    };
    assert_eq!(list(None, None, 9).await, ["a", "b", "c"]);
    assert_eq!(list(Some("running"), None, 9).await, ["a", "c"]);
    assert_eq!(list(Some("running"), Some("a"), 9).await, ["c"]);
    assert_eq!(list(None, None, 2).await, ["a", "b"]);
    let changed = store.session("b").await.unwrap().unwrap();
    assert_eq!(
        (changed.status.as_str(), changed.info.as_slice(), changed.updated_ms),
        ("failed", &b"{}"[..], 9)
    );
    let delete = Write::SessionDelete { id: "a".into() };
    assert_eq!(one(&*store, &fence, delete.clone()).await, Ok(Written::Done(true)));
    assert_eq!(one(&*store, &fence, delete).await, Ok(Written::Done(false)));
    assert_eq!(list(None, None, 9).await, ["b", "c"]);
    // The id can be used again, and nothing of the old entries is left.
    one(&*store, &fence, create("a")).await.unwrap();
    assert_eq!(store.session_entries("a", 0, 9).await, Ok(vec![]));
}

async fn blobs_are_named_by_their_bytes(store: Shared) {
    let fence = fence(&*store, "p").await;
    let empty = store.blob_put(&fence, vec![]).await.unwrap();
    assert_eq!(empty.to_string(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    let big: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let digest = store.blob_put(&fence, big.clone()).await.unwrap();
    assert_eq!(store.blob_put(&fence, big.clone()).await, Ok(digest), "the same bytes are kept once");
    assert_eq!(store.blob(digest).await.unwrap().as_deref(), Some(big.as_slice()));
    assert_eq!(store.blob(empty).await.unwrap().as_deref(), Some(&[][..]));
    assert_eq!(store.blob(Digest::of(b"?")).await, Ok(None));
    let mut expected = [(empty, 0), (digest, 3_000_000)];
    expected.sort();
    assert_eq!(store.blobs(None, 9).await.unwrap(), expected);
    assert_eq!(store.blobs(Some(expected[0].0), 9).await.unwrap(), expected[1..]);
    assert_eq!(one(&*store, &fence, Write::BlobDelete { digest }).await, Ok(Written::Done(true)));
    assert_eq!(one(&*store, &fence, Write::BlobDelete { digest }).await, Ok(Written::Done(false)));
    assert_eq!(store.blob(digest).await, Ok(None));
}

async fn what_cannot_be_kept_is_refused(store: Shared) {
    let fence = fence(&*store, "p").await;
    let long = "x".repeat(MAX_NAME + 1);
    for (name, why) in [
        ("", "key: the name is empty"),
        ("a\0b", "key: the name contains a NUL"),
        (&long, "key: the name has 513 bytes, at most 512 fit"),
    ] {
        let error = store.kv_put(&fence, "s", name, vec![], Expect::Anything).await.unwrap_err();
        assert_eq!(error.to_string(), why);
    }
    store.kv_put(&fence, "s", &long[1..], vec![], Expect::Anything).await.unwrap();
    let none = Write::QueuePush { queue: "q".into(), message: message("m", 0, 0) };
    let backwards = Write::QueueClaim { queue: "q".into(), now_ms: 5, until_ms: 5, limit: 1 };
    let nothing = Write::LogAppend { topic: "t".into(), events: vec![] };
    for write in [none, backwards, nothing] {
        assert!(matches!(one(&*store, &fence, write).await, Err(Error::Invalid { .. })));
    }
    assert!(matches!(store.acquire("", "a", 0, 1).await, Err(Error::Invalid { .. })));
    assert!(matches!(store.acquire("a", "", 0, 1).await, Err(Error::Invalid { .. })));
}

async fn many_at_once_lose_nothing(store: Shared) {
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let store = store.clone();
        tasks.spawn(async move {
            let fence = fence(&*store, &format!("worker/{worker}")).await;
            for n in 0..50 {
                store.log_append(&fence, "shared", event("e")).await.unwrap();
                let key = format!("{worker}/{n}");
                store.kv_put(&fence, "s", &key, vec![], Expect::Absent).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(store.log_topic("shared").await.unwrap().unwrap().last, 400);
    let ids: Vec<u64> = store.log_read("shared", 0, 999).await.unwrap().iter().map(|e| e.id).collect();
    assert_eq!(ids, (1..=400).collect::<Vec<_>>());
    assert_eq!(store.kv_list("s", "", None, 999).await.unwrap().len(), 400);
    store.compact().await.unwrap();
    assert_eq!(store.verify().await, Ok(vec![]));
}

/// The cases, for an implementation that `$make` gives an empty one of.
macro_rules! suite {
    ($implementation:ident, $make:expr, $($case:ident)*) => {
        mod $implementation {
            $(
                #[test]
                fn $case() {
                    let (_keep, store) = $make;
                    crate::support::wait(super::$case(store));
                }
            )*
        }
    };
}

macro_rules! suites {
    ($($implementation:ident: $make:expr;)*) => {
        $(suite! { $implementation, $make,
            a_lease_goes_to_one_owner_at_a_time
            a_stale_owner_writes_nothing
            a_lease_that_ran_out_holds_until_it_is_taken
            a_lease_that_was_given_back_is_void
            the_same_owner_gets_a_new_epoch
            a_fence_that_was_never_given_is_refused
            writes_happen_together_or_not_at_all
            values_are_compared_and_swapped
            keys_are_listed_in_pages
            events_are_numbered_per_topic
            ids_go_on_after_old_events_are_forgotten
            messages_are_claimed_in_order_and_once
            a_claim_that_is_not_answered_comes_back
            an_answer_that_comes_late_but_first_counts
            failed_messages_are_tried_again_and_then_dead
            a_session_grows_by_entries_that_follow
            a_session_belongs_to_the_scope_that_made_it
            a_session_can_be_cut_and_forked
            sessions_are_found_by_status
            blobs_are_named_by_their_bytes
            what_cannot_be_kept_is_refused
            many_at_once_lose_nothing
            a_run_tells_how_it_stands
            a_run_that_has_ended_stays_so
            a_journal_is_read_as_it_was_written
            a_journal_is_cut_and_continued
            runs_do_not_mix
            an_owner_that_was_taken_for_dead_cannot_go_on
            a_run_keeps_its_sources
            a_fork_has_the_beginning_of_a_run
            a_run_is_removed_with_all_that_belongs_to_it
            runs_are_listed_newest_first
            what_a_run_waits_for_is_answered_by_others
            a_closed_request_takes_no_answer
            an_answer_is_not_missed_by_a_run_that_stops
            runs_are_claimed_when_they_are_due
            many_workers_share_the_runs
            a_failed_try_is_kept_and_a_run_is_reopened
            a_wish_is_granted_when_the_owner_stops
            old_runs_are_removed_together
            runs_are_counted_by_status
            runs_are_submitted_together
            a_key_belongs_to_one_run_that_has_not_ended
            queues_are_served_in_turn_and_by_priority
            a_queue_limits_what_executes_at_once
            a_queue_limits_the_rate_of_starts
        })*
    };
}

suites! {
    memory: ((), std::sync::Arc::new(harn_store::MemoryStore::new()));
    sqlite: {
        let folder = tempfile::tempdir().expect("a folder");
        let store = harn_store::SqliteStore::new(folder.path().join("state/harn.sqlite"));
        (folder, std::sync::Arc::new(store))
    };
}

#[cfg(feature = "postgres")]
suites! {
    postgres: {
        let Some(url) = crate::server::database() else { return };
        ((), std::sync::Arc::new(harn_store::PostgresStore::new(&url).expect("an address")))
    };
}
