// SQL in the editor: keywords of the server, and tables and columns of its catalog.
import { autocompletion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { SQLDialect, type SQLNamespace, sql } from "@codemirror/lang-sql";
import type { Extension } from "@codemirror/state";
import { queryTable, quoteText } from "../../api/sql";

const COLUMNS_MAX = 20_000;

const KEYWORDS =
  "add admin align alter analyze and as asc between by case cast column comment copy create cross database databases " +
  "default delete desc describe distinct drop else end engine eval except exists explain extract false fill filter " +
  "first flow flush for from full group having if ilike in index inner insert intersect interval into is join key " +
  "kill last lateral left like limit modify not null nulls offset on or order outer over partition primary range " +
  "recursive rename replace returning right rows select session set show skipping sink table tables then time to tql " +
  "true truncate ttl union unnest use using values variables verbose view when where window with within";

const TYPES =
  "bigint binary bit boolean date datetime decimal double float int integer interval json smallint string text time " +
  "timestamp timestamp_ms timestamp_ns timestamp_s timestamp_us tinyint unsigned varbinary varchar vector";

const FUNCTIONS =
  "abs approx_distinct approx_percentile_cont array_agg avg ceil coalesce concat count covar date_bin date_format " +
  "date_part date_trunc first_value floor greatest last_value lag lead least length ln log10 lower ltrim matches " +
  "matches_term max median min mod now nth_value nullif power random rank regexp_match regexp_replace replace round " +
  "row_number rtrim split_part sqrt stddev strpos substr sum to_timestamp to_timestamp_millis to_unixtime trim trunc " +
  "upper uuid var";

const DIALECT = SQLDialect.define({
  keywords: KEYWORDS,
  types: TYPES,
  builtin: FUNCTIONS,
  caseInsensitiveIdentifiers: true,
  identifierQuotes: '"`',
  charSetCasts: false,
  // $start and $end, which the page replaces.
  specialVar: "$",
});

export type Catalog = Record<string, string[]>;

/** The columns of the tables of a database, and of those of the information schema, by table name. */
export async function loadCatalog(database: string, signal: AbortSignal): Promise<Catalog> {
  const { rows } = await queryTable(
    "SELECT table_schema, table_name, column_name FROM information_schema.columns " +
      `WHERE table_schema IN (${quoteText(database)}, 'information_schema') ORDER BY 1, 2, ordinal_position`,
    { database, signal, rowsMax: COLUMNS_MAX },
  );
  const catalog: Catalog = {};
  for (const [schema, table, column] of rows) {
    const name = schema === database ? String(table) : `${schema}.${table}`;
    catalog[name] ??= [];
    catalog[name].push(String(column));
  }
  return catalog;
}

export function sqlLanguage(catalog: Catalog): Extension {
  const schema = catalog as SQLNamespace;
  const language = sql({ dialect: DIALECT, schema, upperCaseKeywords: true });
  return [
    language,
    DIALECT.language.data.of({ autocomplete: functions }),
    DIALECT.language.data.of({ autocomplete: columnsIn(catalog) }),
    autocompletion({ icons: false }),
  ];
}

const NAMES = FUNCTIONS.split(" ").map((label) => ({ label, type: "function", apply: `${label}(` }));

function functions(context: CompletionContext): CompletionResult | null {
  const from = wordBefore(context);
  return from === null ? null : { from, options: NAMES, validFor: /^\w*$/ };
}

/** The columns of the tables that the text names; the library only knows them after the name of their table. */
function columnsIn(catalog: Catalog): (context: CompletionContext) => CompletionResult | null {
  return (context) => {
    const from = wordBefore(context);
    if (from === null) return null;
    const words = new Set(context.state.doc.toString().match(/[\w.]+/g));
    const named = Object.entries(catalog).filter(([table]) => words.has(table));
    const options = named.flatMap(([table, columns]) =>
      columns.map((label) => ({ label, type: "property", detail: table, boost: 1 })),
    );
    return { from, options, validFor: /^\w*$/ };
  };
}

/** Where the word begins that is being typed; null if there is none, or if it belongs to a name before a dot. */
function wordBefore(context: CompletionContext): number | null {
  const word = context.matchBefore(/\w+/);
  if (!word || context.state.sliceDoc(word.from - 1, word.from) === ".") return null;
  return word.from;
}
