-- What the tool and its server were when the user agreed, as JSON (`graph::ToolDefinition`). NULL for permissions from before: they allow nothing, so
-- that the user is asked once more.
ALTER TABLE permissions ADD COLUMN definition TEXT;

-- What a token allows, in a word, for lists. NULL for sessions and for tokens from before.
ALTER TABLE tokens ADD COLUMN scope TEXT;
