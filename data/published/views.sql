-- What the checks of data/published/checks.yaml and the page ask of the published figures again and again.
-- Each file of figures is a table with its rows numbered by `line`; `sources` and `hosts` are those of sources.yaml.
-- `low` to `high` is what a number can have been before it was rounded, and meets(low, high, low, high) says whether
-- the same number can be behind both. Where a query has one min() or max(), its other columns are of that row (SQLite).

-- Tables of one source that repeat another host's table in every number; the later one is the copy.
CREATE VIEW copies AS
SELECT first.source, first.section AS original, copy.section, copy.host, count(*) AS numbers
FROM rqps AS first JOIN rqps AS copy USING (source, build, step)
WHERE first.host <> copy.host AND first.line < copy.line
GROUP BY first.source, first.section, first.host, copy.section, copy.host
HAVING min(first.printed = copy.printed) = 1 AND count(*) > 2;

-- rQPS of the same host, build and step in two tables; all of them are relative to the same build of 8.0.28.
CREATE VIEW printed_twice AS
SELECT one.host, one.build, one.step, one.source, one.section, one.value,
       other.source AS source_2, other.section AS section_2, other.value AS value_2
FROM rqps AS one JOIN rqps AS other USING (host, build, step)
WHERE (one.source, one.section) <> (other.source, other.section);

-- rQPS tables without the summaries, which repeat some of their rows, and without copies of another host's table.
CREATE VIEW whole_tables AS SELECT * FROM rqps
WHERE section NOT LIKE '%(%' AND (source, section) NOT IN (SELECT source, section FROM copies);

-- One row per row of a per-operation table: its costs as columns, all six as one text, and the cores that were busy.
CREATE VIEW costs AS
SELECT min(p.line) AS line, p.source, p.section, p."table", p.host, p.threads, p.step, p.build,
       max(p.value) FILTER (WHERE p.metric = 'cpu/o') AS cpu,
       max(p.value) FILTER (WHERE p.metric = 'cs/o') AS switches,
       max(p.value) FILTER (WHERE p.metric = 'o/s') AS rate,
       max(p.value) FILTER (WHERE p.metric = 'cpu/o') * max(p.value) FILTER (WHERE p.metric = 'o/s') / 100 * h.cores
           AS busy_cores,
       group_concat(p.printed, ' ') AS printed
FROM (SELECT * FROM per_operation WHERE part = 'absolute' ORDER BY source, section, "table", build, metric) AS p
JOIN hosts AS h USING (source, host)
GROUP BY p.source, p.section, p."table", p.host, p.threads, p.step, p.build
ORDER BY min(p.line);

-- Rows of per-operation tables that stand, with all six numbers, under another host in an earlier source.
CREATE VIEW under_another_host AS
SELECT c.line, c.source, c.section, c.host, c.threads, c.step, c.build, earlier.host AS host_2, earlier.source AS source_2
FROM costs AS c
JOIN costs AS earlier ON earlier.step = c.step AND earlier.build = c.build AND earlier.printed = c.printed
JOIN sources AS s ON s.source = c.source
JOIN sources AS before ON before.source = earlier.source
WHERE c.host <> earlier.host AND before.number < s.number;

-- Nanoseconds of one call of the three random-number functions, by host and how the server was compiled.
CREATE VIEW calls AS
SELECT old.host, old.compiled, h.hardware LIKE '%AMD%' AS amd,
       old.value AS old, old.low AS old_low, old.high AS old_high,
       new.value AS new, new.low AS new_low, new.high AS new_high,
       fast.value AS fast, fast.low AS fast_low, fast.high AS fast_high
FROM busy_wait AS old
JOIN busy_wait AS new USING (source, host, compiled)
JOIN busy_wait AS fast ON fast.source = old.source AND fast.host = old.host AND fast.compiled = old.compiled
                      AND fast."table" = new."table"
JOIN hosts AS h ON h.source = old.source AND h.host = old.host
WHERE old.function = 'ut_rnd_interval' AND new.function = 'ut::random_from_interval'
  AND fast.function = 'ut::random_from_interval_fast';

-- Throughput of update-index on dell32 for builds of 8.0.40, relative to 8.0.28 and to 8.0.40 as it was released.
CREATE VIEW workarounds AS
SELECT fixed.build, fixed.value, fixed.printed, upstream.value AS upstream, fixed.value / upstream.value AS gain,
       (fixed.value - upstream.value) / (1 - upstream.value) AS given_back
FROM rqps AS fixed JOIN rqps AS upstream USING (source, host, step)
WHERE source = 'busy-wait-2024' AND step = 'update-index_range=100' AND upstream.build = 'my8040_rel_o2nofp'
  AND fixed.build NOT IN ('my8040_rel_o2nofp', 'my8040_rel');

-- A printed ratio with its two printed inputs: of the lower half of each per-operation table, of the rQPS tables above
-- it, and of the text. A post that prints no such table speaks of the last one printed before it.
CREATE VIEW inputs AS
WITH cost AS (
    SELECT p.*, s.number FROM per_operation AS p JOIN sources AS s USING (source) WHERE part = 'absolute'
), base AS (
    SELECT c.*, c.build = (SELECT build FROM cost AS row WHERE row.source = c.source AND row.section = c.section
                           AND row."table" = c."table" ORDER BY line LIMIT 1) AS is_first FROM cost AS c
)
SELECT 1 AS part, r.line, r.source, r.section || ', ' || r."table" AS place, r.section, r.host, r.step, r.build AS dbms,
       r.metric, r.value, r.half, r.printed,
       me.value AS me, me.low AS me_low, me.high AS me_high, me.printed AS me_printed,
       base.value AS base, base.low AS base_low, base.high AS base_high, base.printed AS base_printed
FROM per_operation AS r
JOIN cost AS me USING (source, section, "table", metric, build)
JOIN base ON (base.source, base.section, base."table", base.metric) = (r.source, r.section, r."table", r.metric)
WHERE r.part = 'relative' AND base.is_first
UNION ALL
SELECT 2, me.line, r.source, r.section || ', rQPS of ' || r.step, r.section, r.host, r.step, r.build,
       'rQPS', r.value, r.half, r.printed, me.value, me.low, me.high, me.printed,
       base.value, base.low, base.high, base.printed
FROM rqps AS r
JOIN cost AS me USING (source, section, step, build)
JOIN base ON (base.source, base.section, base."table", base.metric) = (me.source, me.section, me."table", me.metric)
WHERE me.metric = 'o/s' AND base.is_first
UNION ALL
SELECT 3, r.line, r.source, r.place, '', r.host, r.step, r.dbms,
       r.metric, r.value, r.half, r.printed, me.value, me.low, me.high, me.printed,
       base.value, base.low, base.high, base.printed
FROM prose AS r
JOIN sources AS own USING (source)
JOIN cost AS me ON (me.host, me.step, me.metric, me.build) = (r.host, r.step, r.metric, r.dbms)
JOIN base ON (base.source, base.section, base."table", base.metric, base.build)
           = (me.source, me.section, me."table", me.metric, r.base)
WHERE r.unit = 'ratio' AND me.number = (
    SELECT max(number) FROM cost AS known
    WHERE (known.host, known.step, known.metric) = (r.host, r.step, r.metric) AND known.number <= own.number);

-- Each of them calculated again. It agrees `exactly` where the printed inputs give the printed ratio, `rounded` where
-- inputs that round to the printed ones do, `zeros` where 0 is divided by 0 and 1 is printed, and else `no`.
CREATE VIEW ratios AS
SELECT source, place, section, host, step, dbms, metric, value, printed, me_printed, base_printed, me / base AS found,
       CASE WHEN base = 0 THEN iif(value = 1, 'zeros', 'no')
            WHEN abs(me / base - value) <= half + 1e-9 THEN 'exactly'
            WHEN meets(me_low / base_high, coalesce(me_high / base_low, 9e999), value - half, value + half) THEN 'rounded'
            ELSE 'no' END AS agrees
FROM inputs ORDER BY part, line;
