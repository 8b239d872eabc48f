// Writes a .gz beside every file of the build, and fails if all of them together are larger than the page may be.
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { gzipSync } from "node:zlib";

const SITE = join(import.meta.dirname, "../../tsdb/servers/http/dashboard/site");
const PAGE_BYTES_MAX = 250_000;

let total = 0;
for (const entry of readdirSync(SITE, { recursive: true })) {
  const path = join(SITE, String(entry));
  if (statSync(path).isDirectory() || path.endsWith(".gz")) continue;
  const packed = gzipSync(readFileSync(path), { level: 9 });
  writeFileSync(`${path}.gz`, packed);
  total += packed.length;
  console.log(`${String(packed.length).padStart(8)}  ${relative(SITE, path)}`);
}
console.log(`${String(total).padStart(8)}  bytes in all, compressed; at most ${PAGE_BYTES_MAX}`);
if (total > PAGE_BYTES_MAX) {
  console.error("the dashboard is larger than it may be");
  process.exit(1);
}
