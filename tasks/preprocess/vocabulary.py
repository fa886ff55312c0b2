"""From codes to token ids: a vocabulary of the training part, rare codes, and the longest sequence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from conf.schema import Tokens

SPECIAL = ("[PAD]", "[CLS]", "[MASK]", "[UNK]")
UNKNOWN = SPECIAL.index("[UNK]")


def build_vocabulary(connection: duckdb.DuckDBPyConnection, tokens: Tokens) -> dict[str, Any]:
    """Make the table ``vocabulary`` (code, id) and return it as ``vocabulary.json`` holds it.

    Decision: codes are counted over all events of the training part alone, after the validation part is cut from it
    and before a sequence is cut to its longest length. Ids go by falling count, then by code; the first four are
    [PAD], [CLS], [MASK] and [UNK].
    """
    codes = connection.execute(
        "SELECT code, count(*) FROM events JOIN stays USING (stay) WHERE part = 'train' GROUP BY code "
        f"HAVING count(*) >= {tokens.min_count} ORDER BY 2 DESC, 1"
    ).fetchall()
    ids = pa.array(range(len(SPECIAL), len(SPECIAL) + len(codes)), pa.int32())
    connection.register("ids", pa.table({"code": pa.array([code for code, _ in codes], pa.string()), "id": ids}))
    connection.execute("CREATE TEMP TABLE vocabulary AS SELECT code, id FROM ids")
    connection.unregister("ids")
    rare = rare_codes(connection)["train"]["occurrences"] if tokens.rare == "unk" else 0
    return {
        "tokens": [*SPECIAL, *(code for code, _ in codes)],
        "counts": [0, 0, 0, rare, *(count for _, count in codes)],
        "special": {name.strip("[]").lower(): place for place, name in enumerate(SPECIAL)},
    }


def rare_codes(connection: duckdb.DuckDBPyConnection) -> dict[str, dict[str, int]]:
    """Return, for each part, how many codes are not in the vocabulary and how often they occur."""
    rows = connection.execute(
        "SELECT part, count(DISTINCT code), count(*) FROM events JOIN stays USING (stay) "
        "WHERE code NOT IN (SELECT code FROM vocabulary) GROUP BY part"
    ).fetchall()
    found = {part: {"codes": codes, "occurrences": occurrences} for part, codes, occurrences in rows}
    return {part: found.get(part, {"codes": 0, "occurrences": 0}) for part in ("train", "validation", "test")}


def tokenize(connection: duckdb.DuckDBPyConnection, tokens: Tokens) -> None:
    """Make the table ``tokens`` (stay, id, time, slot, length): at most ``max_tokens`` known codes of each stay.

    ``length`` is the stay's number of tokens before the cut. Rare codes go before the cut: they take no slot.
    """
    join = "LEFT JOIN" if tokens.rare == "unk" else "JOIN"
    connection.execute(
        f"CREATE TEMP TABLE known AS SELECT stay, coalesce(id, {UNKNOWN}) AS id, time, "
        "row_number() OVER (PARTITION BY stay ORDER BY place) AS slot, count(*) OVER (PARTITION BY stay) AS length "
        f"FROM events {join} vocabulary USING (code) SEMI JOIN stays USING (stay)"
    )
    kept = f"slot > length - {tokens.max_tokens}" if tokens.keep == "last" else f"slot <= {tokens.max_tokens}"
    connection.execute(f"CREATE TEMP TABLE tokens AS SELECT * FROM known WHERE {kept}")
    connection.execute("DROP TABLE known")


def truncation(connection: duckdb.DuckDBPyConnection, tokens: Tokens) -> dict[str, float]:
    """Return how many stays lost tokens to the longest length, their share, and the tokens lost."""
    stays, cut, lost = connection.execute(
        f"SELECT count(*), count(*) FILTER (length > {tokens.max_tokens}), "
        f"coalesce(sum(greatest(length - {tokens.max_tokens}, 0)), 0) "
        "FROM (SELECT stay, max(length) AS length FROM tokens GROUP BY stay)"
    ).fetchall()[0]
    return {"stays": cut, "share": round(cut / stays, 4), "tokens_lost": int(lost)}


def write_vocabulary(vocabulary: dict[str, Any], out: Path) -> None:
    """Write ``vocabulary.json``."""
    (out / "vocabulary.json").write_text(json.dumps(vocabulary, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
