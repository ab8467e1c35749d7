-- One owner's finished jobs are found, in the order in which they left, without a look at those of all others.
CREATE INDEX history_by_owner ON history (owner);
