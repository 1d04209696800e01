use crate::Home;

#[test]
fn the_bench_prints_every_number_and_replays_what_it_measured() {
    let home = Home::new();
    let output = home.well(&["bench", "engine", "--quick", "--json", "--rounds", "1"]);
    let object = output.lines().remove(0);
    for key in [
        "step_ns",
        "step_watched_ns",
        "step_effect_us",
        "step_durable_us",
        "step_durable_alone_us",
        "fsync_us",
        "fanout100_us",
        "runs1000_ms",
        "runs1000_rss_mb",
        "journal500_bytes",
        "open10000_ms",
        "history10000_ms",
        "journal10000_ratio",
        "cold_start_ms",
        "cold_process_ms",
        "cold_start_rss_mb",
    ] {
        assert!(object[key].as_f64().is_some_and(|number| number > 0.0), "{key}: {object}");
    }
    assert!(object["host"]["cores"].as_u64().is_some_and(|cores| cores > 0));
    assert_eq!(object["replayed"]["rows"].as_object().unwrap().len(), 9);
    assert_eq!(object["replayed"]["difference"], false);
}

#[test]
fn the_bench_has_a_table_for_people() {
    let home = Home::new();
    let dir = home.folder.path().to_str().unwrap();
    let output = home.well(&["bench", "engine", "--quick", "--rounds", "1", "--only", "steps,fanout", "--dir", dir]);
    for words in ["one no-op step, in memory", "≤ 1000 ns", "100-way fan-out and join", "no difference"] {
        assert!(output.out.contains(words), "no {words:?} in {}", output.out);
    }
    home.baton(&["bench", "engine", "--only", "speed"]).complains(2, &["steps, effects"]);
}

#[test]
fn the_flows_are_measured_and_what_was_measured_is_replayed() {
    let home = Home::new();
    let dir = home.folder.path().to_str().unwrap();
    let output = home.well(&["bench", "flows", "--quick", "--json", "--rounds", "1", "--dir", dir]);
    let object = output.lines().remove(0);
    for flow in ["search", "chat", "reason", "panel", "direct", "auto"] {
        for number in ["model_calls", "tokens", "overhead_ms", "alone_ms"] {
            let key = format!("{flow}.{number}");
            assert!(object[&key].as_f64().is_some_and(|number| number > 0.0), "{key}: {object}");
        }
    }
    for key in ["parallel_efficiency", "reason.agentic_over_direct", "search.discover_ms"] {
        assert!(object[key].as_f64().is_some_and(|number| number > 0.0), "{key}: {object}");
    }
    let calls = |flow: &str| object[format!("{flow}.model_calls")].as_f64();
    assert_eq!((calls("search"), calls("direct"), calls("auto"), calls("reason")), (Some(2.0), Some(1.0), Some(2.0), Some(3.0)), "{object}");
    assert_eq!(object["replayed"]["difference"], false);
    let table = home.well(&["bench", "flows", "--quick", "--rounds", "1", "--dir", dir]);
    for words in ["search: model calls", "≤ 2", "≥ 0.95", "no difference"] {
        assert!(table.out.contains(words), "no {words:?} in {}", table.out);
    }
}
