-- Files that users uploaded. Every server keeps a copy on its disk and compares versions.
CREATE TABLE files (
    user_name text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    updated_ms bigint NOT NULL,
    size bigint NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (user_name, name)
);
-- Documents are compressed already, or small.
ALTER TABLE files ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- One row, locked by every change, so that versions become visible in their order.
CREATE TABLE files_version (version bigint NOT NULL);
INSERT INTO files_version VALUES (1);

CREATE FUNCTION baton_put_file(p_user text, p_name text, p_bytes bytea, p_at bigint, p_files_max bigint, p_bytes_max bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    new_version bigint;
    others bigint;
    total bigint;
BEGIN
    UPDATE files_version SET version = version + 1 RETURNING version INTO new_version;
    SELECT count(*), coalesce(sum(size), 0) INTO others, total FROM files WHERE user_name = p_user AND name <> p_name;
    IF others >= p_files_max OR total + octet_length(p_bytes) > p_bytes_max THEN
        RETURN NULL;
    END IF;
    INSERT INTO files (user_name, name, version, updated_ms, size, bytes)
    VALUES (p_user, p_name, new_version, p_at, octet_length(p_bytes), p_bytes)
    ON CONFLICT (user_name, name) DO UPDATE SET version = excluded.version, updated_ms = excluded.updated_ms, size = excluded.size, bytes = excluded.bytes;
    RETURN new_version;
END $$;

CREATE FUNCTION baton_remove_file(p_user text, p_name text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE files_version SET version = version + 1;
    DELETE FROM files WHERE user_name = p_user AND name = p_name;
    RETURN FOUND;
END $$;
