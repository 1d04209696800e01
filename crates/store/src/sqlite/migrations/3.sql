-- Who may use the server. What lets somebody in is never here itself, only its SHA-256. A session of a page is a token that was
-- made with another one and goes with it.
CREATE TABLE tokens (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    digest BLOB NOT NULL UNIQUE,
    user TEXT NOT NULL,
    -- The digest of the token it was made with.
    made_with BLOB,
    created_ms INTEGER NOT NULL,
    until_ms INTEGER
) STRICT;
CREATE INDEX tokens_by_maker ON tokens (made_with);

-- A user's list of threads is asked for each time a page is opened.
CREATE INDEX threads_by_user ON threads (user, updated_ms, id);
