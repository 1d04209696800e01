-- What the tool and its server were when the user agreed, as JSON (`graph::ToolDefinition`). NULL for permissions from before: they allow nothing, so
-- that the user is asked once more.
ALTER TABLE permissions ADD COLUMN definition text;

-- Beside the function of six parameters, which servers of the version before still call.
CREATE FUNCTION baton_keep_permission(p_user text, p_scope text, p_name text, p_thread text, p_created bigint, p_max bigint, p_definition text,
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
    INSERT INTO permissions AS kept (user_name, scope, name, thread, created_ms, definition)
    VALUES (p_user, p_scope, p_name, t_id, p_created, p_definition)
    ON CONFLICT (user_name, scope, name, coalesce(thread, 0)) DO UPDATE SET definition = excluded.definition, created_ms = excluded.created_ms
    WHERE kept.definition IS DISTINCT FROM excluded.definition;
    DELETE FROM permissions WHERE user_name = p_user
        AND id <= (SELECT id FROM permissions WHERE user_name = p_user ORDER BY id DESC LIMIT 1 OFFSET p_max);
    SELECT id INTO number FROM permissions WHERE user_name = p_user AND scope = p_scope AND name = p_name AND thread IS NOT DISTINCT FROM t_id;
END $$;

-- Of `baton_commit` one call changes: the sixth cell of a permission is its definition. The rest of the function is taken over as it is.
DO $$
DECLARE
    old_call text := '(grants->>4)::bigint, (extra->''limits''->>2)::bigint)';
    body text := pg_get_functiondef('baton_commit'::regproc);
BEGIN
    IF position(old_call IN body) = 0 THEN
        RAISE EXCEPTION 'baton_commit is not the function of schema 2';
    END IF;
    EXECUTE replace(body, old_call, '(grants->>4)::bigint, (extra->''limits''->>2)::bigint, grants->>5)');
END $$;

-- What a token allows, in a word, for lists. NULL for sessions and for tokens from before.
ALTER TABLE tokens ADD COLUMN scope text;

-- Beside the function of six parameters, which servers of the version before still call.
CREATE FUNCTION baton_keep_token(p_digest bytea, p_user text, p_made_with bytea, p_created bigint, p_until bigint, p_sessions_max bigint, p_scope text)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    number bigint := baton_keep_token(p_digest, p_user, p_made_with, p_created, p_until, p_sessions_max);
BEGIN
    UPDATE tokens SET scope = p_scope WHERE id = number AND p_scope IS NOT NULL;
    RETURN number;
END $$;
