// What a program does with node's `pg`: a pool, values, types, catalogs, errors, time zones.
// Arguments: the port. Prints one line of JSON per finding.
const { Client, Pool, types } = require("pg");

const say = (what, answer) => console.log(JSON.stringify([what, answer]));

async function main() {
  const pool = new Pool({ host: "127.0.0.1", port: Number(process.argv[2]), user: "me", database: "public", max: 3 });
  await pool.query("DROP TABLE IF EXISTS node_pg");
  await pool.query(
    "CREATE TABLE node_pg (host STRING PRIMARY KEY, v DOUBLE, n BIGINT, up BOOLEAN, ts TIMESTAMP TIME INDEX)"
  );
  const done = await pool.query("INSERT INTO node_pg VALUES ($1, $2, $3, $4, $5), ('b', NULL, NULL, NULL, 2000)", [
    "it's", 1.5, 7, true, new Date(1700000000123),
  ]);
  say("inserted", [done.command, done.rowCount]);
  types.setTypeParser(types.builtins.TIMESTAMP, (text) => new Date(text.replace(" ", "T") + "Z").getTime());
  const rows = await pool.query({ name: "named", text: "SELECT * FROM node_pg WHERE v > $1", values: [1] });
  say("rows", rows.rows);
  const again = await pool.query({ name: "named", text: "SELECT * FROM node_pg WHERE v > $1", values: [100] });
  say("again", again.rows);
  const many = await Promise.all([1, 2, 3, 4, 5].map((i) => pool.query("SELECT $1::int AS i", [i])));
  say("many", many.map((each) => each.rows[0].i));
  await pool.query("SELECT * FROM nowhere_at_all").catch((error) => say("refused", error.code));
  await pool.query("SELEC 1").catch((error) => say("misread", error.code));
  const tables = await pool.query("SELECT tablename FROM pg_tables WHERE tablename = $1", ["node_pg"]);
  say("tables", tables.rows);
  const fields = await pool.query("SELECT * FROM node_pg LIMIT 0");
  say("fields", fields.fields.map((field) => [field.name, field.dataTypeID]));
  await pool.end();
  await elsewhere();
}

// A session in another time zone, and one that is left while its statement runs.
async function elsewhere() {
  const address = { host: "127.0.0.1", port: Number(process.argv[2]), user: "me", database: "public" };
  const zoned = new Client({ ...address, options: "-c TimeZone=Asia/Tokyo" });
  await zoned.connect();
  const hour = await zoned.query("SELECT extract(hour FROM ts)::int AS h FROM node_pg WHERE v > 1");
  say("hour", hour.rows[0].h);
  await zoned.end();
  const left = new Client(address);
  left.on("error", () => {});
  await left.connect();
  const long = "SELECT count(*) FROM numbers a, numbers b, numbers c, numbers d, numbers e /* left by pg */";
  setTimeout(() => left.connection.stream.destroy(), 500);
  await left.query(long).catch((error) => say("left", error.message));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
