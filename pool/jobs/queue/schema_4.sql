-- No secret is kept: a claim goes by the part of its id that may be shown, and is proven by a digest; so are tickets.
-- Claims from before are asked after by their digests, which a startd that was started again does not know any more;
-- their tickets, which others may have read, are void.
CREATE TABLE claims_by_digest (
    claim        TEXT PRIMARY KEY,
    digest       TEXT NOT NULL,
    startd       TEXT NOT NULL,
    submitter    TEXT NOT NULL,
    owner        TEXT NOT NULL,
    slot_ad      TEXT NOT NULL,
    ticket       TEXT NOT NULL,
    files_ticket TEXT NOT NULL,
    lease_s      REAL NOT NULL,
    alive_s      REAL NOT NULL,
    renewed_at   REAL NOT NULL,  -- wall clock
    cluster      INTEGER,        -- the job that it runs, and its execution's name
    proc         INTEGER,
    activation   TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO claims_by_digest
    SELECT claim_public(claim_id), claim_digest(claim_id), startd, submitter, owner, slot_ad, '', '',
           lease_s, alive_s, renewed_at, cluster, proc, activation
    FROM claims;
DROP TABLE claims;
ALTER TABLE claims_by_digest RENAME TO claims;
