-- Pausing a queue answers after every claim that began before it has ended: a
-- claim writes into the table of calls, and holds the lock of who does that until
-- it commits; who pauses takes one that waits for those. A claim has it before it
-- looks at the queue: what a statement sees is fixed after the locks on its tables
-- were had, and one that writes nothing there, or that looks in several statements,
-- asks for the lock first, in a statement of its own.

CREATE OR REPLACE FUNCTION daybook.claims_shared() RETURNS void LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    LOCK TABLE daybook.call IN ROW EXCLUSIVE MODE;
END $$;

CREATE OR REPLACE FUNCTION daybook.claims_exclusive() RETURNS void LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    LOCK TABLE daybook.call IN SHARE MODE;
END $$;
