-- What is made of uploaded files, so that one server makes it and the others take it: passages, and their vectors.
-- Reads all files once, which may take longer than a statement may otherwise.
SET LOCAL statement_timeout = 0;
ALTER TABLE files ADD COLUMN hash bytea GENERATED ALWAYS AS (sha256(bytes)) STORED;
CREATE INDEX files_by_hash ON files (hash);

CREATE TABLE file_passages (
    hash bytea NOT NULL,
    -- The file's name and the way it was read.
    content text COLLATE "C" NOT NULL,
    -- Null while a server reads it.
    passages bytea,
    -- Of the vectors that they need.
    keys bytea[] NOT NULL DEFAULT '{}',
    claimed_by text COLLATE "C",
    claimed_until timestamptz,
    PRIMARY KEY (hash, content)
);
CREATE INDEX file_passages_by_key ON file_passages USING gin (keys);

CREATE TABLE passage_vectors (
    model text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    -- Null while a server computes it.
    vector bytea,
    claimed_by text COLLATE "C",
    claimed_until timestamptz,
    PRIMARY KEY (key, model)
);

-- What was made of a file goes with the last file of that content.
CREATE FUNCTION baton_forget_file() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM file_passages AS p WHERE p.hash = OLD.hash AND NOT EXISTS (SELECT 1 FROM files AS f WHERE f.hash = OLD.hash);
    RETURN NULL;
END $$;
CREATE TRIGGER files_forgotten AFTER DELETE OR UPDATE ON files FOR EACH ROW EXECUTE FUNCTION baton_forget_file();

CREATE FUNCTION baton_forget_passages() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM passage_vectors AS v WHERE v.key = ANY (OLD.keys) AND NOT EXISTS (SELECT 1 FROM file_passages AS p WHERE p.keys @> ARRAY[v.key]);
    RETURN NULL;
END $$;
CREATE TRIGGER passages_forgotten AFTER DELETE ON file_passages FOR EACH ROW EXECUTE FUNCTION baton_forget_passages();

-- state: known, ours, elsewhere, or unshared where no such file was uploaded.
CREATE FUNCTION baton_take_passages(p_hash bytea, p_content text, p_server text, p_claim_s bigint, OUT state text, OUT known bytea) LANGUAGE plpgsql AS $$
DECLARE
    p file_passages;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM files AS f WHERE f.hash = p_hash) THEN
        state := 'unshared';
        RETURN;
    END IF;
    INSERT INTO file_passages AS x (hash, content, claimed_by, claimed_until)
    VALUES (p_hash, p_content, p_server, clock_timestamp() + p_claim_s * interval '1 second')
    ON CONFLICT (hash, content) DO UPDATE SET claimed_by = excluded.claimed_by, claimed_until = excluded.claimed_until
        WHERE x.passages IS NULL AND (x.claimed_until < clock_timestamp() OR x.claimed_by = excluded.claimed_by);
    SELECT * INTO p FROM file_passages AS x WHERE x.hash = p_hash AND x.content = p_content;
    known := p.passages;
    state := CASE WHEN p.passages IS NOT NULL THEN 'known' WHEN p.claimed_by = p_server THEN 'ours' ELSE 'elsewhere' END;
END $$;

-- Of a file that was deleted meanwhile nothing is kept.
CREATE FUNCTION baton_keep_passages(p_hash bytea, p_content text, p_passages bytea, p_keys bytea[]) RETURNS void LANGUAGE sql AS $$
    UPDATE file_passages AS x SET passages = p_passages, keys = p_keys, claimed_by = NULL, claimed_until = NULL
    WHERE x.hash = p_hash AND x.content = p_content AND x.passages IS NULL AND EXISTS (SELECT 1 FROM files AS f WHERE f.hash = p_hash)
$$;

CREATE FUNCTION baton_take_vectors(p_model text, p_keys bytea[], p_server text, p_claim_s bigint)
RETURNS TABLE (taken bytea, state text, known bytea) LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz := clock_timestamp() + p_claim_s * interval '1 second';
BEGIN
    -- In one order, so that two servers do not wait for one another.
    INSERT INTO passage_vectors AS x (model, key, claimed_by, claimed_until)
    SELECT DISTINCT p_model, k.key, p_server, until FROM unnest(p_keys) AS k (key)
    WHERE EXISTS (SELECT 1 FROM file_passages AS p WHERE p.keys @> ARRAY[k.key]) ORDER BY k.key
    ON CONFLICT (key, model) DO UPDATE SET claimed_by = excluded.claimed_by, claimed_until = excluded.claimed_until
        WHERE x.vector IS NULL AND (x.claimed_until < clock_timestamp() OR x.claimed_by = excluded.claimed_by);
    RETURN QUERY SELECT x.key, CASE WHEN x.vector IS NOT NULL THEN 'known' WHEN x.claimed_by = p_server THEN 'ours' ELSE 'elsewhere' END, x.vector
        FROM passage_vectors AS x WHERE x.model = p_model AND x.key = ANY (p_keys);
END $$;

CREATE FUNCTION baton_keep_vectors(p_model text, p_keys bytea[], p_vectors bytea[]) RETURNS void LANGUAGE sql AS $$
    UPDATE passage_vectors AS x SET vector = v.vector, claimed_by = NULL, claimed_until = NULL
    FROM (SELECT * FROM unnest(p_keys, p_vectors) AS u (key, vector)) AS v WHERE x.model = p_model AND x.key = v.key AND x.vector IS NULL
$$;
