// Puts the programs themselves in the place of their launchers, so that a hook does not wait for Node to start. Where that
// cannot be (no scripts at install, no package for this machine, a read-only folder), the launchers stay and do the same.
"use strict";
const { chmodSync, copyFileSync, linkSync, renameSync, rmSync } = require("node:fs");
const { join } = require("node:path");
const { programOf } = require("./launch.js");

for (const name of ["hookd", "hookctl"]) {
  const place = join(__dirname, "bin", name);
  // Moved into place whole: a launcher that is just being read stays what it was, and so does the store of pnpm.
  const beside = `${place}.${process.pid}`;
  try {
    const program = programOf(name);
    try {
      linkSync(program, beside);
    } catch {
      copyFileSync(program, beside);
      chmodSync(beside, 0o755);
    }
    renameSync(beside, place);
  } catch {
    rmSync(beside, { force: true });
  }
}
