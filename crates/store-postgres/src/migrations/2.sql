-- Writes are functions, so that each is one message to the server and a group of them is sent without waiting in between. A function checks
-- everything before it writes; `refusal` says why it wrote nothing. Statements of a function see what others committed before they began,
-- so everything that is read after the thread's row is locked is current.

CREATE FUNCTION baton_keep_owner(p_owner text, p_until bigint) RETURNS void LANGUAGE sql AS $$
    -- Claiming one thread for a shorter time must not shorten the others.
    INSERT INTO owners (name, until_ms) VALUES (p_owner, p_until)
    ON CONFLICT (name) DO UPDATE SET until_ms = excluded.until_ms, seen_at = now() WHERE owners.until_ms < excluded.until_ms
$$;

CREATE FUNCTION baton_claim(p_thread text, p_owner text, p_now bigint, p_until bigint,
    OUT refusal text, OUT who text, OUT number bigint) LANGUAGE plpgsql AS $$
DECLARE
    t threads;
BEGIN
    SELECT * INTO t FROM threads WHERE name = p_thread FOR NO KEY UPDATE;
    IF t.owner <> p_owner THEN
        SELECT until_ms INTO number FROM owners WHERE name = t.owner;
        IF number >= p_now THEN
            refusal := 'held';
            who := t.owner;
            RETURN;
        END IF;
    END IF;
    PERFORM baton_keep_owner(p_owner, p_until);
    IF t.id IS NULL THEN
        INSERT INTO threads (name, title, messages, created_ms, updated_ms, bytes, fence, owner)
        VALUES (p_thread, '', 0, p_now, p_now, 0, nextval('fences'), p_owner) RETURNING fence INTO number;
    ELSIF t.owner = p_owner THEN
        number := t.fence;
    ELSE
        UPDATE threads SET fence = nextval('fences'), owner = p_owner WHERE id = t.id RETURNING fence INTO number;
    END IF;
END $$;

CREATE FUNCTION baton_keep_permission(p_user text, p_scope text, p_name text, p_thread text, p_created bigint, p_max bigint,
    OUT refusal text, OUT number bigint) LANGUAGE plpgsql AS $$
DECLARE
    t_id bigint;
BEGIN
    IF p_thread IS NOT NULL THEN
        SELECT id INTO t_id FROM threads WHERE name = p_thread;
        IF t_id IS NULL THEN
            refusal := 'no_thread';
            RETURN;
        END IF;
    END IF;
    INSERT INTO permissions (user_name, scope, name, thread, created_ms) VALUES (p_user, p_scope, p_name, t_id, p_created) ON CONFLICT DO NOTHING;
    DELETE FROM permissions WHERE user_name = p_user
        AND id <= (SELECT id FROM permissions WHERE user_name = p_user ORDER BY id DESC LIMIT 1 OFFSET p_max);
    SELECT id INTO number FROM permissions WHERE user_name = p_user AND scope = p_scope AND name = p_name AND thread IS NOT DISTINCT FROM t_id;
END $$;

-- p_notes: [[user, flow, is_local, kind, key, value or null, until_ms], ...]
CREATE FUNCTION baton_keep_notes(p_run bigint, p_thread bigint, p_at bigint, p_notes jsonb, p_count_max bigint, p_bytes_max bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    note jsonb;
BEGIN
    DELETE FROM notes WHERE until_ms <= p_at;
    FOR note IN SELECT * FROM jsonb_array_elements(p_notes) LOOP
        DELETE FROM notes WHERE user_name = note->>0 AND flow = note->>1 AND is_local = (note->>2)::bigint AND kind = note->>3 AND key = note->>4
            AND ((note->>2)::bigint = 0 OR thread = p_thread);
        CONTINUE WHEN note->>5 IS NULL;
        INSERT INTO notes (user_name, flow, thread, run, is_local, kind, key, value, bytes, created_ms, until_ms)
        VALUES (note->>0, note->>1, p_thread, p_run, (note->>2)::bigint, note->>3, note->>4, note->>5,
            octet_length(note->>4) + octet_length(note->>5), p_at, (note->>6)::bigint);
        DELETE FROM notes WHERE id IN (SELECT id FROM (
            SELECT id, row_number() OVER newest AS place, sum(bytes) OVER newest AS total FROM notes
            WHERE user_name = note->>0 AND flow = note->>1 WINDOW newest AS (ORDER BY id DESC)) AS all_notes
            WHERE place > p_count_max OR total > p_bytes_max);
    END LOOP;
END $$;

-- One run's next step; with p_until its first one, which also takes the thread. p_extra holds what few commits have:
-- {"notes": ..., "permissions": [[user, scope, name, thread or null, created_ms], ...], "limits": [notes, bytes, permissions]}
CREATE FUNCTION baton_commit(
    p_run text, p_thread text, p_owner text, p_fence bigint, p_at bigint, p_until bigint, p_first bigint, p_lines bytea[],
    p_flow text, p_parent text, p_title text, p_user text, p_status text, p_outcome text,
    p_settled_steps bigint[], p_settled_places bigint[],
    p_intent_steps bigint[], p_intent_places bigint[], p_intent_attempts bigint[], p_intent_keys text[],
    p_roles text[], p_contents text[], p_extra text, p_snapshot_entries bigint, p_snapshot bytea,
    p_release boolean, p_bytes bigint, p_writer bigint,
    OUT refusal text, OUT who text, OUT number bigint) LANGUAGE plpgsql AS $$
DECLARE
    t threads;
    r_id bigint;
    r_thread bigint;
    next_seq bigint := 0;
    is_new boolean := p_flow IS NOT NULL;
    takes boolean := p_until IS NOT NULL;
    is_new_thread boolean := false;
    message_count bigint := coalesce(cardinality(p_roles), 0);
    extra jsonb;
    grants jsonb;
BEGIN
    SELECT * INTO t FROM threads WHERE name = p_thread FOR NO KEY UPDATE;
    SELECT id, thread INTO r_id, r_thread FROM runs WHERE name = p_run;
    IF takes THEN
        IF t.owner <> p_owner THEN
            SELECT until_ms INTO number FROM owners WHERE name = t.owner;
            IF number >= p_at THEN
                refusal := 'held';
                who := t.owner;
                RETURN;
            END IF;
        END IF;
    ELSE
        IF NOT is_new AND r_id IS NULL THEN
            refusal := 'no_run';
            RETURN;
        END IF;
        IF t.id IS NULL OR t.owner IS DISTINCT FROM p_owner OR t.fence <> p_fence THEN
            refusal := 'fenced';
            RETURN;
        END IF;
        IF r_id IS NOT NULL AND NOT is_new THEN
            IF r_thread <> t.id THEN
                refusal := 'fenced';
                RETURN;
            END IF;
            SELECT coalesce(max(seq) + 1, 0) INTO next_seq FROM journal WHERE run = r_id;
        END IF;
    END IF;
    refusal := CASE
        WHEN takes AND NOT is_new THEN 'no_run'
        WHEN is_new AND r_id IS NOT NULL THEN 'exists'
        WHEN p_first <> next_seq THEN 'order'
        WHEN is_new AND t.user_name <> p_user THEN 'user'
    END;
    number := next_seq;
    IF refusal IS NOT NULL THEN
        RETURN;
    END IF;

    IF takes THEN
        PERFORM baton_keep_owner(p_owner, p_until);
        IF t.id IS NULL THEN
            is_new_thread := true;
            INSERT INTO threads (name, title, messages, created_ms, updated_ms, user_name, bytes, fence, owner)
            VALUES (p_thread, p_title, message_count, p_at, p_at, p_user, p_bytes, nextval('fences'), CASE WHEN NOT p_release THEN p_owner END)
            RETURNING * INTO t;
            t.messages := 0;
        ELSIF t.owner IS DISTINCT FROM p_owner THEN
            t.fence := nextval('fences');
            t.owner := p_owner;
        END IF;
    END IF;
    IF is_new THEN
        INSERT INTO runs (name, thread, flow, parent, title, status, outcome, created_ms, updated_ms)
        VALUES (p_run, t.id, p_flow, p_parent, p_title, coalesce(p_status, 'running'), p_outcome, p_at, p_at) RETURNING id INTO r_id;
    ELSIF p_status IS NOT NULL OR p_outcome IS NOT NULL THEN
        UPDATE runs SET status = coalesce(p_status, status), outcome = coalesce(p_outcome, outcome), updated_ms = p_at WHERE id = r_id;
    END IF;
    IF p_lines IS NOT NULL THEN
        INSERT INTO journal (run, seq, at_ms, bytes)
        SELECT r_id, p_first + place - 1, p_at, line FROM unnest(p_lines) WITH ORDINALITY AS lines (line, place);
    END IF;
    -- Deleted before inserted: an attempt that is given up and the next one may be in one commit.
    IF p_settled_steps IS NOT NULL THEN
        DELETE FROM intents USING unnest(p_settled_steps, p_settled_places) AS settled (step, place)
        WHERE run = r_id AND intents.step = settled.step AND intents.place = settled.place;
    END IF;
    IF p_intent_steps IS NOT NULL THEN
        INSERT INTO intents (run, step, place, attempt, key)
        SELECT r_id, step, place, attempt, key FROM unnest(p_intent_steps, p_intent_places, p_intent_attempts, p_intent_keys) AS i (step, place, attempt, key)
        ON CONFLICT (run, step, place) DO UPDATE SET attempt = excluded.attempt, key = excluded.key;
    END IF;
    IF p_outcome IS NOT NULL THEN
        IF NOT is_new THEN
            DELETE FROM snapshots WHERE run = r_id;
        END IF;
    ELSIF p_snapshot IS NOT NULL THEN
        INSERT INTO snapshots (run, entries, bytes) VALUES (r_id, p_snapshot_entries, p_snapshot)
        ON CONFLICT (run) DO UPDATE SET entries = excluded.entries, bytes = excluded.bytes;
    END IF;
    IF message_count > 0 THEN
        INSERT INTO messages (thread, seq, run, role, content, created_ms)
        SELECT t.id, t.messages + place - 1, r_id, role, content, p_at
        FROM unnest(p_roles, p_contents) WITH ORDINALITY AS said (role, content, place);
    END IF;
    IF p_extra IS NOT NULL THEN
        extra := p_extra::jsonb;
        PERFORM baton_keep_notes(r_id, t.id, p_at, extra->'notes', (extra->'limits'->>0)::bigint, (extra->'limits'->>1)::bigint);
        FOR grants IN SELECT * FROM jsonb_array_elements(extra->'permissions') LOOP
            PERFORM baton_keep_permission(grants->>0, grants->>1, grants->>2, grants->>3, (grants->>4)::bigint, (extra->'limits'->>2)::bigint);
        END LOOP;
    END IF;
    -- A journal line changes nothing that a list shows of the thread; all else does.
    IF is_new_thread THEN
        NULL;
    ELSIF is_new OR p_status IS NOT NULL OR p_outcome IS NOT NULL OR message_count > 0 THEN
        UPDATE threads SET updated_ms = greatest(updated_ms, p_at), title = CASE WHEN title = '' AND is_new THEN p_title ELSE title END,
            messages = messages + message_count, user_name = coalesce(user_name, p_user), bytes = bytes + p_bytes,
            fence = t.fence, owner = CASE WHEN NOT p_release THEN t.owner END
        WHERE id = t.id RETURNING user_name INTO t.user_name;
    ELSIF p_release OR p_bytes > 0 THEN
        UPDATE threads SET bytes = bytes + p_bytes, owner = CASE WHEN NOT p_release THEN t.owner END WHERE id = t.id;
    END IF;
    IF p_bytes > 0 AND t.user_name IS NOT NULL THEN
        INSERT INTO stored (user_name, writer, bytes) VALUES (t.user_name, p_writer, p_bytes)
        ON CONFLICT (user_name, writer) DO UPDATE SET bytes = stored.bytes + excluded.bytes;
    END IF;
    number := t.fence;
END $$;

-- Takes a thread out of every list and leaves its rows to be swept. Says how many runs it had.
CREATE FUNCTION baton_detach(p_thread bigint, p_writer bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    t threads;
    run_count bigint;
BEGIN
    DELETE FROM notes WHERE thread = p_thread;
    DELETE FROM permissions WHERE thread = p_thread;
    DELETE FROM threads WHERE id = p_thread RETURNING * INTO t;
    IF t.user_name IS NOT NULL THEN
        INSERT INTO stored (user_name, writer, bytes) VALUES (t.user_name, p_writer, -t.bytes)
        ON CONFLICT (user_name, writer) DO UPDATE SET bytes = stored.bytes + excluded.bytes;
    END IF;
    INSERT INTO swept_threads VALUES (p_thread);
    WITH gone AS (DELETE FROM runs WHERE thread = p_thread RETURNING id), noted AS (INSERT INTO swept_runs SELECT id FROM gone)
    SELECT count(*) INTO run_count FROM gone;
    RETURN run_count;
END $$;

CREATE FUNCTION baton_delete_thread(p_thread text, p_now bigint, p_writer bigint,
    OUT refusal text, OUT who text, OUT number bigint, OUT runs bigint, OUT bytes bigint) LANGUAGE plpgsql AS $$
DECLARE
    t threads;
BEGIN
    SELECT * INTO t FROM threads WHERE name = p_thread FOR UPDATE;
    IF t.id IS NULL THEN
        refusal := 'no_thread';
        RETURN;
    END IF;
    SELECT until_ms INTO number FROM owners WHERE name = t.owner;
    IF number >= p_now THEN
        refusal := 'held';
        who := t.owner;
        RETURN;
    END IF;
    bytes := t.bytes;
    runs := baton_detach(t.id, p_writer);
END $$;

-- Deletes those of the next few threads that may go: used before (p_kept_ms, p_kept), after (p_from_ms, p_from). A thread that somebody has
-- locked is in use and stays.
CREATE FUNCTION baton_delete_some(p_from_ms bigint, p_from bigint, p_kept_ms bigint, p_kept bigint, p_now bigint, p_max bigint, p_writer bigint,
    OUT deleted text[], OUT runs bigint, OUT bytes bigint, OUT next_ms bigint, OUT next bigint) LANGUAGE plpgsql AS $$
DECLARE
    t threads;
    seen bigint := 0;
BEGIN
    deleted := '{}';
    runs := 0;
    bytes := 0;
    FOR t IN SELECT * FROM threads AS found WHERE (found.updated_ms, found.id) > (p_from_ms, p_from) AND (found.updated_ms, found.id) < (p_kept_ms, p_kept)
        ORDER BY found.updated_ms, found.id LIMIT p_max FOR UPDATE SKIP LOCKED
    LOOP
        seen := seen + 1;
        next_ms := t.updated_ms;
        next := t.id;
        CONTINUE WHEN EXISTS (SELECT 1 FROM runs AS r WHERE r.thread = t.id AND r.status NOT IN ('done', 'failed', 'cancelled'))
            OR EXISTS (SELECT 1 FROM owners WHERE name = t.owner AND until_ms >= p_now);
        bytes := bytes + t.bytes;
        runs := runs + baton_detach(t.id, p_writer);
        deleted := deleted || t.name;
    END LOOP;
    IF seen < p_max THEN
        next := NULL;
    END IF;
END $$;

-- Removes rows of what was detached, about p_max of them. Says whether there may be more.
CREATE FUNCTION baton_sweep(p_max bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    removed bigint := 0;
    piece bigint;
    gone bigint;
BEGIN
    LOOP
        SELECT run INTO gone FROM swept_runs LIMIT 1 FOR UPDATE SKIP LOCKED;
        EXIT WHEN gone IS NULL;
        DELETE FROM journal WHERE run = gone AND seq IN (SELECT seq FROM journal WHERE run = gone ORDER BY seq LIMIT p_max - removed);
        GET DIAGNOSTICS piece = ROW_COUNT;
        removed := removed + piece + 1;
        IF removed > p_max THEN
            RETURN true;
        END IF;
        DELETE FROM snapshots WHERE run = gone;
        DELETE FROM intents WHERE run = gone;
        DELETE FROM signals WHERE run = gone;
        DELETE FROM swept_runs WHERE run = gone;
    END LOOP;
    LOOP
        SELECT thread INTO gone FROM swept_threads LIMIT 1 FOR UPDATE SKIP LOCKED;
        EXIT WHEN gone IS NULL;
        DELETE FROM messages WHERE thread = gone AND seq IN (SELECT seq FROM messages WHERE thread = gone ORDER BY seq LIMIT p_max - removed);
        GET DIAGNOSTICS piece = ROW_COUNT;
        removed := removed + piece + 1;
        IF removed > p_max THEN
            RETURN true;
        END IF;
        DELETE FROM swept_threads WHERE thread = gone;
    END LOOP;
    RETURN false;
END $$;

CREATE FUNCTION baton_keep_token(p_digest bytea, p_user text, p_made_with bytea, p_created bigint, p_until bigint, p_sessions_max bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
BEGIN
    DELETE FROM tokens WHERE until_ms <= p_created;
    INSERT INTO tokens (digest, user_name, made_with, created_ms, until_ms) VALUES (p_digest, p_user, p_made_with, p_created, p_until)
    RETURNING id INTO number;
    IF p_made_with IS NOT NULL THEN
        DELETE FROM tokens WHERE id IN (SELECT id FROM tokens WHERE made_with = p_made_with ORDER BY id DESC OFFSET p_sessions_max);
    END IF;
    RETURN number;
END $$;

CREATE FUNCTION baton_drop_token(p_token bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM tokens WHERE made_with = (SELECT digest FROM tokens WHERE id = p_token);
    DELETE FROM tokens WHERE id = p_token;
    RETURN FOUND;
END $$;

CREATE FUNCTION baton_add_stored(p_user text, p_writer bigint, p_bytes bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO stored (user_name, writer, bytes) VALUES (p_user, p_writer, p_bytes)
    ON CONFLICT (user_name, writer) DO UPDATE SET bytes = stored.bytes + excluded.bytes
$$;

-- Says whether there was room for it.
CREATE FUNCTION baton_put_record(p_user text, p_kind text, p_key text, p_value text, p_at bigint, p_max bigint, p_writer bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    old_bytes bigint;
BEGIN
    SELECT octet_length(value) INTO old_bytes FROM records WHERE user_name = p_user AND kind = p_kind AND key = p_key FOR UPDATE;
    IF old_bytes IS NULL THEN
        IF (SELECT count(*) FROM records WHERE user_name = p_user AND kind = p_kind) >= p_max THEN
            RETURN false;
        END IF;
        INSERT INTO records (user_name, kind, key, value, created_ms, updated_ms) VALUES (p_user, p_kind, p_key, p_value, p_at, p_at);
    ELSE
        UPDATE records SET value = p_value, updated_ms = p_at WHERE user_name = p_user AND kind = p_kind AND key = p_key;
    END IF;
    PERFORM baton_add_stored(p_user, p_writer, octet_length(p_value) - coalesce(old_bytes, 0));
    RETURN true;
END $$;

CREATE FUNCTION baton_drop_record(p_user text, p_kind text, p_key text, p_writer bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    old_bytes bigint;
BEGIN
    DELETE FROM records WHERE user_name = p_user AND kind = p_kind AND key = p_key RETURNING octet_length(value) INTO old_bytes;
    IF old_bytes IS NULL THEN
        RETURN false;
    END IF;
    PERFORM baton_add_stored(p_user, p_writer, -old_bytes);
    RETURN true;
END $$;

-- Forgets writers and owners that were not seen for a day, and keeps the sums of those writers.
CREATE FUNCTION baton_tidy() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    gone bigint[];
BEGIN
    WITH deleted AS (DELETE FROM writers WHERE id IN (SELECT id FROM writers WHERE seen_at < now() - interval '1 day' FOR UPDATE SKIP LOCKED) RETURNING id)
    SELECT array_agg(id) INTO gone FROM deleted;
    WITH moved AS (DELETE FROM stored WHERE writer = ANY (gone) RETURNING user_name, bytes)
    INSERT INTO stored (user_name, writer, bytes) SELECT user_name, 0, sum(bytes) FROM moved GROUP BY user_name ORDER BY user_name
    ON CONFLICT (user_name, writer) DO UPDATE SET bytes = stored.bytes + excluded.bytes;
    DELETE FROM owners WHERE seen_at < now() - interval '1 day';
END $$;

-- Marks a transaction of a writer. Numbers only grow, so a transaction that arrives after its writer gave it up is refused.
CREATE FUNCTION baton_begin_group(p_writer bigint, p_number bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO writers (id, group_number) VALUES (p_writer, p_number)
    ON CONFLICT (id) DO UPDATE SET group_number = excluded.group_number, seen_at = now() WHERE writers.group_number < excluded.group_number;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'group % of writer % was given up', p_number, p_writer;
    END IF;
END $$;

-- The number of the last transaction of a writer that was committed. Waits for one that is still running, and refuses all before p_number.
CREATE FUNCTION baton_last_group(p_writer bigint, p_number bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    last bigint;
BEGIN
    SELECT group_number INTO last FROM writers WHERE id = p_writer FOR UPDATE;
    PERFORM baton_begin_group(p_writer, p_number);
    RETURN coalesce(last, 0);
END $$;
