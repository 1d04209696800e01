-- Calls to providers, decided for all servers together (`call-limits`). Every report has the whole state of its server, so nothing here needs to
-- survive a crash of the database, and nothing waits for the disk.
CREATE UNLOGGED TABLE call_limits (
    name text COLLATE "C" PRIMARY KEY,
    -- Calls that may begin now, as far as the rate is concerned.
    tokens double precision NOT NULL,
    refilled_ms bigint NOT NULL,
    failures bigint NOT NULL DEFAULT 0,
    -- Null while the breaker is closed.
    open_until_ms bigint,
    -- One call tries until then.
    probe_until_ms bigint,
    turn bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE UNLOGGED TABLE call_shares (
    name text COLLATE "C" NOT NULL,
    member text COLLATE "C" NOT NULL,
    user_name text COLLATE "C" NOT NULL,
    running bigint NOT NULL,
    waiting bigint NOT NULL,
    -- Given to a server that does not know it yet.
    offered bigint NOT NULL,
    -- When something was last given.
    turn bigint NOT NULL,
    until_ms bigint NOT NULL,
    PRIMARY KEY (name, member, user_name)
) WITH (fillfactor = 50);

CREATE FUNCTION baton_clock_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

-- The same decisions as `call-limits/src/local.rs`; its tests run on both. p_burst and p_per_ms are null without a rate.
CREATE FUNCTION baton_call_limits(
    p_name text, p_member text, p_calls_max bigint, p_burst double precision, p_per_ms double precision,
    p_failures_max bigint, p_open_ms bigint, p_retry_ms bigint, p_probe_ms bigint, p_lease_ms bigint, p_poll_ms bigint,
    p_users text[], p_running bigint[], p_waiting bigint[], p_has_answer boolean, p_failures bigint,
    OUT granted_users text[], OUT granted bigint[], OUT is_probe boolean, OUT open_for_ms bigint, OUT again_ms bigint) LANGUAGE plpgsql AS $$
DECLARE
    l call_limits;
    best record;
    now_ms bigint;
    free bigint;
    has_rate boolean := p_burst IS NOT NULL;
BEGIN
    INSERT INTO call_limits (name, tokens, refilled_ms) VALUES (p_name, 1, baton_clock_ms()) ON CONFLICT DO NOTHING;
    SELECT * INTO l FROM call_limits AS x WHERE x.name = p_name FOR UPDATE;
    now_ms := baton_clock_ms();
    is_probe := false;
    DELETE FROM call_shares AS s WHERE s.name = p_name AND s.until_ms <= now_ms;
    IF has_rate THEN
        l.tokens := least(p_burst, l.tokens + greatest(0, now_ms - l.refilled_ms) * p_per_ms);
    END IF;
    l.refilled_ms := now_ms;

    IF p_has_answer THEN
        l.failures := 0;
        l.open_until_ms := NULL;
        l.probe_until_ms := NULL;
    END IF;
    IF p_failures > 0 THEN
        IF l.open_until_ms IS NULL THEN
            l.failures := l.failures + p_failures;
            IF l.failures >= p_failures_max THEN
                l.failures := 0;
                l.open_until_ms := now_ms + p_open_ms;
                l.probe_until_ms := NULL;
            END IF;
        ELSIF l.open_until_ms <= now_ms THEN
            l.open_until_ms := now_ms + p_open_ms;
            l.probe_until_ms := NULL;
        END IF;
    END IF;

    -- What the server reports, with what it was offered since its last report. Users without calls stay for their turn.
    UPDATE call_shares AS s SET running = 0, waiting = 0, offered = 0
    WHERE s.name = p_name AND s.member = p_member AND s.user_name <> ALL (p_users) AND (s.running, s.waiting, s.offered) <> (0, 0, 0);
    INSERT INTO call_shares AS s (name, member, user_name, running, waiting, offered, turn, until_ms)
    SELECT p_name, p_member, r.u, r.running, r.waiting, 0, 0, now_ms + p_lease_ms
    FROM unnest(p_users, p_running, p_waiting) AS r (u, running, waiting)
    ON CONFLICT (name, member, user_name) DO UPDATE SET
        running = excluded.running + CASE WHEN l.open_until_ms IS NULL THEN least(s.offered, excluded.waiting) ELSE 0 END,
        waiting = excluded.waiting - CASE WHEN l.open_until_ms IS NULL THEN least(s.offered, excluded.waiting) ELSE 0 END,
        offered = 0, until_ms = excluded.until_ms;

    IF l.open_until_ms IS NULL THEN
        SELECT p_calls_max - coalesce(sum(s.running + s.offered), 0) INTO free FROM call_shares AS s WHERE s.name = p_name;
        WHILE free > 0 AND (NOT has_rate OR l.tokens >= 1) LOOP
            SELECT s.member, s.user_name INTO best FROM call_shares AS s
            JOIN (SELECT x.user_name, sum(x.running + x.offered) AS busy, max(x.turn) AS turn FROM call_shares AS x WHERE x.name = p_name
                  GROUP BY x.user_name) AS u ON u.user_name = s.user_name
            WHERE s.name = p_name AND s.waiting > 0
            ORDER BY u.busy, u.turn, s.running + s.offered, s.turn, s.user_name, s.member LIMIT 1;
            EXIT WHEN NOT FOUND;
            l.turn := l.turn + 1;
            UPDATE call_shares AS s SET waiting = s.waiting - 1, turn = l.turn,
                running = s.running + CASE WHEN s.member = p_member THEN 1 ELSE 0 END,
                offered = s.offered + CASE WHEN s.member = p_member THEN 0 ELSE 1 END
            WHERE s.name = p_name AND s.member = best.member AND s.user_name = best.user_name;
            free := free - 1;
            IF has_rate THEN
                l.tokens := l.tokens - 1;
            END IF;
        END LOOP;
        IF EXISTS (SELECT 1 FROM call_shares AS s WHERE s.name = p_name AND s.member = p_member AND s.waiting > 0) THEN
            again_ms := CASE WHEN has_rate AND l.tokens < 1 THEN greatest(1, ceil((1 - l.tokens) / p_per_ms))::bigint ELSE p_poll_ms END;
        END IF;
    ELSIF l.open_until_ms > now_ms THEN
        open_for_ms := l.open_until_ms - now_ms;
    ELSIF l.probe_until_ms > now_ms THEN
        open_for_ms := p_retry_ms;
    ELSE
        SELECT s.user_name INTO best FROM call_shares AS s WHERE s.name = p_name AND s.member = p_member AND s.waiting > 0
        ORDER BY s.running, s.turn, s.user_name LIMIT 1;
        IF FOUND AND has_rate AND l.tokens < 1 THEN
            again_ms := greatest(1, ceil((1 - l.tokens) / p_per_ms))::bigint;
        ELSIF FOUND THEN
            l.turn := l.turn + 1;
            UPDATE call_shares AS s SET running = s.running + 1, turn = l.turn
            WHERE s.name = p_name AND s.member = p_member AND s.user_name = best.user_name;
            IF has_rate THEN
                l.tokens := l.tokens - 1;
            END IF;
            l.probe_until_ms := now_ms + p_probe_ms;
            is_probe := true;
            open_for_ms := p_retry_ms;
        END IF;
    END IF;
    IF open_for_ms IS NOT NULL THEN
        UPDATE call_shares AS s SET waiting = 0 WHERE s.name = p_name AND s.member = p_member AND s.waiting > 0;
    END IF;

    UPDATE call_limits AS x SET tokens = l.tokens, refilled_ms = l.refilled_ms, failures = l.failures, open_until_ms = l.open_until_ms,
        probe_until_ms = l.probe_until_ms, turn = l.turn
    WHERE x.name = p_name;
    SELECT array_agg(s.user_name), array_agg(s.running - r.running) INTO granted_users, granted
    FROM unnest(p_users, p_running) AS r (u, running)
    JOIN call_shares AS s ON s.name = p_name AND s.member = p_member AND s.user_name = r.u WHERE s.running > r.running;
END $$;

-- Limits of providers that nobody has called for a day, and what members without a word left behind.
CREATE FUNCTION baton_tidy_calls() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM call_shares AS s WHERE s.until_ms < baton_clock_ms() - 60000
        AND EXISTS (SELECT 1 FROM call_limits AS l WHERE l.name = s.name AND l.refilled_ms < baton_clock_ms() - 60000);
    DELETE FROM call_limits AS l WHERE l.refilled_ms < baton_clock_ms() - 86400000;
END $$;
