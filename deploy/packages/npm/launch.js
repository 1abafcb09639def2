// Starts a program of the package for this machine, and is out of its way: standard streams, signals and the way it ended
// are the program's own. CommonJS, with no dependencies: `hookctl relay` runs before each step of an agent.
"use strict";

/** The path of a program. Throws where no package for this machine is installed. */
function programOf(name) {
  return require.resolve(`@hookd/cli-${process.platform}-${process.arch}/bin/${name}`);
}

/** Becomes the program `name`, with the arguments of this process. */
function launch(name) {
  const args = process.argv.slice(2);
  let program;
  try {
    program = programOf(name);
  } catch {
    const wanted = `@hookd/cli-${process.platform}-${process.arch}`;
    const others = "or there is none for this machine: build hookd with cargo there";
    return cannot(name, args, `the package ${wanted} is not installed (were optional dependencies left out?), ${others}`);
  }
  if (typeof process.execve === "function") {
    try {
      return process.execve(program, [program, ...args], process.env);
    } catch {
      // Not to be had in a worker or under Node's permission model.
    }
  }
  follow(name, program, args);
}

/** Runs it as a child: for versions of Node that cannot become another program (before 22.15). */
function follow(name, program, args) {
  // Listened to before there is a child, so that none of them ends this process and leaves the child.
  let child;
  const signals = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"];
  for (const signal of signals) {
    process.on(signal, () => {
      if (!childHasItToo(signal)) child?.kill(signal);
    });
  }
  child = require("node:child_process").spawn(program, args, { stdio: "inherit" });
  child.on("error", (error) => cannot(name, args, `${program} could not be started: ${error.message}`));
  child.on("exit", (code, signal) => {
    if (signal === null) {
      process.exitCode = code;
      return;
    }
    // Whoever waits for this process sees the end that the program had; some signals Node itself outlives.
    process.exitCode = 128 + require("node:os").constants.signals[signal];
    for (const listened of signals) process.removeAllListeners(listened);
    process.kill(process.pid, signal);
  });
}

/**
 * Whether a signal came from the keyboard, which signals the whole foreground group: hookd takes a second one as the wish to
 * leave at once. Node does not say who sent a signal, so in the foreground these two are taken as the keyboard's.
 */
function childHasItToo(signal) {
  if (signal !== "SIGINT" && signal !== "SIGQUIT") return false;
  try {
    const stat = require("node:fs").readFileSync("/proc/self/stat", "utf8");
    // After the name, which may hold anything: state, parent, group, session, terminal, the terminal's foreground group.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[2] === fields[5];
  } catch {
    return false;
  }
}

/**
 * One line, and a failure. To an agent, 2 is a block and any other code a hook that may be ignored: a relay that is not there
 * must not become consent.
 */
function cannot(name, args, why) {
  process.stderr.write(`${name}: ${why}\n`);
  process.exitCode = name === "hookctl" && args.includes("relay") ? 2 : 1;
}

module.exports = { launch, programOf };
