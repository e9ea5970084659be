//! Properties of every list of fragments: determinism, order, and byte counts.

use std::collections::BTreeSet;

use harn_prompt::{Bucket, Fragment, compare, reduce};
use proptest::prelude::*;

fn fragment() -> impl Strategy<Value = Fragment> {
    let names = proptest::collection::vec("[a-d]", 0..3);
    let body = prop_oneof![
        2 => "[ \\n]{0,3}",
        5 => "\\PC{0,20}",
        1 => Just("  text with\n\nblank lines \n".to_owned()),
    ];
    ("[a-e]{1,2}", any::<bool>(), names.clone(), names, body).prop_map(|(id, after, tools, caps, body)| {
        Fragment {
            requires_tools: tools,
            requires_caps: caps,
            ..Fragment::new(id, "primary", body).in_bucket(if after { Bucket::After } else { Bucket::Before })
        }
    })
}

fn fragments() -> impl Strategy<Value = Vec<Fragment>> {
    proptest::collection::vec(fragment(), 0..24)
}

fn names() -> impl Strategy<Value = BTreeSet<String>> {
    proptest::collection::btree_set("[a-d]", 0..4)
}

proptest! {
    #[test]
    fn equal_input_gives_equal_output(list in fragments(), tools in names(), caps in names()) {
        prop_assert_eq!(reduce(&list, &tools, &caps), reduce(&list.clone(), &tools.clone(), &caps.clone()));
    }

    #[test]
    fn bytes_and_separators_add_up_to_the_length(list in fragments(), tools in names(), caps in names()) {
        let assembly = reduce(&list, &tools, &caps);
        let bytes: usize = assembly.provenance.iter().map(|p| p.bytes()).sum();
        let separators = 2 * assembly.included().saturating_sub(1);
        prop_assert_eq!(assembly.as_str().len(), bytes + separators);
        prop_assert_eq!(assembly.text.is_none(), assembly.included() == 0);
        prop_assert_eq!(assembly.included() + assembly.excluded(), list.len());
    }

    #[test]
    fn ranges_cut_the_bodies_out_of_the_text(list in fragments(), tools in names(), caps in names()) {
        let assembly = reduce(&list, &tools, &caps);
        for (fragment, entry) in list.iter().zip(&assembly.provenance) {
            prop_assert_eq!((&fragment.id, fragment.bucket), (&entry.id, entry.bucket));
            let expected = if entry.included() { fragment.body.trim() } else { "" };
            prop_assert_eq!(assembly.body(entry), expected);
            let present = fragment.requires_tools.iter().all(|t| tools.contains(t))
                && fragment.requires_caps.iter().all(|c| caps.contains(c));
            prop_assert_eq!(entry.included(), present && !fragment.body.trim().is_empty());
        }
    }

    #[test]
    fn order_is_declaration_order_within_a_bucket(list in fragments(), tools in names(), caps in names()) {
        let assembly = reduce(&list, &tools, &caps);
        let mut end = 0;
        let mut seen_after = false;
        for (i, entry) in assembly.in_text_order().enumerate() {
            let range = entry.range.clone().unwrap();
            prop_assert_eq!(range.start, if i == 0 { 0 } else { end + 2 });
            prop_assert!(!seen_after || entry.bucket == Bucket::After);
            seen_after = entry.bucket == Bucket::After;
            end = range.end;
        }
        let joined: Vec<&str> = assembly.in_text_order().map(|p| assembly.body(p)).collect();
        prop_assert_eq!(joined.join("\n\n"), assembly.as_str());
    }

    #[test]
    fn left_out_fragments_could_as_well_not_be_there(list in fragments(), tools in names(), caps in names()) {
        let assembly = reduce(&list, &tools, &caps);
        let kept: Vec<Fragment> =
            list.iter().zip(&assembly.provenance).filter(|(_, p)| p.included()).map(|(f, _)| f.clone()).collect();
        prop_assert_eq!(reduce(&kept, &tools, &caps).text, assembly.text);
    }

    #[test]
    fn a_comparison_accounts_for_both_sides(left in fragments(), right in fragments(), tools in names()) {
        let (left, right) = (reduce(&left, &tools, &tools), reduce(&right, &tools, &tools));
        let difference = compare(&left, &right);
        prop_assert_eq!(difference.rows.iter().filter(|r| r.left.is_some()).count(), left.provenance.len());
        prop_assert_eq!(difference.rows.iter().filter(|r| r.right.is_some()).count(), right.provenance.len());
        let shared = difference.shared_prefix;
        prop_assert_eq!(&left.as_str()[..shared], &right.as_str()[..shared]);
        prop_assert!(compare(&left, &left).rows.iter().all(|row| row.change.as_str() == "same"));
    }
}
