"""The names of aggregates and window functions, and which of their clauses they take."""

AGGREGATE_NAMES = frozenset({
    "any_value", "approx_distinct", "approx_median", "approx_percentile_cont",
    "approx_percentile_cont_with_weight", "array_agg", "avg", "bit_and", "bit_or", "bit_xor", "bool_and",
    "bool_or", "corr", "count", "count_hash", "covar", "covar_pop", "covar_samp", "first_value", "geo_path",
    "grouping", "hll", "hll_merge", "json_encode_path", "last_value", "max", "mean", "median", "min", "nth_value",
    "percentile_cont", "quantile_cont", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2",
    "regr_slope", "regr_sxx", "regr_sxy", "regr_syy", "std", "stddev", "stddev_pop", "stddev_samp", "string_agg",
    "sum", "uddsketch_merge", "uddsketch_state", "var", "var_pop", "var_population", "var_samp", "var_sample",
    "variance", "vec_avg", "vec_product", "vec_sum",
})  # fmt: skip
"""Functions that make one value of the rows of a group."""

RANKING_NAMES = frozenset({"cume_dist", "dense_rank", "ntile", "percent_rank", "rank", "row_number"})
"""Window functions of the position of a row, whatever its values are."""

WINDOW_NAMES = RANKING_NAMES | {
    "anomaly_score_iqr", "anomaly_score_mad", "anomaly_score_zscore", "first_value", "lag", "last_value", "lead",
    "nth_value",
}  # fmt: skip
"""Functions that need OVER; some are aggregates as well."""

IGNORES_DISTINCT = (
    frozenset(name for name in AGGREGATE_NAMES if name.startswith(("corr", "covar", "regr_", "approx_percentile")))
    | {"nth_value", "geo_path", "json_encode_path", "uddsketch_merge", "hll_merge"}
    | (WINDOW_NAMES - {"first_value", "last_value"})
)
"""Functions that would count repeated values in spite of DISTINCT."""
