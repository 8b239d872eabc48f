// What a program does with node's `mysql2`: a pool, texts and prepared statements, types, streamed rows, errors.
// Arguments: the port. Prints one line of JSON per finding.
const mysql = require("mysql2/promise");

const say = (what, answer) => console.log(JSON.stringify([what, answer]));

async function main() {
  const pool = mysql.createPool({
    host: "127.0.0.1", port: Number(process.argv[2]), user: "me", password: "secret", database: "public",
    connectionLimit: 3, timezone: "Z",
  });
  await pool.query("DROP TABLE IF EXISTS node_mysql2");
  await pool.query(
    "CREATE TABLE node_mysql2 (host STRING PRIMARY KEY, v DOUBLE, n BIGINT, up BOOLEAN, ts TIMESTAMP TIME INDEX)"
  );
  const [done] = await pool.query("INSERT INTO node_mysql2 VALUES (?, ?, ?, ?, ?)", [
    "it's", 1.5, 7, true, new Date(1700000000123),
  ]);
  say("inserted", done.affectedRows);
  const insert = "INSERT INTO node_mysql2 (host, v, n, up, ts) VALUES (?, ?, ?, ?, ?)";
  const [prepared] = await pool.execute(insert, ["b", null, 8, false, new Date(1700000001000)]);
  say("prepared", prepared.affectedRows);
  const [rows] = await pool.execute("SELECT * FROM node_mysql2 WHERE n >= ? ORDER BY n", [7]);
  say("rows", rows);
  const [texts] = await pool.query("SELECT host, ts FROM node_mysql2 ORDER BY n");
  say("texts", texts);
  const many = await Promise.all([1, 2, 3, 4, 5].map((i) => pool.query("SELECT ? AS i", [i])));
  say("many", many.map(([each]) => Number(each[0].i)));
  await pool.query("SELECT * FROM nowhere_at_all").catch((error) => say("refused", [error.errno, error.sqlState]));
  await pool.query("SELEC 1").catch((error) => say("misread", error.errno));
  const [tables] = await pool.query("SHOW TABLES LIKE 'node_mysql2'");
  say("tables", tables.map((each) => Object.values(each)[0]));
  const [, fields] = await pool.query("SELECT host, n, ts FROM node_mysql2 LIMIT 0");
  say("fields", fields.map((field) => field.name));
  await pool.query("SELECT 1").then(([one]) => say("alive", one.length));
  await pool.end();
  await elsewhere();
}

// A session in another time zone, and one that is left while rows are still to come.
async function elsewhere() {
  const address = { host: "127.0.0.1", port: Number(process.argv[2]), user: "me", password: "secret", database: "public" };
  const zoned = await mysql.createConnection(address);
  await zoned.query("SET time_zone = '+09:00'");
  const [rows] = await zoned.query("SELECT HOUR(ts) AS h FROM node_mysql2 WHERE n = 7");
  say("hour", Number(rows[0].h));
  await zoned.end();
  const left = await mysql.createConnection(address);
  const stream = left.connection.query("SELECT a.number FROM numbers a, numbers b, numbers c, numbers d /* left */").stream();
  for await (const row of stream) {
    say("streamed", typeof row.number);
    break;
  }
  left.destroy();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
