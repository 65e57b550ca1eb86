-- Release 0.4 (PRAGMA user_version 3): tokens, and the audit log.

CREATE TABLE tokens (
    token_id TEXT PRIMARY KEY,
    record BLOB NOT NULL
) WITHOUT ROWID;

-- Numbered by place in the log, so that newest first is descending audit_no.
CREATE TABLE audit_log (
    audit_no INTEGER PRIMARY KEY,
    time_ms INTEGER NOT NULL,
    record BLOB NOT NULL
);
CREATE INDEX audit_by_time ON audit_log (time_ms);
