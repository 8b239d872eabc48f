"""The columns of the tables of pg_catalog, as PostgreSQL 16 names them.

Types are those a query needs, not PostgreSQL's own: an oid is a 32-bit integer, a `name` and a `"char"` are text, and
what only PostgreSQL's own tools unpack (expression trees, vectors of numbers) is text. Access lists and options are
lists of text, always null.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from tsdb.query.information_schema import parse_schema

_COLUMNS: dict[str, str] = {
    "pg_aggregate": "aggfnoid:i32 aggkind aggnumdirectargs:i16 aggtransfn aggfinalfn aggtranstype:i32",
    "pg_am": "oid:i32 amname amhandler amtype",
    "pg_attrdef": "oid:i32 adrelid:i32 adnum:i16 adbin?",
    "pg_attribute": """attrelid:i32 attname atttypid:i32 attlen:i16 attnum:i16 attcacheoff:i32 atttypmod:i32
        attndims:i16 attbyval:bool attalign attstorage attcompression attnotnull:bool atthasdef:bool
        atthasmissing:bool attidentity attgenerated attisdropped:bool attislocal:bool attinhcount:i16
        attstattarget:i16 attcollation:i32 attacl:texts? attoptions:texts? attfdwoptions:texts? attmissingval?""",
    "pg_auth_members": """oid:i32 roleid:i32 member:i32 grantor:i32 admin_option:bool inherit_option:bool
        set_option:bool""",
    "pg_available_extensions": "name default_version? installed_version? comment?",
    "pg_cast": "oid:i32 castsource:i32 casttarget:i32 castfunc:i32 castcontext castmethod",
    "pg_class": """oid:i32 relname relnamespace:i32 reltype:i32 reloftype:i32 relowner:i32 relam:i32 relfilenode:i32
        reltablespace:i32 relpages:i32 reltuples:f32 relallvisible:i32 reltoastrelid:i32 relhasindex:bool
        relisshared:bool relpersistence relkind relnatts:i16 relchecks:i16 relhasrules:bool relhastriggers:bool
        relhassubclass:bool relrowsecurity:bool relforcerowsecurity:bool relispopulated:bool relreplident
        relispartition:bool relrewrite:i32 relfrozenxid:i32 relminmxid:i32 relacl:texts?
        reloptions:texts? relpartbound?""",
    "pg_collation": """oid:i32 collname collnamespace:i32 collowner:i32 collprovider collisdeterministic:bool
        collencoding:i32 collcollate? collctype? colliculocale? collicurules? collversion?""",
    "pg_constraint": """oid:i32 conname connamespace:i32 contype condeferrable:bool condeferred:bool convalidated:bool
        conrelid:i32 contypid:i32 conindid:i32 conparentid:i32 confrelid:i32 confupdtype confdeltype confmatchtype
        conislocal:bool coninhcount:i16 connoinherit:bool conkey:shorts?
        confkey:shorts? conpfeqop? conppeqop? conffeqop?
        confdelsetcols? conexclop? conbin?""",
    "pg_conversion": """oid:i32 conname connamespace:i32 conowner:i32 conforencoding:i32 contoencoding:i32 conproc
        condefault:bool""",
    "pg_database": """oid:i32 datname datdba:i32 encoding:i32 datlocprovider datistemplate:bool datallowconn:bool
        datconnlimit:i32 datlastsysoid:i32 datfrozenxid:i32 datminmxid:i32 dattablespace:i32 datcollate datctype
        daticulocale? daticurules? datcollversion? datacl:texts?""",
    "pg_depend": "classid:i32 objid:i32 objsubid:i32 refclassid:i32 refobjid:i32 refobjsubid:i32 deptype",
    "pg_description": "objoid:i32 classoid:i32 objsubid:i32 description",
    "pg_enum": "oid:i32 enumtypid:i32 enumsortorder:f32 enumlabel",
    "pg_event_trigger": "oid:i32 evtname evtevent evtowner:i32 evtfoid:i32 evtenabled evttags:texts?",
    "pg_extension": """oid:i32 extname extowner:i32 extnamespace:i32 extrelocatable:bool extversion extconfig:texts?
        extcondition:texts?""",
    "pg_foreign_data_wrapper": """oid:i32 fdwname fdwowner:i32 fdwhandler:i32 fdwvalidator:i32 fdwacl:texts?
        fdwoptions:texts?""",
    "pg_foreign_server": "oid:i32 srvname srvowner:i32 srvfdw:i32 srvtype? srvversion? srvacl:texts? srvoptions:texts?",
    "pg_foreign_table": "ftrelid:i32 ftserver:i32 ftoptions:texts?",
    "pg_index": """indexrelid:i32 indrelid:i32 indnatts:i16 indnkeyatts:i16 indisunique:bool indnullsnotdistinct:bool
        indisprimary:bool indisexclusion:bool indimmediate:bool indisclustered:bool indisvalid:bool indcheckxmin:bool
        indisready:bool indislive:bool indisreplident:bool indkey:shorts? indcollation:ints? indclass:ints?
        indoption:shorts? indexprs?
        indpred?""",
    "pg_indexes": "schemaname tablename indexname tablespace? indexdef?",
    "pg_inherits": "inhrelid:i32 inhparent:i32 inhseqno:i32 inhdetachpending:bool",
    "pg_language": """oid:i32 lanname lanowner:i32 lanispl:bool lanpltrusted:bool lanplcallfoid:i32 laninline:i32
        lanvalidator:i32 lanacl:texts?""",
    "pg_locks": "locktype database:i32? relation:i32? pid:i32? mode? granted:bool?",
    "pg_matviews": "schemaname matviewname matviewowner tablespace? hasindexes:bool ispopulated:bool definition",
    "pg_namespace": "oid:i32 nspname nspowner:i32 nspacl:texts?",
    "pg_opclass": """oid:i32 opcmethod:i32 opcname opcnamespace:i32 opcowner:i32 opcfamily:i32 opcintype:i32
        opcdefault:bool opckeytype:i32""",
    "pg_operator": """oid:i32 oprname oprnamespace:i32 oprowner:i32 oprkind oprleft:i32 oprright:i32 oprresult:i32
        oprcode:i32""",
    "pg_partitioned_table": """partrelid:i32 partstrat partnatts:i16 partdefid:i32 partattrs? partclass? partcollation?
        partexprs?""",
    "pg_policies": "schemaname tablename policyname permissive roles:texts? cmd qual? with_check?",
    "pg_policy": "oid:i32 polname polrelid:i32 polcmd polpermissive:bool polroles? polqual? polwithcheck?",
    "pg_proc": """oid:i32 proname pronamespace:i32 proowner:i32 prolang:i32 procost:f32 prorows:f32 provariadic:i32
        prosupport prokind prosecdef:bool proleakproof:bool proisstrict:bool proretset:bool provolatile proparallel
        pronargs:i16 pronargdefaults:i16 prorettype:i32 proargtypes? proallargtypes? proargmodes:texts?
        proargnames:texts? proargdefaults? protrftypes? prosrc? probin? prosqlbody? proconfig:texts? proacl:texts?""",
    "pg_publication": """oid:i32 pubname pubowner:i32 puballtables:bool pubinsert:bool pubupdate:bool pubdelete:bool
        pubtruncate:bool pubviaroot:bool""",
    "pg_publication_namespace": "oid:i32 pnpubid:i32 pnnspid:i32",
    "pg_publication_rel": "oid:i32 prpubid:i32 prrelid:i32 prqual? prattrs?",
    "pg_range": """rngtypid:i32 rngsubtype:i32 rngmultitypid:i32 rngcollation:i32 rngsubopc:i32 rngcanonical
        rngsubdiff""",
    "pg_rewrite": "oid:i32 rulename ev_class:i32 ev_type ev_enabled is_instead:bool ev_qual? ev_action?",
    "pg_roles": """rolname rolsuper:bool rolinherit:bool rolcreaterole:bool rolcreatedb:bool rolcanlogin:bool
        rolreplication:bool rolconnlimit:i32 rolpassword? rolvaliduntil:ts6? rolbypassrls:bool rolconfig:texts?
        oid:i32""",
    "pg_sequence": """seqrelid:i32 seqtypid:i32 seqstart:i64 seqincrement:i64 seqmax:i64 seqmin:i64 seqcache:i64
        seqcycle:bool""",
    "pg_sequences": """schemaname sequencename sequenceowner data_type start_value:i64 min_value:i64 max_value:i64
        increment_by:i64 cycle:bool cache_size:i64 last_value:i64?""",
    "pg_settings": """name setting? unit? category short_desc extra_desc? context vartype source min_val? max_val?
        enumvals:texts? boot_val? reset_val? sourcefile? sourceline:i32? pending_restart:bool""",
    "pg_shdescription": "objoid:i32 classoid:i32 description",
    "pg_stat_activity": """datid:i32? datname? pid:i32? usename? application_name? client_addr? backend_start:ts6?
        query_start:ts6? state? query? backend_type?""",
    "pg_stat_user_tables": """relid:i32 schemaname relname seq_scan:i64? seq_tup_read:i64? idx_scan:i64?
        idx_tup_fetch:i64? n_tup_ins:i64? n_tup_upd:i64? n_tup_del:i64? n_live_tup:i64? n_dead_tup:i64?
        last_vacuum:ts6? last_analyze:ts6?""",
    "pg_statistic_ext": """oid:i32 stxrelid:i32 stxname stxnamespace:i32 stxowner:i32 stxstattarget:i32 stxkeys?
        stxkind:texts? stxexprs?""",
    "pg_subscription": "oid:i32 subdbid:i32 subname subowner:i32 subenabled:bool subconninfo subpublications:texts?",
    "pg_tables": """schemaname tablename tableowner tablespace? hasindexes:bool hasrules:bool hastriggers:bool
        rowsecurity:bool""",
    "pg_tablespace": "oid:i32 spcname spcowner:i32 spcacl:texts? spcoptions:texts?",
    "pg_trigger": """oid:i32 tgrelid:i32 tgparentid:i32 tgname tgfoid:i32 tgtype:i16 tgenabled tgisinternal:bool
        tgconstrrelid:i32 tgconstrindid:i32 tgconstraint:i32 tgdeferrable:bool tginitdeferred:bool tgnargs:i16
        tgattr? tgargs? tgqual? tgoldtable? tgnewtable?""",
    "pg_ts_config": "oid:i32 cfgname cfgnamespace:i32 cfgowner:i32 cfgparser:i32",
    "pg_type": """oid:i32 typname typnamespace:i32 typowner:i32 typlen:i16 typbyval:bool typtype typcategory
        typispreferred:bool typisdefined:bool typdelim typrelid:i32 typsubscript typelem:i32 typarray:i32 typinput
        typoutput typreceive typsend typmodin typmodout typanalyze typalign typstorage typnotnull:bool typbasetype:i32
        typtypmod:i32 typndims:i32 typcollation:i32 typdefaultbin? typdefault? typacl:texts?""",
    "pg_user": """usename usesysid:i32 usecreatedb:bool usesuper:bool userepl:bool usebypassrls:bool passwd?
        valuntil:ts6? useconfig:texts?""",
    "pg_views": "schemaname viewname viewowner definition",
}

PG_TABLES: tuple[str, ...] = tuple(_COLUMNS)
"""The names of all tables of pg_catalog, sorted."""


_PREFIXES = ("att", "con", "dat", "ind", "pro", "rel", "rol", "typ")


@cache
def pg_schema_of(name: str) -> pa.Schema:
    """Return the columns of a table of pg_catalog; KeyError when there is none of that name."""
    return parse_schema(_COLUMNS[name])


def boolean_columns() -> frozenset[str]:
    """Return the columns of truth values whose names nobody else gives to a column."""
    columns = " ".join(_COLUMNS.values()).split()
    names = (each.partition(":") for each in columns)
    return frozenset(name for name, _, kind in names if kind.rstrip("?") == "bool" and name.startswith(_PREFIXES))
