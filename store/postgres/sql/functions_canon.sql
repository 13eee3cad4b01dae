-- The canonical form of a JSON document and the fingerprint of a request, byte
-- for byte as Canonical and FingerprintOf of package daybook make them, so that
-- a request key used from SQL and from Go is the same request. The type json
-- keeps a document's own text, so nothing is lost before it comes here: jsonb
-- would round numbers, expand exponents and drop a key's first value. Strings with
-- a backslash are E'', which means the same whatever a session has set.

-- What tells two requests apart: queue, kind and args, versioned.
CREATE OR REPLACE FUNCTION daybook.fingerprint(queue text, kind text, args json) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    nul CONSTANT bytea := decode('00', 'hex');
BEGIN
    RETURN sha256(convert_to('daybook-fingerprint-1', 'UTF8') || nul || convert_to(queue, 'UTF8') || nul
        || convert_to(kind, 'UTF8') || nul || convert_to(daybook.canonical('args', args), 'UTF8'));
END $$;

-- Keys sorted by their bytes, strings unescaped, numbers as exact decimals. What
-- some database or reader would change or choke on is refused (OB004).
CREATE OR REPLACE FUNCTION daybook.canonical(field text, doc json) RETURNS text LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    r record := daybook.read_json(doc);
BEGIN
    IF r.wrong IS NOT NULL THEN
        RAISE EXCEPTION '%: %', field, r.wrong USING ERRCODE = 'OB004';
    END IF;
    RETURN r.form;
END $$;

-- Makes the canonical form of a document, or says what is wrong with it, and
-- where: a key twice in one object, \u0000, a lone surrogate, nesting past the
-- limit.
--
-- One pass over the tokens. The finished items of all open containers lie one
-- above the other in items and keys; closing a container joins those above
-- starts[depth] into one item. A call per container would run into the stack's
-- limit. The long arrays are touched element by element and never handed on:
-- that alone costs no copy.
CREATE OR REPLACE FUNCTION daybook.read_json(doc json, OUT form text, OUT wrong text) LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    most CONSTANT int := 512; -- ArgsDepthMax
    token  text;
    item   text;
    depth  int := 0;
    kinds  text[] := '{}';    -- by depth: { or [
    names  text[] := '{}';    -- by depth: the key whose value comes next
    starts int[] := '{}';     -- by depth: how many items there were before it
    keys   text[] := '{}';
    items  text[] := '{}';
    top    int := 0;
    own_keys  text[];         -- of the container that ends
    own_items text[];
BEGIN
    FOR token IN SELECT m[1] FROM regexp_matches(doc::text COLLATE "C", daybook.json_token(), 'g') m LOOP
        IF token IN ('{', '[') THEN
            IF depth = most THEN
                wrong := 'nests deeper than ' || most;
                EXIT;
            END IF;
            depth := depth + 1;
            kinds[depth] := token;
            names[depth] := NULL;
            starts[depth] := top;
            CONTINUE;
        ELSIF token IN ('}', ']') THEN
            own_keys := '{}';
            own_items := '{}';
            FOR i IN starts[depth] + 1 .. top LOOP
                own_keys[i - starts[depth]] := keys[i];
                own_items[i - starts[depth]] := items[i];
            END LOOP;
            item := daybook.json_joined(token, own_keys, own_items);
            IF item IS NULL THEN
                names[depth] := daybook.key_twice(own_keys);
                wrong := 'has this key twice';
                EXIT;
            END IF;
            top := starts[depth];
            depth := depth - 1;
        ELSIF left(token, 1) = '"' THEN
            wrong := daybook.wrong_escape(token);
            EXIT WHEN wrong IS NOT NULL;
            item := daybook.unescaped(token);
            IF depth > 0 AND kinds[depth] = '{' AND names[depth] IS NULL THEN
                names[depth] := item;
                CONTINUE;
            END IF;
            item := daybook.canonical_text(item);
        ELSIF token IN ('true', 'false', 'null') THEN
            item := token;
        ELSE
            item := daybook.canonical_number(token);
        END IF;
        top := top + 1;
        items[top] := item;
        IF depth > 0 THEN
            keys[top] := names[depth];
            names[depth] := NULL;
        END IF;
    END LOOP;
    wrong := daybook.json_place(depth, kinds, names, starts, top) || wrong;
    form := items[1];
END $$;

-- A token of a valid document, commas, colons and spaces apart.
CREATE OR REPLACE FUNCTION daybook.json_token() RETURNS text LANGUAGE sql IMMUTABLE
AS $$ SELECT E'"(?:[^"\\\\]|\\\\.)*"|[][{}]|[^][{}:,"[:space:]]+'::text $$;

-- Joins the items of a container that ends, those of an object in the order of
-- their keys. NULL says that it has a key twice.
CREATE OR REPLACE FUNCTION daybook.json_joined(ending text, keys text[], items text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF ending = ']' THEN
        RETURN '[' || array_to_string(items, ',') || ']';
    ELSIF cardinality(keys) = 0 THEN
        RETURN '{}';
    END IF;
    RETURN (SELECT CASE WHEN count(DISTINCT m.key COLLATE "C") = count(*) THEN
            '{' || string_agg(daybook.canonical_text(m.key) || ':' || m.item, ',' ORDER BY m.key COLLATE "C") || '}' END
        FROM unnest(keys, items) m(key, item));
END $$;

-- The first key that an object has a second time.
CREATE OR REPLACE FUNCTION daybook.key_twice(keys text[]) RETURNS text LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    RETURN (SELECT k.key FROM (SELECT m.key, m.n, row_number() OVER (PARTITION BY m.key COLLATE "C" ORDER BY m.n) AS nth
            FROM unnest(keys) WITH ORDINALITY m(key, n)) k
        WHERE k.nth = 2 ORDER BY k.n LIMIT 1);
END $$;

-- Where the reader stands, as Go's reader says it: a quoted JSON pointer
-- (RFC 6901) of bounded length, since its keys are input.
CREATE OR REPLACE FUNCTION daybook.json_place(depth int, kinds text[], names text[], starts int[], top int) RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    most CONSTANT int := 256; -- pointerMax
    place text := '';
    step  text;
BEGIN
    IF depth = 0 THEN
        RETURN '';
    END IF;
    FOR d IN 1..depth LOOP
        EXIT WHEN octet_length(place) > most;
        step := CASE WHEN kinds[d] = '{' THEN coalesce(names[d], '')
            ELSE (CASE WHEN d = depth THEN top ELSE starts[d + 1] END - starts[d])::text END;
        place := place || '/' || replace(replace(daybook.first_bytes(step, most), '~', '~0'), '/', '~1');
    END LOOP;
    RETURN 'at ' || daybook.quoted(daybook.first_bytes(place, most))
        || CASE WHEN octet_length(place) > most THEN '…: ' ELSE ': ' END;
END $$;

-- Why a string with these escapes can't be kept, or NULL. An escaped backslash
-- begins no other escape, and a pair of surrogates is one character.
CREATE OR REPLACE FUNCTION daybook.wrong_escape(token text) RETURNS text LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    wrong text;
BEGIN
    IF strpos(token, E'\\u') = 0 THEN
        RETURN NULL;
    END IF;
    wrong := lower(substring(regexp_replace(replace(token, E'\\\\', '__') COLLATE "C",
        E'\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}', '_', 'g')
        FROM E'\\\\u(?:0000|[dD][89a-fA-F])'));
    RETURN CASE WHEN wrong = E'\\u0000' THEN E'has \\u0000, which databases can''t store as text'
        WHEN wrong IS NOT NULL THEN 'has a lone surrogate, which is no character' END;
END $$;

CREATE OR REPLACE FUNCTION daybook.unescaped(token text) RETURNS text LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE WHEN strpos($1, E'\\') = 0 THEN substr($1, 2, length($1) - 2) ELSE $1::json #>> '{}' END $$;

-- A number as sign, digits without zeros at either end, and the exponent that
-- places the last digit. The exponent is never expanded.
CREATE OR REPLACE FUNCTION daybook.canonical_number(token text) RETURNS text LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    sign     text := CASE WHEN left(token, 1) = '-' THEN '-' ELSE '' END;
    mantissa text := split_part(lower(ltrim(token, '-')), 'e', 1);
    exponent text := split_part(lower(token), 'e', 2);
    fraction text := split_part(mantissa, '.', 2);
    digits   text := ltrim(split_part(mantissa, '.', 1) || fraction, '0');
    kept     text := rtrim(digits, '0');
    shift    int := length(digits) - length(kept) - length(fraction);
BEGIN
    IF kept = '' THEN
        RETURN '0';
    END IF;
    RETURN sign || kept || 'e' || CASE WHEN exponent = '' THEN shift::text
        ELSE daybook.add_decimal(exponent, shift) END;
END $$;

-- Adds n, which is far below 10^15 either way, to a decimal integer of any
-- length: all but its last digits stay as they are, unless the sum carries.
CREATE OR REPLACE FUNCTION daybook.add_decimal(e text, n bigint) RETURNS text LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    few    CONSTANT int := 15;
    wrap   CONSTANT bigint := 1000000000000000;
    sign   text := CASE WHEN left(e, 1) = '-' THEN '-' ELSE '' END;
    digits text := ltrim(e, '+-0');
    head   text;
    low    bigint;
BEGIN
    IF length(digits) <= few THEN
        RETURN ((sign || '0' || digits)::bigint + n)::text;
    END IF;
    head := left(digits, -few);
    low := right(digits, few)::bigint + CASE WHEN sign = '-' THEN -n ELSE n END;
    IF low >= wrap THEN
        head := daybook.carried(head, '9', '0', 1);
    ELSIF low < 0 THEN
        head := daybook.carried(head, '0', '9', -1);
    END IF;
    RETURN sign || ltrim(head || lpad(((low + wrap) % wrap)::text, few, '0'), '0');
END $$;

-- Adds 1 or -1 to decimal digits: trailing ones that wrap turn into their other
-- end, and the first that doesn't moves by one.
CREATE OR REPLACE FUNCTION daybook.carried(digits text, wraps text, becomes text, by int) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE WHEN d.kept = '' THEN '1' ELSE left(d.kept, -1) || (right(d.kept, 1)::int + $4)::text END
    || repeat($3, length($1) - length(d.kept)) FROM (SELECT rtrim($1, $2) AS kept) d $$;

-- A string in the canonical form: as it is, but that its end can be told.
CREATE OR REPLACE FUNCTION daybook.canonical_text(s text) RETURNS text LANGUAGE sql IMMUTABLE
AS $$ SELECT '"' || replace(replace($1, E'\\', E'\\\\'), '"', E'\\"') || '"' $$;

-- A string for a message, as Go's strconv.QuoteToASCII writes it.
CREATE OR REPLACE FUNCTION daybook.quoted_slowly(s text) RETURNS text LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    RETURN (SELECT '"' || string_agg(CASE
            WHEN c.c IN ('"', E'\\') THEN E'\\' || c.c
            WHEN ascii(c.c) BETWEEN 7 AND 13 THEN E'\\' || substr('abtnvfr', ascii(c.c) - 6, 1)
            WHEN ascii(c.c) < 32 OR ascii(c.c) = 127 THEN E'\\x' || lpad(to_hex(ascii(c.c)), 2, '0')
            WHEN ascii(c.c) < 127 THEN c.c
            WHEN ascii(c.c) < 65536 THEN E'\\u' || lpad(to_hex(ascii(c.c)), 4, '0')
            ELSE E'\\U' || lpad(to_hex(ascii(c.c)), 8, '0') END, '' ORDER BY c.n) || '"'
        FROM string_to_table(s, NULL) WITH ORDINALITY c(c, n));
END $$;

-- Most strings are plain.
CREATE OR REPLACE FUNCTION daybook.quoted(s text) RETURNS text LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE WHEN $1 COLLATE "C" ~ '[^] !#-[^-~]' THEN daybook.quoted_slowly($1) ELSE '"' || $1 || '"' END $$;
