-- Tool calls that a user allowed for good: in one thread, for one tool, or for all tools of a server. A number is never used twice, so that a
-- late revocation cannot hit another permission.
CREATE TABLE permissions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user TEXT NOT NULL,
    -- 'conversation', 'tool' or 'server'
    scope TEXT NOT NULL,
    -- `server.tool`, or the server.
    name TEXT NOT NULL,
    -- Only of a conversation: the permission is deleted with the thread.
    thread INTEGER,
    created_ms INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX permissions_once ON permissions (user, scope, name, coalesce(thread, 0));
CREATE INDEX permissions_by_thread ON permissions (thread);
