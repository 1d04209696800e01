-- Small values that servers share: states of mails, switched-on MCP servers.
CREATE TABLE shared_values (
    space text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    -- Who wrote it: one name for each write, so that a write whose reply was lost is recognised.
    writer text COLLATE "C" NOT NULL,
    updated_ms bigint NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (space, name)
);
CREATE SEQUENCE value_versions;

-- Null where the version to be replaced is not the last one.
CREATE FUNCTION baton_put_value(p_space text, p_name text, p_version bigint, p_writer text, p_bytes bytea, p_at bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v shared_values;
    new_version bigint;
BEGIN
    SELECT * INTO v FROM shared_values AS x WHERE x.space = p_space AND x.name = p_name FOR UPDATE;
    IF v.writer = p_writer THEN
        RETURN v.version;
    END IF;
    IF coalesce(v.version, 0) <> p_version THEN
        RETURN NULL;
    END IF;
    IF v.version IS NULL THEN
        -- Another server may have been quicker.
        INSERT INTO shared_values (space, name, version, writer, updated_ms, bytes)
        VALUES (p_space, p_name, nextval('value_versions'), p_writer, p_at, p_bytes) ON CONFLICT DO NOTHING RETURNING version INTO new_version;
    ELSE
        UPDATE shared_values AS x SET version = nextval('value_versions'), writer = p_writer, updated_ms = p_at, bytes = p_bytes
        WHERE x.space = p_space AND x.name = p_name RETURNING x.version INTO new_version;
    END IF;
    RETURN new_version;
END $$;
