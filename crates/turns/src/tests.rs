use super::*;

fn owner(name: &str) -> Owner {
    Some(name.to_owned())
}

/// As if this owner had used so much until now.
fn use_up(turns: &Turns, name: &str, used: Duration) {
    let at = Instant::now();
    turns.lock().owners.insert(owner(name), Use { running: 0, used, at });
}

/// Turns at work, and how many of them are of heavy owners.
fn running(turns: &Turns) -> (usize, usize) {
    let state = turns.lock();
    (state.running, state.heavy_running)
}

fn is_idle(turns: &Turns) -> bool {
    let state = turns.lock();
    state.queues.is_empty() && state.tickets.is_empty()
}

#[test]
fn one_at_a_time_of_each_owner_and_the_last_for_those_who_used_little() {
    let turns = Turns::new(TurnLimits::one_each(2));
    let of_mallory = turns.try_take(&owner("mallory")).unwrap();
    assert!(turns.try_take(&owner("mallory")).is_none(), "one at a time");
    let of_ada = turns.try_take(&owner("ada")).unwrap();
    assert!(turns.try_take(&owner("bob")).is_none(), "both are busy");
    drop((of_mallory, of_ada));
    use_up(&turns, "mallory", Duration::from_secs(30));
    use_up(&turns, "oscar", Duration::from_secs(30));
    let of_oscar = turns.try_take(&owner("oscar")).unwrap();
    assert!(turns.try_take(&owner("mallory")).is_none(), "the last one is for others");
    assert!(turns.try_take(&owner("bob")).is_some());
    drop(of_oscar);
    assert!(turns.try_take(&owner("mallory")).is_some(), "while no other heavy one works");
    assert_eq!(running(&turns), (0, 0));
    let only = Turns::new(TurnLimits::one_each(1));
    use_up(&only, "mallory", Duration::from_secs(30));
    let of_mallory = only.try_take(&owner("mallory"));
    assert!(of_mallory.is_some() && only.try_take(&None).is_none());
}

#[test]
fn who_waits_on_a_thread_gets_the_next_one() {
    let turns = Turns::new(TurnLimits::one_each(1));
    let held = turns.try_take(&None).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| turns.take_blocking(owner("ada"), Duration::from_secs(60)).is_some());
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished());
        drop(held);
        assert!(waiting.join().unwrap());
    });
    let _held = turns.try_take(&None).unwrap();
    assert!(turns.take_blocking(owner("ada"), Duration::from_millis(5)).is_none());
    assert!(is_idle(&turns));
}

/// With one queue for all, bob would wait for the hundred of mallory, and ada for those of the four others.
#[tokio::test]
async fn the_owner_who_used_least_is_next() {
    let turns = Turns::new(TurnLimits { waiting_max: 100, ..TurnLimits::one_each(1) });
    for name in ["m1", "m2", "m3", "m4"] {
        use_up(&turns, name, Duration::from_secs(20));
    }
    use_up(&turns, "bob", Duration::from_secs(1));
    let held = turns.try_take(&owner("m0")).unwrap();
    let many: Vec<Waiting> = ["m0", "m1", "m2", "m3", "m4"].iter().flat_map(|name| (0..20).map(|_| turns.take(owner(name)))).collect();
    let (of_bob, of_ada) = (turns.take(owner("bob")), turns.take(owner("ada")));
    drop(held);
    let ended = Arc::new(Mutex::new(Vec::new()));
    let work = |name: &'static str, waiting: Waiting| {
        let ended = ended.clone();
        async move {
            let turn = waiting.await.unwrap();
            ended.lock().unwrap().push(name);
            drop(turn);
        }
    };
    let others = many.into_iter().map(|waiting| tokio::spawn(work("other", waiting))).collect::<Vec<_>>();
    tokio::join!(work("bob", of_bob), work("ada", of_ada));
    for other in others {
        other.await.unwrap();
    }
    // m0 used nothing so far, like ada, and came before her.
    let ended = ended.lock().unwrap();
    let place = |name: &str| ended.iter().position(|one| *one == name).unwrap();
    assert!(place("ada") <= 21 && place("bob") <= 22, "{} and {} of {}", place("ada"), place("bob"), ended.len());
    assert!(is_idle(&turns));
}

#[tokio::test]
async fn too_many_requests_of_one_owner_are_refused_and_those_given_up_leave_nothing() {
    let turns = Turns::new(TurnLimits { waiting_max: 2, ..TurnLimits::one_each(1) });
    let held = turns.take(owner("mallory")).await.unwrap();
    let waiting = [turns.take(owner("mallory")), turns.take(owner("mallory"))];
    assert_eq!(turns.take(owner("mallory")).await.map(drop), Err(Full));
    let of_bob = turns.take(owner("bob"));
    drop(waiting);
    drop(held);
    // It was given the turn and is given up before it takes it.
    drop(of_bob);
    assert!(turns.take(owner("carl")).await.is_ok());
    let state = turns.lock();
    assert_eq!((state.running, state.queues.len(), state.tickets.len()), (0, 0, 0));
}

#[tokio::test]
async fn heavy_owners_share_some_of_the_turns() {
    let limits = TurnLimits { of_owner_max: 2, of_heavy_max: 2, light_max: Duration::from_millis(500), ..TurnLimits::one_each(6) };
    let turns = Turns::new(limits);
    let heavy = ["m0", "m1", "m2", "m3", "m4"];
    heavy.iter().for_each(|name| use_up(&turns, name, Duration::from_secs(5)));
    let mut waiting: Vec<Waiting> = heavy.iter().flat_map(|name| (0..10).map(|_| turns.take(owner(name)))).collect();
    assert_eq!(running(&turns), (2, 2));
    let light: Vec<Turn> = ["a", "b", "c", "d"].iter().map(|name| turns.try_take(&owner(name)).unwrap()).collect();
    assert!(turns.try_take(&owner("e")).is_none(), "all are busy");
    drop(light);
    waiting.clear();
    assert_eq!(running(&turns), (0, 0));
}

#[test]
fn what_was_used_is_forgotten_by_halves_and_what_runs_counts() {
    let now = Instant::now();
    let of = Use { running: 0, used: Duration::from_secs(8), at: now };
    let half_life = Duration::from_secs(10);
    assert_eq!(of.lately(now + Duration::from_secs(20), half_life).as_millis(), 2_000);
    let of = Use { running: 2, ..of };
    assert_eq!(of.lately(now + Duration::from_secs(10), half_life).as_millis(), 24_000);
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_gives_way_leaves_the_others_as_they_are() {
    let nice = || rustix::process::getpriority_process(None).unwrap();
    let own = nice();
    let given = std::thread::spawn(move || {
        give_way();
        (nice(), std::thread::spawn(nice).join().unwrap())
    });
    let (lowered, inherited) = given.join().unwrap();
    assert_eq!((lowered, inherited, nice()), ((own + NICE).min(19), (own + NICE).min(19), own));
}

#[test]
fn an_owner_alone_may_have_all_turns_if_that_is_wanted() {
    let limits = TurnLimits { of_owner_max: 2, half_life: Duration::from_millis(50), all_for_one: true, ..TurnLimits::one_each(6) };
    let turns = Turns::new(limits);
    let held: Vec<Turn> = (0..6).map(|_| turns.try_take(&owner("ada")).unwrap()).collect();
    assert!(turns.try_take(&owner("bob")).is_none(), "all are busy");
    drop(held);
    let held: Vec<Option<Turn>> = (0..6).map(|_| turns.try_take(&owner("ada"))).collect();
    assert_eq!(held.iter().flatten().count(), 2, "bob asked");
    drop(held);
    std::thread::sleep(Duration::from_millis(80));
    let held: Vec<Option<Turn>> = (0..6).map(|_| turns.try_take(&owner("ada"))).collect();
    assert_eq!(held.iter().flatten().count(), 6, "a while ago");
}
