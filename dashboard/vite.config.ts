import { defineConfig } from "vitest/config";

// The page is served below /dashboard/ and maybe below a prefix of a proxy: all addresses in it are relative.
export default defineConfig({
  base: "./",
  build: {
    target: "es2022",
    outDir: "../tsdb/servers/http/dashboard/site",
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    // An asset inlined as data: would need an exception in the content security policy.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  server: { proxy: { "/v1": "http://127.0.0.1:4000", "/status": "http://127.0.0.1:4000" } },
  test: { include: ["unit/**/*.test.ts"] },
});
