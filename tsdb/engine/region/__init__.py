"""A region and what is done with it, one module per verb.

- `region` is the region with its versions, `worker` the thread that changes it, `context` what all regions share.
- Rows come in by `write` and leave memory by `flush` (`flush_plan`); `snapshot` and `reader` read them.
- `change` alters, sets options and truncates, `trim` removes whole files, `drop` the region, `compact` merges files.
- `housekeeping` decides when to do so, on the threads of `background`; `sweep` deletes orphans, `uncommitted` files of
  a commit that failed.
- `recovery` opens all regions at start.
"""
