"""A region and what is done with it, one module per verb.

- `region` is the region with its `state` and its `version`; `worker` the thread that changes it; `context` what all
  regions share.
- Rows come in by `write` and leave memory by `flush` (`flush_plan`); `snapshot` and `reader` read them; `compact`
  merges files. Flushes and compactions are jobs (`job`) on the threads of `background`.
- `change` alters, sets options and truncates, `trim` removes whole files, `drop` the region.
- `housekeeping` decides when to do so; `recovery` opens all regions at start, and `sweep` deletes orphans then.
"""
