-- JSON documents that protocols keep for a user beside runs and threads: assistants, crons, queued runs, items of a store.
CREATE TABLE records (
    id INTEGER PRIMARY KEY,
    user TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX records_once ON records (user, kind, key);
-- Work that is due is looked for among all users.
CREATE INDEX records_by_kind ON records (kind, key);

-- They count as stored for their user.
CREATE TRIGGER records_added AFTER INSERT ON records BEGIN
    INSERT INTO stored (user, bytes) VALUES (NEW.user, octet_length(NEW.value)) ON CONFLICT (user) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER records_changed AFTER UPDATE ON records BEGIN
    UPDATE stored SET bytes = max(0, bytes + octet_length(NEW.value) - octet_length(OLD.value)) WHERE user = NEW.user;
END;
CREATE TRIGGER records_removed AFTER DELETE ON records BEGIN
    UPDATE stored SET bytes = max(0, bytes - octet_length(OLD.value)) WHERE user = OLD.user;
END;
