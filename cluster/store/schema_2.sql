-- Release 0.2 (PRAGMA user_version 2): arrivals that wait, messages between runs, search attributes
-- and memos, and closed runs that are deleted.

CREATE TABLE arrivals (
    arrival_no INTEGER PRIMARY KEY,
    record BLOB NOT NULL
);

-- The columns beside the record are what a leader needs to have the message delivered.
CREATE TABLE outbox (
    message_no INTEGER PRIMARY KEY,
    target_workflow_id TEXT NOT NULL,
    target_run_id TEXT NOT NULL,
    starts INTEGER NOT NULL,
    record BLOB NOT NULL
);

-- `value` is the text that a list is asked for; `is_text` tells the string "5" from the number.
CREATE TABLE attributes (
    run_no INTEGER NOT NULL,
    name TEXT NOT NULL,
    namespace TEXT NOT NULL,
    value TEXT NOT NULL,
    is_text INTEGER NOT NULL,
    PRIMARY KEY (run_no, name)
) WITHOUT ROWID;
CREATE INDEX attributes_by_value ON attributes (namespace, name, value, run_no);

-- Beside the runs, whose records may be large: a list shows memos and reads no record.
CREATE TABLE memos (
    run_no INTEGER PRIMARY KEY,
    memo TEXT NOT NULL
);

CREATE INDEX runs_by_closing ON runs (namespace, closed_ms) WHERE closed_ms > 0;

-- Whatever is kept of a run goes with its row.
CREATE TRIGGER runs_deleted AFTER DELETE ON runs BEGIN
    INSERT INTO runs_text (runs_text, rowid, workflow_id, workflow_type)
        VALUES ('delete', old.run_no, old.workflow_id, old.workflow_type);
    UPDATE counters SET runs = runs - 1
        WHERE namespace = old.namespace AND phase = old.phase
          AND workflow_type = old.workflow_type;
    DELETE FROM events
        WHERE event_no BETWEEN old.run_no << 24 AND (old.run_no << 24) + 16777215;
    DELETE FROM steps
        WHERE step_no BETWEEN old.run_no << 24 AND (old.run_no << 24) + 16777215;
    DELETE FROM signals
        WHERE signal_no BETWEEN old.run_no << 24 AND (old.run_no << 24) + 16777215;
    DELETE FROM arrivals
        WHERE arrival_no BETWEEN old.run_no << 24 AND (old.run_no << 24) + 16777215;
    DELETE FROM outbox
        WHERE message_no BETWEEN old.run_no << 24 AND (old.run_no << 24) + 16777215;
    DELETE FROM timers WHERE run_no = old.run_no;
    DELETE FROM attributes WHERE run_no = old.run_no;
    DELETE FROM memos WHERE run_no = old.run_no;
END;
