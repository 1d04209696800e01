-- How much is stored for a user, so that a server can limit it: the bytes of journal lines and messages.
ALTER TABLE threads ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE threads SET bytes = coalesce((SELECT sum(length(journal.bytes)) FROM runs JOIN journal ON journal.run = runs.id WHERE runs.thread = threads.id), 0)
    + coalesce((SELECT sum(octet_length(content)) FROM messages WHERE messages.thread = threads.id), 0);

-- The sum over a user's threads.
CREATE TABLE stored (
    user TEXT PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO stored SELECT user, sum(bytes) FROM threads WHERE user IS NOT NULL GROUP BY user;
