/** What a client has to know of events: what a BLOCK does on each. @module */

/**
 * What a BLOCK means on an event.
 *
 * - `prevents`: it keeps something from being done.
 * - `preventsStop`: it keeps the agent from stopping.
 * - `feedback`: the reason goes to the model beside what has happened.
 * - `feedbackOnResult`: the same, and the result that the model sees can be replaced.
 * - `recorded`: it is recorded only.
 */
export type Block = "prevents" | "preventsStop" | "feedback" | "feedbackOnResult" | "recorded";

const BLOCKS = new Map<string, Block>([
  ["Stop", "preventsStop"],
  ["SubagentStop", "preventsStop"],
  ["TaskCompleted", "preventsStop"],
  ["TeammateIdle", "preventsStop"],
  ["PostToolUse", "feedbackOnResult"],
  ["PostToolUseFailure", "feedback"],
  ["PermissionDenied", "recorded"],
  ["MessageDisplay", "recorded"],
  ["SessionStart", "recorded"],
  ["SessionEnd", "recorded"],
  ["Setup", "recorded"],
  ["InstructionsLoaded", "recorded"],
  ["Notification", "recorded"],
  ["StopFailure", "recorded"],
  ["SubagentStart", "recorded"],
  ["CwdChanged", "recorded"],
  ["DirectoryAdded", "recorded"],
  ["FileChanged", "recorded"],
  ["WorktreeRemove", "recorded"],
  ["PostCompact", "recorded"],
  ["PostModelSwitch", "recorded"],
]);

/**
 * What a BLOCK means on the event of this name. On one that is not known it prevents: the unknown never loses a denial.
 */
export function blockOn(event: string): Block {
  return BLOCKS.get(event) ?? "prevents";
}
