"""The columns of every table of information_schema, in one list.

A column is written `name:type?`: without a type it is text, with a question mark it may be null.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from tsdb.model import TYPE_KEY

_TYPES: dict[str, pa.DataType] = {
    "": pa.string(),
    "bool": pa.bool_(),
    "i8": pa.int8(),
    "i16": pa.int16(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "u8": pa.uint8(),
    "u32": pa.uint32(),
    "u64": pa.uint64(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "bin": pa.binary(),
    "ts0": pa.timestamp("s"),
    "ts3": pa.timestamp("ms"),
    "ts6": pa.timestamp("us"),
    "ts9": pa.timestamp("ns"),
    "dur": pa.duration("ms"),
    "json": pa.string(),
    "texts": pa.list_(pa.string()),
    "ints": pa.list_(pa.int32()),
    "shorts": pa.list_(pa.int16()),
}


def parse_schema(text: str) -> pa.Schema:
    """Read a list of columns."""
    fields = []
    for each in text.replace(",", " ").split():
        name, _, kind = each.rstrip("?").partition(":")
        metadata = {TYPE_KEY: b"json"} if kind == "json" else None
        fields.append(pa.field(name, _TYPES[kind], each.endswith("?"), metadata))
    return pa.schema(fields)


_REGION = "region_id:u64 table_id:u32 region_number:u32"

_COLUMNS: dict[str, str] = {
    "build_info": "git_branch git_commit git_commit_short git_clean pkg_version",
    "cache_statistics": """name capacity:u64 bytes:u64 entries:u64 hits:u64 misses:u64 evictions:u64 errors:u64 state
        reason? since:ts3 last_error?""",
    "character_sets": "character_set_name default_collate_name description maxlen:i64",
    "check_constraints": "constraint_catalog constraint_schema constraint_name check_clause",
    "cluster_info": """peer_id:i64 peer_type peer_addr? peer_hostname? total_cpu_millicores:i64 total_memory_bytes:i64
        cpu_usage_millicores:i64 memory_usage_bytes:i64 version git_commit start_time:ts3? uptime? active_time?
        node_status?""",
    "collation_character_set_applicability": "collation_name character_set_name",
    "collations": "collation_name character_set_name id:i64 is_default is_compiled sortlen:i64",
    "column_privileges": """grantee table_catalog table_schema table_name column_name privilege_type is_grantable""",
    "column_statistics": "schema_name table_name column_name histogram",
    "columns": """table_catalog table_schema table_name column_name ordinal_position:i64 character_maximum_length:i64?
        character_octet_length:i64? numeric_precision:i64? numeric_scale:i64? datetime_precision:i64?
        character_set_name? collation_name? column_key extra privileges generation_expression tsdb_data_type data_type
        semantic_type column_default? is_nullable column_type column_comment? srs_id:i64?""",
    "compaction_history": f"""compaction_id:u64 {_REGION} table_schema table_name state reason start_time:ts3
        end_time:ts3? duration_millis:u64? progress:f64 input_files:u64 output_files:u64 input_rows:u64 rows_written:u64
        input_bytes:u64 output_bytes:u64 write_amplification:f64? error? node_id:u64?""",
    "engines": "engine support comment transactions xa savepoints",
    "events": """event_catalog event_schema event_name definer time_zone event_body event_definition event_type
        execute_at:ts0? interval_value:i64? interval_field? sql_mode starts:ts0? ends:ts0? status on_completion
        created:ts0 last_altered:ts0 last_executed:ts0? event_comment originator:i64 character_set_client
        collation_connection database_collation""",
    "files": """file_id:i64 file_name file_type tablespace_name table_catalog table_schema table_name
        logfile_group_name logfile_group_number:i64 engine fulltext_keys deleted_rows:i64 update_count:i64
        free_extents:i64 total_extents:i64 extent_size:i64 initial_size:i64 maximum_size:i64 autoextend_size:i64
        creation_time:ts0 last_update_time:ts0 last_access_time:ts0 recover_time:i64 transaction_counter:i64 version
        row_format table_rows:i64 avg_row_length:i64 data_length:i64 max_data_length:i64 index_length:i64 data_free:i64
        create_time:ts0 update_time:ts0 check_time:ts0 checksum status extra""",
    "flow_statistics": """flow_id:u32 flow_name start_time:ts3? last_execution_time:ts3? uptime_seconds:i64?
        state_size:u64?""",
    "flows": """flow_name flow_id:u32 state_size:u64? table_catalog flow_definition comment? expire_after:i64?
        source_table_ids? sink_table_name flownode_ids? options? created_time:ts3 updated_time:ts3
        last_execution_time:ts3? source_table_names? flownode_addrs?""",
    "global_status": "variable_name variable_value",
    "ingest_rejections": "timestamp:ts3 protocol database table place:i64? column? value? reason rows:i64",
    "key_column_usage": """constraint_catalog constraint_schema constraint_name table_catalog real_table_catalog
        table_schema table_name column_name ordinal_position:u32 position_in_unique_constraint:u32?
        referenced_table_schema? referenced_table_name? referenced_column_name? tsdb_index_type?""",
    "memory_usage": "owner bytes:u64 limit_bytes:u64? state reason? since:ts3?",
    "optimizer_trace": "query trace missing_bytes_beyond_max_mem_size:i64 insufficient_privileges:i64",
    "parameters": """specific_catalog specific_schema specific_name ordinal_position:i64 parameter_mode parameter_name
        data_type character_maximum_length:i64 character_octet_length:i64 numeric_precision:i64 numeric_scale:i64
        datetime_precision:i64 character_set_name collation_name dtd_identifier routine_type""",
    "partitions": """table_catalog table_schema table_name partition_name subpartition_name?
        partition_ordinal_position:i64? subpartition_ordinal_position:i64? partition_method? subpartition_method?
        partition_expression? subpartition_expression? partition_description? table_rows:i64? avg_row_length:i64?
        data_length:i64? max_data_length:i64? index_length:i64? data_free:i64? create_time:ts0? update_time:ts0?
        check_time:ts0? checksum:i64? partition_comment? nodegroup? tablespace_name? tsdb_partition_id:u64?""",
    "procedure_info": """procedure_id procedure_type start_time:ts3? end_time:ts3? status lock_keys? attempts:u32?
        since:ts3? last_error?""",
    "process_list": "id catalog schemas query client frontend start_timestamp:ts3 elapsed_time:dur",
    "processlist": "id:u64 user host db? command time:i64 state? info?",
    "profiling": """query_id:i64 seq:i64 state duration:f64 cpu_user:f64 cpu_system:f64 context_voluntary:i64
        context_involuntary:i64 block_ops_in:i64 block_ops_out:i64 messages_sent:i64 messages_received:i64
        page_faults_major:i64 page_faults_minor:i64 swaps:i64 source_function source_file source_line:i64""",
    "referential_constraints": """constraint_catalog constraint_schema constraint_name unique_constraint_catalog
        unique_constraint_schema unique_constraint_name match_option update_rule delete_rule table_name
        referenced_table_name""",
    "region_failovers": """failover_id region_id:u64 from_peer_id:u64 to_peer_id:u64? state reason start_time:ts3
        end_time:ts3? lost_from_entry:u64? lost_to_entry:u64? recovered_rows:u64? last_error?""",
    "region_info": f"""{_REGION} region_group:u8 region_sequence:u32 state role writable:bool committed_sequence:u64
        flushed_sequence:u64? manifest_version:u64? compaction_time_window? region_options sst_format node_id:u64?""",
    "region_peers": """table_catalog table_schema table_name region_id:u64 peer_id:u64? peer_addr? is_leader? status?
        down_seconds:i64? reason?""",
    "region_statistics": f"""{_REGION} region_rows:u64? written_bytes_since_open:u64? query_cpu_time_millis:u64?
        query_scanned_bytes:u64? disk_size:u64? memtable_size:u64? manifest_size:u64? sst_size:u64? sst_num:u64?
        index_size:u64? engine? region_role? memtable_rows:u64? unflushed_seconds:f64? windows:u64?
        window_files_max:u64? window_runs_max:u64? write_amplification:f64? quarantined_files:u64? state? reason?
        since:ts3? flush_state? flush_reason? flush_since:ts3? last_flush_result? last_flush_time:ts3? last_flush_error?
        compaction_state? compaction_reason? compaction_since:ts3? last_compaction_result? last_compaction_time:ts3?
        last_compaction_error?""",
    "routines": """specific_name routine_catalog routine_schema routine_name routine_type data_type
        character_maximum_length:i64 character_octet_length:i64 numeric_precision:i64 numeric_scale:i64
        datetime_precision:i64 character_set_name collation_name dtd_identifier routine_body routine_definition
        external_name external_language parameter_style is_deterministic sql_data_access sql_path security_type
        created:ts0 last_altered:ts0 sql_mode routine_comment definer character_set_client collation_connection
        database_collation""",
    "schema_privileges": "grantee table_catalog table_schema privilege_type is_grantable",
    "schemata": "catalog_name schema_name default_character_set_name default_collation_name sql_path? options?",
    "session_status": "variable_name variable_value",
    "ssts_index_meta": f"""table_dir index_file_path {_REGION} region_group:u8 region_sequence:u32 file_id
        index_file_size:u64? index_type target_type target_key target_json blob_size:u64 meta_json? node_id:u64?""",
    "ssts_manifest": f"""table_dir {_REGION} region_group:u8 region_sequence:u32 file_id index_version:u64 level:u8
        file_path file_size:u64 index_file_path? index_file_size:u64? num_rows:u64 num_row_groups:u64 num_series:u64?
        min_ts:ts9? max_ts:ts9? sequence:u64? origin_region_id:u64 node_id:u64? visible:bool primary_key_min:bin?
        primary_key_max:bin? window_start:ts9? window_end:ts9? state reason? since:ts3? last_error?""",
    "ssts_storage": "file_path file_size:u64? last_modified_ms:ts3? node_id:u64?",
    "statistics": """table_catalog table_schema table_name non_unique:i64 index_schema index_name seq_in_index:i64
        column_name collation? cardinality:i64? sub_part:i64? packed? nullable index_type comment index_comment
        is_visible expression? tsdb_index_type?""",
    "storage_requests": """store operation purpose requests:u64 errors:u64 retries:u64 bytes:u64 estimated_cost:f64
        state reason? since:ts3? last_error? node_id:u64?""",
    "table_constraints": """constraint_catalog constraint_schema constraint_name table_schema table_name constraint_type
        enforced""",
    "table_privileges": "grantee table_catalog table_schema table_name privilege_type is_grantable",
    "table_semantics": """table_catalog table_schema table_name table_id:u32 signal_type? source? source_version?
        pipeline? metadata_quality? semantic_options?""",
    "tables": """table_catalog table_schema table_name table_type table_id:u32? data_length:u64? max_data_length:u64?
        index_length:u64? max_index_length:u64? avg_row_length:u64? engine? version:u64? row_format? table_rows:u64?
        data_free:u64? auto_increment:u64? create_time:ts0? update_time:ts0? check_time:ts0? table_collation?
        checksum:u64? create_options? table_comment? temporary?""",
    "views": """table_catalog table_schema table_name view_definition check_option? is_updatable? definer?
        security_type? character_set_client? collation_connection?""",
    "wal_segments": """segment file_path size:u64 entries:u64 state reason since:ts3? last_error? pinning_regions:json
        node_id:u64?""",
}

INFORMATION_TABLES: tuple[str, ...] = tuple(_COLUMNS)
"""The names of all tables of information_schema, sorted."""


@cache
def information_schema_of(name: str) -> pa.Schema:
    """Return the columns of a table of information_schema; KeyError when there is none of that name."""
    return parse_schema(_COLUMNS[name])
