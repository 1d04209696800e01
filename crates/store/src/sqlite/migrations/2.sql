-- Whose a thread is: whoever wanted its first run. Until now there was one user.
ALTER TABLE threads ADD COLUMN user TEXT;
UPDATE threads SET user = 'local';

-- What runs left for later ones. A number is never used twice, so that a late `forget` cannot hit another note.
CREATE TABLE notes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user TEXT NOT NULL,
    flow TEXT NOT NULL,
    -- Where it was learnt: it goes when that goes.
    thread INTEGER NOT NULL,
    run INTEGER NOT NULL,
    -- Of use in that thread alone.
    is_local INTEGER NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    until_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX notes_by_user ON notes (user, flow);
CREATE INDEX notes_by_thread ON notes (thread);
CREATE INDEX notes_by_end ON notes (until_ms);

CREATE TABLE preferences (
    user TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (user, name)
) STRICT, WITHOUT ROWID;
