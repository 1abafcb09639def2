/**
 * Rules whose commands run where the agent is: a client offers rule files of its own, and runs their commands on this
 * machine. Nothing of this is loaded unless it is imported.
 *
 * @module
 */

export { nativeProgram } from "./native.js";
export {
  AgentSide,
  OfferedRules,
  type AgentCommands,
  type AgentProgram,
  type AgentSideOptions,
  type DetachedProgram,
  type OfferedCommand,
  type OfferTier,
} from "./side.js";
