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
  await pool.end();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
