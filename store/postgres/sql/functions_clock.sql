-- The book's one clock, in microseconds since 1970. Everything that asks for
-- the time asks this.
CREATE OR REPLACE FUNCTION daybook.clock() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;
