"""Makes `applyInPandasWithState` of pyspark 4.0 work with today's pyarrow, in the driver and in its workers.

Beside the data Spark sends a column of structs that say where the rows of each group begin and how many they are; there
are as many structs as groups, and nulls below. pyarrow (26, at least) gives the whole numbers of such a column as
floats, and pyspark slices with them: a group with two events in a micro-batch ended the query with a TypeError. Read as
Python objects the numbers stay whole.

`repair()` is called when `stream.py` is imported, which a worker does to unpickle the function it is to run, before it
reads the first row.
"""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import pyarrow as pa
from pyspark.sql.pandas.serializers import ApplyInPandasWithStateSerializer, ArrowStreamPandasUDFSerializer

_MARK: Final = "startOffset"


def repair() -> None:
    """Make pyspark read its column of states as Python objects; data columns are read as before."""

    usual: Any = ArrowStreamPandasUDFSerializer.arrow_to_pandas

    def arrow_to_pandas(self: Any, arrow_column: Any) -> Any:
        kind = arrow_column.type
        if pa.types.is_struct(kind) and kind.get_field_index(_MARK) >= 0:
            return pd.Series(arrow_column.to_pylist(), dtype=object)
        return usual(self, arrow_column)

    setattr(ApplyInPandasWithStateSerializer, "arrow_to_pandas", arrow_to_pandas)  # noqa: B010
