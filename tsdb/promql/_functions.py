"""The functions of the language: names, parameter types and result types."""

from __future__ import annotations

from dataclasses import dataclass

from tsdb.promql._ast import ValueType

_S, _V, _M, _T = ValueType.SCALAR, ValueType.VECTOR, ValueType.MATRIX, ValueType.STRING


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature. `optional` counts the last types that may be left out, -1 lets the last one repeat."""

    types: tuple[ValueType, ...]
    returns: ValueType = ValueType.VECTOR
    optional: int = 0

    @property
    def is_variadic(self) -> bool:
        return self.optional < 0

    @property
    def least(self) -> int:
        return len(self.types) - abs(self.optional)


_MATH = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh deg exp floor histogram_avg histogram_count histogram_stddev "
    "histogram_stdvar histogram_sum ln log10 log2 rad sgn sin sinh sort sort_desc sqrt tan tanh timestamp absent"
)
_OVER_TIME = (
    "absent_over_time avg_over_time changes count_over_time delta deriv first_over_time idelta increase irate "
    "last_over_time mad_over_time max_over_time min_over_time present_over_time rate resets stddev_over_time "
    "stdvar_over_time sum_over_time ts_of_first_over_time ts_of_last_over_time ts_of_max_over_time ts_of_min_over_time"
)
_DATES = "day_of_month day_of_week day_of_year days_in_month hour minute month year"

FUNCTIONS: dict[str, Signature] = {
    **{name: Signature((_V,)) for name in _MATH.split()},
    **{name: Signature((_M,)) for name in _OVER_TIME.split()},
    **{name: Signature((_V,), optional=1) for name in _DATES.split()},
    "clamp": Signature((_V, _S, _S)),
    "clamp_max": Signature((_V, _S)),
    "clamp_min": Signature((_V, _S)),
    "double_exponential_smoothing": Signature((_M, _S, _S)),
    "end": Signature((), returns=_S),
    "histogram_fraction": Signature((_S, _S, _V)),
    "histogram_quantile": Signature((_S, _V)),
    "histogram_quantiles": Signature((_V, _T, _S, _S), optional=-1),
    "holt_winters": Signature((_M, _S, _S)),
    "info": Signature((_V, _V), optional=1),
    "label_join": Signature((_V, _T, _T, _T), optional=-1),
    "label_replace": Signature((_V, _T, _T, _T, _T)),
    "max_of": Signature((_S, _S), returns=_S),
    "min_of": Signature((_S, _S), returns=_S),
    "pi": Signature((), returns=_S),
    "predict_linear": Signature((_M, _S)),
    "quantile_over_time": Signature((_S, _M)),
    "range": Signature((), returns=_S),
    "round": Signature((_V, _S), optional=1),
    "scalar": Signature((_V,), returns=_S),
    "sort_by_label": Signature((_V, _T), optional=-1),
    "sort_by_label_desc": Signature((_V, _T), optional=-1),
    "start": Signature((), returns=_S),
    "step": Signature((), returns=_S),
    "time": Signature((), returns=_S),
    "vector": Signature((_S,)),
}

ANCHORED_FUNCTIONS = ("changes", "delta", "increase", "rate", "resets")
SMOOTHED_FUNCTIONS = ("delta", "increase", "rate")
