import { defineConfig } from "vitest/config";

// One server and one browser at a time, and long deadlines: the machine may be busy with other things.
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ["**/*.test.ts"],
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
});
