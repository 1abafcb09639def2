// Puts the programs themselves in the place of their launchers, so that a hook does not wait for Node to start. Where that
// cannot be (no scripts at install, no package for this machine, another package manager), the launchers stay and do the same.
"use strict";
const { chmodSync, copyFileSync, linkSync, renameSync, rmSync } = require("node:fs");
const { join } = require("node:path");
const { programOf } = require("./launch.js");

// Only for npm, which links to what stands here. pnpm would run a program as the child of a shell that passes no signals on
// (but becomes Node for a launcher), and Yarn may take it for a script.
const isNpm = (process.env.npm_config_user_agent ?? "").startsWith("npm/");
for (const name of isNpm ? ["hookd", "hookctl"] : []) {
  const place = join(__dirname, "bin", name);
  // Moved into place whole: a launcher that is just being read stays what it was.
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
