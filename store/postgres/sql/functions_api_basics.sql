-- What the functions for other languages have in common: times, names, checks of
-- input. Every error is one line that names what, which and what to do, and
-- never repeats a value of args. SQLSTATEs: OB001 fenced, OB002 key conflict,
-- OB003 refused, OB004 invalid.

-- A time from outside as the tables keep it, exactly.
CREATE OR REPLACE FUNCTION daybook.time_of(field text, given timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE
AS $$
DECLARE
    micros numeric := extract(epoch FROM given) * 1000000;
BEGIN
    IF micros < 1000000 OR micros > 253402300799999999 THEN -- TimeMax
        RAISE EXCEPTION '%: wants a time after 1970 and up to year 9999, got year %', field,
            extract(year FROM given AT TIME ZONE 'UTC') USING ERRCODE = 'OB004';
    END IF;
    RETURN micros;
END $$;

-- The instant of a number that a table keeps, exactly; no session's time zone
-- comes into it.
CREATE OR REPLACE FUNCTION daybook.instant(at bigint) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT timestamptz 'epoch' + $1 / 1000000 * interval '1 second' + $1 % 1000000 * interval '1 microsecond' $$;

-- The instant as text: RFC 3339 in UTC.
CREATE OR REPLACE FUNCTION daybook.stamp(at bigint) RETURNS text LANGUAGE sql STABLE
AS $$ SELECT to_char(daybook.instant($1) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;

-- A length of time in microseconds, between two bounds. A day has 24 hours in
-- it and a month 30 days, whatever the calendar of the session says.
CREATE OR REPLACE FUNCTION daybook.length_of(field text, given interval, low bigint, high bigint, limits text)
    RETURNS bigint LANGUAGE plpgsql STABLE
AS $$
DECLARE
    micros numeric := extract(epoch FROM given) * 1000000;
BEGIN
    IF micros < low OR micros > high THEN
        RAISE EXCEPTION '%: wants %, got %', field, limits, given USING ERRCODE = 'OB004';
    END IF;
    RETURN micros;
END $$;

-- A delay from now, or NULL.
CREATE OR REPLACE FUNCTION daybook.delay_of(field text, given interval) RETURNS bigint LANGUAGE sql STABLE
AS $$ SELECT daybook.length_of($1, $2, 0, 3153600000000000, '0 seconds to 36500 days') $$;

-- Text from outside, as an error may show it: escaped, and cut with a mark.
CREATE OR REPLACE FUNCTION daybook.shown(s text) RETURNS text LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    most CONSTANT int := 64;
BEGIN
    RETURN daybook.quoted(daybook.first_bytes(s, most))
        || CASE WHEN octet_length(s) > most THEN '… (' || octet_length(s) || ' bytes)' ELSE '' END;
END $$;

-- The beginning of a text, of at most so many bytes, cut between characters.
CREATE OR REPLACE FUNCTION daybook.first_bytes(s text, most int) RETURNS text LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    bytes bytea;
    size  int := most;
BEGIN
    IF octet_length(s) <= most THEN
        RETURN s;
    END IF;
    bytes := convert_to(s, 'UTF8');
    WHILE size > 0 AND get_byte(bytes, size) & 192 = 128 LOOP
        size := size - 1;
    END LOOP;
    RETURN convert_from(substring(bytes FROM 1 FOR size), 'UTF8');
END $$;

-- Bounds what an owner said, in bytes, as the domain's cleanText does: past the
-- bound it is cut on a character and marked.
CREATE OR REPLACE FUNCTION daybook.bounded(s text, most int, OUT said text, OUT cut boolean) LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    mark  CONSTANT text := '… (cut)';
    bytes bytea;
    size  int := most - octet_length(mark);
BEGIN
    said := s;
    cut := octet_length(s) > most;
    IF NOT cut THEN
        RETURN;
    END IF;
    bytes := substring(convert_to(s, 'UTF8') FROM 1 FOR size);
    WHILE size > 0 AND get_byte(bytes, size - 1) & 192 = 128 LOOP
        size := size - 1;
    END LOOP;
    IF size > 0 AND get_byte(bytes, size - 1) >= 128 THEN
        size := size - 1;
    END IF;
    said := convert_from(substring(bytes FROM 1 FOR size), 'UTF8') || mark;
END $$;

-- Holds queue, kind and the like to 1–128 of letters, digits and . _ - :
CREATE OR REPLACE FUNCTION daybook.check_name(field text, name text) RETURNS void LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    most CONSTANT int := 128; -- NameMax
BEGIN
    IF coalesce(name, '') = '' THEN
        RAISE EXCEPTION '%: is missing; wants 1–% of letters, digits, . _ - :', field, most USING ERRCODE = 'OB004';
    ELSIF octet_length(name) > most THEN
        RAISE EXCEPTION '%: at most % bytes, got %', field, most, octet_length(name) USING ERRCODE = 'OB004';
    ELSIF name COLLATE "C" ~ '[^A-Za-z0-9._:-]' THEN
        RAISE EXCEPTION '%: wants letters, digits, . _ - : only, got %', field, daybook.shown(name)
            USING ERRCODE = 'OB004';
    END IF;
END $$;

-- Holds other text to so many bytes, without what would forge a log line.
CREATE OR REPLACE FUNCTION daybook.check_text(field text, s text, most int) RETURNS void LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    place int := regexp_instr(s COLLATE "C", '[[:cntrl:]]');
BEGIN
    IF octet_length(s) > most THEN
        RAISE EXCEPTION '%: at most % bytes, got %', field, most, octet_length(s) USING ERRCODE = 'OB004';
    ELSIF place > 0 THEN
        RAISE EXCEPTION '%: has a control character at byte %', field, octet_length(left(s, place - 1))
            USING ERRCODE = 'OB004';
    END IF;
END $$;

-- A new id, version 7 as RFC 9562 has it, so that new rows lie beside each other.
CREATE OR REPLACE FUNCTION daybook.new_id() RETURNS uuid LANGUAGE sql VOLATILE
AS $$ SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
    || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid $$;
