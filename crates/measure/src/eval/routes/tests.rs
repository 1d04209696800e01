use std::collections::BTreeSet;

use super::*;

fn cases() -> Vec<Case> {
    let routes = Routes { data: None, model: None, rules_only: true, router: RouterArg::Both, split: None, requests: None, json: true };
    let catalogue: Catalogue = serde_json::from_str(TOOLS).unwrap();
    routes.cases(&catalogue).unwrap()
}

#[test]
fn x2_the_set_covers_every_flow_and_language_and_its_splits_share_nothing() {
    let cases = cases();
    let halves: BTreeMap<&str, Vec<&Case>> =
        ["dev", "held", "fresh"].into_iter().map(|split| (split, cases.iter().filter(|case| case.split == split).collect())).collect();
    assert!(cases.len() >= 160 && halves.values().map(Vec::len).sum::<usize>() == cases.len(), "{}", cases.len());
    for (split, half) in &halves {
        assert!(half.len() >= 80, "{split}: {}", half.len());
        for flow in FLOWS {
            assert!(half.iter().filter(|case| case.flows[0] == flow).count() >= 8, "{split}: {flow}");
        }
        for language in ["en", "de", "fr", "es", "zh"] {
            assert!(half.iter().filter(|case| case.language == language).count() >= 8, "{split}: {language}");
        }
        assert!(half.iter().any(|case| !case.history.is_empty()) && half.iter().any(|case| case.docs), "{split}");
        assert!(*split == "fresh" || half.iter().any(|case| case.tools.is_empty()), "{split}");
        assert!(half.iter().any(|case| case.tools.len() > 1), "{split}");
    }
    let ambiguous = cases.iter().filter(|case| case.flows.len() > 1).count();
    assert!(ambiguous * 10 < cases.len(), "{ambiguous} of {} have several right flows", cases.len());
    let ids: BTreeSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids.len(), cases.len());
    let requests = |split: &str| halves[split].iter().map(|case| case.request.to_lowercase()).collect::<BTreeSet<_>>();
    assert!(requests("dev").is_disjoint(&requests("held")));
    assert!(requests("fresh").is_disjoint(&requests("held")) && requests("fresh").is_disjoint(&requests("dev")));
    assert_eq!(halves["fresh"].len(), 150);
}

#[test]
fn x2_a_sample_is_spread_over_the_set() {
    let cases = cases();
    let dev: Vec<&Case> = cases.iter().filter(|case| case.split == "dev").collect();
    let few = spread(dev.iter().copied(), 12);
    let flows: BTreeSet<&str> = few.iter().map(|case| case.flows[0].as_str()).collect();
    assert_eq!((few.len(), flows.len()), (12, 6), "{few:?}");
    assert_eq!(spread(dev.iter().copied(), 10_000).len(), dev.len());
}

#[test]
fn x2_tools_that_share_words_with_the_request_are_listed_first() {
    let catalogue: Catalogue = serde_json::from_str(TOOLS).unwrap();
    let case = Case {
        id: "x".into(),
        split: "all".into(),
        language: "en".into(),
        request: "How many stories have the upstream keyword?".into(),
        flows: vec!["search".into()],
        history: Vec::new(),
        docs: false,
        tools: vec!["builtin".into(), "stories".into()],
    };
    let listed = listing(&case, &json!({ "size": 3 }), &catalogue);
    assert_eq!(listed["data"]["tools"].as_array().unwrap().len(), 3);
    assert_eq!(listed["data"]["tools"][0]["name"], "stories.search_stories");
    let none = Case { tools: Vec::new(), ..case };
    assert_eq!(listing(&none, &json!({}), &catalogue)["data"]["tools"], json!([]));
}
