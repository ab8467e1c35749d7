-- The central manager's register of hosts. Names are in lower case; a key is the SHA-256 of its public half.

-- Whose a name is: no other key gets a certificate for it.
CREATE TABLE names (
    name TEXT PRIMARY KEY,
    key  TEXT NOT NULL
) STRICT;

-- What was signed and can still be shown to somebody.
CREATE TABLE certificates (
    serial     TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    duties     TEXT NOT NULL,
    key        TEXT NOT NULL,
    made_at    REAL NOT NULL,
    ends_at    REAL NOT NULL,
    revoked_at REAL
) STRICT;
CREATE INDEX certificates_of_name ON certificates (name);

-- The hosts that have used a join word: each counts once, however often it asks.
CREATE TABLE uses (
    word    TEXT NOT NULL,
    name    TEXT NOT NULL,
    key     TEXT NOT NULL,
    ends_at REAL NOT NULL,
    PRIMARY KEY (word, name)
) STRICT;

-- Keys of hosts that were revoked, which are never certified again.
CREATE TABLE revoked_keys (
    key TEXT PRIMARY KEY
) STRICT;

-- The number of the newest revocation list.
CREATE TABLE revision (number INTEGER NOT NULL) STRICT;
INSERT INTO revision VALUES (0);
