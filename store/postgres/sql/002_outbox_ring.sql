-- Version 2. What a relay looks for: rows of the outbox that ask for a ring. On
-- a large table the index is built before this, without holding others up.
CREATE INDEX IF NOT EXISTS outbox_ring ON daybook.outbox (at) WHERE ring;
