-- The materialised state of one node, as release 0.1 had it (PRAGMA user_version 1). What came later
-- stands in schema_2.sql and so on: a new store runs them all, an older one those that it lacks.
--
-- A `record` is framed: 4-byte LE length | CRC32C | protobuf. It is what is loaded; the columns
-- beside it exist to be searched. Rows of a run are keyed by run_no << 24 | number, so that they lie
-- side by side and a key is one integer. Runs are numbered in the order in which the log opened
-- them: newest first is descending run_no, and every index ends with it (it is the rowid).

CREATE TABLE applied (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    log_index INTEGER NOT NULL,
    log_term INTEGER NOT NULL,
    time_ms INTEGER NOT NULL,
    digest BLOB NOT NULL,
    next_run_no INTEGER NOT NULL
);
INSERT INTO applied VALUES (1, 0, 0, 0, zeroblob(16), 1);

-- `phase` is the status with RUNNING (1) told as WAITING (2): a run goes back and forth between the
-- two with every task it hands out, and only the small index of running runs follows that.
CREATE TABLE runs (
    run_no INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    workflow_type TEXT NOT NULL,
    task_queue TEXT NOT NULL,
    status INTEGER NOT NULL,
    phase INTEGER NOT NULL,
    started_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    closed_ms INTEGER NOT NULL,
    history_length INTEGER NOT NULL,
    decision_state INTEGER NOT NULL,
    record BLOB NOT NULL
);
CREATE INDEX runs_by_namespace ON runs (namespace);
CREATE INDEX runs_by_workflow ON runs (namespace, workflow_id);
CREATE INDEX runs_by_run_id ON runs (run_id);
CREATE INDEX runs_running ON runs (namespace, workflow_type) WHERE status = 1;
CREATE INDEX runs_by_phase ON runs (namespace, phase);
CREATE INDEX runs_by_type_phase ON runs (namespace, workflow_type, phase);
CREATE INDEX runs_by_type ON runs (namespace, workflow_type);
CREATE INDEX runs_by_queue ON runs (namespace, task_queue);
CREATE INDEX runs_open_decisions ON runs (decision_state) WHERE decision_state IN (1, 2);

-- Substrings of id and type, without regard to case.
CREATE VIRTUAL TABLE runs_text USING fts5 (
    workflow_id, workflow_type,
    content = 'runs', content_rowid = 'run_no', tokenize = 'trigram'
);

-- Counted here, in the transaction that changes a row, so that no count scans the runs.
CREATE TABLE counters (
    namespace TEXT NOT NULL,
    phase INTEGER NOT NULL,
    workflow_type TEXT NOT NULL,
    runs INTEGER NOT NULL,
    PRIMARY KEY (namespace, phase, workflow_type)
) WITHOUT ROWID;

CREATE TRIGGER runs_opened AFTER INSERT ON runs BEGIN
    INSERT INTO runs_text (rowid, workflow_id, workflow_type)
        VALUES (new.run_no, new.workflow_id, new.workflow_type);
    INSERT INTO counters VALUES (new.namespace, new.phase, new.workflow_type, 1)
        ON CONFLICT DO UPDATE SET runs = runs + 1;
END;
CREATE TRIGGER runs_moved AFTER UPDATE OF phase ON runs WHEN new.phase <> old.phase BEGIN
    UPDATE counters SET runs = runs - 1
        WHERE namespace = old.namespace AND phase = old.phase
          AND workflow_type = old.workflow_type;
    INSERT INTO counters VALUES (new.namespace, new.phase, new.workflow_type, 1)
        ON CONFLICT DO UPDATE SET runs = runs + 1;
END;

CREATE TABLE events (
    event_no INTEGER PRIMARY KEY,
    record BLOB NOT NULL
);

CREATE TABLE steps (
    step_no INTEGER PRIMARY KEY,
    task_state INTEGER NOT NULL,
    record BLOB NOT NULL
);
CREATE INDEX steps_open_tasks ON steps (task_state) WHERE task_state IN (1, 2);

CREATE TABLE signals (
    signal_no INTEGER PRIMARY KEY,
    taken INTEGER NOT NULL,
    record BLOB NOT NULL
);

CREATE TABLE timers (
    run_no INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    fire_at_ms INTEGER NOT NULL,
    PRIMARY KEY (run_no, kind, sequence)
) WITHOUT ROWID;
CREATE INDEX timers_by_time ON timers (fire_at_ms, run_no, kind, sequence);

CREATE TABLE namespaces (
    name TEXT PRIMARY KEY,
    record BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE types (
    namespace TEXT NOT NULL,
    workflow_type TEXT NOT NULL,
    PRIMARY KEY (namespace, workflow_type)
) WITHOUT ROWID;

-- Request ids that are remembered.
CREATE TABLE requests (
    namespace TEXT NOT NULL,
    request_id TEXT NOT NULL,
    expires_ms INTEGER NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (namespace, request_id)
) WITHOUT ROWID;
CREATE INDEX requests_by_expiry ON requests (expires_ms, namespace, request_id);
