-- Clusters whose jobs are made one after another: what they are made of (pool.submit.recipe).
CREATE TABLE factories (
    cluster INTEGER PRIMARY KEY,
    recipe  TEXT NOT NULL
);
